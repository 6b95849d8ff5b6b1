"""Support vector machines on precomputed kernels, in nested cross-validation.

Used for RBF kernels of rows (`rbf.py`), and for kernels of graphs that have no rows of moderate
width. Legend: M rows, n training rows, C the penalty of `sklearn.svm.SVC`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

import numpy as np
import torch
from sklearn.svm import SVC

from graphlatent.data.splits import Split
from graphlatent.errors import InputError, bad_argument
from graphlatent.probes.design import Array
from graphlatent.probes.metrics import METRICS, ClassScores, mean_defined
from graphlatent.probes.protocol import SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice

SVM_C = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
"""The grid of the released scripts."""
Kernel: TypeAlias = Literal["linear", "rbf"]
KernelCut: TypeAlias = Callable[[Array, Array, Array], tuple[Array, Array]]
"""From a matrix [M, M], training rows and test rows to kernels [train, train], [test, train]."""


def kernel_predictions(
    kernels: Mapping[str, Array],
    names: Sequence[Sequence[str]],
    parts: Sequence[VisibleSplit],
    inner: Sequence[Sequence[Split]],
    *,
    kernel: Kernel = "linear",
    C: Sequence[float] = SVM_C,
) -> tuple[SplitPrediction, ...]:
    """The predictions of an SVM for every outer fold, on the kernel that is best in inner folds.

    Args:
        kernels: by name a matrix of inner products [M, M].
        names: for every outer fold the kernels to choose from, the first of equals.
        parts: the outer folds.
        inner: the inner folds of each, counting rows within its training part.
        kernel: "linear": the inner products as they are; "rbf": the RBF kernel of the distances
            that belong to them.
        C: to choose from in the inner folds, the smaller of equals.

    Raises:
        ConfigError: where `kernel` is neither.
        InputError: where a kernel is not a square matrix of finite numbers.
    """
    if kernel not in ("linear", "rbf"):
        raise bad_argument(
            "kernel", owner="kernel_predictions", allowed="'linear' or 'rbf'", got=kernel
        )
    grid = sorted(C)
    needed = dict.fromkeys(name for of_fold in names for name in of_fold)
    checked = {name: _checked_kernel(kernels[name], name) for name in needed}
    cut = linear_kernels if kernel == "linear" else rbf_kernels
    matrices = checked if kernel == "linear" else {n: _distances(k) for n, k in checked.items()}

    def predict(
        of_fold: Sequence[str], part: VisibleSplit, folds: Sequence[Split]
    ) -> SplitPrediction:
        # Rounded, so that equal means stay equal whatever the order of summation.
        scores = np.array([inner_scores(matrices[n], part, folds, grid, cut) for n in of_fold])
        best, k = np.unravel_index(int(np.argmax(scores.round(12))), scores.shape)
        name = of_fold[int(best)]
        choice = Choice(name, {"C": grid[int(k)]}, float(scores[best, k].round(12)))
        train, test = cut(matrices[name], part.train, part.test)
        predicted, found = fit_predict(train, part.train_labels, test, C=grid[int(k)])
        return SplitPrediction(choice, predicted, found)

    return in_threads(predict, names, parts, inner)


def in_threads(
    predict: Callable[..., SplitPrediction], *arguments: Sequence[object]
) -> tuple[SplitPrediction, ...]:
    """The predictions of all folds, several at a time: libsvm releases Python's global lock."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return tuple(pool.map(predict, *arguments))


def inner_scores(
    matrix: Array,
    part: VisibleSplit,
    folds: Sequence[Split],
    grid: Sequence[float],
    cut: KernelCut,
    metric: str = "accuracy",
) -> list[float]:
    """Mean score over the inner folds for every C."""
    scores = np.zeros((len(folds), len(grid)))
    for i, fold in enumerate(folds):
        rest = np.sort(np.concatenate([fold.train, fold.val]))
        kernel, test_kernel = cut(matrix, part.train[rest], part.train[fold.test])
        for k, value in enumerate(grid):
            predicted, found = fit_predict(kernel, part.train_labels[rest], test_kernel, C=value)
            scores[i, k] = METRICS[metric](part.train_labels[fold.test], predicted, found)
    means: list[float] = mean_defined(scores, axis=0).tolist()
    return means


def linear_kernels(products: Array, train: Array, test: Array) -> tuple[Array, Array]:
    """The inner products [train, train] and [test, train]."""
    return products[np.ix_(train, train)], products[np.ix_(test, train)]


def rbf_kernels(distances: Array, train: Array, test: Array) -> tuple[Array, Array]:
    """The RBF kernels [train, train] and [test, train] of squared distances [M, M]."""
    within = distances[np.ix_(train, train)]
    gamma = rbf_gamma(within)
    return np.exp(-gamma * within), np.exp(-gamma * distances[np.ix_(test, train)])


def rbf_gamma(within: Array) -> float:
    """1 / (sum of the columns' variances over the training rows), from their squared distances.

    The mean of |x - x'|^2 over all pairs is twice that sum. Differs from scikit-learn's 'scale'
    where columns have different means, which 'scale' counts as variance.
    """
    mean = float(within.mean())
    return 2.0 / mean if mean > 0 else 1.0


def fit_predict(
    kernel: Array, labels: Array, test_kernel: Array, *, C: float
) -> tuple[Array, ClassScores]:
    """The labels that an SVM predicts for the rows of `test_kernel`, and its class scores."""
    if len(np.unique(labels)) == 1:
        alike = np.zeros((len(test_kernel), 1))
        return np.repeat(labels[:1], len(test_kernel)), ClassScores(alike, labels[:1])
    model = SVC(C=C, kernel="precomputed", cache_size=500).fit(kernel, labels)
    predicted: Array = model.predict(test_kernel)
    outputs: Array = model.decision_function(test_kernel)
    if outputs.ndim == 1:
        outputs = np.stack([-outputs, outputs], axis=1)
    return predicted, ClassScores(outputs, model.classes_)


def _distances(products: Array) -> Array:
    """|x - x'|^2 = <x, x> + <x', x'> - 2 <x, x'>."""
    squares = products.diagonal()
    distances: Array = squares[:, None] + squares[None, :] - 2 * products
    return np.maximum(distances, 0.0, out=distances)


def _checked_kernel(kernel: Array, name: str) -> Array:
    matrix: Array = np.asarray(kernel, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InputError(
            f"The kernel '{name}' must be a square matrix of finite numbers, one row and column per"
            f" label. Got shape {matrix.shape}."
        )
    return matrix
