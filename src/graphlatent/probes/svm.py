"""The probe of graphs: a support vector machine in nested cross-validation.

Outer folds measure; settings are chosen in inner folds of each outer training part alone. Both are
stratified and shuffled. Two kernels: "linear" (squared hinge, as scikit-learn's `LinearSVC`, solved
for all folds and settings at once) and "rbf" (hinge loss, by scikit-learn's `SVC` on precomputed
kernels). Legend: M rows, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.splits import Split, fold_splits
from graphlatent.errors import bad_argument
from graphlatent.probes.design import Array, Preprocessing
from graphlatent.probes.fitting import (
    Fit,
    PreprocessedMatrix,
    ProbeSetting,
    grid_scores,
    predictions,
)
from graphlatent.probes.linear import (
    as_candidates,
    best_on_validation,
    checked_rows,
    checked_settings,
    choice_of,
    split_prediction,
)
from graphlatent.probes.metrics import OF_CLASSES, mean_defined
from graphlatent.probes.protocol import Protocol, SplitPrediction, VisibleSplit
from graphlatent.probes.rbf import RBF_C, rbf_predictions
from graphlatent.probes.results import ProbeResult

SVM_L2_GRID = (1e-5, 1e-4, 1e-3, 1e-2)
SVM_PREPROCESSING: tuple[Preprocessing, ...] = ("none", "standard")
INNER_FOLDS = 3
NESTED = (
    "Per outer fold, the {what} with the highest mean {metric} over {inner} stratified shuffled"
    " inner folds of its training part; among equals the one named first, then the stronger"
    " penalty. Then fitted on the whole training part. The test fold's labels are read once."
)


def svm_probe(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    kernel: str = "linear",
    num_folds: int = 10,
    inner_folds: int = INNER_FOLDS,
    seed: int = 0,
    l2: Sequence[float] = SVM_L2_GRID,
    C: Sequence[float] = RBF_C,
    preprocessing: Sequence[Preprocessing] = SVM_PREPROCESSING,
    metric: str = "accuracy",
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Test scores of a support vector machine over the outer folds, one per fold.

    Args:
        representation: one row per graph [M, D]; or several by name, such as epochs, of which each
            outer fold chooses one too. With the RBF kernel that choice is the linear SVM's, so that
            kernels are computed for chosen ones only.
        labels: one class per row [M].
        kernel: "linear", as the paper says, or "rbf", as its scripts and most peers do.
        num_folds: outer folds.
        inner_folds: folds of each outer training part.
        seed: of outer and inner folds. Repeat with several seeds for a spread.
        l2: weights of the L2 term of the linear SVM to choose from, for rows of mean squared norm
            1; scikit-learn's C is 1 / (n * l2).
        C: of the RBF SVM, to choose from.
        preprocessing: to choose from; see `linear_probe`.
        metric: of classes, what decides and is reported.
        device: to compute the linear SVM on.

    Raises:
        ConfigError: where an argument is out of range.
        InputError: where rows and labels do not fit together.
    """
    if kernel not in ("linear", "rbf"):
        raise bad_argument("kernel", owner="svm_probe", allowed="'linear' or 'rbf'", got=kernel)
    if len(C) == 0 or not all(0 < value < float("inf") for value in C):
        raise bad_argument(
            "C", owner="svm_probe", allowed="one or more floats in the range (0.0, inf)", got=C
        )
    if metric not in OF_CLASSES:
        raise bad_argument("metric", owner="svm_probe", allowed=f"one of {OF_CLASSES}", got=metric)
    protocol = outer_fold_protocol(labels, num_folds=num_folds, seed=seed, metric=metric)
    candidates = {
        name: checked_rows(rows, protocol.num_rows)
        for name, rows in as_candidates(representation).items()
    }
    settings = checked_settings(l2, preprocessing, owner="svm_probe")
    chosen: Sequence[SplitPrediction] = ()
    if kernel == "linear" or len(candidates) > 1:
        found = svm_predictions(
            candidates,
            protocol,
            settings=settings,
            inner_folds=inner_folds,
            seed=seed,
            device=device,
        )
        chosen = best_on_validation(found, metric)
    if kernel == "rbf":
        names = [prediction.choice.candidate for prediction in chosen] or [
            next(iter(candidates))
        ] * num_folds
        inner = inner_splits(protocol.visible(), inner_folds=inner_folds, seed=seed)
        chosen = rbf_predictions(
            candidates,
            names,
            protocol.visible(),
            inner,
            C=C,
            preprocessing=preprocessing,
            metric=metric,
        )
    return protocol.final(
        chosen, selection=nested_selection_text(len(candidates) > 1, kernel, inner_folds, metric)
    )


def outer_fold_protocol(
    labels: Any, *, num_folds: int = 10, seed: int = 0, metric: str = "accuracy"
) -> Protocol:
    """Labels under stratified shuffled outer folds, without validation rows."""
    splits = outer_fold_splits(labels, num_folds=num_folds, seed=seed)
    return Protocol(labels, splits, metric=metric)


def outer_fold_splits(labels: Any, *, num_folds: int = 10, seed: int = 0) -> tuple[Split, ...]:
    """Stratified shuffled outer folds as splits without validation rows."""
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    outer = fold_splits(array, num_folds=num_folds, seed=seed)
    empty = np.empty(0, dtype=np.int64)
    return tuple(
        Split(train=np.sort(np.concatenate([s.train, s.val])), val=empty, test=s.test)
        for s in outer
    )


def svm_predictions(
    candidates: Mapping[str, Any],
    protocol: Protocol,
    *,
    settings: Sequence[ProbeSetting],
    inner_folds: int = INNER_FOLDS,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> dict[str, tuple[SplitPrediction, ...]]:
    """The linear SVM's predictions for every candidate and outer fold.

    Args:
        candidates: representations by name.
        protocol: labels and outer folds; the test labels stay locked.
        settings: to choose from in the inner folds, the first of equals.
        inner_folds: folds of each training part.
        seed: of the inner folds.
        device: to compute on.
    """
    parts = protocol.visible()
    inner = inner_splits(parts, inner_folds=inner_folds, seed=seed)
    fits, truth = _inner_fits(parts, inner)
    found = {}
    for name, representation in candidates.items():
        matrix = PreprocessedMatrix(checked_rows(representation, protocol.num_rows), device)
        scores = grid_scores(
            matrix, fits, truth, settings, classifier="svm", metrics=[protocol.metric]
        )[protocol.metric]
        # Rounded, so that equal means stay equal whatever the order of summation
        means = mean_defined(scores.reshape(len(parts), -1, len(settings)), axis=1).round(12)
        best = np.where(np.isnan(means), -np.inf, means).argmax(1)
        last = [Fit(part.train, part.train_labels, part.test) for part in parts]
        predicted = predictions(matrix, last, [settings[i] for i in best], classifier="svm")
        choices = [choice_of(name, settings[i], means[f, i]) for f, i in enumerate(best)]
        found[name] = tuple(
            split_prediction(choice, each, protocol.metric)
            for choice, each in zip(choices, predicted, strict=True)
        )
    return found


def inner_splits(
    parts: Sequence[VisibleSplit], *, inner_folds: int, seed: int
) -> list[tuple[Split, ...]]:
    """Stratified shuffled folds of every outer training part.

    Row numbers count within that part; `test` is the inner fold.
    """
    return [
        fold_splits(
            part.train_labels, num_folds=inner_folds, seed=1_000_003 * (seed + 1) + part.number
        )
        for part in parts
    ]


def nested_selection_text(
    several: bool, kernel: str, inner_folds: int, metric: str = "accuracy"
) -> str:
    """How the nested cross-validation selects, in words."""
    what = "preprocessing and strength" if kernel == "linear" else "preprocessing and C"
    if several:
        what = (
            f"epoch or representation, {what}"
            if kernel == "linear"
            else f"epoch or representation (by the linear SVM), {what}"
        )
    return NESTED.format(what=what, inner=inner_folds, metric=metric)


def _inner_fits(
    parts: Sequence[VisibleSplit], inner: Sequence[Sequence[Split]]
) -> tuple[list[Fit], list[Array]]:
    """The fit of every inner fold, and the labels it is scored by.

    Both are from the outer training part alone.
    """
    fits, truth = [], []
    for part, folds in zip(parts, inner, strict=True):
        for fold in folds:
            rest = np.sort(np.concatenate([fold.train, fold.val]))
            fits.append(Fit(part.train[rest], part.train_labels[rest], part.train[fold.test]))
            truth.append(part.train_labels[fold.test])
    return fits, truth
