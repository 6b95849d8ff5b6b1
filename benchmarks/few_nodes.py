r"""Classifiers of nodes with ten labels of a class, against logistic regression on the embedding.

    nice -n 19 python benchmarks/few_nodes.py --data ROOT --json benchmarks/results/few_nodes.jsonl

Each seed has a graph of its own where it is synthetic, and labels of its own: ten nodes of each
class, drawn at random; all others are for testing. "logistic regression": on the frozen embedding
with its columns as they are, the best of four L2 weights on a fifth of the labelled nodes, and
fitted to the others. "classifier": NodeLaGraphClassifier as it is by default, which holds back as
many. Both start from our defaults and from the paper's settings, trained and untrained. What was
measured before is skipped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import hardware
from sklearn.linear_model import LogisticRegression

from graphlatent import GraphLatentWarning, NodeLaGraph, NodeLaGraphClassifier, load_dataset
from graphlatent.data.citation import citation_graph

SYNTHETIC = "citation (synthetic)"
PER_CLASS = 10
C = (0.1, 1.0, 10.0, 100.0)


def load(name: str, seed: int, root: Path | None) -> tuple[Any, np.ndarray]:
    """A graph and its labels."""
    graph = citation_graph(seed=seed) if name == SYNTHETIC else load_dataset(name, root=root).graph
    return graph, np.asarray(graph.y)


def measure(name: str, form: str, *, seed: int, root: Path | None) -> dict[str, Any]:
    """Test accuracies of one pre-training."""
    began = time.monotonic()
    graph, y = load(name, seed, root)
    values: dict[str, Any] = {"preset": "paper"} if form.startswith("paper") else {}
    if form.endswith("untrained"):
        values["epochs"] = 0
    pretrained = NodeLaGraph(
        **values, random_state=seed, device="cpu", on_collapse="ignore", diagnostics=False
    ).fit(graph)
    draw = np.random.default_rng(seed)
    labelled = np.concatenate(
        [draw.permutation(np.flatnonzero(y == k))[:PER_CLASS] for k in np.unique(y)]
    )
    known = np.full(len(y), -1)
    known[labelled] = y[labelled]
    test = known < 0
    fitted = NodeLaGraphClassifier(pretraining=pretrained, random_state=seed).fit(graph, known)
    right = fitted.predict(graph)[test] == y[test]
    return {
        "set": name,
        "settings": form,
        "seed": seed,
        "logistic": logistic(pretrained.transform(graph), known, y, draw),
        "classifier": float(right.mean()),
        "best_epoch": fitted.best_epoch_,
        "epochs_run": len(fitted.history_) - 1,
        "seconds": round(time.monotonic() - began, 1),
    }


def logistic(rows: np.ndarray, known: np.ndarray, y: np.ndarray, draw: Any) -> float:
    """Test accuracy of logistic regression with its strength chosen on a fifth of the labels."""
    order = draw.permutation(np.flatnonzero(known >= 0))
    val, train = np.split(order, [len(order) // 5])
    models = [LogisticRegression(C=c, max_iter=2000).fit(rows[train], known[train]) for c in C]
    best = max(models, key=lambda model: model.score(rows[val], known[val]))
    return float(best.score(rows[known < 0], y[known < 0]))


def main() -> None:
    """Measure what is missing and append it, a line each."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sets", default=SYNTHETIC)
    options.add_argument(
        "--settings", default="defaults;defaults, untrained;paper;paper, untrained"
    )
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--data", type=Path, default=None)
    options.add_argument("--json", type=Path, required=True)
    args = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", GraphLatentWarning)
    lines = args.json.read_text().splitlines() if args.json.exists() else []
    done = {key(json.loads(line)) for line in lines}
    for name in args.sets.split(","):
        for seed in range(args.seeds):
            for form in args.settings.split(";"):
                if key({"set": name, "settings": form, "seed": seed}) in done:
                    continue
                record = measure(name, form, seed=seed, root=args.data)
                record |= {"hardware": hardware("cpu"), "date": datetime.date.today().isoformat()}
                with args.json.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(record, flush=True)


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    """What a record is of."""
    return tuple(record[name] for name in ("set", "settings", "seed"))


if __name__ == "__main__":
    main()
