"""How far predicted probabilities are from observed frequencies: the reliability curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphlatent.errors import InputError, bad_argument

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Predictions grouped by their probability; groups without a prediction are left out.

    Args:
        confidence: mean probability of each group, float64 [G].
        frequency: share of each group that came true, float64 [G].
        count: predictions in each group, int64 [G].
    """

    confidence: Array
    frequency: Array
    count: Array

    @property
    def calibration_error(self) -> float:
        """The mean of |confidence - frequency| over predictions: expected calibration error."""
        gap = np.abs(self.confidence - self.frequency)
        return float((gap * self.count).sum() / self.count.sum())


def reliability_curve(
    probability: Array, correct: Array, *, num_bins: int = 10
) -> ReliabilityCurve:
    """The reliability curve of predicted probabilities, in bins of equal width from 0 to 1.

    Args:
        probability: that a prediction is true [M], between 0 and 1.
        correct: whether it was, bool or 0 and 1 [M].
        num_bins: number of bins; a value on a boundary is in the lower one.

    Raises:
        ConfigError: where `num_bins` is less than 1.
        InputError: where the arrays differ in length, are empty, or hold other values.
    """
    owner = "reliability_curve"
    if num_bins < 1:
        raise bad_argument("num_bins", owner=owner, allowed="an int of at least 1", got=num_bins)
    probability = np.asarray(probability, dtype=np.float64)
    correct = np.asarray(correct, dtype=np.float64)
    if probability.shape != correct.shape or probability.ndim != 1 or len(correct) == 0:
        raise InputError(
            f"{owner} needs one probability and one outcome for each prediction, at least one. Got"
            f" shapes {probability.shape} and {correct.shape}."
        )
    if not (((probability >= 0) & (probability <= 1)).all() and np.isin(correct, (0, 1)).all()):
        raise InputError(
            f"{owner} needs probabilities between 0 and 1, and outcomes that are 0 or 1. Give"
            " columns of 'predict_proba', not logits."
        )
    number = np.clip(np.ceil(probability * num_bins).astype(np.int64) - 1, 0, num_bins - 1)
    count = np.bincount(number, minlength=num_bins)
    used = np.flatnonzero(count)
    means = [
        np.bincount(number, weights=values, minlength=num_bins)[used] / count[used]
        for values in (probability, correct)
    ]
    return ReliabilityCurve(means[0], means[1], count[used])
