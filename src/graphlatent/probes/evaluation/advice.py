"""One sentence about what the scores of a comparison say, with the numbers and their uncertainty.

A difference counts where the 95 % interval of the paired differences does not contain 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from graphlatent.probes.evaluation.comparison import (
    APPENDED,
    CONSTANTS,
    EMBEDDINGS,
    PROPAGATED_FEATURES,
    RAW_FEATURES,
    UNTRAINED,
    ProbeComparison,
)
from graphlatent.probes.evaluation.score_tables import Unit, unit_of
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.results import Summary

# The simplest first.
_ALTERNATIVES = (RAW_FEATURES, PROPAGATED_FEATURES, UNTRAINED)
_PLURAL = (RAW_FEATURES, PROPAGATED_FEATURES, APPENDED)
# Embeddings that are better by less than this, in shares of the score, are called as good.
_MARGIN = 0.01


def advice(comparison: ProbeComparison, *, metric: str | None = None) -> str | None:
    """What to do next, by one metric; None where there is nothing to compare with.

    The first of these that holds: the embeddings do not beat predictions that look at no row;
    appended features, or a baseline alone, are better; a baseline is as good, or cannot be told
    apart; the embeddings are better than all.

    Args:
        comparison: the scores.
        metric: None for the main one.
    """
    metric = metric or comparison.metric
    summaries = {name: each[metric] for name, each in comparison.summaries().items()}
    gains = {
        name: _Gain.of(each[metric], metric) for name, each in comparison.differences().items()
    }
    if not gains:
        return None
    if any(math.isnan(gain.low) for gain in gains.values()):
        return (
            "One score says nothing about uncertainty, so nothing is advised: measure on several"
            " splits, folds or seeds."
        )
    words = _Words(metric, summaries, gains)
    constant = next((name for name in CONSTANTS if name in gains), None)
    better = {name: gain for name, gain in gains.items() if gain.high < 0 and name != constant}
    best = min(better, key=lambda name: better[name].mean, default=None)
    if constant is not None and gains[constant].low <= 0:
        more = "" if best is None else f"; {words.reached(best)}"
        return (
            "It is not shown that the embeddings know anything of this label:"
            f" {words.against(constant)}{more}."
        )
    if best is not None:
        return _of_better(best, words)
    alike = [name for name in _ALTERNATIVES if name in gains and gains[name].low <= 0]
    as_good = [name for name in alike if gains[name].high < _MARGIN * words.scale]
    if as_good:
        return _of_as_good(as_good[0], words)
    if alike:
        nearest = min(alike, key=lambda name: gains[name].mean)
        return (
            f"{_capital(words.called(nearest))} cannot be told apart from the embeddings on these"
            f" splits: {words.against(nearest)}."
        )
    rest = [name for name in _ALTERNATIVES if name in gains]
    if not rest:
        return (
            f"The embeddings are better than {words.called(constant)}: {words.against(constant)}."
        )
    nearest = min(rest, key=lambda name: gains[name].mean)
    return (
        f"The embeddings are better than each baseline; the nearest is {words.called(nearest)}:"
        f" {words.against(nearest)}."
    )


def _of_better(name: str, words: _Words) -> str:
    if name == APPENDED:
        return f"Raw features appended would help: {words.in_favour(name)}."
    return f"{_capital(words.called(name))} {words.are(name)} better here: {words.in_favour(name)}."


def _of_as_good(name: str, words: _Words) -> str:
    gained = ", so training has gained nothing that shows" if name == UNTRAINED else ""
    subject = _capital(words.called(name))
    return f"{subject} {words.are(name)} as good here{gained}: {words.against(name)}."


@dataclass(frozen=True)
class _Gain:
    """By how much the embeddings are better, with its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, difference: Summary, metric: str) -> _Gain:
        gain = cls(difference.mean, difference.low, difference.high)
        if _is_error(metric):
            gain = replace(gain, mean=-gain.mean, low=-gain.high, high=-gain.low)
        return gain


@dataclass(frozen=True)
class _Words:
    """The numbers of a comparison in words."""

    metric: str
    summaries: dict[str, Summary]
    gains: dict[str, _Gain]

    @property
    def unit(self) -> Unit:
        """How scores are written."""
        return unit_of(self.metric, self.summaries[EMBEDDINGS].mean)

    @property
    def scale(self) -> float:
        """The size that differences are compared with: 1 for scores up to 1."""
        return self.summaries[EMBEDDINGS].mean if _is_error(self.metric) else 1.0

    def called(self, name: str | None) -> str:
        """A baseline with its article."""
        return str(name) if name in _PLURAL else f"the {name}"

    def are(self, name: str) -> str:
        """The verb that goes with a baseline."""
        return "are" if name in _PLURAL else "is"

    def reached(self, name: str) -> str:
        """The score of another one alone."""
        verb = "reach" if name in _PLURAL else "reaches"
        return f"{self.called(name)} {verb} {self._score(name)}"

    def against(self, name: str | None) -> str:
        """The embeddings' score beside another one, and their difference."""
        scores = f"{self._score(EMBEDDINGS)} of the embeddings against {self._score(str(name))}"
        return f"{self.metric} {scores} {self._difference(str(name), 1)}"

    def in_favour(self, name: str) -> str:
        """The score of another one beside that of the embeddings, and their difference."""
        scores = f"{self._score(name)} instead of {self._score(EMBEDDINGS)}"
        return f"{self.metric} {scores} {self._difference(name, -1)}"

    def _difference(self, name: str, sign: int) -> str:
        """The embeddings minus another one, or with `sign` -1 the other minus the embeddings."""
        gain, number = self.gains[name], partial(self.unit.number, sign="+")
        sign = -sign if _is_error(self.metric) else sign
        low, high = sorted((sign * gain.low, sign * gain.high))
        return (
            f"(difference {number(sign * gain.mean)}, 95 % interval {number(low)} to"
            f" {number(high)})"
        )

    def _score(self, name: str) -> str:
        return self.unit.number(self.summaries[name].mean) + self.unit.symbol


def _is_error(metric: str) -> bool:
    return metric in METRICS and METRICS[metric].is_error


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
