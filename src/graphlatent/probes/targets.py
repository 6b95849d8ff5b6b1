"""Labels of several fits as targets of the solver, and model outputs as predictions.

Legend: F fits, G values of `l2`, K classes or labels, n training rows of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.probes.design import Array
from graphlatent.probes.metrics import ClassScores, Metric
from graphlatent.probes.solver.losses import ConvexLoss, Sigmoid, Softmax, SquaredHinge
from graphlatent.probes.solver.newton import minimize, minimize_path
from graphlatent.probes.solver.rows import WeightedRows

Classifier: TypeAlias = Literal["logistic", "svm", "ridge"]
"""Which linear model is fitted; "ridge" predicts numbers."""


@dataclass(frozen=True, eq=False)
class LabelTargets:
    """The labels of several fits as numbers.

    Args:
        classes: the classes of each fit, in order; for a 0/1 matrix of labels, its columns.
        numbers: class number of each row [F, n], -1 for padding; or a 0/1 matrix [F, n, K].
        classifier: "logistic" or "svm".
    """

    classes: Sequence[Array]
    numbers: Array
    classifier: Classifier

    @classmethod
    def of(cls, labels: Sequence[Array], *, num_rows: int, classifier: Classifier) -> LabelTargets:
        """The targets of labels [n] or [n, K] of each fit, padded to `num_rows`."""
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
        """The largest number of classes of a fit."""
        return max(len(classes) for classes in self.classes)

    def fit(self, rows: WeightedRows, l2: Tensor) -> Tensor:
        """Coefficients at the minimum for `l2` [F, G], [F, G, outputs, R + 1]."""
        num_fits, num_l2 = l2.shape
        numbers = torch.from_numpy(self.numbers).to(l2.device)
        if numbers.ndim == 2 and self.classifier == "logistic":
            every = torch.arange(self.num_classes, device=numbers.device)
            one_hot = (numbers[:, None, :] == every[:, None]).double()[:, None]
            absent = torch.tensor(
                [[k >= len(c) for k in range(self.num_classes)] for c in self.classes],
                device=numbers.device,
            )
            loss: ConvexLoss = Softmax(one_hot, absent[:, None, :, None])
            return minimize_path(rows, loss, l2, num_classes=self.num_classes)
        sign = self._signs(numbers)  # [F, outputs, n]
        num_outputs = sign.shape[1]
        repeated = (
            sign[:, None].expand(-1, num_l2, -1, -1).reshape(num_fits, num_l2 * num_outputs, 1, -1)
        )
        loss = Sigmoid(repeated) if self.classifier == "logistic" else SquaredHinge(repeated)
        coef = minimize(rows, loss, l2.repeat_interleave(num_outputs, 1))
        return coef.view(num_fits, num_l2, num_outputs, -1)

    def _signs(self, numbers: Tensor) -> Tensor:
        """1 for the rows of a class or label, -1 for the others; two classes need one output."""
        if numbers.ndim == 3:
            return numbers.mT.double() * 2 - 1
        every = torch.arange(self.num_classes, device=numbers.device)
        every = every[1:] if self.num_classes == 2 else every
        return (numbers[:, None, :] == every[:, None]).double() * 2 - 1

    def predict(self, fit: int, outputs: Tensor) -> Array:
        """Labels from the outputs of one fit, [M] or [M, K] from [M, outputs]."""
        classes: Array = self.classes[fit]
        if self.numbers.ndim == 3:
            matrix: Array = (outputs > 0).long().cpu().numpy()
            return matrix
        if len(classes) == 1:
            return np.repeat(classes, len(outputs))
        number = (
            (outputs[:, 0] > 0).long()
            if outputs.shape[1] == 1
            else outputs[:, : len(classes)].argmax(1)
        )
        predicted: Array = classes[number.cpu().numpy()]
        return predicted

    def scores(self, fit: int, outputs: Tensor) -> ClassScores:
        """How much one fit is in favour of each class, from its outputs [M, outputs].

        For a softmax the logarithms of the probabilities, which rank rows as those do.
        """
        classes: Array = self.classes[fit]
        if self.numbers.ndim == 2:
            if len(classes) == 1:
                outputs = outputs.new_zeros(len(outputs), 1)
            elif outputs.shape[1] == 1:
                outputs = torch.cat([-outputs, outputs], dim=1)
            else:
                outputs = outputs[:, : len(classes)]
                softmax = self.classifier == "logistic"
                outputs = torch.log_softmax(outputs, 1) if softmax else outputs
        return ClassScores(outputs.double().cpu().numpy(), classes)


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """Numbers that several fits predict by ridge regression, each in units of its own spread.

    So a value of `l2` means the same whatever the label's units.

    Args:
        values: with mean 0 and standard deviation 1 over a fit's rows, 0 for padding [F, n].
        mean: of each fit's labels [F].
        scale: their standard deviation [F]; 1 where they are all equal.
    """

    values: Array
    mean: Array
    scale: Array

    @classmethod
    def of(cls, labels: Sequence[Array], *, num_rows: int) -> NumberTargets:
        """The targets of labels [n] of each fit, padded to `num_rows`."""
        mean = np.array([each.mean() for each in labels])
        spread = np.array([each.std() for each in labels])
        scale = np.where(spread > 0, spread, 1.0)
        values = np.stack(
            [
                np.pad((each - mean[f]) / scale[f], (0, num_rows - len(each)))
                for f, each in enumerate(labels)
            ]
        )
        return cls(values, mean, scale)

    def fit(self, rows: WeightedRows, l2: Tensor) -> Tensor:
        """Coefficients [F, G, 1, R + 1] at the minimum of mean (w x - y)^2 / 2 + l2 / 2 |w|^2.

        The bias, the last coefficient, is not penalised.
        """
        weighted = rows.values * rows.weight[:, :, None]
        products = torch.bmm(weighted.mT, rows.values)
        values = torch.from_numpy(self.values).to(products.device)
        right = torch.bmm(weighted.mT, values[:, :, None])
        penalised = torch.ones(products.shape[1], dtype=products.dtype, device=products.device)
        penalised[-1] = 0.0
        found = [
            torch.linalg.solve(products + torch.diag_embed(column[:, None] * penalised), right)
            for column in l2.unbind(1)
        ]
        return torch.stack(found, dim=1).mT

    def predict(self, fit: int, outputs: Tensor) -> Array:
        """Numbers [M] from the outputs of one fit [M, 1]."""
        numbers: Array = outputs[:, 0].cpu().numpy() * self.scale[fit] + self.mean[fit]
        return numbers

    def scores(self, fit: int, outputs: Tensor) -> None:
        """None: numbers have no classes."""


Targets: TypeAlias = LabelTargets | NumberTargets


def targets_of(labels: Sequence[Array], *, num_rows: int, classifier: Classifier) -> Targets:
    """The targets of the labels of each fit, padded to `num_rows`."""
    if classifier == "ridge":
        return NumberTargets.of(labels, num_rows=num_rows)
    return LabelTargets.of(labels, num_rows=num_rows, classifier=classifier)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What one fit predicts for some rows.

    Args:
        targets: turn outputs into labels.
        fit: number of the fit in `targets`.
        outputs: of the model [M, outputs].
    """

    targets: Targets
    fit: int
    outputs: Tensor

    @property
    def labels(self) -> Array:
        """[M] or [M, K]."""
        return self.targets.predict(self.fit, self.outputs)

    @property
    def scores(self) -> ClassScores | None:
        """Of the classes; None where numbers are predicted."""
        return self.targets.scores(self.fit, self.outputs)

    def score(self, metric: Metric, truth: Array) -> float:
        """Its score by a metric."""
        return metric(truth, self.labels, self.scores if metric.ranks else None)
