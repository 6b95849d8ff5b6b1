r"""What a choice of the epoch without labels costs, against one by validation labels.

    nice -n 19 python benchmarks/label_free.py --data ROOT \
        --json benchmarks/results/label_free.jsonl

One training for each set, settings and seed; the embedding is probed after every measured epoch (0,
1, 2, 3, 4, 5, 6, 8, 10, ..., the last). "validation": the epoch with the best validation score, for
each split; all other rules choose one epoch for all splits, without labels. Probe: logistic
regression on columns as they are or standardised, that and its strength chosen on validation rows
per split. Nodes: 3 random 10/10/80 splits; graphs: 5 random 80/10/10 splits. The defaults of graphs
are 128 wide in place of 256. What was measured before is skipped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import hardware

from graphlatent import GraphLaGraph, GraphLatentWarning, NodeLaGraph
from graphlatent.bench.data import load_bundle
from graphlatent.bench.loading import load_recipe
from graphlatent.data.citation import citation_graph
from graphlatent.data.splits import random_splits
from graphlatent.io.history import History
from graphlatent.probes.linear import best_on_validation, checked_settings, linear_predictions
from graphlatent.probes.protocol import Protocol
from graphlatent.training.collapse import find_collapse
from graphlatent.training.diagnostics import measured_epochs
from graphlatent.training.selection import selected_epoch

RULES = ("last", "effective_rank", "objective", "before_collapse")
L2 = (1e-5, 1e-4, 1e-3, 1e-2)
SETS = {
    "MUTAG": "table1/MUTAG",
    "PROTEINS": "table1/PROTEINS",
    "IMDB-B": "table1/IMDB-B",
    "NCI1": "table1/NCI1",
    "Photo": "table2/Photo",
    "Computers": "table2/Computers",
}
SYNTHETIC = "citation (synthetic)"


def settings_of(form: str, name: str) -> dict[str, Any]:
    """Settings by short name: the paper's, those with lr 1e-3, or our defaults."""
    recipe = load_recipe(SETS.get(name, "table2/Photo"))
    if form == "defaults":
        return {"hidden_dim": 128} if recipe.level == "graph" else {}
    values = vars(recipe.settings())
    return {**values, "concat_input": False} if recipe.level == "node" else dict(values)


def load(name: str, root: Path | None) -> tuple[Any, Any, str]:
    """Graph, labels and level."""
    if name == SYNTHETIC:
        graph = citation_graph()
        return graph, np.asarray(graph.y), "node"
    recipe = load_recipe(SETS[name])
    data = load_bundle(recipe, root)
    return data.graph, np.asarray(data.labels), recipe.level


def measure(name: str, form: str, *, epochs: int, seed: int, root: Path | None) -> dict[str, Any]:
    """The test accuracy of every rule, and the epoch that it chose."""
    began = time.monotonic()
    graph, labels, level = load(name, root)
    values = settings_of(form, name) | {"epochs": epochs, "random_state": seed, "device": "cpu"}
    if form == "paper, lr 1e-3":
        values["lr"] = 1e-3
    values |= {"diagnostics": True, "on_collapse": "ignore", "select": "last"}
    estimator = (NodeLaGraph if level == "node" else GraphLaGraph)(**values)
    rows, history = {}, History()
    for epoch, fitted in estimator.snapshots(graph, epochs=measured_epochs(epochs, epochs)):
        rows[epoch], history = fitted.transform(graph), fitted.history_
    train, splits = (0.1, 3) if level == "node" else (0.8, 5)
    parts = random_splits(len(labels), num_splits=splits, train_ratio=train, val_ratio=0.1, seed=1)
    grid = checked_settings(L2, ("none", "standard"), owner="label_free")
    found = linear_predictions(
        {str(epoch): each for epoch, each in rows.items()}, Protocol(labels, parts), settings=grid
    )
    chosen = {rule: selected_epoch(history, with_rule(fitted, rule)) for rule in RULES}
    chosen["untrained"] = 0
    scores = {
        rule: Protocol(labels, parts).final(found[str(epoch)], selection=rule).mean
        for rule, epoch in chosen.items()
    }
    best = Protocol(labels, parts).final(best_on_validation(found), selection="validation")
    collapse = find_collapse(history, with_rule(fitted, "last"))
    return {
        "set": name,
        "settings": form,
        "epochs": epochs,
        "seed": seed,
        "accuracy": {**scores, "validation": best.mean},
        "epoch": chosen,
        "collapse": None if collapse is None else collapse.epoch,
        "diagnostics": history.diagnostics,
        "by_epoch": {
            epoch: Protocol(labels, parts).final(each, selection="epoch").mean
            for epoch, each in found.items()
        },
        "seconds": round(time.monotonic() - began, 1),
    }


def with_rule(fitted: Any, rule: str) -> Any:
    """The settings of a fitted estimator with another rule."""
    settings: Any = fitted.settings_
    return replace(settings, select=rule)


def main() -> None:
    """Measure what is missing and append it, a line each."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sets", default=",".join([SYNTHETIC, *SETS]))
    options.add_argument("--settings", default="paper;paper, lr 1e-3;defaults")
    options.add_argument("--epochs", type=int, default=50)
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--data", type=Path, default=None)
    options.add_argument("--json", type=Path, required=True)
    args = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", GraphLatentWarning)
    lines = args.json.read_text().splitlines() if args.json.exists() else []
    done = {key(json.loads(line)) for line in lines}
    for name in args.sets.split(","):
        for form in args.settings.split(";"):
            for seed in range(args.seeds):
                wanted = {"set": name, "settings": form, "epochs": args.epochs, "seed": seed}
                if key(wanted) in done:
                    continue
                record = measure(name, form, epochs=args.epochs, seed=seed, root=args.data)
                record |= {
                    "command": f"python benchmarks/label_free.py --epochs {args.epochs}",
                    "hardware": hardware("cpu"),
                    "date": datetime.date.today().isoformat(),
                }
                with args.json.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(name, form, seed, record["accuracy"], record["seconds"], flush=True)


def key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a record is of."""
    return tuple(record[name] for name in ("set", "settings", "epochs", "seed"))


if __name__ == "__main__":
    main()
