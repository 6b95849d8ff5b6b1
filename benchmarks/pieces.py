"""Score and peak memory of training on pieces, by nodes of a step and how pieces are chosen.

    python benchmarks/pieces.py --json benchmarks/results/pieces.json

The recipes of the paper's Table 3, and the defaults, on synthetic graphs of communities with the
features, classes, degrees and homophily of its Flickr and Reddit (docs/recipes.md). Each case runs
in a process of its own, which begins with the graph in memory.

Scores are of graphs of 12,000 nodes and 64 hidden units, and about 40 gradient steps in every case,
whatever the number of epochs that makes: the accuracy of a linear probe of the embedding alone on a
quarter of the nodes (3,000, so that a standard error is below 1 point), its settings chosen on
another quarter.

Memory is of graphs of the size in MEMORY_NODES and the width of the recipes, 512: the peak of the
resident set in the first steps of training on top of what the process had before, which is the
graph. METIS runs once for a graph, in a process before that; its own peak is recorded beside.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import datetime
import gc
import json
import math
import platform
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import resident
from pieces_table import PRESETS, WAYS, WITHOUT

from graphlatent import NodeLaGraph
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.shapes import SHAPES
from graphlatent.config import resolve
from graphlatent.data.csr import CSRGraph
from graphlatent.data.datasets import dataset_info
from graphlatent.data.pieces.clusters import num_parts
from graphlatent.data.pieces.partition import partition
from graphlatent.data.splits import random_splits
from graphlatent.data.synthetic import LatentGraph, latent_graph
from graphlatent.errors import TrainingInterrupted
from graphlatent.probes.linear import linear_probe
from graphlatent.representations import propagated_features
from graphlatent.training.hooks import Hooks
from graphlatent.training.setup import set_up

SCORE_NODES, SCORE_HIDDEN, SCORE_STEPS = 12_000, 64, 40
MEMORY_NODES: Mapping[str, int] = {"Flickr-shape": 89_250, "Reddit-shape": 58_241}
MEMORY_STEPS = 3
SIZES = (1000, 2500, 5000)


GRAPHS: dict[str, LatentGraph] = {}
"""By shape; processes are forked once a graph is made."""


def graph_of(shape: str, *, num_nodes: int) -> LatentGraph:
    """A synthetic graph of a published set's shape with so many nodes."""
    info = dataset_info(SHAPES[shape].of)
    return latent_graph(
        num_nodes=num_nodes,
        num_classes=info.num_classes,
        feature_dim=info.num_features,
        avg_degree=2 * info.num_edges / info.num_nodes,
        homophily=SHAPES[shape].homophily,
        sigma=SHAPES[shape].sigma,
    )


def settings_of(case: Mapping[str, Any], *, num_nodes: int, steps: int, **values: Any) -> Any:
    """The settings of a case, with as many epochs as make about `steps` steps."""
    if case["preset"] == "paper":
        chosen = load_recipe(f"table3/{case['shape']}-1000").settings()
    else:
        chosen = NodeLaGraph.settings_class(structure="none", embedding="encoder")
    way, size = case["way"], case["size"] or num_nodes
    values |= {"device": "cpu", "concat_input": False}
    if way == "untrained":
        values |= {"batching": "full", "epochs": 0}
    else:
        per_epoch = math.ceil(num_nodes / size) if way in ("clusters", "neighbors") else 1
        values |= {"batching": way, "nodes_per_step": size, "epochs": max(1, steps // per_epoch)}
    return dataclasses.replace(chosen, **values)


def score_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Train one case in this process: its score."""
    made = GRAPHS[case["shape"]]
    graph, num_nodes = made.graph, made.graph.num_nodes
    (split,) = random_splits(num_nodes, num_splits=1, train_ratio=0.5, val_ratio=0.25)
    if case["way"] == "raw":
        rows = graph.x
    elif case["way"] == "propagated":
        rows = propagated_features(graph, level="node")
    else:
        settings = settings_of(
            case, num_nodes=num_nodes, steps=SCORE_STEPS, hidden_dim=SCORE_HIDDEN, diagnostics=False
        )
        values = {
            field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)
        }
        rows = torch.as_tensor(NodeLaGraph(**values).fit_transform(graph))
    return {"score": 100 * linear_probe(rows, made.labels, splits=[split]).mean}


def metis_case(case: Mapping[str, Any], cache: Path) -> dict[str, Any]:
    """Compute and keep the parts of a case of clusters: the peak memory of that."""
    graph = CSRGraph.of(GRAPHS[case["shape"]].graph)
    settings = settings_of(case, num_nodes=graph.num_nodes, steps=1)
    count = num_parts(
        graph.num_nodes, nodes_per_step=case["size"], parts_per_step=settings.parts_per_step
    )
    before = _start_of_peak()
    partition(graph, count, cache=cache)
    return {"metis_bytes": resident("VmHWM") - before}


def memory_case(case: Mapping[str, Any], cache: Path) -> dict[str, Any]:
    """Run the first steps of a case in this process: the peak memory."""
    graph = GRAPHS[case["shape"]].graph
    settings = settings_of(case, num_nodes=graph.num_nodes, steps=MEMORY_STEPS)
    method = NodeLaGraph.method(resolve(settings, owner="benchmark"), level="node")
    before = _start_of_peak()
    training, _ = set_up(graph, method, device=torch.device("cpu"), cache=cache)
    done = _Counter()
    hooks = Hooks(on_step=done.add, stop_requested=lambda: done.count >= MEMORY_STEPS)
    with suppress(TrainingInterrupted):
        training.run(hooks)
    return {"peak_bytes": resident("VmHWM") - before, "steps": done.count}


class _Counter:
    """Counts calls after the first, which comes before the first step."""

    def __init__(self) -> None:
        self.count = -1

    def add(self, *_: float) -> None:
        self.count += 1


def _start_of_peak() -> int:
    """Bytes resident now; the peak is counted from here on.

    Memory that was freed is given back first, so that using it again counts.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def cases(shape: str, *, without: bool) -> list[dict[str, Any]]:
    """Every way and size by preset, and where asked for what needs no training, of one shape."""
    found: list[dict[str, Any]] = []
    for preset in PRESETS:
        both = {"shape": shape, "preset": preset}
        names = ("untrained",) if preset == "plus" else tuple(WITHOUT)
        found += [{**both, "way": way, "size": None} for way in names if without]
        found += [{**both, "way": way, "size": size} for way in WAYS for size in SIZES]
        found.append({**both, "way": "full", "size": None})
    return found


def in_own_process(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a function returns in a process that ends after it."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        return pool.submit(function, *arguments).result()


def scores(shape: str) -> list[dict[str, Any]]:
    """The score of every case of a shape."""
    GRAPHS[shape] = graph_of(shape, num_nodes=SCORE_NODES)
    runs = []
    for case in cases(shape, without=True):
        runs.append({**case, **in_own_process(score_case, case)})
        print(runs[-1], flush=True)
    return runs


def memory(shape: str) -> list[dict[str, Any]]:
    """The peak memory of every case of a shape."""
    GRAPHS[shape] = graph_of(shape, num_nodes=MEMORY_NODES[shape])
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(shape, without=False):
            metis = {}
            if case["way"] == "clusters" and case["preset"] == PRESETS[0]:
                metis = in_own_process(metis_case, case, Path(folder))
            runs.append({**case, **in_own_process(memory_case, case, Path(folder)), **metis})
            print(runs[-1], flush=True)
    return runs


def main() -> None:
    """Run every case, and add what was asked for to the record."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--shapes", default=",".join(MEMORY_NODES))
    options.add_argument("--parts", default="scores,memory", help="what to measure")
    options.add_argument("--json", type=Path, default=None, help="write the record here")
    args = options.parse_args()
    for part in args.parts.split(","):
        for shape in args.shapes.split(","):
            runs = {"scores": scores, "memory": memory}[part](shape)
            if args.json:
                _add(args.json, part, shape, runs)


def _add(path: Path, part: str, shape: str, runs: list[dict[str, Any]]) -> None:
    """Put the runs of a shape in the place of those that a record has of it."""
    known = json.loads(path.read_text()) if path.exists() else {"scores": [], "memory": []}
    record = {
        "command": "python benchmarks/pieces.py",
        "hardware": f"CPU ({platform.machine()}), {torch.get_num_threads()} thread",
        "date": datetime.date.today().isoformat(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        **{name: known[name] for name in ("scores", "memory")},
    }
    record[part] = [run for run in known[part] if run["shape"] != shape] + runs
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
