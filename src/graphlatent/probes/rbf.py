"""The RBF support vector machine over folds and settings, its distances computed once per
preprocessing.

exp(-gamma |x - x'|^2) depends on the rows by their squared distances alone. With "standard",
columns are divided by their deviations over the training rows of a fold, so distances belong to a
fold; with "none" and "row" one matrix serves all folds. gamma is scikit-learn's 'scale', 1 / (D *
variance), measured on the training rows of the fold: for any preprocessing that is 1 / (half the
mean squared distance of two training rows), so one number per fold out of the same matrix. Legend:
M rows, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from graphlatent.data.splits import Split
from graphlatent.probes.design import Array, Preprocessing, Table, checked_table, unit_rows
from graphlatent.probes.protocol import Answer, Visible
from graphlatent.probes.results import Choice

RBF_C = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
"""The grid of the released scripts."""


def rbf_answers(
    candidates: Mapping[str, Any],
    names: Sequence[str],
    parts: Sequence[Visible],
    inner: Sequence[Sequence[Split]],
    *,
    costs: Sequence[float] = RBF_C,
    preprocessing: Sequence[Preprocessing] = ("none", "standard"),
) -> tuple[Answer, ...]:
    """For every outer fold the answers of an RBF SVM on the candidate named for it; C and
    preprocessing chosen in inner folds.

    Args:
        candidates: representations by name.
        names: the candidate of every outer fold.
        parts: the outer folds.
        inner: the inner folds of each, counting rows within its training part.
        costs: C to choose from, the smaller of equals.
        preprocessing: ways to prepare rows to choose from, the first of equals.
    """
    tables = {name: checked_table(candidates[name]) for name in dict.fromkeys(names)}
    shared = {
        (name, how): _distances(_prepared(tables[name], how))
        for name in tables
        for how in preprocessing
        if how != "standard"
    }

    def answer(name: str, part: Visible, folds: Sequence[Split]) -> Answer:
        best: tuple[float, Preprocessing, float, Array] | None = None
        for how in preprocessing:
            distances = (
                shared[name, how]
                if how != "standard"
                else _distances(_standardised(tables[name], part.train))
            )
            scores = _inner_scores(distances, part, folds, sorted(costs))
            k = int(np.argmax(scores))
            if best is None or scores[k] > best[0]:
                best = (float(scores[k]), how, sorted(costs)[k], distances)
        assert best is not None
        predicted = _machine(best[3], part.train, part.train_labels, part.test, best[2])
        return Answer(Choice(name, {"preprocessing": best[1], "C": best[2]}, best[0]), predicted)

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # libsvm works outside Python's lock
        return tuple(pool.map(answer, names, parts, inner))


def _inner_scores(
    distances: Array, part: Visible, folds: Sequence[Split], costs: Sequence[float]
) -> list[float]:
    """Mean accuracy over the inner folds for every C."""
    scores = np.zeros((len(folds), len(costs)))
    for i, fold in enumerate(folds):
        rest = np.sort(np.concatenate([fold.train, fold.val]))
        train, held = part.train[rest], part.train[fold.test]
        gamma = _gamma(distances, train)
        kernel, across = (
            np.exp(-gamma * distances[np.ix_(train, train)]),
            np.exp(-gamma * distances[np.ix_(held, train)]),
        )
        for k, cost in enumerate(costs):
            predicted = _fitted(kernel, part.train_labels[rest], cost, across)
            scores[i, k] = np.mean(predicted == part.train_labels[fold.test])
    means: list[float] = scores.mean(0).tolist()
    return means


def _machine(distances: Array, train: Array, labels: Array, test: Array, cost: float) -> Array:
    gamma = _gamma(distances, train)
    return _fitted(
        np.exp(-gamma * distances[np.ix_(train, train)]),
        labels,
        cost,
        np.exp(-gamma * distances[np.ix_(test, train)]),
    )


def _fitted(kernel: Array, labels: Array, cost: float, across: Array) -> Array:
    if len(np.unique(labels)) == 1:
        return np.repeat(labels[:1], len(across))
    from sklearn.svm import SVC

    predicted: Array = (
        SVC(C=cost, kernel="precomputed", cache_size=500).fit(kernel, labels).predict(across)
    )
    return predicted


def _gamma(distances: Array, train: Array) -> float:
    """1 / (D * variance over all values of the training rows); the mean over pairs of |x - x'|^2 is
    2 * (sum of the columns' variances).

    Differs from scikit-learn's 'scale' where columns have different means, which it counts as
    variance though distances do not see them.
    """
    mean = float(distances[np.ix_(train, train)].mean())
    return 2.0 / mean if mean > 0 else 1.0


def _prepared(table: Table, how: Preprocessing) -> Array:
    rows = unit_rows(table) if how == "row" else table
    return _dense(rows)


def _standardised(table: Table, train: Array) -> Array:
    rows = _dense(table)
    spread = rows[train].std(0)
    varies = spread > 1e-10 * np.abs(rows[train].mean(0))
    scaled: Array = rows[:, varies] / spread[varies]
    return scaled


def _dense(table: Table) -> Array:
    dense: Array = (
        (table if isinstance(table, torch.Tensor) else table.to_dense())
        .detach()
        .cpu()
        .double()
        .numpy()
    )
    return dense


def _distances(rows: Array) -> Array:
    """Squared distances of all pairs, float64 [M, M]; centred first, so that large means cost no
    digits.

    By the median: a mean would carry one huge row, of the test as it may be, into the rounding of
        all the others.
    """
    centred = rows - np.median(rows, axis=0)
    squares = (centred**2).sum(1)
    table: Array = squares[:, None] + squares[None, :] - 2 * centred @ centred.T
    return np.maximum(table, 0.0, out=table)
