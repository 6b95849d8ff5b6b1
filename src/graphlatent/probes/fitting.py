"""Linear classifiers of many fits at once: scores on held-out rows over a grid of settings, and
answers of chosen settings.

A fit is some training rows with labels. Fits do not see each other; they are only computed
together. Legend: F fits, G strengths, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.probes.design import (
    Array,
    Design,
    Linear,
    Preprocessing,
    Table,
    fits_in_a_chunk,
    unit_rows,
)
from graphlatent.probes.losses import Loss, Sigmoid, Softmax, SquaredHinge
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.newton import Rows, minimise, minimise_path

Classifier: TypeAlias = Literal["logistic", "svm"]


@dataclass(frozen=True, eq=False)
class Fit:
    """Rows to fit on and rows to answer for.

    Args:
        train: row numbers.
        labels: their classes [n], or a 0/1 table [n, K].
        answer: row numbers to answer for.
    """

    train: Array
    labels: Array
    answer: Array


@dataclass(frozen=True)
class Setting:
    """How a fit is made: how the rows are prepared, and the weight of the L2 term."""

    preprocessing: Preprocessing
    strength: float


@dataclass(frozen=True, eq=False)
class Best:
    """The setting that a fit does best with: its number, its score, and the answers of that
    classifier.
    """

    setting: int
    score: float
    answer: Array


class Tables:
    """One representation on a device, prepared once per way that does not depend on a fit."""

    def __init__(self, table: Table, device: torch.device | str) -> None:
        self._table = table.to(device)
        self._unit: Table | None = None

    def of(self, how: Preprocessing) -> Table:
        """The table, with unit rows for "row"."""
        if how != "row":
            return self._table
        if self._unit is None:
            self._unit = unit_rows(self._table)
        return self._unit


def grid_scores(
    tables: Tables,
    fits: Sequence[Fit],
    truth: Sequence[Array],
    settings: Sequence[Setting],
    *,
    classifier: Classifier,
    metric: str,
) -> Array:
    """The score of every fit's answers under every setting, float64 [F, len(settings)].

    Args:
        tables: the representation.
        fits: what to fit and answer.
        truth: the labels of each fit's `answer` rows: validation labels, never the test's.
        settings: to try.
        classifier: "logistic" or "svm" (squared hinge, one class against the rest).
        metric: "accuracy" or "micro-F1".
    """
    scores = np.empty((len(fits), len(settings)))
    for fit, setting, _, score in _scored(
        tables, fits, truth, settings, classifier=classifier, metric=metric
    ):
        scores[fit, setting] = score
    return scores


def best_answers(
    tables: Tables,
    fits: Sequence[Fit],
    truth: Sequence[Array],
    settings: Sequence[Setting],
    *,
    test: Sequence[Array],
    classifier: Classifier,
    metric: str,
) -> list[Best]:
    """Of every fit the setting whose answers score best, the first of equals, and what its
    classifier answers for the `test` rows.

    The arguments are those of `grid_scores`; `test` has the row numbers to answer for. A fit is
    made once per setting.
    """
    found: list[_Found | None] = [None] * len(fits)
    for fit, setting, fitted, score in _scored(
        tables, fits, truth, settings, classifier=classifier, metric=metric
    ):
        best = found[fit]
        if best is None or (score, -setting) > (best.score, -best.setting):
            found[fit] = _Found(setting, score, fitted)
    return [
        best.answered(tables, settings, rows)
        for best, rows in zip(found, test, strict=True)
        if best is not None
    ]


def answers(
    tables: Tables, fits: Sequence[Fit], settings: Sequence[Setting], *, classifier: Classifier
) -> list[Array]:
    """The answers of every fit under its own setting, each [len(fit.answer)] or [len(fit.answer),
    K].
    """
    found: dict[int, Array] = {}
    pairs = sorted(
        (_Pair(f, s.preprocessing) for f, s in enumerate(settings)), key=lambda pair: pair.how
    )
    for chunk in _chunks(tables, fits, pairs, 1):
        strengths = [[settings[pair.fit].strength] for pair in chunk]
        for pair, fitted in zip(
            chunk, _fitted(tables, fits, chunk, strengths, classifier), strict=True
        ):
            (found[pair.fit],) = fitted.answers(tables.of(pair.how), fits[pair.fit].answer)
    return [found[f] for f in range(len(fits))]


@dataclass(frozen=True)
class _Pair:
    """The number of a fit, and how its rows are prepared."""

    fit: int
    how: Preprocessing


def _alike(
    by_how: dict[Preprocessing, list[int]], settings: Sequence[Setting]
) -> list[dict[Preprocessing, list[int]]]:
    """Ways of preparing that are tried with the same strengths, together."""
    groups: dict[tuple[float, ...], dict[Preprocessing, list[int]]] = {}
    for how, columns in by_how.items():
        groups.setdefault(tuple(settings[i].strength for i in columns), {})[how] = columns
    return list(groups.values())


def _chunks(
    tables: Tables, fits: Sequence[Fit], pairs: Sequence[_Pair], num_strengths: int
) -> list[Sequence[_Pair]]:
    num_outputs = max(
        fit.labels.shape[1] if fit.labels.ndim == 2 else len(np.unique(fit.labels)) for fit in fits
    )
    num_rows = max(len(fit.train) for fit in fits)
    size = fits_in_a_chunk(tables.of("none"), num_rows, num_columns=num_outputs * num_strengths)
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


def _scored(
    tables: Tables,
    fits: Sequence[Fit],
    truth: Sequence[Array],
    settings: Sequence[Setting],
    *,
    classifier: Classifier,
    metric: str,
) -> Iterator[tuple[int, int, _Fitted, float]]:
    """Every fit under every setting: their numbers, the classifier, and the score of its
    answers.
    """
    by_how: dict[Preprocessing, list[int]] = {}
    for i, setting in enumerate(settings):
        by_how.setdefault(setting.preprocessing, []).append(i)
    for columns in _alike(by_how, settings):
        pairs = [_Pair(f, how) for how in columns for f in range(len(fits))]
        strengths = [settings[i].strength for i in next(iter(columns.values()))]
        for chunk in _chunks(tables, fits, pairs, len(strengths)):
            for pair, fitted in zip(
                chunk,
                _fitted(tables, fits, chunk, [strengths] * len(chunk), classifier),
                strict=True,
            ):
                answers = fitted.answers(tables.of(pair.how), fits[pair.fit].answer)
                for g, (number, answer) in enumerate(zip(columns[pair.how], answers, strict=True)):
                    yield pair.fit, number, fitted.only(g), METRICS[metric](truth[pair.fit], answer)


def _fitted(
    tables: Tables,
    fits: Sequence[Fit],
    pairs: Sequence[_Pair],
    strengths: Sequence[Sequence[float]],
    classifier: Classifier,
) -> list[_Fitted]:
    """The classifiers of every pair; the pairs are sorted by how rows are prepared."""
    num_rows = max(len(fits[pair.fit].train) for pair in pairs)
    together = {
        how: [fits[pair.fit] for pair in pairs if pair.how == how]
        for how in dict.fromkeys(pair.how for pair in pairs)
    }
    designs = {
        how: Design.of(tables.of(how), [fit.train for fit in some], how, num_rows=num_rows)
        for how, some in together.items()
    }
    rows = [design.rows for design in designs.values()]
    rows = (
        rows
        if len(rows) == 1
        else [Rows(torch.cat([r.values for r in rows]), torch.cat([r.share for r in rows]))]
    )
    target = _Target.of(
        [fits[pair.fit].labels for pair in pairs], num_rows=num_rows, classifier=classifier
    )
    penalties = torch.tensor(strengths, dtype=torch.float64, device=rows[0].values.device)
    weights = target.minimised(rows[0], penalties).flatten(1, 2)  # [F, G * outputs, R + 1]
    found: list[_Fitted] = []
    for design, part in zip(
        designs.values(),
        torch.split(weights, [len(some) for some in together.values()]),
        strict=True,
    ):
        linear = design.to_table(part)
        found += [
            _Fitted(linear.only(f), penalties.shape[1], target, len(found) + f)
            for f in range(len(part))
        ]
    return found


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Classifiers of one fit, one per strength.

    Args:
        linear: of one fit, with G * outputs outputs.
        num_strengths: G.
        target: knows how outputs become answers.
        number: of the fit in `target`.
    """

    linear: Linear
    num_strengths: int
    target: _Target
    number: int

    def answers(self, table: Table, rows: Array) -> list[Array]:
        """For some rows of the table, the answers under each strength."""
        (logits,) = self.linear.logits(table, [rows])
        outputs = logits.view(len(logits), self.num_strengths, -1)
        return [self.target.decide(self.number, outputs[:, g]) for g in range(self.num_strengths)]

    def only(self, strength: int) -> _Fitted:
        """The classifier of one strength."""
        num = self.linear.bias.shape[1] // self.num_strengths
        part = slice(strength * num, (strength + 1) * num)
        return _Fitted(
            Linear(self.linear.weight[:, part], self.linear.bias[:, part]),
            1,
            self.target,
            self.number,
        )


@dataclass(frozen=True, eq=False)
class _Found:
    """The best setting of a fit so far: its number, its score, and the classifier."""

    setting: int
    score: float
    fitted: _Fitted

    def answered(self, tables: Tables, settings: Sequence[Setting], rows: Array) -> Best:
        (answer,) = self.fitted.answers(tables.of(settings[self.setting].preprocessing), rows)
        return Best(self.setting, self.score, answer)


@dataclass(frozen=True, eq=False)
class _Target:
    """The labels of several fits as numbers, and how outputs become answers.

    Args:
        classes: the classes of each fit, in order; of a table of labels, its columns.
        numbers: class number of each row [F, n], or a 0/1 table [F, n, K]; -1 in rows that only
            fill up.
        classifier: "logistic" or "svm".
    """

    classes: Sequence[Array]
    numbers: Array
    classifier: Classifier

    @classmethod
    def of(cls, labels: Sequence[Array], *, num_rows: int, classifier: Classifier) -> _Target:
        if labels[0].ndim == 2:
            numbers = np.stack(
                [
                    np.pad(each.astype(np.int64), ((0, num_rows - len(each)), (0, 0)))
                    for each in labels
                ]
            )
            return cls([np.arange(each.shape[1]) for each in labels], numbers, classifier)
        found = [np.unique(each, return_inverse=True) for each in labels]
        numbers = np.stack(
            [
                np.pad(inverse.astype(np.int64), (0, num_rows - len(inverse)), constant_values=-1)
                for _, inverse in found
            ]
        )
        return cls([classes for classes, _ in found], numbers, classifier)

    @property
    def num_classes(self) -> int:
        """The most classes that a fit has."""
        return max(len(classes) for classes in self.classes)

    def minimised(self, rows: Rows, strengths: Tensor) -> Tensor:
        """Weights at the minimum, [F, G, outputs, R + 1]."""
        num_fits, num_strengths = strengths.shape
        numbers = torch.from_numpy(self.numbers).to(strengths.device)
        if numbers.ndim == 2 and self.classifier == "logistic":
            every = torch.arange(self.num_classes, device=numbers.device)
            one_hot = (numbers[:, None, :] == every[:, None]).double()[:, None]
            absent = torch.tensor(
                [[k >= len(c) for k in range(self.num_classes)] for c in self.classes],
                device=numbers.device,
            )
            loss: Loss = Softmax(one_hot, absent[:, None, :, None])
            return minimise_path(rows, loss, strengths, num_classes=self.num_classes)
        sign = self._signs(numbers)  # [F, outputs, n]
        num_outputs = sign.shape[1]
        spread = (
            sign[:, None]
            .expand(-1, num_strengths, -1, -1)
            .reshape(num_fits, num_strengths * num_outputs, 1, -1)
        )
        loss = Sigmoid(spread) if self.classifier == "logistic" else SquaredHinge(spread)
        weights = minimise(rows, loss, strengths.repeat_interleave(num_outputs, 1))
        return weights.view(num_fits, num_strengths, num_outputs, -1)

    def _signs(self, numbers: Tensor) -> Tensor:
        """1 for the rows of a class or label and -1 for the others; two classes need one output
        only.
        """
        if numbers.ndim == 3:
            return numbers.mT.double() * 2 - 1
        every = torch.arange(self.num_classes, device=numbers.device)
        every = every[1:] if self.num_classes == 2 else every
        return (numbers[:, None, :] == every[:, None]).double() * 2 - 1

    def decide(self, fit: int, outputs: Tensor) -> Array:
        """Answers out of the outputs of one fit, [M] or [M, K] out of [M, outputs]."""
        classes: Array = self.classes[fit]
        if self.numbers.ndim == 3:
            table: Array = (outputs > 0).long().cpu().numpy()
            return table
        if len(classes) == 1:
            return np.repeat(classes, len(outputs))
        picked = (
            (outputs[:, 0] > 0).long()
            if outputs.shape[1] == 1
            else outputs[:, : len(classes)].argmax(1)
        )
        answer: Array = classes[picked.cpu().numpy()]
        return answer
