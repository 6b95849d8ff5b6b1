"""Results of probes: scores, their standard deviations and intervals, and how settings were chosen.

Scores are fractions between 0 and 1. The deviation over splits and the deviation over seeds are
kept apart, because they answer different questions: how much depends on which rows were labelled,
and how much on the random initialisation of training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.stats import t as student_t

from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Choice:
    """The choice of one split, made without its test labels.

    Args:
        candidate: name of the representation, for example an epoch; "" where there was only one.
        settings: the probe's settings, such as preprocessing and "strength" (the value of `l2`).
        val_score: the validation score that decided, between 0 and 1; NaN where there was nothing
            to choose.
    """

    candidate: str
    settings: Mapping[str, Any]
    val_score: float


@dataclass(frozen=True)
class ProbeResult:
    """Test scores over several splits, and how the settings were chosen.

    Args:
        scores: the score on each split's test rows, between 0 and 1.
        choices: of each split.
        selection: in words, how they were chosen.
        metric: name of the score.
        others: further scores of the same predictions by name, one per split.
        splits: fingerprint of rows and splits; only results that share it can be paired.
    """

    scores: tuple[float, ...]
    choices: tuple[Choice, ...]
    selection: str
    metric: str = "accuracy"
    others: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    splits: str = ""

    @property
    def mean(self) -> float:
        """Mean score over the splits."""
        return float(np.mean(self.scores))

    @property
    def std(self) -> float:
        """Standard deviation over the splits, divided by n as in benchmark tables."""
        return float(np.std(self.scores))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ProbeResult:
        """The result that `to_dict` wrote."""
        choices = tuple(Choice(**choice) for choice in values["choices"])
        others = {name: tuple(scores) for name, scores in values["others"].items()}
        return cls(
            tuple(values["scores"]),
            choices,
            values["selection"],
            values["metric"],
            others,
            values["splits"],
        )


class ScoresBySeed:
    """Base of results with one value per seed: a dataclass whose fields `names` hold the scores."""

    names: ClassVar[tuple[str, ...]]

    @property
    def mean(self) -> dict[str, float]:
        """Mean of each score over the seeds, by name."""
        return {name: float(np.mean(getattr(self, name))) for name in self.names}

    @property
    def std(self) -> dict[str, float]:
        """Standard deviation of each score over the seeds, divided by n as in benchmark tables."""
        return {name: float(np.std(getattr(self, name))) for name in self.names}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True)
class Summary:
    """A mean with its standard deviations and its 95 % interval.

    Args:
        mean: over all seeds and splits.
        std_splits: standard deviation over the splits of a seed, averaged over the seeds; NaN for
            one split.
        std_seeds: standard deviation of the seeds' means; NaN for one seed.
        low: lower end of the 95 % interval of the mean; NaN for a single score.
        high: its upper end.
        num_seeds: number of seeds.
        num_splits: number of splits of a seed.
    """

    mean: float
    std_splits: float
    std_seeds: float
    low: float
    high: float
    num_seeds: int
    num_splits: int

    @property
    def n(self) -> int:
        """Number of scores that were averaged."""
        return self.num_seeds * self.num_splits


def summarize(results: Sequence[ProbeResult]) -> Summary:
    """The summary of one result per seed, all over the same number of splits.

    The interval holds for this data set and this way of splitting it, not for other data. Where
    all seeds share their splits, the variance of the mean is (variance of the splits' means) /
    splits + (variance of the seeds' means) / seeds, with Satterthwaite's degrees of freedom: more
    seeds do not reduce the part that comes from the splits. Where every seed has its own splits,
    the seeds' means include both, so it is (variance of the seeds' means) / seeds. With one seed:
    (variance over its splits) / splits.

    Raises:
        InputError: where there are no results, or they do not match.
    """
    return _summary(_scores(results), shared=_shared(results))


def paired(first: Sequence[ProbeResult], second: Sequence[ProbeResult]) -> Summary:
    """The summary of first - second, score by score: the same seed, the same split.

    A single result, of a representation without a seed such as raw features, is compared with
    every seed of the other.

    Raises:
        InputError: where the two were not measured on the same splits, or not by the same metric.
    """
    if len(second) == 1:
        second = [*second] * len(first)
    if len(first) == 1:
        first = [*first] * len(second)
    if [(r.splits, r.metric) for r in first] != [(r.splits, r.metric) for r in second]:
        raise InputError(
            "A paired difference needs both results on the same rows, splits and seeds. Probe them"
            " again, alike."
        )
    return _summary(_scores(first) - _scores(second), shared=_shared(first))


def _shared(results: Sequence[ProbeResult]) -> bool:
    """Whether all seeds were measured on the same splits."""
    return len({r.splits for r in results}) == 1


def _scores(results: Sequence[ProbeResult]) -> Array:
    """[seeds, splits]."""
    if (
        not results
        or len({len(r.scores) for r in results}) != 1
        or not results[0].scores
        or len({r.metric for r in results}) != 1
    ):
        raise InputError(
            "A summary needs one or more results of the same metric, all over the same number of"
            " splits."
        )
    return np.array([r.scores for r in results], dtype=np.float64)


def _summary(scores: Array, *, shared: bool) -> Summary:
    num_seeds, num_splits = scores.shape
    var_splits = float(scores.var(1, ddof=1).mean()) if num_splits > 1 else float("nan")
    var_seeds = float(scores.mean(1).var(ddof=1)) if num_seeds > 1 else float("nan")
    # Variances of the mean with their degrees of freedom
    parts = [(var_seeds / num_seeds, num_seeds - 1)] if num_seeds > 1 else []
    if num_splits > 1 and (shared or num_seeds == 1):
        parts.append((float(scores.mean(0).var(ddof=1)) / num_splits, num_splits - 1))
    mean, half = float(scores.mean()), float("nan")
    if parts:
        total = sum(variance for variance, _ in parts)
        squares = sum(variance**2 / degrees for variance, degrees in parts)
        half = float(student_t.ppf(0.975, total**2 / squares)) * total**0.5 if squares > 0 else 0.0
    return Summary(
        mean, var_splits**0.5, var_seeds**0.5, mean - half, mean + half, num_seeds, num_splits
    )
