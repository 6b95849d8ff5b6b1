"""Linear classifiers of many fits at once: scores on held-out rows over a grid of settings, and answers of chosen settings.

A fit is some training rows with labels. Fits do not see each other; they are only computed together.
Legend: F fits, G strengths, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.probes.design import Array, Design, Preprocessing, Table, fits_in_a_chunk, unit_rows
from graphlatent.probes.losses import Loss, Sigmoid, Softmax, SquaredHinge
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.newton import minimise, minimise_path

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
    tables: Tables, fits: Sequence[Fit], truth: Sequence[Array], settings: Sequence[Setting], *, classifier: Classifier, metric: str
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
    for how in dict.fromkeys(s.preprocessing for s in settings):
        columns = [i for i, s in enumerate(settings) if s.preprocessing == how]
        strengths = [settings[i].strength for i in columns]
        for chunk in _chunks(tables.of(how), fits, len(columns)):
            some = [fits[f] for f in chunk]
            answers = _answers(tables.of(how), some, how, [strengths] * len(some), classifier)
            for f, of_fit in zip(chunk, answers, strict=True):
                scores[f, columns] = [METRICS[metric](truth[f], answer) for answer in of_fit]
    return scores


def answers(tables: Tables, fits: Sequence[Fit], settings: Sequence[Setting], *, classifier: Classifier) -> list[Array]:
    """The answers of every fit under its own setting, each [len(fit.answer)] or [len(fit.answer), K]."""
    found: dict[int, Array] = {}
    for how in dict.fromkeys(s.preprocessing for s in settings):
        those = [f for f, s in enumerate(settings) if s.preprocessing == how]
        for chunk in _chunks(tables.of(how), [fits[f] for f in those], 1):
            numbers = [those[i] for i in chunk]
            strengths = [[settings[f].strength] for f in numbers]
            for f, (answer,) in zip(numbers, _answers(tables.of(how), [fits[f] for f in numbers], how, strengths, classifier), strict=True):
                found[f] = answer
    return [found[f] for f in range(len(fits))]


def _chunks(table: Table, fits: Sequence[Fit], num_strengths: int) -> list[range]:
    num_outputs = max(fit.labels.shape[1] if fit.labels.ndim == 2 else len(np.unique(fit.labels)) for fit in fits)
    size = fits_in_a_chunk(table, max(len(fit.train) for fit in fits), num_columns=num_outputs * num_strengths)
    return [range(start, min(start + size, len(fits))) for start in range(0, len(fits), size)]


def _answers(
    table: Table, fits: Sequence[Fit], how: Preprocessing, strengths: Sequence[Sequence[float]], classifier: Classifier
) -> list[list[Array]]:
    """For every fit the answers under each of its strengths."""
    design = Design.of(table, [fit.train for fit in fits], how)
    target = _Target.of([fit.labels for fit in fits], num_rows=design.rows.values.shape[1], classifier=classifier)
    penalties = torch.tensor(strengths, dtype=torch.float64, device=table.device)
    weights = target.minimised(design, penalties)  # [F, G, outputs, R + 1]
    num_strengths = penalties.shape[1]
    linear = design.to_table(weights.flatten(1, 2))
    logits = linear.logits(table, [fit.answer for fit in fits])
    return [
        [target.decide(f, each.view(len(each), num_strengths, -1)[:, g]) for g in range(num_strengths)] for f, each in enumerate(logits)
    ]


@dataclass(frozen=True, eq=False)
class _Target:
    """The labels of several fits as numbers, and how outputs become answers.

    Args:
        classes: the classes of each fit, in order; of a table of labels, its columns.
        numbers: class number of each row [F, n], or a 0/1 table [F, n, K]; -1 in rows that only fill up.
        classifier: "logistic" or "svm".
    """

    classes: Sequence[Array]
    numbers: Array
    classifier: Classifier

    @classmethod
    def of(cls, labels: Sequence[Array], *, num_rows: int, classifier: Classifier) -> _Target:
        if labels[0].ndim == 2:
            numbers = np.stack([np.pad(each.astype(np.int64), ((0, num_rows - len(each)), (0, 0))) for each in labels])
            return cls([np.arange(each.shape[1]) for each in labels], numbers, classifier)
        found = [np.unique(each, return_inverse=True) for each in labels]
        numbers = np.stack([np.pad(inverse.astype(np.int64), (0, num_rows - len(inverse)), constant_values=-1) for _, inverse in found])
        return cls([classes for classes, _ in found], numbers, classifier)

    @property
    def num_classes(self) -> int:
        """The most classes that a fit has."""
        return max(len(classes) for classes in self.classes)

    def minimised(self, design: Design, strengths: Tensor) -> Tensor:
        """Weights at the minimum, [F, G, outputs, R + 1]."""
        num_fits, num_strengths = strengths.shape
        numbers = torch.from_numpy(self.numbers).to(strengths.device)
        if numbers.ndim == 2 and self.classifier == "logistic":
            every = torch.arange(self.num_classes, device=numbers.device)
            one_hot = (numbers[:, None, :] == every[:, None]).double()[:, None]
            absent = torch.tensor([[k >= len(c) for k in range(self.num_classes)] for c in self.classes], device=numbers.device)
            loss: Loss = Softmax(one_hot, absent[:, None, :, None])
            return minimise_path(design.rows, loss, strengths, num_classes=self.num_classes)
        sign = self._signs(numbers)  # [F, outputs, n]
        num_outputs = sign.shape[1]
        spread = sign[:, None].expand(-1, num_strengths, -1, -1).reshape(num_fits, num_strengths * num_outputs, 1, -1)
        loss = Sigmoid(spread) if self.classifier == "logistic" else SquaredHinge(spread)
        weights = minimise(design.rows, loss, strengths.repeat_interleave(num_outputs, 1))
        return weights.view(num_fits, num_strengths, num_outputs, -1)

    def _signs(self, numbers: Tensor) -> Tensor:
        """1 for the rows of a class or label and -1 for the others; two classes need one output only."""
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
        picked = (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs[:, : len(classes)].argmax(1)
        answer: Array = classes[picked.cpu().numpy()]
        return answer
