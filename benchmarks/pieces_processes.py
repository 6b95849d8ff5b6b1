"""Throughput of training on pieces by one process with one or two threads, and by two processes.

    python benchmarks/pieces_processes.py --json benchmarks/results/pieces_processes.json

The same training on one synthetic graph, in memory: by one process, with one or two threads, and
by `torchrun --nproc-per-node 2` with gloo, one thread each, where a step has a piece of each
process. Nodes per second are those that were in a step as seeds, or in a cluster, in the
epochs after the first, in which all processes together see every node once. All ways are measured
in turn, and the best of the rounds is kept. Beside it are the nodes per second of the CPU in the
first process, with all its threads: other programs on the machine change them little, and where
each process has a core for itself, and waits for nothing, this is the throughput.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import resident
from pieces_table import PRESETS, processes_table

from graphlatent import NodeLaGraph
from graphlatent.data.assemble import assemble
from graphlatent.data.graph import RawGraph
from graphlatent.data.synthetic import latent_graph
from graphlatent.ops.collective import gathered_json, rank
from graphlatent.ops.processes import joined
from graphlatent.training.hooks import Hooks

NODES, FEATURES, DEGREE, HIDDEN, PER_STEP, NEIGHBORS = 40_000, 64, 20, 256, 2000, 5
# Processes, threads of each, threads that cut pieces.
WAYS = ((1, 1, 0), (1, 1, 1), (1, 2, 1), (2, 1, 0))
# Timed epochs of each batching.
EPOCHS = {"clusters": 10, "neighbors": 2}


def train(folder: Path, *, preset: str, batching: str, epochs: int, workers: int) -> dict[str, Any]:
    """Train in this process, which others may train with: nodes per second, and memory."""
    x = torch.from_numpy(np.load(folder / "x.npy"))
    edge_index = torch.from_numpy(np.load(folder / "edge_index.npy"))
    graph = assemble([RawGraph(edge_index, len(x), x=x, directed=False)])
    times: list[tuple[float, float]] = []
    hooks = Hooks(on_epoch=lambda _: times.append((time.perf_counter(), time.process_time())))
    model = NodeLaGraph(
        preset=preset,
        batching=batching,
        nodes_per_step=PER_STEP,
        num_neighbors=NEIGHBORS,
        hidden_dim=HIDDEN,
        epochs=1 + epochs,
        num_workers=workers,
        structure="none",
        embedding="encoder",
        concat_input=False,
        diagnostics=False,
        device="cpu",
    )
    before = resident("VmRSS")
    # The first process alone calls hooks.
    model.fit(graph, hooks=hooks)
    peaks = gathered_json(resident("VmHWM") - before)
    # Other processes have no times, and their result is not used.
    first, last = (times[0], times[-1]) if times else ((0.0, 0.0), (1.0, 1.0))
    seen = epochs * len(x)
    return {
        "nodes_per_second": seen / (last[0] - first[0]),
        "nodes_per_cpu_second": seen / (last[1] - first[1]),
        "peak_bytes": peaks,
    }


def in_processes(folder: Path, way: tuple[int, int, int], *case: str) -> Any:
    """What `train` finds in so many processes of so many threads."""
    processes, threads, workers = way
    program = [__file__, "--folder", str(folder), "--case", json.dumps([*case, workers])]
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    done = subprocess.run(
        [*start, *program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
    )
    if done.returncode:
        raise SystemExit(f"{way} {case}\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure every way in processes of its own."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--json", type=Path, default=None, help="write the record here")
    options.add_argument("--case", default=None, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, default=None, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.case is not None:
        warnings.simplefilter("ignore")
        preset, batching, workers = json.loads(args.case)
        values = {"preset": preset, "batching": batching, "workers": workers}
        with joined():
            found = train(args.folder, epochs=EPOCHS[batching], **values)
            if rank() == 0:
                print(json.dumps(found), flush=True)
        return
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = latent_graph(
            num_nodes=NODES, num_classes=20, feature_dim=FEATURES, avg_degree=DEGREE
        ).graph
        assert isinstance(graph.x, torch.Tensor)
        np.save(folder / "x.npy", graph.x.numpy())
        np.save(folder / "edge_index.npy", graph.edge_index.numpy())
        for _ in range(args.rounds):
            for case in [(preset, batching) for preset in PRESETS for batching in EPOCHS]:
                for way in WAYS:
                    found = in_processes(folder, way, *case)
                    key, known = (way, *case), best.get((way, *case))
                    if known is None or found["nodes_per_second"] > known["nodes_per_second"]:
                        best[key] = found
                    print(*key, found, flush=True)
    names = ("way", "preset", "batching")
    record = {
        "command": f"python benchmarks/pieces_processes.py --rounds {args.rounds}",
        "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()})",
        "date": datetime.date.today().isoformat(),
        "torch": str(torch.__version__),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": FEATURES,
        "hidden": HIDDEN,
        "nodes_per_step": PER_STEP,
        "neighbors": NEIGHBORS,
        "runs": [{**dict(zip(names, key, strict=True)), **found} for key, found in best.items()],
    }
    print(processes_table(record))
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
