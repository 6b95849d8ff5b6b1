"""Linear models of many fits at once: validation scores over a grid, and predictions.

A fit is a set of training rows with labels. Fits do not share information; they are only computed
together. Legend: F fits, G values of `l2`, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from graphlatent.probes.design import (
    Array,
    Design,
    FeatureMatrix,
    LinearModels,
    Preprocessing,
    max_fits_at_once,
    unit_rows,
)
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.solver.rows import WeightedRows
from graphlatent.probes.targets import Classifier, Prediction, Targets, targets_of


@dataclass(frozen=True, eq=False)
class Fit:
    """Rows to fit on and rows to predict.

    Args:
        train: row numbers.
        labels: their classes or numbers [n], or a 0/1 matrix [n, K].
        predict: row numbers to predict labels of.
    """

    train: Array
    labels: Array
    predict: Array


@dataclass(frozen=True)
class ProbeSetting:
    """The preprocessing of the rows and the weight of the L2 term."""

    preprocessing: Preprocessing
    l2: float


@dataclass(frozen=True, eq=False)
class BestFit:
    """The best setting of a fit: its number, its validation score, and its predictions."""

    setting: int
    score: float
    predicted: Prediction


class PreprocessedMatrix:
    """One representation on a device, with the preprocessing that does not depend on a fit."""

    def __init__(self, matrix: FeatureMatrix, device: torch.device | str) -> None:
        self._matrix = matrix.to(device)
        self._unit: FeatureMatrix | None = None

    def under(self, preprocessing: Preprocessing) -> FeatureMatrix:
        """The matrix, with unit rows for "row"."""
        if preprocessing != "row":
            return self._matrix
        if self._unit is None:
            self._unit = unit_rows(self._matrix)
        return self._unit


def grid_scores(
    matrix: PreprocessedMatrix,
    fits: Sequence[Fit],
    truth: Sequence[Array],
    settings: Sequence[ProbeSetting],
    *,
    classifier: Classifier,
    metrics: Sequence[str],
) -> dict[str, Array]:
    """The validation scores of every fit under every setting, by metric [F, len(settings)].

    Args:
        matrix: the representation.
        fits: rows to fit on and to predict.
        truth: the labels of each fit's `predict` rows: validation labels, never test labels.
        settings: the grid.
        classifier: "logistic", "svm" (squared hinge, one class against the rest) or "ridge".
        metrics: names of scores.
    """
    scores = {metric: np.empty((len(fits), len(settings))) for metric in metrics}
    for fit, setting, _, predicted in _predicted(matrix, fits, settings, classifier=classifier):
        for metric, values in scores.items():
            values[fit, setting] = predicted.score(METRICS[metric], truth[fit])
    return scores


def best_fits(
    matrix: PreprocessedMatrix,
    fits: Sequence[Fit],
    truth: Sequence[Array],
    settings: Sequence[ProbeSetting],
    *,
    test: Sequence[Array],
    classifier: Classifier,
    metrics: Sequence[str],
) -> dict[str, list[BestFit]]:
    """By metric, for every fit the best setting on validation, and its predictions for `test`.

    The first of equal settings. The arguments are those of `grid_scores`; `test` has the row
    numbers to predict. Every setting is fitted once.
    """
    best: dict[str, list[_Candidate | None]] = {metric: [None] * len(fits) for metric in metrics}
    for fit, setting, models, predicted in _predicted(
        matrix, fits, settings, classifier=classifier
    ):
        for metric, of_metric in best.items():
            score = predicted.score(METRICS[metric], truth[fit])
            utility, so_far = METRICS[metric].utility(score), of_metric[fit]
            if so_far is None or (utility, -setting) > (so_far.utility, -so_far.setting):
                of_metric[fit] = _Candidate(setting, score, utility, models)
    return {
        metric: [
            candidate.predicted(matrix, settings, rows)
            for candidate, rows in zip(of_metric, test, strict=True)
            if candidate is not None
        ]
        for metric, of_metric in best.items()
    }


def predictions(
    matrix: PreprocessedMatrix,
    fits: Sequence[Fit],
    settings: Sequence[ProbeSetting],
    *,
    classifier: Classifier,
) -> list[Prediction]:
    """The predictions of every fit under its own setting."""
    found: dict[int, Prediction] = {}
    jobs = sorted(
        (_Job(f, setting.preprocessing) for f, setting in enumerate(settings)),
        key=lambda job: job.preprocessing,
    )
    for chunk in _chunks(matrix, fits, jobs, 1):
        l2 = [[settings[job.fit].l2] for job in chunk]
        for job, models in zip(chunk, _fitted(matrix, fits, chunk, l2, classifier), strict=True):
            (found[job.fit],) = models.predict(
                matrix.under(job.preprocessing), fits[job.fit].predict
            )
    return [found[f] for f in range(len(fits))]


@dataclass(frozen=True)
class _Job:
    """The number of a fit, and the preprocessing of its rows."""

    fit: int
    preprocessing: Preprocessing


def _same_l2(
    columns: dict[Preprocessing, list[int]], settings: Sequence[ProbeSetting]
) -> list[dict[Preprocessing, list[int]]]:
    """Preprocessings grouped by the values of `l2` they are tried with."""
    groups: dict[tuple[float, ...], dict[Preprocessing, list[int]]] = {}
    for preprocessing, numbers in columns.items():
        l2 = tuple(settings[i].l2 for i in numbers)
        groups.setdefault(l2, {})[preprocessing] = numbers
    return list(groups.values())


def _chunks(
    matrix: PreprocessedMatrix, fits: Sequence[Fit], jobs: Sequence[_Job], num_l2: int
) -> list[Sequence[_Job]]:
    num_outputs = max(_num_outputs(fit.labels) for fit in fits)
    num_rows = max(len(fit.train) for fit in fits)
    size = max_fits_at_once(matrix.under("none"), num_rows, num_columns=num_outputs * num_l2)
    return [jobs[start : start + size] for start in range(0, len(jobs), size)]


def _num_outputs(labels: Array) -> int:
    """The number of labels, or of classes; 1 for numbers."""
    if labels.ndim == 2:
        return int(labels.shape[1])
    return 1 if labels.dtype.kind == "f" else len(np.unique(labels))


def _predicted(
    matrix: PreprocessedMatrix,
    fits: Sequence[Fit],
    settings: Sequence[ProbeSetting],
    *,
    classifier: Classifier,
) -> Iterator[tuple[int, int, _FittedModels, Prediction]]:
    """Fit number, setting number, model and predictions of every fit under every setting."""
    numbers: dict[Preprocessing, list[int]] = {}
    for i, setting in enumerate(settings):
        numbers.setdefault(setting.preprocessing, []).append(i)
    for columns in _same_l2(numbers, settings):
        jobs = [_Job(f, preprocessing) for preprocessing in columns for f in range(len(fits))]
        l2 = [settings[i].l2 for i in next(iter(columns.values()))]
        for chunk in _chunks(matrix, fits, jobs, len(l2)):
            fitted = _fitted(matrix, fits, chunk, [l2] * len(chunk), classifier)
            for job, models in zip(chunk, fitted, strict=True):
                predicted = models.predict(matrix.under(job.preprocessing), fits[job.fit].predict)
                for g, number in enumerate(columns[job.preprocessing]):
                    yield job.fit, number, models.only(g), predicted[g]


def _fitted(
    matrix: PreprocessedMatrix,
    fits: Sequence[Fit],
    jobs: Sequence[_Job],
    l2: Sequence[Sequence[float]],
    classifier: Classifier,
) -> list[_FittedModels]:
    """The models of every job; the jobs are sorted by preprocessing."""
    num_rows = max(len(fits[job.fit].train) for job in jobs)
    together = {
        preprocessing: [fits[job.fit] for job in jobs if job.preprocessing == preprocessing]
        for preprocessing in dict.fromkeys(job.preprocessing for job in jobs)
    }
    designs = {
        preprocessing: Design.of(
            matrix.under(preprocessing),
            [fit.train for fit in some],
            preprocessing,
            num_rows=num_rows,
        )
        for preprocessing, some in together.items()
    }
    parts = [design.rows for design in designs.values()]
    rows = parts[0]
    if len(parts) > 1:
        rows = WeightedRows(
            torch.cat([part.values for part in parts]), torch.cat([part.weight for part in parts])
        )
    targets = targets_of(
        [fits[job.fit].labels for job in jobs], num_rows=num_rows, classifier=classifier
    )
    penalty = torch.tensor(l2, dtype=torch.float64, device=rows.values.device)
    coef = targets.fit(rows, penalty).flatten(1, 2)  # [F, G * outputs, R + 1]
    found: list[_FittedModels] = []
    sizes = [len(some) for some in together.values()]
    for design, part in zip(designs.values(), torch.split(coef, sizes), strict=True):
        models = design.to_models(part)
        found += [
            _FittedModels(models.only(f), penalty.shape[1], targets, len(found) + f)
            for f in range(len(part))
        ]
    return found


@dataclass(frozen=True, eq=False)
class _FittedModels:
    """Models of one fit, one per value of `l2`.

    Args:
        models: of one fit, with G * outputs outputs.
        num_l2: G.
        targets: turn outputs into labels.
        number: of the fit in `targets`.
    """

    models: LinearModels
    num_l2: int
    targets: Targets
    number: int

    def predict(self, matrix: FeatureMatrix, rows: Array) -> list[Prediction]:
        """The predictions for some rows under each value of `l2`."""
        (logits,) = self.models.logits(matrix, [rows])
        outputs = logits.view(len(logits), self.num_l2, -1)
        return [Prediction(self.targets, self.number, outputs[:, g]) for g in range(self.num_l2)]

    def only(self, g: int) -> _FittedModels:
        """The model of one value of `l2`."""
        num = self.models.bias.shape[1] // self.num_l2
        part = slice(g * num, (g + 1) * num)
        models = LinearModels(self.models.weight[:, part], self.models.bias[:, part])
        return _FittedModels(models, 1, self.targets, self.number)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """The best setting of a fit so far: its number, its score, and its model."""

    setting: int
    score: float
    utility: float
    models: _FittedModels

    def predicted(
        self, matrix: PreprocessedMatrix, settings: Sequence[ProbeSetting], rows: Array
    ) -> BestFit:
        preprocessed = matrix.under(settings[self.setting].preprocessing)
        (predicted,) = self.models.predict(preprocessed, rows)
        return BestFit(self.setting, self.score, predicted)
