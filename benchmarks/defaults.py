"""What the defaults are worth on the paper's data sets, beside baselines and neighbouring settings.

    python benchmarks/defaults.py --sets Photo,Computers --data ROOT [--out FILE]
    python benchmarks/defaults.py --sets MUTAG --data ROOT --variants   # neighbouring settings too
    python benchmarks/pages.py                                          # docs/defaults.md

Every record names the settings, the scores of every split, the seed, the versions, the hardware and
the date. Node sets: 20 random 10/10/80 splits; graph sets: 10 stratified folds, a quarter of the
rest for validation, then fitted on all of the rest. The probe chooses per split on validation rows.
"""

import argparse
import datetime
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphlatent import GraphData, GraphLaGraph, NodeLaGraph, __version__, load_dataset
from graphlatent.config import resolve
from graphlatent.data.features import encode_features
from graphlatent.data.splits import Split, fold_splits, random_splits
from graphlatent.probes.linear import linear_probe
from graphlatent.representations import propagated_features, raw_features
from graphlatent.training.encoding import fit_encoding

NODE_VARIANTS: list[dict[str, Any]] = [
    {"variance_weight": 0.0},
    {"latent_weight": 0.0},
    {"momentum": 0.99},
    {"masked_weight": 0.0},
    {"alpha": 1.0},
    {"mask_ratio": 0.5},
    {"lr": 3e-3},
    {"epochs": 300},
    {"hidden_dim": 256},
    {"embedding": "encoder"},
    {"embedding": "encoder", "variance_weight": 0.0, "epochs": 300},
    {"preset": "paper"},
    {"preset": "released"},
]
GRAPH_VARIANTS: list[dict[str, Any]] = [
    {"variance_weight": 0.0},
    {"latent_weight": 0.0},
    {"momentum": 0.99},
    {"masked_weight": 0.0},
    {"alpha": 1.0},
    {"mask_ratio": 0.25},
    {"lr": 2e-3},
    {"epochs": 40},
    {"num_layers": 5},
    {"hidden_dim": 128},
    {"readout": "sum"},
    {"structure": "none"},
    {"preset": "paper"},
    {"preset": "released"},
]


def measure(
    name: str,
    graph: GraphData,
    level: Any,
    splits: tuple[Split, ...],
    rows: Any,
    about: dict[str, Any],
) -> dict[str, Any]:
    """The record of one representation of one data set."""
    began = time.monotonic()
    probe = linear_probe(rows, graph.y, splits=splits, refit=level == "graph")
    return {
        "set": name,
        "level": level,
        **about,
        "test": 100 * probe.mean,
        "std": 100 * probe.std,
        "val": 100 * float(np.mean([c.val_score for c in probe.choices])),
        "accuracies": [round(100 * a, 3) for a in probe.scores],
        "selection": probe.selection,
        "probe_seconds": round(time.monotonic() - began, 1),
        "command": f"python benchmarks/defaults.py --sets {name}",
        "version": __version__,
        "torch": torch.__version__,
        "hardware": (
            torch.cuda.get_device_name()
            if torch.cuda.is_available()
            else f"{platform.machine()} CPU, {torch.get_num_threads()} thread(s)"
        ),
        "date": datetime.date.today().isoformat(),
    }


def run(name: str, args: argparse.Namespace) -> None:
    """Measure one data set, a record at a time."""
    data = load_dataset(name, root=args.data)
    level, graph = data.info.level, data.graph
    cls = NodeLaGraph if level == "node" else GraphLaGraph
    splits = (
        random_splits(graph.num_nodes, num_splits=20)
        if level == "node"
        else fold_splits(graph.y, num_folds=10, val_ratio=0.25)
    )
    settings = resolve(cls(), owner=cls.__name__)
    # The baselines see the features that the encoder is given.
    encoded = encode_features(fit_encoding(graph, settings), graph)

    def write(rows: Any, **about: Any) -> None:
        record = measure(name, graph, level, splits, rows, about)
        with args.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(name, about, f"{record['test']:.2f} ± {record['std']:.2f}", flush=True)

    write(raw_features(encoded, level=level), row="raw features")
    write(propagated_features(encoded, level=level), row="propagated features")
    changes: list[dict[str, Any]] = [{"epochs": 0}, {}]
    if args.variants:
        changes += NODE_VARIANTS if level == "node" else GRAPH_VARIANTS
    for change in changes:
        began = time.monotonic()
        embeddings = cls(random_state=args.seed, **change).fit_transform(graph)
        label = (
            "random-initialised"
            if change == {"epochs": 0}
            else "defaults"
            if not change
            else "variant"
        )
        write(
            embeddings,
            row=label,
            change=change,
            preset=change.get("preset", settings.preset),
            seed=args.seed,
            fit_seconds=round(time.monotonic() - began, 1),
        )


def main() -> None:
    """Measure, and append what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default="Photo,Computers,MUTAG,PROTEINS,NCI1,IMDB-B")
    parser.add_argument("--data", default=None, help="data root [default: GRAPHLATENT_DATA]")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/defaults.jsonl"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", action="store_true")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for name in args.sets.split(","):
        run(name, args)


if __name__ == "__main__":
    main()
