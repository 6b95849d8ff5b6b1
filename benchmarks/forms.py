"""Where dense features begin to be faster than sparse ones, and whether the cost rule finds that
point.

    python benchmarks/forms.py --device cpu --json out.json

A graph of 10,000 nodes and 100,000 edges, 2,000 binary features of growing density, hidden width
    512: seconds of a step with
`features="dense"` and with `features="sparse"`, and what `features="auto"` would choose.
"""

from __future__ import annotations

import json
from typing import Any

import harness
import torch

from graphlatent.config import resolve
from graphlatent.data.graph import GraphData
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.lagraph.settings import NodeLaGraphSettings
from graphlatent.training.setup import choose_form, set_up

NODES, EDGES, FEATURES, WIDTH = 10_000, 100_000, 2000, 512
DENSITIES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)


def graph_of(density: float) -> GraphData:
    """A random graph with features of this density."""
    gen = torch.Generator().manual_seed(0)
    ends = torch.randint(NODES, (2, EDGES), generator=gen)
    code = torch.unique(torch.cat([ends[0] * NODES + ends[1], ends[1] * NODES + ends[0]]))
    x = (torch.rand(NODES, FEATURES, generator=gen) < density).float()
    return GraphData(
        torch.stack([code // NODES, code % NODES]), NODES, torch.tensor([0, NODES]), x=x
    )


def step_of(graph: GraphData, form: str, device: torch.device) -> Any:
    """A function that runs one step."""
    settings = resolve(
        NodeLaGraphSettings(preset="paper", hidden_dim=WIDTH, features=form), owner="benchmark"
    )
    training, _ = set_up(
        graph,
        LaGraph(settings, level="node"),
        device=device,
    )
    training.model.train()
    index = training.batches.plan(torch.Generator())[0]
    return lambda: training.stepper(training.batches, index)


def seconds_of(graph: GraphData, form: str, device: torch.device) -> float:
    """Median seconds of a step."""
    return float(
        harness.measure(lambda: step_of(graph, form, device), device, seconds=0)["seconds"]
    )


def main() -> None:
    """Measure both forms at every density."""
    args = harness.parser(__doc__).parse_args()
    torch.set_float32_matmul_precision("high")
    device = torch.device(args.device)
    rows = []
    for density in DENSITIES:
        graph = graph_of(density)
        times = {form: seconds_of(graph, form, device) for form in ("dense", "sparse")}
        chosen = choose_form(
            graph.x, "auto", hidden_dim=WIDTH, stored_edges=graph.num_edges + NODES, device=device
        )
        rows.append({"density": density, **times, "chosen": chosen})
        print(
            f"density {density:.3f}  dense {times['dense']:.4f} s  sparse {times['sparse']:.4f} s "
            f" auto: {chosen}",
            flush=True,
        )
    if args.json:
        about = {
            "command": f"python benchmarks/forms.py --device {args.device}",
            "hardware": harness.hardware(args.device),
        }
        args.json.write_text(
            json.dumps({**about, "torch": torch.__version__, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
