"""SVMs on precomputed kernels: against scikit-learn one fit at a time, choices and mistakes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.svm import SVC

from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.kernel_svm import kernel_predictions
from graphlatent.probes.svm import inner_splits, outer_fold_protocol

C_GRID = (0.1, 10.0)


def kernels(num_rows: int = 60) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Kernels of rows that know the class, and of rows that know it less."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=num_rows)
    rows = rng.normal(size=(3, 4))[labels] + rng.normal(size=(num_rows, 4))
    noisy = rows + 2 * rng.normal(size=rows.shape)
    return {"clear": rows @ rows.T, "noisy": noisy @ noisy.T}, labels


def predicted(found, names, labels, **options):
    parts = outer_fold_protocol(labels, num_folds=3, seed=1).visible()
    inner = inner_splits(parts, inner_folds=2, seed=1)
    given = kernel_predictions(found, [names] * 3, parts, inner, C=C_GRID, **options)
    return given, parts, inner


def by_rows(products, labels, train, test, *, kernel, C):
    """The same SVM on rows whose inner products these are, kernels computed by scikit-learn."""
    values, vectors = np.linalg.eigh(products)
    rows = vectors * np.sqrt(np.maximum(values, 0))
    gamma = 1 / rows[train].var(0).sum()
    return SVC(C=C, kernel=kernel, gamma=gamma).fit(rows[train], labels[train]).predict(rows[test])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_against_scikit_learn_one_fit_at_a_time(kernel):
    found, labels = kernels()
    given, parts, inner = predicted(found, ["noisy", "clear"], labels, kernel=kernel)
    for answer, part, folds in zip(given, parts, inner, strict=True):
        scores = {}
        for name in ("noisy", "clear"):
            for C in C_GRID:
                right = []
                for fold in folds:
                    rest = part.train[np.setdiff1d(np.arange(len(part.train)), fold.test)]
                    held = part.train[fold.test]
                    said = by_rows(found[name], labels, rest, held, kernel=kernel, C=C)
                    right.append(np.mean(said == labels[held]))
                scores[name, C] = round(float(np.mean(right)), 12)
        name, C = max(scores, key=scores.__getitem__)
        assert (answer.choice.candidate, answer.choice.settings) == (name, {"C": C})
        assert answer.choice.val_score == pytest.approx(scores[name, C])
        expected = by_rows(found[name], labels, part.train, part.test, kernel=kernel, C=C)
        np.testing.assert_array_equal(answer.predicted, expected)


def test_the_first_of_equals_and_the_smaller_c():
    found, labels = kernels()
    given, *_ = predicted({"a": found["clear"], "b": found["clear"]}, ["a", "b"], labels)
    assert {answer.choice.candidate for answer in given} == {"a"}
    given, *_ = predicted({"a": np.zeros((60, 60))}, ["a"], labels)
    assert {answer.choice.settings["C"] for answer in given} == {0.1}


def test_a_fold_chooses_among_its_own_names():
    found, labels = kernels()
    parts = outer_fold_protocol(labels, num_folds=3, seed=1).visible()
    inner = inner_splits(parts, inner_folds=2, seed=1)
    names = [["noisy"], ["clear"], ["noisy"]]
    given = kernel_predictions(found, names, parts, inner, kernel="rbf", C=C_GRID)
    assert [answer.choice.candidate for answer in given] == ["noisy", "clear", "noisy"]


def test_one_class():
    given, *_ = predicted({"a": np.eye(12)}, ["a"], np.zeros(12))
    assert all((answer.predicted == 0).all() for answer in given)


def test_wrong_kind():
    message = (
        "The 'kernel' parameter of kernel_predictions must be 'linear' or 'rbf'. Got 'poly'"
        " instead."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        predicted({"a": np.eye(12)}, ["a"], np.arange(12) % 2, kernel="poly")


@pytest.mark.parametrize("matrix", [np.ones((12, 3)), np.full((12, 12), np.nan), np.ones(12)])
def test_no_kernel(matrix):
    message = (
        "The kernel 'a' must be a square matrix of finite numbers, one row and column per label."
        f" Got shape {matrix.shape}."
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        predicted({"a": matrix}, ["a"], np.arange(12) % 2)
