"""What the probes compute by hand beside what scikit-learn would: seconds, scores, repeatability.

    python benchmarks/probes.py --data ROOT --json benchmarks/results/probes.json
    python benchmarks/probes.py --data ROOT --part logistic

Parts:
- svm: nested cross-validation of a linear SVM (10 outer folds, 3 inner, 8 settings) on the
  embeddings of a random-initialised GIN (3 x 32), against `GridSearchCV` with `LinearSVC`. Both
  draw their own folds, so accuracies agree up to the folds.
- logistic: logistic regression on the embeddings of a random-initialised GCN (2 x 512) of Photo, 2
  splits and 15 settings, against `LogisticRegression` fitted one after the other; one thread.
- neighbours: the 50 nearest rows against `NearestNeighbors`, and how many of its answers change
  with the number of threads.
- spectral: spectral clustering with and without rows of norm 1, and LOBPCG against ARPACK.
- metrics: one call of the accuracy.

Seconds are the best of the rounds, which alternate; each side runs twice in a row, because the
first call after the other side's finds cold caches.
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
import sklearn
import torch
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import spectral_embedding
from sklearn.metrics import accuracy_score, normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import NearestNeighbors, kneighbors_graph
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from graphlatent import GraphLaGraph, NodeLaGraph, load_dataset
from graphlatent.data.splits import fold_splits, random_splits
from graphlatent.ops.nearest import nearest_rows
from graphlatent.probes.linear import L2_GRID, linear_probe
from graphlatent.probes.metrics import accuracy
from graphlatent.probes.svm import INNER_FOLDS, SVM_L2_GRID, svm_probe


def svm_by_scikit_learn(rows: Any, labels: Any) -> float:
    """Mean accuracy of `GridSearchCV` in every outer fold, on all cores."""
    num, power = len(rows) * 0.9 * (1 - 1 / INNER_FOLDS), float(rows.var(0).sum())
    steps = Pipeline([("scale", StandardScaler()), ("svm", LinearSVC(dual=False))])
    # C so that both solve the same problems: rows of mean squared norm 1, l2 = 1 / (C n)
    grid = [
        {
            "scale": [StandardScaler(with_std=False)],
            "svm__C": [1 / (num * l2 * power) for l2 in SVM_L2_GRID],
        },
        {
            "scale": [StandardScaler()],
            "svm__C": [1 / (num * l2 * rows.shape[1]) for l2 in SVM_L2_GRID],
        },
    ]
    inner, outer = (
        StratifiedKFold(folds, shuffle=True, random_state=0) for folds in (INNER_FOLDS, 10)
    )
    with warnings.catch_warnings():
        # liblinear stops at 1,000 iterations on some
        warnings.simplefilter("ignore")
        search = GridSearchCV(steps, grid, cv=inner, n_jobs=os.cpu_count())
        return float(cross_val_score(search, rows, labels, cv=outer).mean())


def logistic_by_scikit_learn(rows: Any, labels: Any, splits: Any) -> float:
    """Mean test accuracy over the splits, settings chosen on validation."""
    scores = []
    for split in splits:
        best, num = (-1.0, 0.0), len(split.train)
        standard = StandardScaler().fit(rows[split.train]).transform(rows)
        for scaled in (rows, normalize(rows), standard):
            centred = scaled - scaled[split.train].mean(0)
            x = centred / np.sqrt((centred[split.train] ** 2).sum(1).mean())
            for l2 in sorted(L2_GRID, reverse=True):
                # With this solver and tolerance the objective is within 1e-6 of its minimum
                model = LogisticRegression(
                    C=1 / (num * l2), solver="newton-cg", tol=1e-6, max_iter=10_000
                )
                model.fit(x[split.train], labels[split.train])
                score = model.score(x[split.val], labels[split.val])
                if score > best[0]:
                    best = score, model.score(x[split.test], labels[split.test])
        scores.append(best[1])
    return float(np.mean(scores))


def timed(work: Callable[[], Any], *, calls: int = 2) -> tuple[float, Any]:
    """Seconds of the fastest call, and what the work returns."""
    seconds = []
    for _ in range(calls):
        began = time.perf_counter()
        value = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), value


def embeddings(name: str, root: str | None) -> tuple[Any, Any]:
    """Rows of a random-initialised encoder, float64, and labels."""
    graph = load_dataset(name, root=root).graph
    estimator: Any = (
        NodeLaGraph(epochs=0) if graph.num_graphs == 1 else GraphLaGraph(epochs=0, hidden_dim=32)
    )
    return estimator.fit_transform(graph).astype(np.float64), np.asarray(graph.y)


def measure_svm(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One record per data set."""
    found = []
    for name in args.sets.split(","):
        rows, labels = embeddings(name, args.data)
        rounds = [
            (
                timed(lambda rows=rows, labels=labels: svm_probe(rows, labels).mean),
                timed(partial(svm_by_scikit_learn, rows, labels)),
            )
            for _ in range(args.rounds)
        ]
        seconds = [min(each[k][0] for each in rounds) for k in (0, 1)]
        scores = [rounds[0][k][1] for k in (0, 1)]
        found.append(
            {
                "set": name,
                "rows": len(rows),
                "columns": rows.shape[1],
                "seconds": seconds[0],
                "sklearn_seconds": seconds[1],
                "ratio": seconds[1] / seconds[0],
                "accuracy": scores[0],
                "sklearn_accuracy": scores[1],
            }
        )
        print(
            f"{name}: {seconds[0]:.2f} s, scikit-learn {seconds[1]:.2f} s:"
            f" {seconds[1] / seconds[0]:.1f}x; accuracy {100 * scores[0]:.1f},"
            f" {100 * scores[1]:.1f}",
            flush=True,
        )
    return found


def measure_logistic(args: argparse.Namespace) -> None:
    """Photo, 2 splits, one thread."""
    rows, labels = embeddings("Photo", args.data)
    splits = random_splits(len(rows), num_splits=2)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        ours, score = timed(lambda: linear_probe(rows, labels, splits=splits).mean)
        theirs, other = timed(lambda: logistic_by_scikit_learn(rows, labels, splits), calls=1)
    print(
        f"Photo: {ours:.2f} s, scikit-learn {theirs:.2f} s: {theirs / ours:.1f}x;"
        f" accuracy {100 * score:.2f}, {100 * other:.2f}"
    )


def measure_neighbours(args: argparse.Namespace) -> None:
    """Seconds, and answers that depend on the number of threads."""
    for name in ("Photo", "IMDB-BINARY", "MUTAG"):
        rows, labels = embeddings(name, args.data)
        split = (random_splits(len(rows)) if name == "Photo" else fold_splits(labels))[0]

        def ours(rows: Any = rows, split: Any = split) -> Any:
            return nearest_rows(rows, queries=split.test, among=split.train, count=50)

        def theirs(rows: Any = rows, split: Any = split) -> Any:
            model = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(rows[split.train])
            return model.kneighbors(rows[split.test], return_distance=False)

        seconds, found = zip(timed(ours), timed(theirs), strict=True)
        by_threads = []
        for work in (ours, theirs):
            for threads in (1, 2):
                with threadpool_limits(threads):
                    by_threads.append(work())
        changed = [np.mean(by_threads[k] != by_threads[k + 1]) for k in (0, 2)]
        print(
            f"{name}: {seconds[0]:.3f} s, scikit-learn {seconds[1]:.3f} s; other neighbours"
            f" {np.mean(found[0] != found[1]):.1%}; changed by the number of threads"
            f" {changed[0]:.1%}, scikit-learn {changed[1]:.1%}",
            flush=True,
        )


def measure_spectral(args: argparse.Namespace) -> None:
    """NMI on Photo with and without rows of norm 1; seconds of both eigensolvers."""
    rows, labels = embeddings("Photo", args.data)
    size = len(np.unique(labels))
    warnings.simplefilter("ignore")

    def vectors(graph: Any, size: int, solver: str) -> Any:
        return spectral_embedding(
            graph, n_components=size, eigen_solver=solver, drop_first=False, random_state=0
        )

    found = vectors(symmetric_graph(rows), size, "lobpcg")
    for words, points in (("norm 1", normalize(found)), ("as they are", found)):
        clusters = KMeans(size, n_init=10, random_state=0).fit_predict(points)
        print(f"Photo, rows {words}: NMI {normalized_mutual_info_score(labels, clusters):.3f}")
    rng = np.random.default_rng(0)
    classes = np.arange(30_000) % 8
    points = 0.7 * rng.normal(size=(8, 64))[classes] + rng.normal(size=(30_000, 64))
    graph = symmetric_graph(points)
    for solver in ("lobpcg", "arpack"):
        seconds, found = timed(partial(vectors, graph, 8, solver), calls=1)
        clusters = KMeans(8, n_init=5, random_state=0).fit_predict(normalize(found))
        score = normalized_mutual_info_score(classes, clusters)
        print(f"30,000 rows, {solver}: {seconds:.2f} s, NMI {score:.4f}", flush=True)


def symmetric_graph(rows: Any) -> Any:
    """The symmetrised graph of the 10 nearest neighbours."""
    graph = kneighbors_graph(rows, 10)
    return (graph + graph.T) / 2


def measure_metrics(args: argparse.Namespace) -> None:
    """Microseconds of a call on 1,000 rows."""
    truth, predicted = np.random.default_rng(0).integers(5, size=(2, 1000))
    for score in (accuracy, accuracy_score):
        seconds, _ = timed(
            lambda score=score: [score(truth, predicted) for _ in range(200)]  # type: ignore[misc]
        )
        print(f"{score.__module__}.{score.__name__}: {seconds / 200 * 1e6:.0f} us")


PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "svm": measure_svm,
    "logistic": measure_logistic,
    "neighbours": measure_neighbours,
    "spectral": measure_spectral,
    "metrics": measure_metrics,
}


def main() -> None:
    """Measure, print and write the record of the SVM."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--part", choices=PARTS, default="svm")
    options.add_argument("--sets", default="PROTEINS,IMDB-BINARY,NCI1", help="of the SVM")
    options.add_argument("--data", default=None, help="data root [default: GRAPHLATENT_DATA]")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--json", type=Path, default=None, help="record of the SVM")
    args = options.parse_args()
    runs = PARTS[args.part](args)
    if args.json and runs:
        about = {
            "command": (
                f"python benchmarks/probes.py --sets {args.sets} --data ROOT --rounds {args.rounds}"
            ),
            "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()})",
            "versions": {"torch": torch.__version__, "scikit-learn": sklearn.__version__},
            "date": datetime.date.today().isoformat(),
        }
        args.json.write_text(json.dumps({**about, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
