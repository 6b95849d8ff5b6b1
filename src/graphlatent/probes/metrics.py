"""Scores of answers: accuracy, and the F1 scores that several labels per row need.

Legend: M rows, K labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def accuracy(truth: Array, predicted: Array) -> float:
    """Share of right entries: of rows [M], or of the M x K cells of a 0/1 table."""
    return float(np.mean(truth == predicted))


def micro_f1(truth: Array, predicted: Array) -> float:
    """Micro-averaged F1 of a 0/1 table [M, K]: 2 TP / (2 TP + FP + FN) over all cells; 0 where
    nothing is positive.

    Of one class per row [M] it is the accuracy. On a flattened 0/1 table
    `sklearn.metrics.f1_score(average="micro")` counts the zeros as a class of their own and gives
    the accuracy of the cells instead: the released scripts' figure for PPI.
    """
    if truth.ndim == 1:
        return accuracy(truth, predicted)
    right = float(np.sum((truth == 1) & (predicted == 1)))
    wrong = float(np.sum(truth != predicted))
    return 2 * right / (2 * right + wrong) if right + wrong > 0 else 0.0


METRICS: Mapping[str, Callable[[Array, Array], float]] = {
    "accuracy": accuracy,
    "micro-F1": micro_f1,
}
