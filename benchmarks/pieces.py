"""Score and peak memory of training on pieces, by nodes of a step and how pieces are chosen.

    python benchmarks/pieces.py --json benchmarks/results/pieces.json

The recipes of the paper's Table 3 on synthetic graphs of communities with the features, classes,
degrees and homophily of its Flickr and Reddit (docs/recipes.md), scaled down so that everything
ends in minutes on 2 CPU cores: 12,000 nodes, 64 hidden units, and about 60 gradient steps in every
case, whatever the number of epochs that makes. Each case runs in a process of its own. Memory is
the peak of its resident set in training on top of what was there before, with the graph in memory.
The score is the accuracy of a linear probe on a quarter of the nodes, its settings chosen on
another quarter.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import platform
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import resident

from graphlatent import NodeLaGraph
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.shapes import SHAPES
from graphlatent.config import resolve
from graphlatent.data.datasets import dataset_info
from graphlatent.data.splits import random_splits
from graphlatent.data.synthetic import LatentGraph, latent_graph
from graphlatent.probes.linear import linear_probe
from graphlatent.representations import propagated_features
from graphlatent.training.fitted import finish_model
from graphlatent.training.setup import set_up

NODES, HIDDEN, STEPS = 12_000, 64, 60
SIZES = (1000, 2500, 5000)
WAYS = ("nodes", "clusters", "neighbors")
PUBLISHED_SIZES: Mapping[int | None, str] = {1000: "1000", 2500: "2500", 5000: "5000", None: "all"}


GRAPHS: dict[str, LatentGraph] = {}
"""By shape; processes are forked once a graph is made."""


def graph_of(shape: str, *, num_nodes: int = NODES) -> LatentGraph:
    """A synthetic graph of a published set's shape with fewer nodes."""
    info = dataset_info(SHAPES[shape].of)
    return latent_graph(
        num_nodes=num_nodes,
        num_classes=info.num_classes,
        feature_dim=info.num_features,
        avg_degree=2 * info.num_edges / info.num_nodes,
        homophily=SHAPES[shape].homophily,
        sigma=SHAPES[shape].sigma,
    )


def settings_of(case: Mapping[str, Any], *, num_nodes: int = NODES, steps: int = STEPS) -> Any:
    """The settings of a case, with as many epochs as make `steps` steps."""
    if case["preset"] == "paper":
        chosen = load_recipe(f"table3/{case['shape']}-1000").settings()
    else:
        chosen = NodeLaGraph.settings_class(structure="none", embedding="encoder")
    way, size = case["way"], case["size"] or num_nodes
    values = {"hidden_dim": HIDDEN, "device": "cpu", "diagnostics": False, "concat_input": False}
    if way == "untrained":
        values |= {"batching": "full", "epochs": 0}
    else:
        per_epoch = math.ceil(num_nodes / size) if way in ("clusters", "neighbors") else 1
        values |= {"batching": way, "nodes_per_step": size, "epochs": max(1, steps // per_epoch)}
    return resolve(dataclasses.replace(chosen, **values), owner="benchmark")


def run_case(case: Mapping[str, Any], *, steps: int = STEPS) -> dict[str, Any]:
    """Train one case in this process: score, peak memory, seconds of a step."""
    made = GRAPHS[case["shape"]]
    num_nodes = made.graph.num_nodes
    (split,) = random_splits(num_nodes, num_splits=1, train_ratio=0.5, val_ratio=0.25)
    if case["way"] in ("raw", "propagated"):
        graph = made.graph
        rows = graph.x if case["way"] == "raw" else propagated_features(graph, level="node")
        return {"score": 100 * linear_probe(rows, made.labels, splits=[split]).mean}
    settings = settings_of(case, num_nodes=num_nodes, steps=steps)
    method = NodeLaGraph.method(settings, level="node")
    # The peak is counted from here on.
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    training, everything = set_up(made.graph, method, device=torch.device("cpu"))
    began = time.perf_counter()
    training.run()
    seconds = time.perf_counter() - began
    peak = resident("VmHWM") - before
    with torch.no_grad():
        finish_model(method, training.model, everything)
        rows = method.embed(training.model.eval(), everything())
    score = 100 * linear_probe(rows, made.labels, splits=[split]).mean
    done = len(training.history) * getattr(training.batches, "num_steps", 1)
    return {
        "score": score,
        "peak_bytes": peak,
        "steps": done,
        "seconds_per_step": seconds / max(done, 1),
    }


def cases(shapes: list[str]) -> list[dict[str, Any]]:
    """All cases: without training, then every way and size, by shape and preset."""
    found: list[dict[str, Any]] = []
    for shape in shapes:
        one = {"shape": shape, "preset": "paper", "size": None}
        found += [{**one, "way": way} for way in ("raw", "propagated", "untrained")]
        for preset in ("paper", "plus"):
            both = {"shape": shape, "preset": preset}
            found += [{**both, "way": way, "size": n} for way in WAYS for n in SIZES]
            found.append({**both, "way": "full", "size": None})
    return found


def pieces_table(path: Path) -> str:
    """The record as a table: memory and score by nodes of a step, beside the paper's."""
    record = json.loads(path.read_text())
    found = {
        tuple(run[k] for k in ("shape", "preset", "way", "size")): run for run in record["runs"]
    }
    lines = [
        f"| {record['hardware']}, {record['date']} | nodes a step | nodes | clusters | neighbors |"
        " the paper, of the full-sized set |",
        "|---" * 6 + "|",
    ]
    for shape in dict.fromkeys(run["shape"] for run in record["runs"]):
        for preset in ("paper", "plus"):
            for size in (*SIZES, None):
                ways = WAYS if size else ("full",)
                cells = [_cell(found[shape, preset, way, size]) for way in ways]
                cells += [""] * (3 - len(cells))
                lines.append(
                    f"| {shape}, preset {preset} | {size or 'all'} | {' | '.join(cells)} |"
                    f" {_published(shape, size) if preset == 'paper' else ''} |"
                )
        names = {"raw": "raw features", "propagated": "propagated", "untrained": "untrained"}
        scores = [
            f"{name} {found[shape, 'paper', way, None]['score']:.1f}" for way, name in names.items()
        ]
        lines.append(f"| {shape}, without training | | {', '.join(scores)} | | | |")
    return "\n".join(lines)


def _cell(run: Mapping[str, Any]) -> str:
    peak, seconds = run["peak_bytes"] / 2**20, run["seconds_per_step"]
    return f"{run['score']:.1f}, {peak:,.0f} MiB, {1000 * seconds:,.0f} ms"


def _published(shape: str, size: int | None) -> str:
    name = f"table3/{SHAPES[shape].of}-{PUBLISHED_SIZES[size]}"
    published = load_recipe(name).published
    return "" if published is None else f"{published.mean}, {published.memory_mb:,} MB"


def main() -> None:
    """Run every case in a process of its own."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--shapes", default="Flickr-shape,Reddit-shape")
    options.add_argument("--json", type=Path, default=None, help="write the record here")
    args = options.parse_args()
    runs = []
    for shape in args.shapes.split(","):
        GRAPHS[shape] = graph_of(shape)
        for case in cases([shape]):
            # A process that ends after one case, and begins with the graph.
            with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
                runs.append({**case, **pool.submit(run_case, case).result()})
            print(runs[-1], flush=True)
    record = {
        "command": "python benchmarks/pieces.py",
        "hardware": f"2 CPU cores ({platform.machine()}), {torch.get_num_threads()} thread",
        "date": datetime.date.today().isoformat(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "runs": runs,
    }
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
