"""The nested cross-validation of the linear SVM: all folds and settings at once, and scikit-learn's
own grid search, side by side.

    python benchmarks/probes.py --sets PROTEINS,IMDB-BINARY,NCI1 --data ROOT --json
    benchmarks/results/probes.json

Both run 10 outer folds, 3 inner ones, 2 ways of scaling and 4 strengths on the embedding of a
random-initialised encoder (GIN 3 x 32), on the same cores; best of the rounds, which alternate,
each way twice in a row: the first call after the other way's finds cold caches. Each draws folds in
its own way, so accuracies agree up to the folds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphlatent import GraphLaGraph, load_dataset
from graphlatent.probes.svm import INNER_FOLDS, SVM_STRENGTHS, svm_probe


def ours(rows: Any, labels: Any) -> float:
    """The mean accuracy over the outer folds."""
    return svm_probe(rows, labels).mean


def scikit_learn(rows: Any, labels: Any) -> float:
    """The same by `GridSearchCV` in every outer fold, on all cores."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    num, power = len(rows) * 0.9 * (1 - 1 / INNER_FOLDS), float(rows.var(0).sum())
    steps = Pipeline([("scale", StandardScaler()), ("svm", LinearSVC(dual=False))])
    # C so that both solve the same problems: rows of mean squared norm 1, strength = 1 / (C n)
    grid = [
        {
            "scale": [StandardScaler(with_std=False)],
            "svm__C": [1 / (num * s * power) for s in SVM_STRENGTHS],
        },
        {
            "scale": [StandardScaler()],
            "svm__C": [1 / (num * s * rows.shape[1]) for s in SVM_STRENGTHS],
        },
    ]
    inner, outer = (
        StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=0),
        StratifiedKFold(10, shuffle=True, random_state=0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # liblinear stops at 1,000 iterations on some
        search = GridSearchCV(steps, grid, cv=inner, n_jobs=os.cpu_count())
        return float(cross_val_score(search, rows, labels, cv=outer).mean())


def timed(work: Callable[[], float]) -> tuple[float, float]:
    """Seconds of the faster of two calls, and what the work returns."""
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        value = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), value


def main() -> None:
    """Measure, print and write the record."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sets", default="PROTEINS,IMDB-BINARY,NCI1")
    options.add_argument("--data", default=None, help="data root [default: GRAPHLATENT_DATA]")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--json", type=Path, default=None)
    args = options.parse_args()
    found = []
    for name in args.sets.split(","):
        graph = load_dataset(name, root=args.data).graph
        rows, labels = (
            GraphLaGraph(epochs=0, hidden_dim=32).fit_transform(graph),
            np.asarray(graph.y),
        )
        rounds = [
            (timed(partial(ours, rows, labels)), timed(partial(scikit_learn, rows, labels)))
            for _ in range(args.rounds)
        ]
        seconds = [min(each[k][0] for each in rounds) for k in (0, 1)]
        accuracy = [rounds[0][k][1] for k in (0, 1)]
        found.append(
            {
                "set": name,
                "rows": len(rows),
                "columns": rows.shape[1],
                "seconds": seconds[0],
                "sklearn_seconds": seconds[1],
            }
            | {
                "ratio": seconds[1] / seconds[0],
                "accuracy": accuracy[0],
                "sklearn_accuracy": accuracy[1],
            }
        )
        print(
            f"{name}: {seconds[0]:.2f} s, scikit-learn {seconds[1]:.2f} s:"
            f" {seconds[1] / seconds[0]:.1f}x; accuracy {100 * accuracy[0]:.1f},"
            f" {100 * accuracy[1]:.1f}",
            flush=True,
        )
    if args.json:
        import sklearn

        about = {
            "command": (
                f"python benchmarks/probes.py --sets {args.sets} --data ROOT --rounds {args.rounds}"
            ),
            "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()})",
            "versions": {"torch": torch.__version__, "scikit-learn": sklearn.__version__},
            "date": datetime.date.today().isoformat(),
        }
        args.json.write_text(json.dumps({**about, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
