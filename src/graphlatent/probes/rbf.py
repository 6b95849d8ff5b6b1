"""The RBF support vector machine over folds and settings, on precomputed distances.

exp(-gamma |x - x'|^2) depends on the rows only through their squared distances. With "standard",
columns are divided by their deviations over the training rows of a fold, so each fold has its own
distance matrix; with "none" and "row" one matrix serves all folds. gamma is scikit-learn's 'scale',
1 / (D * variance), over the training rows of the fold, which is 2 / (their mean squared distance).
Legend: M rows, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from graphlatent.data.splits import Split
from graphlatent.probes.design import (
    Array,
    FeatureMatrix,
    Preprocessing,
    checked_matrix,
    unit_rows,
)
from graphlatent.probes.kernel_svm import (
    SVM_C,
    fit_predict,
    in_threads,
    inner_scores,
    rbf_kernels,
)
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.protocol import SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice

RBF_C = SVM_C


def rbf_predictions(
    candidates: Mapping[str, Any],
    names: Sequence[str],
    parts: Sequence[VisibleSplit],
    inner: Sequence[Sequence[Split]],
    *,
    C: Sequence[float] = RBF_C,
    preprocessing: Sequence[Preprocessing] = ("none", "standard"),
    metric: str = "accuracy",
) -> tuple[SplitPrediction, ...]:
    """The predictions of an RBF SVM for every outer fold, on the candidate named for it.

    Args:
        candidates: representations by name.
        names: the candidate of every outer fold.
        parts: the outer folds.
        inner: the inner folds of each, counting rows within its training part.
        C: to choose from in the inner folds, the smaller of equals.
        preprocessing: to choose from in the inner folds, the first of equals.
        metric: what decides.
    """
    grid, utility = sorted(C), METRICS[metric].utility
    matrices = {name: checked_matrix(candidates[name]) for name in dict.fromkeys(names)}
    shared = {
        (name, each): _squared_distances(_dense(_scaled(matrices[name], each)))
        for name in matrices
        for each in preprocessing
        if each != "standard"
    }

    def predict(name: str, part: VisibleSplit, folds: Sequence[Split]) -> SplitPrediction:
        best: tuple[Choice, Array] | None = None
        for each in preprocessing:
            distances = (
                shared[name, each]
                if each != "standard"
                else _squared_distances(_standardized(matrices[name], part.train))
            )
            scores = inner_scores(distances, part, folds, grid, rbf_kernels, metric)
            k = int(np.argmax([utility(score) for score in scores]))
            if best is None or utility(scores[k]) > utility(best[0].val_score):
                settings = {"preprocessing": each, "C": grid[k]}
                best = Choice(name, settings, float(scores[k])), distances
        assert best is not None
        choice, distances = best
        kernel, test_kernel = rbf_kernels(distances, part.train, part.test)
        predicted, found = fit_predict(
            kernel, part.train_labels, test_kernel, C=float(choice.settings["C"])
        )
        return SplitPrediction(choice, predicted, found)

    return in_threads(predict, names, parts, inner)


def _scaled(matrix: FeatureMatrix, preprocessing: Preprocessing) -> FeatureMatrix:
    return unit_rows(matrix) if preprocessing == "row" else matrix


def _standardized(matrix: FeatureMatrix, train: Array) -> Array:
    """Columns divided by their deviations over the training rows; constant ones are dropped."""
    rows = _dense(matrix)
    spread = rows[train].std(0)
    varies = spread > 1e-10 * np.abs(rows[train].mean(0))
    scaled: Array = rows[:, varies] / spread[varies]
    return scaled


def _dense(matrix: FeatureMatrix) -> Array:
    dense = matrix if isinstance(matrix, torch.Tensor) else matrix.to_dense()
    rows: Array = dense.detach().cpu().double().numpy()
    return rows


def _squared_distances(rows: Array) -> Array:
    """Squared distances of all pairs, float64 [M, M].

    Rows are centred first, so that large means lose no digits. By the median: a mean would carry
    one huge row, possibly of the test, into the rounding of all the others.
    """
    centred = rows - np.median(rows, axis=0)
    squares = (centred**2).sum(1)
    distances: Array = squares[:, None] + squares[None, :] - 2 * centred @ centred.T
    return np.maximum(distances, 0.0, out=distances)
