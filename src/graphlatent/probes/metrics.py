"""Scores of predicted labels: accuracy, and micro-averaged F1 for several labels per row.

By hand, because a probe scores every fit under every setting: 3 us a call for 1,000 rows, against
290 us of `sklearn.metrics.accuracy_score` (`python benchmarks/probes.py --part metrics`,
2026-11-18, 2 CPU cores).

Legend: M rows, K labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def accuracy(truth: Array, predicted: Array) -> float:
    """Fraction of correct entries: of rows [M], or of the M x K entries of a 0/1 matrix."""
    return float(np.mean(truth == predicted))


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


METRICS: Mapping[str, Callable[[Array, Array], float]] = {
    "accuracy": accuracy,
    "micro-F1": micro_f1,
}


def lower_is_better(metric: str) -> bool:
    """Whether the metric is an error."""
    return metric == "MAE"
