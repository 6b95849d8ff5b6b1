"""Many fits at once: against scikit-learn fitted one at a time, and independent of each other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import graphlatent.probes.design as design
import graphlatent.probes.fitting as fitting
import graphlatent.probes.targets as targets
from fitting_cases import PREPROCESSING, case, matrix_of, prepared
from graphlatent.probes.fitting import (
    Fit,
    PreprocessedMatrix,
    ProbeSetting,
    grid_scores,
)
from graphlatent.probes.metrics import METRICS


def reference(classifier, x, y, l2):
    """scikit-learn at the same objective; the scaled intercept of the SVM is almost free."""
    C = 1 / (len(x) * l2)
    if classifier == "logistic":
        C = 2 * C if len(np.unique(y)) == 2 else C
        return LogisticRegression(C=C, solver="newton-cg", tol=1e-9, max_iter=10_000).fit(x, y)
    return LinearSVC(C=C, dual=False, intercept_scaling=100.0, tol=1e-9, max_iter=100_000).fit(x, y)


# --- answers against scikit-learn, one fit at a time ---


def predictions(*args, **kwargs):
    """The predicted labels of every fit."""
    return [each.labels for each in fitting.predictions(*args, **kwargs)]


@pytest.mark.parametrize("classifier", ["logistic", "svm"])
@pytest.mark.parametrize(
    ("kind", "preprocessing"),
    [(kind, each) for kind in ("narrow", "wide", "sparse") for each in PREPROCESSING]
    + [(kind, "standard") for kind in ("rank", "copies", "constant", "float32")],
)
def test_predictions_are_scikit_learns(kind, preprocessing, classifier):
    rows, labels = case(kind)
    names = np.array(["ant", "bee", "cat"])[labels]
    parts = [np.arange(40), np.arange(5, 47, 2)]
    rest = np.arange(50, 900)
    chosen = [ProbeSetting(preprocessing, 1e-2), ProbeSetting(preprocessing, 1e-4)]
    found = predictions(
        matrix_of(rows, sparse=kind == "sparse"),
        [Fit(p, names[p], rest) for p in parts],
        chosen,
        classifier=classifier,
    )
    for train, setting, predicted in zip(parts, chosen, found, strict=True):
        x = prepared(rows, train, preprocessing)
        theirs = reference(classifier, x[train], names[train], setting.l2).predict(x[rest])
        assert np.mean(predicted == theirs) >= 0.999


@pytest.mark.parametrize("classifier", ["logistic", "svm"])
def test_two_classes_are_scikit_learns(classifier):
    rows, labels = case("narrow", num_classes=2)
    train, rest = np.arange(60), np.arange(60, 900)
    (predicted,) = predictions(
        matrix_of(rows),
        [Fit(train, labels[train], rest)],
        [ProbeSetting("none", 1e-3)],
        classifier=classifier,
    )
    x = prepared(rows, train, "none")
    assert (
        np.mean(predicted == reference(classifier, x[train], labels[train], 1e-3).predict(x[rest]))
        >= 0.999
    )


@pytest.mark.parametrize("kind", ["narrow", "wide", "sparse"])
def test_labels_of_a_table_are_scikit_learns(kind):
    rows, labels = case(kind)
    several = np.column_stack(
        [labels == 0, labels != 2, rows[:, 0] + rows[:, 1] > 4, np.zeros(900)]
    ).astype(int)
    train, rest = np.arange(60), np.arange(60, 900)
    (predicted,) = predictions(
        matrix_of(rows, sparse=kind == "sparse"),
        [Fit(train, several[train], rest)],
        [ProbeSetting("standard", 1e-3)],
        classifier="logistic",
    )
    x = prepared(rows, train, "standard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the label that no row has
        each = LogisticRegression(C=1 / (60 * 1e-3), solver="newton-cg", tol=1e-9, max_iter=10_000)
        theirs = OneVsRestClassifier(each).fit(x[train], several[train]).predict(x[rest])
    assert predicted.shape == (840, 4)
    assert np.mean(predicted == theirs) >= 0.999
    assert not predicted[:, 3].any()


@pytest.mark.parametrize("metric", ["accuracy", "micro-F1"])
@pytest.mark.parametrize("classifier", ["logistic", "svm"])
def test_grid_scores_are_those_of_the_answers(classifier, metric):
    rows, labels = case("narrow", num_rows=200)
    target = labels if metric == "accuracy" else np.eye(3, dtype=int)[labels]
    fits = [
        Fit(np.arange(30), target[:30], np.arange(30, 90)),
        Fit(np.arange(90, 110), target[90:110], np.arange(110, 200)),
    ]
    truth = [target[fit.predict] for fit in fits]
    grid = [
        ProbeSetting(preprocessing, l2) for preprocessing in ("row", "none") for l2 in (1e-1, 1e-4)
    ]
    scores = grid_scores(
        matrix_of(rows),
        fits,
        truth,
        grid,
        classifier=classifier,
        metrics=[metric],
    )[metric]
    assert scores.shape == (2, 4)
    for g, setting in enumerate(grid):
        found = predictions(
            matrix_of(rows),
            fits,
            [setting] * 2,
            classifier=classifier,
        )
        assert scores[:, g].tolist() == [
            METRICS[metric](t, a) for t, a in zip(truth, found, strict=True)
        ]


# --- fits do not see each other ---


@pytest.mark.parametrize("classifier", ["logistic", "svm"])
def test_fits_with_classes_of_their_own(classifier):
    rows, labels = case("narrow")
    of = [np.flatnonzero(labels == k) for k in range(3)]
    parts = [
        np.arange(30),
        np.concatenate([of[0][:9], of[2][:7]]),  # no row of class 1
        np.concatenate([of[1][:4], of[2][:4]]),
        of[1][:5],  # one class only
        of[2][:1],  # one row only
        np.array([of[0][3], of[1][3]]),
    ]
    rest = np.arange(300, 900)
    fits = [Fit(p, labels[p], rest) for p in parts]
    matrix, chosen = (
        matrix_of(rows),
        [ProbeSetting("none", 1e-3)] * len(parts),
    )
    together = predictions(matrix, fits, chosen, classifier=classifier)
    for fit, found in zip(fits, together, strict=True):
        (alone,) = predictions(matrix, [fit], chosen[:1], classifier=classifier)
        assert np.mean(found == alone) >= 0.998
        assert set(found) == set(fit.labels)
    theirs = reference(
        classifier, (x := prepared(rows, parts[1], "none"))[parts[1]], labels[parts[1]], 1e-3
    ).predict(x[rest])
    assert np.mean(together[1] == theirs) >= 0.998


@pytest.mark.parametrize("multi", [False, True])
def test_chunks_change_nothing(multi, monkeypatch):
    rows, labels = case("wide", num_rows=300)
    target = np.eye(3, dtype=int)[labels] if multi else labels
    fits = [
        Fit(np.arange(k, k + n), target[k : k + n], np.arange(200, 300))
        for k, n in ((0, 30), (40, 21), (90, 60), (160, 9))
    ]
    truth, grid = (
        [target[200:]] * 4,
        [ProbeSetting(preprocessing, s) for preprocessing in PREPROCESSING for s in (1e-1, 1e-3)],
    )
    chosen = [grid[0], grid[3], grid[5], grid[2]]

    def everything():
        matrix = matrix_of(rows)
        given_answers = predictions(matrix, fits, chosen, classifier="logistic")
        return (
            grid_scores(matrix, fits, truth, grid, classifier="logistic", metrics=["accuracy"])[
                "accuracy"
            ],
            given_answers,
        )

    sizes = []
    for name in ("minimize", "minimize_path"):
        solve = getattr(targets, name)
        monkeypatch.setattr(
            targets,
            name,
            lambda rows, *a, solve=solve, **k: (
                sizes.append(len(rows.values)) or solve(rows, *a, **k)
            ),
        )
    scores, found = everything()
    assert max(sizes) > 1
    sizes.clear()
    monkeypatch.setattr(fitting, "max_fits_at_once", lambda *_, **__: 1)
    monkeypatch.setattr(design, "_CHUNK", 7 * 70)  # seven rows answered at a time
    scores_apart, found_apart = everything()
    assert sizes == [1] * 16  # four fits in three ways, then each in its own
    np.testing.assert_array_equal(scores_apart, scores)
    assert all(np.array_equal(a, b) for a, b in zip(found_apart, found, strict=True))


def test_a_chunk_fits_into_memory_and_holds_one_fit_at_least():
    table = torch.zeros(10, 100)
    many, few = (design.max_fits_at_once(table, n, num_columns=10) for n in (1000, 50_000_000))
    assert few == 1
    assert many == 2**26 // (1000 * 101 * 2 + 8 * 1000 * 10)


# --- properties ---


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(PREPROCESSING), st.sampled_from([1e-4, 3.0, 1e6]))
def test_order_and_scale_of_the_representation_change_nothing(seed, preprocessing, scale):
    rows, labels = case("narrow", num_rows=200)
    rng = np.random.default_rng(seed)
    train, rest = np.arange(40), np.arange(40, 200)
    columns, order = rng.permutation(6), rng.permutation(40)
    chosen = [ProbeSetting(preprocessing, 1e-2)]
    (plain,) = predictions(
        matrix_of(rows),
        [Fit(train, labels[train], rest)],
        chosen,
        classifier="logistic",
    )
    other = matrix_of(scale * rows[:, columns])
    (moved,) = predictions(
        other, [Fit(train[order], labels[train[order]], rest)], chosen, classifier="logistic"
    )
    np.testing.assert_array_equal(plain, moved)


def test_nothing_that_came_in_is_changed():
    rows, labels = case("narrow", num_rows=90)
    table, before = torch.from_numpy(rows.copy()), labels.copy()
    fit = Fit(np.arange(40), labels[:40], np.arange(40, 90))
    for preprocessing in PREPROCESSING:
        predictions(
            PreprocessedMatrix(table, "cpu"),
            [fit],
            [ProbeSetting(preprocessing, 1e-2)],
            classifier="svm",
        )
    assert torch.equal(table, torch.from_numpy(rows)) and np.array_equal(labels, before)
    assert np.array_equal(fit.train, np.arange(40))
