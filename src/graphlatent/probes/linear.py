"""The linear probe: logistic or ridge regression on frozen rows, with settings chosen on
validation rows.

Legend: M rows, D columns, K labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.splits import Split
from graphlatent.errors import InputError, bad_argument
from graphlatent.probes.design import PREPROCESSING, Array, Preprocessing, checked_matrix
from graphlatent.probes.fitting import (
    Fit,
    PreprocessedMatrix,
    ProbeSetting,
    best_fits,
    predictions,
)
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.protocol import Protocol, SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice, ProbeResult
from graphlatent.probes.targets import Classifier, Prediction

L2_GRID = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
RIDGE_L2_GRID = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
L2_RANGE = (1e-8, 1e3)
"""Smaller values are not resolved in float64, and larger ones leave no signal: rows have mean
squared norm 1.
"""
SELECTION = (
    "Per split, the {what} with the {best} validation {metric}; among equals the one named first,"
    " then the larger strength. The test labels of a split are read once, after its choice."
)
REFITTED = " Then fitted once more on its training and validation rows together."


def linear_probe(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    splits: Sequence[Split],
    l2: Sequence[float] | None = None,
    preprocessing: Sequence[Preprocessing] = PREPROCESSING,
    refit: bool = False,
    metric: str | None = None,
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Test scores of a linear model, its settings chosen on validation rows of each split.

    Logistic regression of classes; ridge regression of numbers, for the metrics "R2" and "MAE".

    Args:
        representation: one row per node or graph [M, D]: array, tensor, SciPy sparse matrix or
            `SparseMatrix`; or several by name, such as epochs, of which each split chooses one too.
        labels: one class per row [M], numbers or names; or a 0/1 matrix of several labels per row
            [M, K], each then fitted against the rest; or real numbers [M], for ridge regression.
        splits: training, validation and test rows; see `graphlatent.data.splits`.
        l2: weights of the L2 term to choose from. Training rows are scaled to mean squared norm 1,
            so the same values suit any representation; scikit-learn's C is 1 / (n * l2), and the
            alpha of its `Ridge` is n * l2. None is `L2_GRID`, of numbers `RIDGE_L2_GRID`.
        preprocessing: to choose from. "none": rows as they are; "row": each row divided by its
            norm; "standard": each column divided by its standard deviation over the training rows.
        refit: after the choice, fit once more on training and validation rows together, as
            cross-validation over folds does.
        metric: what decides and is reported, one of `graphlatent.probes.metrics.METRICS`; None is
            accuracy for classes and micro-F1 for a 0/1 matrix of labels.
        device: to compute on, in float64.

    Raises:
        ConfigError: where an argument is out of range.
        InputError: where rows, labels and splits do not fit together, or the metric is not defined
            on the test rows of a split.
    """
    name = metric or _usual_metric(labels)
    return linear_probes(
        representation,
        labels,
        splits=splits,
        metrics=[name],
        l2=l2,
        preprocessing=preprocessing,
        refit=refit,
        device=device,
    )[name]


def linear_probes(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    splits: Sequence[Split],
    metrics: Sequence[str],
    l2: Sequence[float] | None = None,
    preprocessing: Sequence[Preprocessing] = PREPROCESSING,
    refit: bool = False,
    device: torch.device | str = "cpu",
) -> dict[str, ProbeResult]:
    """What `linear_probe` gives for each of several metrics, with every setting fitted once.

    The settings of each metric's result are those that it chose itself. The metrics must be all of
    classes or all of numbers; the other arguments are those of `linear_probe`.
    """
    candidates = as_candidates(representation)
    protocols = {metric: Protocol(labels, splits, metric=metric) for metric in metrics}
    of_numbers = METRICS[metrics[0]].of_numbers
    if of_numbers and any(
        part.train_labels.ndim != 1 or part.train_labels.dtype.kind not in "iuf"
        for part in protocols[metrics[0]].visible()
    ):
        raise InputError(
            f"{metrics[0]} is of labels that are numbers, one per row. Choose a metric of classes."
        )
    grid = l2 if l2 is not None else (RIDGE_L2_GRID if of_numbers else L2_GRID)
    settings = checked_settings(grid, preprocessing, owner="linear_probe")
    found = _predictions_by_metric(
        candidates,
        protocols[metrics[0]],
        metrics,
        settings=settings,
        refit=refit,
        device=device,
    )
    return {
        metric: protocol.final(
            best_on_validation(found[metric], metric),
            selection=selection_text(len(candidates) > 1, metric) + (REFITTED if refit else ""),
        )
        for metric, protocol in protocols.items()
    }


def linear_predictions(
    candidates: Mapping[str, Any],
    protocol: Protocol,
    *,
    settings: Sequence[ProbeSetting],
    refit: bool = False,
    device: torch.device | str = "cpu",
) -> dict[str, tuple[SplitPrediction, ...]]:
    """The predictions of every candidate and split under the settings that are best on validation.

    Args:
        candidates: representations by name.
        protocol: labels and splits; the test labels stay locked.
        settings: to choose from, the first of equals.
        refit: fit the chosen ones once more on training and validation rows together.
        device: to compute on.

    Raises:
        InputError: where a split has no validation rows.
    """
    return _predictions_by_metric(
        candidates, protocol, [protocol.metric], settings=settings, refit=refit, device=device
    )[protocol.metric]


def _predictions_by_metric(
    candidates: Mapping[str, Any],
    protocol: Protocol,
    metrics: Sequence[str],
    *,
    settings: Sequence[ProbeSetting],
    refit: bool,
    device: torch.device | str,
) -> dict[str, dict[str, tuple[SplitPrediction, ...]]]:
    """The predictions of `linear_predictions` for each metric."""
    parts = protocol.visible()
    if any(len(part.val) == 0 for part in parts):
        raise InputError(
            "A split without validation rows leaves nothing to choose settings on. Use svm_probe,"
            " which makes inner folds."
        )
    classifier: Classifier = "ridge" if METRICS[metrics[0]].of_numbers else "logistic"
    fits = [Fit(part.train, part.train_labels, part.val) for part in parts]
    found: dict[str, dict[str, tuple[SplitPrediction, ...]]] = {metric: {} for metric in metrics}
    for name, representation in candidates.items():
        matrix = PreprocessedMatrix(checked_rows(representation, protocol.num_rows), device)
        by_metric = best_fits(
            matrix,
            fits,
            [part.val_labels for part in parts],
            settings,
            test=[part.test for part in parts],
            classifier=classifier,
            metrics=metrics,
        )
        for metric, best in by_metric.items():
            predicted = [each.predicted for each in best]
            chosen = [settings[each.setting] for each in best]
            if refit:
                whole = [_whole_fit(part) for part in parts]
                predicted = predictions(matrix, whole, chosen, classifier=classifier)
            found[metric][name] = tuple(
                split_prediction(choice_of(name, setting, each.score), labels, metric)
                for setting, each, labels in zip(chosen, best, predicted, strict=True)
            )
    return found


def split_prediction(choice: Choice, predicted: Prediction, metric: str) -> SplitPrediction:
    """A prediction for the protocol, with class scores where the metric needs them."""
    scores = predicted.scores if METRICS[metric].ranks else None
    return SplitPrediction(choice, predicted.labels, scores)


def best_on_validation(
    found: Mapping[str, Sequence[SplitPrediction]], metric: str = "accuracy"
) -> tuple[SplitPrediction, ...]:
    """For every split the candidate with the best validation score; the first of equals."""
    utility = METRICS[metric].utility
    return tuple(
        max(of_split, key=lambda prediction: utility(prediction.choice.val_score))
        for of_split in zip(*found.values(), strict=True)
    )


def as_candidates(representation: Any) -> dict[str, Any]:
    """Representations by name; a single one has the name ""."""
    if not isinstance(representation, Mapping):
        return {"": representation}
    if not representation:
        raise InputError("There is no representation to probe: the mapping is empty.")
    return {str(name): rows for name, rows in representation.items()}


def checked_rows(representation: Any, num_rows: int) -> Any:
    """The representation as a matrix with one row per label."""
    matrix = checked_matrix(representation)
    if matrix.shape[0] != num_rows:
        raise InputError(
            f"Labels must be one per row of the representation, {matrix.shape[0]}. Got {num_rows}."
        )
    return matrix


def checked_settings(
    l2: Sequence[float], preprocessing: Sequence[Preprocessing], *, owner: str
) -> tuple[ProbeSetting, ...]:
    """Every combination, in order of preference among equal validation scores.

    The preprocessing named first, then the larger `l2`.
    """
    least, most = L2_RANGE
    if len(l2) == 0 or not all(least <= value <= most for value in l2):
        raise bad_argument(
            "l2",
            owner=owner,
            allowed=f"one or more floats in the range [{least:g}, {most:g}]",
            got=l2,
        )
    if (
        isinstance(preprocessing, str)
        or not preprocessing
        or not set(preprocessing) <= set(PREPROCESSING)
    ):
        raise bad_argument(
            "preprocessing",
            owner=owner,
            allowed=f"one or more of {PREPROCESSING}",
            got=preprocessing,
        )
    return tuple(
        ProbeSetting(each, value)
        for each in preprocessing
        for value in sorted(map(float, l2), reverse=True)
    )


def choice_of(candidate: str, setting: ProbeSetting, score: float) -> Choice:
    """A choice in plain values. `l2` is stored as "strength", as in the first records."""
    settings = {"preprocessing": setting.preprocessing, "strength": setting.l2}
    return Choice(candidate, settings, float(score))


def selection_text(several: bool, metric: str) -> str:
    """How the linear probe selects, in words."""
    what = (
        "representation, preprocessing and L2 strength"
        if several
        else "preprocessing and L2 strength"
    )
    best = "lowest" if METRICS[metric].is_error else "highest"
    return SELECTION.format(what=what, best=best, metric=metric)


def _whole_fit(part: VisibleSplit) -> Fit:
    """A fit on training and validation rows together, to predict the test rows."""
    return Fit(
        np.concatenate([part.train, part.val]),
        np.concatenate([part.train_labels, part.val_labels]),
        part.test,
    )


def _usual_metric(labels: Any) -> str:
    return "micro-F1" if np.ndim(labels) == 2 else "accuracy"
