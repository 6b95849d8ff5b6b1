"""Training on sampled neighbourhoods beside PyG's own pipeline: NeighborLoader and GCNConv.

    python benchmarks/pieces_pyg.py --json benchmarks/results/pieces_pyg.json

Needs pyg-lib, or torch-sparse (`pip install torch-scatter torch-sparse`, compiled against the
installed torch): NeighborLoader does not work without one of them.

Both train a GCN of two layers with the objective of the paper on one synthetic graph, with as many
seeds of a step and sampled neighbours of a node, the same width and optimizer, and one thread: ours
by preset 'paper', the other by the loop in `pyg_steps`, as PyG's examples of NeighborLoader write
it, with two passes of the encoder. 'sampling' makes batches only. With a worker ours cuts batches
in a thread, NeighborLoader in a process. Every way runs in a process of its own, all ways in turn,
and the best of the rounds is kept. Memory is the peak on top of the graph's arrays, of the process,
plus what the worker processes have for themselves.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import multiprocessing
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from harness import resident
from pieces_table import pyg_table
from torch import Tensor, nn

from graphlatent import NodeLaGraph
from graphlatent.config import resolve
from graphlatent.data.assemble import assemble
from graphlatent.data.graph import RawGraph
from graphlatent.data.pieces import NeighborPieces
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import TrainingInterrupted
from graphlatent.training.ahead import Plans, cut_ahead
from graphlatent.training.hooks import Hooks
from graphlatent.training.setup import set_up

NODES, FEATURES, DEGREE, HIDDEN = 100_000, 64, 20, 128
SEEDS, NEIGHBORS, LAYERS, MASKED, ALPHA = 2000, 10, 2, 0.1, 2.0
WARM_UP = 3
WAYS = (
    ("sampling", "graphlatent", 0),
    ("sampling", "PyG", 0),
    ("training", "graphlatent", 0),
    ("training", "PyG", 0),
    ("training", "graphlatent", 1),
    ("training", "PyG", 1),
)


Times: TypeAlias = list[tuple[float, float]]
"""When steps ended: time of the day, and of the CPU in this process."""


def now() -> tuple[float, float]:
    """Both times."""
    return time.perf_counter(), time.process_time()


def stop_after(steps: int) -> tuple[Hooks, Times]:
    """Hooks that stop a training after so many steps, and the times at which steps ended."""
    times: Times = []
    hooks = Hooks(
        on_step=lambda *_: times.append(now()),
        stop_requested=lambda: len(times) > steps,
    )
    return hooks, times


def our_times(x: Tensor, edge_index: Tensor, *, what: str, workers: int, steps: int) -> Times:
    """The times at which steps of ours ended."""
    graph = assemble([RawGraph(edge_index, len(x), x=x, directed=False)])
    settings = NodeLaGraph.settings_class(
        preset="paper",
        batching="neighbors",
        nodes_per_step=SEEDS,
        num_neighbors=NEIGHBORS,
        num_layers=LAYERS,
        hidden_dim=HIDDEN,
        mask_ratio=MASKED,
        epochs=1000,
        num_workers=workers,
        device="cpu",
        diagnostics=False,
    )
    method = NodeLaGraph.method(resolve(settings, owner="benchmark"), level="node")
    training, _ = set_up(graph, method, device=torch.device("cpu"))
    if what == "training":
        hooks, times = stop_after(steps)
        with suppress(TrainingInterrupted):
            training.run(hooks)
        return times
    assert isinstance(training.batches, NeighborPieces)
    return timed(our_batches(training, workers), steps)


def our_batches(training: Any, workers: int) -> Iterator[object]:
    """Batches of ours, epoch after epoch."""
    plans = Plans(training.plan, training.plan_state, epochs=1000)
    with cut_ahead(training.batches, plans, num_workers=workers) as batches:
        while True:
            for index in plans.take()[0]:
                yield batches.take(index)


def timed(batches: Iterator[object], steps: int) -> Times:
    """The time now, and those at which so many batches were there."""
    times = [now()]
    for _ in range(steps):
        next(batches)
        times.append(now())
    return times


class GCN(nn.Module):
    """Two layers of PyG's GCNConv, batch norm between them, and the decoder of the paper."""

    def __init__(self) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.convs = nn.ModuleList([GCNConv(FEATURES, HIDDEN), GCNConv(HIDDEN, HIDDEN)])
        self.acts = nn.ModuleList([nn.PReLU(), nn.PReLU()])
        self.norm = nn.BatchNorm1d(HIDDEN)
        self.decoder = nn.Sequential(
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.BatchNorm1d(HIDDEN),
            nn.Linear(HIDDEN, FEATURES),
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings, [n, HIDDEN]."""
        rows = self.norm(self.acts[0](self.convs[0](x, edge_index)))
        return self.acts[1](self.convs[1](rows, edge_index))


def pyg_steps(batches: Iterator[Any]) -> Iterator[object]:
    """The losses of steps of training on batches of NeighborLoader, whose first rows are seeds."""
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for batch in batches:
        size = batch.batch_size
        masked = torch.randperm(size)[: max(1, round(MASKED * size))]
        other = batch.x.clone()
        other[masked] = 0.5 * torch.randn(len(masked), FEATURES)
        rows, rows_other = model(batch.x, batch.edge_index), model(other, batch.edge_index)
        error = (model.decoder(rows[:size]) - batch.x[:size]).square().sum() / size
        difference = (rows[masked] - rows_other[masked]).square().sum() / len(masked)
        loss = error + ALPHA * difference.sqrt()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def pyg_times(x: Tensor, edge_index: Tensor, *, what: str, workers: int, steps: int) -> Times:
    """The times at which steps of PyG's pipeline ended."""
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    loader = NeighborLoader(
        Data(x=x, edge_index=edge_index),
        num_neighbors=[NEIGHBORS] * LAYERS,
        batch_size=SEEDS,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    batches = (batch for _ in range(1000) for batch in loader)
    return timed(batches if what == "sampling" else pyg_steps(batches), steps)


def one_way(folder: Path, *, what: str, library: str, workers: int, steps: int) -> dict[str, Any]:
    """Measure one way in this process."""
    x = torch.from_numpy(np.load(folder / "x.npy"))
    edge_index = torch.from_numpy(np.load(folder / "edge_index.npy"))
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    measure = our_times if library == "graphlatent" else pyg_times
    times = measure(x, edge_index, what=what, workers=workers, steps=WARM_UP + steps)
    own = [private_bytes(child.pid) for child in multiprocessing.active_children()]
    seconds, cpu_seconds = np.median(np.diff(np.array(times), axis=0)[WARM_UP:], axis=0)
    return {
        "seconds_per_step": float(seconds),
        "cpu_seconds_per_step": float(cpu_seconds),
        "peak_bytes": resident("VmHWM") - before + sum(own),
    }


def private_bytes(pid: int | None) -> int:
    """Memory that no other process shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def in_own_process(folder: Path, way: tuple[str, str, int], *, steps: int) -> dict[str, Any]:
    """What `one_way` finds in a process of its own."""
    command = [sys.executable, __file__, "--way", json.dumps(way), "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--steps", str(steps)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{way}\n{done.stdout}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def sampler() -> str:
    """What NeighborLoader samples with here."""
    from torch_geometric import typing

    if typing.WITH_PYG_LIB:
        return "pyg-lib"
    if typing.WITH_TORCH_SPARSE:
        import torch_sparse

        return f"torch-sparse {torch_sparse.__version__}"
    raise SystemExit(
        "PyG's NeighborLoader needs pyg-lib or torch-sparse: see the top of this file."
    )


def main() -> None:
    """Measure every way in a process of its own."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--nodes", type=int, default=NODES)
    options.add_argument("--steps", type=int, default=12, help="timed steps of a way and round")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--json", type=Path, default=None, help="write the record here")
    options.add_argument("--way", default=None, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, default=None, help=argparse.SUPPRESS)
    args = options.parse_args()
    torch.set_num_threads(1)
    if args.way is not None:
        what, library, workers = json.loads(args.way)
        found = one_way(args.folder, what=what, library=library, workers=workers, steps=args.steps)
        print(json.dumps(found), flush=True)
        return
    import torch_geometric

    record: dict[str, Any] = {"sampler": sampler(), "pyg": torch_geometric.__version__}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = latent_graph(
            num_nodes=args.nodes, num_classes=20, feature_dim=FEATURES, avg_degree=DEGREE
        ).graph
        assert isinstance(graph.x, Tensor)
        np.save(folder / "x.npy", graph.x.numpy())
        np.save(folder / "edge_index.npy", graph.edge_index.numpy())
        rounds = []
        for _ in range(args.rounds):
            rounds.append([in_own_process(folder, way, steps=args.steps) for way in WAYS])
            print(json.dumps(dict(zip(map(str, WAYS), rounds[-1], strict=True)), indent=1))
    record |= {
        "command": f"python benchmarks/pieces_pyg.py --steps {args.steps} --rounds {args.rounds}",
        "hardware": f"CPU ({platform.machine()}), 1 thread",
        "date": datetime.date.today().isoformat(),
        "torch": str(torch.__version__),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": FEATURES,
        "hidden": HIDDEN,
        "seeds": SEEDS,
        "neighbors": NEIGHBORS,
        "runs": [
            {
                **dict(zip(("what", "library", "workers"), way, strict=True)),
                **{name: min(run[name] for run in found) for name in found[0]},
            }
            for way, found in zip(WAYS, zip(*rounds, strict=True), strict=True)
        ],
    }
    print(pyg_table(record))
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
