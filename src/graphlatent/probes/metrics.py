"""Scores of predictions: of classes, of how a model ranks rows, and of predicted numbers.

By hand, because a probe scores every fit under every setting: 3 us a call of the accuracy for 1,000
rows, against 290 us of `sklearn.metrics.accuracy_score` (`python benchmarks/probes.py --part
metrics`, 2026-11-18, 2 CPU cores).

Legend: M rows, C classes, K labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import rankdata

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class ClassScores:
    """How much a model is in favour of each class; only the order of a column's values matters.

    Args:
        values: float64 [M, C], or [M, K] of the labels of a 0/1 matrix.
        classes: of the columns.
    """

    values: Array
    classes: Array

    def of(self, name: Any) -> Array:
        """The scores of a class [M]; all equal for a class that the model does not know."""
        found = np.flatnonzero(self.classes == name)
        return self.values[:, found[0]] if len(found) else np.zeros(len(self.values))


@dataclass(frozen=True)
class Metric:
    """A score of predictions on some rows; NaN where it is not defined on them.

    Args:
        name: as results show it.
        compute: from truth, predicted labels and class scores.
        ranks: whether it needs class scores.
        of_numbers: whether the labels are numbers rather than classes.
        is_error: whether lower is better.
    """

    name: str
    compute: Callable[[Array, Array, ClassScores | None], float]
    ranks: bool = False
    of_numbers: bool = False
    is_error: bool = False

    def __call__(self, truth: Array, predicted: Array, scores: ClassScores | None = None) -> float:
        """The score of predicted labels [M] or [M, K], whose class scores some metrics need."""
        return self.compute(truth, predicted, scores)

    def utility(self, value: float) -> float:
        """What selection maximises: the value, or its negative; the least where undefined."""
        if math.isnan(value):
            return -math.inf
        return -value if self.is_error else value


def accuracy(truth: Array, predicted: Array) -> float:
    """Fraction of correct entries: of rows [M], or of the M x K entries of a 0/1 matrix."""
    return float(np.mean(truth == predicted))


def balanced_accuracy(truth: Array, predicted: Array) -> float:
    """The mean over the classes of the fraction of a class's rows that is predicted right."""
    classes, numbers = np.unique(truth, return_inverse=True)
    right = np.bincount(numbers, weights=truth == predicted, minlength=len(classes))
    return float(np.mean(right / np.bincount(numbers)))


def macro_f1(truth: Array, predicted: Array) -> float:
    """The mean over the classes, of truth and of predictions, of F1 = 2 TP / (2 TP + FP + FN)."""
    classes, numbers = np.unique(np.concatenate([truth, predicted]), return_inverse=True)
    true, found = np.split(numbers, 2)
    right = np.bincount(true[true == found], minlength=len(classes))
    sizes = np.bincount(true, minlength=len(classes)) + np.bincount(found, minlength=len(classes))
    return float(np.mean(2 * right / sizes))


def micro_f1(truth: Array, predicted: Array) -> float:
    """Micro-averaged F1 of a 0/1 matrix [M, K]: 2 TP / (2 TP + FP + FN); 0 without positives.

    For one class per row [M] it is the accuracy. On a flattened 0/1 matrix
    `sklearn.metrics.f1_score(average="micro")` counts the zeros as a class of their own and gives
    the accuracy of the entries instead: the released scripts' figure for PPI.
    """
    if truth.ndim == 1:
        return accuracy(truth, predicted)
    true_positives = float(np.sum((truth == 1) & (predicted == 1)))
    errors = float(np.sum(truth != predicted))
    if true_positives + errors == 0:
        return 0.0
    return 2 * true_positives / (2 * true_positives + errors)


def roc_auc(positive: Array, scores: Array) -> float:
    """The chance that a positive row has a higher score than another; equal scores count half.

    NaN where all rows are positive or none is.
    """
    num = int(positive.sum())
    if num in (0, len(positive)):
        return math.nan
    ranks = float(rankdata(scores)[positive].sum())
    return (ranks - num * (num + 1) / 2) / (num * (len(positive) - num))


def average_precision(positive: Array, scores: Array) -> float:
    """The precision at each score, weighted by the recall gained there; rows of equal score at
    once.

    NaN where no row is positive.
    """
    num = int(positive.sum())
    if num == 0:
        return math.nan
    order = np.argsort(-scores, kind="stable")
    descending = scores[order]
    ends = np.append(np.flatnonzero(np.diff(descending)), len(scores) - 1)
    found = np.cumsum(positive[order])[ends]
    return float(np.sum(np.diff(found, prepend=0) / num * found / (ends + 1)))


def r2(truth: Array, predicted: Array) -> float:
    """1 - squared error / squared deviation from the mean; NaN where all rows are equal."""
    total = float(np.square(truth - truth.mean()).sum())
    return 1 - float(np.square(truth - predicted).sum()) / total if total > 0 else math.nan


def mean_absolute_error(truth: Array, predicted: Array) -> float:
    """The mean distance of predictions from the truth, in the label's units."""
    return float(np.abs(truth - predicted).mean())


def mean_defined(scores: Array, axis: int) -> Array:
    """The mean of the scores that are not NaN, along an axis; NaN where there is none."""
    defined = ~np.isnan(scores)
    count = defined.sum(axis)
    total: Array = np.where(defined, scores, 0.0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def _ranked(score: Callable[[Array, Array], float]) -> Callable[..., float]:
    """The score of two classes, of the last of them; of more classes or labels, their mean.

    Classes that no row has, and labels that all rows or none have, are left out of the mean.
    """

    def compute(truth: Array, predicted: Array, scores: ClassScores | None) -> float:
        if scores is None:
            raise ValueError("this metric needs class scores, and the prediction has none")
        if truth.ndim == 2:
            each = [score(truth[:, k] == 1, scores.values[:, k]) for k in range(truth.shape[1])]
            mixed = (truth == 1).any(0) & (truth == 0).any(0)
            return float(np.mean(np.array(each)[mixed])) if mixed.any() else math.nan
        there = np.unique(truth)
        known = np.union1d(there, scores.classes)
        if len(there) < 2:
            return math.nan
        if len(known) == 2:
            return score(truth == known[1], scores.of(known[1]))
        return float(np.mean([score(truth == name, scores.of(name)) for name in there]))

    return compute


def _of_labels(score: Callable[[Array, Array], float]) -> Callable[..., float]:
    return lambda truth, predicted, scores: score(truth, predicted)


METRICS: Mapping[str, Metric] = {
    each.name: each
    for each in (
        Metric("accuracy", _of_labels(accuracy)),
        Metric("micro-F1", _of_labels(micro_f1)),
        Metric("balanced accuracy", _of_labels(balanced_accuracy)),
        Metric("macro-F1", _of_labels(macro_f1)),
        Metric("AUC", _ranked(roc_auc), ranks=True),
        Metric("AP", _ranked(average_precision), ranks=True),
        Metric("R2", _of_labels(r2), of_numbers=True),
        Metric("MAE", _of_labels(mean_absolute_error), of_numbers=True, is_error=True),
    )
}
OF_ENTRIES = ("accuracy", "micro-F1")
"""Metrics of a 0/1 matrix of labels that every result of one reports."""
OF_CLASSES = tuple(name for name, metric in METRICS.items() if not metric.of_numbers)
"""Metrics of predicted classes."""
