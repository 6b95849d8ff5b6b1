"""Prepared rows and fits of many parts at once: by hand, against scikit-learn fitted one at a time,
and kept apart from each other.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC

import graphlatent.probes.design as design
import graphlatent.probes.fitting as fitting
import graphlatent.probes.targets as targets
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.design import Design, checked_matrix, unit_rows
from graphlatent.probes.fitting import (
    Fit,
    PreprocessedMatrix,
    ProbeSetting,
    grid_scores,
    predictions,
)
from graphlatent.probes.metrics import METRICS

PREPROCESSING = ("none", "row", "standard")


def case(kind, *, num_classes=3, num_rows=900):
    rng = np.random.default_rng(3)
    labels = np.arange(num_rows) % num_classes
    width = {"wide": 70, "copies": 70}.get(kind, 6)
    rows = (
        2 + rng.normal(size=(num_classes, width))[labels] + 1.5 * rng.normal(size=(num_rows, width))
    )
    rows = rows * rng.uniform(0.2, 3, size=width)
    if kind == "rank":
        rows = rows[:, :3] @ rng.normal(size=(3, 12))
    if kind == "copies":
        rows[:40] = np.repeat(rows[:10], 4, axis=0)
        labels[:40] = np.repeat(labels[:10], 4)
    if kind == "constant":
        rows[:, 2] = 7.0
        rows[:50, 4] = 3.0  # constant in the first fits only
    if kind == "sparse":
        rows = rows * (rng.random(rows.shape) < 0.5)
    return (rows.astype(np.float32) if kind == "float32" else rows), labels


def matrix_of(rows, *, sparse=False):
    return PreprocessedMatrix(checked_matrix(sp.csr_matrix(rows) if sparse else rows), "cpu")


def prepared(rows, train, preprocessing):
    """What `Design` promises, in plain NumPy and scikit-learn."""
    rows = np.asarray(rows, dtype=np.float64)
    if preprocessing == "row":
        rows = normalize(rows)
    if preprocessing == "standard":
        rows = StandardScaler().fit(rows[train]).transform(rows)
    rows = rows - rows[train].mean(0)
    constant = rows[train].std(0) < 1e-12
    rows[:, constant] = 0.0
    return rows / np.sqrt((rows[train] ** 2).sum(1).mean())


def reference(classifier, x, y, l2):
    """scikit-learn's model at the same objective. Its intercept is free in the one; in the other a
    scale makes it all but free.
    """
    C = 1 / (len(x) * l2)
    if classifier == "logistic":
        C = 2 * C if len(np.unique(y)) == 2 else C
        return LogisticRegression(C=C, solver="newton-cg", tol=1e-9, max_iter=10_000).fit(x, y)
    return LinearSVC(C=C, dual=False, intercept_scaling=100.0, tol=1e-9, max_iter=100_000).fit(x, y)


# --- prepared rows ---


def test_prepared_rows_by_hand():
    table = torch.tensor(
        [[0.0, 5.0, 1.0], [2.0, 5.0, 7.0], [100.0, 9.0, 100.0]], dtype=torch.float64
    )
    plain, standard = (
        Design.of(table, [np.array([0, 1])], preprocessing)
        for preprocessing in ("none", "standard")
    )
    # columns less their means: -1, 0, -3 and 1, 0, 3, squared norm 10; divided by their deviations:
    # -1, 0, -1 and 1, 0, 1, squared norm 2
    np.testing.assert_allclose(plain.basis[0][0] * 10**0.5, [[-1, 0, -3], [1, 0, 3]])
    np.testing.assert_allclose(standard.basis[0][0] * 2**0.5, [[-1, 0, -1], [1, 0, 1]])
    assert plain.rows.weight.tolist() == [[0.5, 0.5]]
    np.testing.assert_allclose(plain.shift[0], [1, 5, 4])
    np.testing.assert_allclose(
        unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0.0, 0.0]]
    )


@pytest.mark.parametrize("preprocessing", PREPROCESSING)
@pytest.mark.parametrize("kind", ["narrow", "constant", "sparse"])
def test_prepared_rows_are_scikit_learns(kind, preprocessing):
    rows, _ = case(kind)
    index = [np.arange(0, 60, 2), np.arange(17), np.arange(200, 290)]
    found = Design.of(
        matrix_of(rows, sparse=kind == "sparse").under(preprocessing), index, preprocessing
    )
    assert found.basis is None
    for f, train in enumerate(index):
        n = len(train)
        values = found.rows.values[f].numpy()
        np.testing.assert_allclose(
            values[:n, :-1], prepared(rows, train, preprocessing)[train], atol=1e-12
        )
        assert (values[:n, -1] == 1).all()
        np.testing.assert_allclose(found.rows.weight[f], (np.arange(90) < n) / n)
        assert not values[n:].any()  # rows that only fill up
        assert (values[:n, :-1] ** 2).sum(1).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("preprocessing", PREPROCESSING)
@pytest.mark.parametrize("kind", ["narrow", "wide", "copies", "sparse"])
def test_classifiers_of_prepared_rows_and_of_the_table_agree(kind, preprocessing):
    rows, _ = case(kind)
    index = [np.arange(40), np.arange(100, 123)]
    table = matrix_of(rows, sparse=kind == "sparse").under(preprocessing)
    found = Design.of(table, index, preprocessing)
    weights = torch.randn(
        2,
        3,
        found.rows.values.shape[2],
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    )
    # The minimum lies in the span of the rows; what fills up is not in it
    if found.basis is not None:
        weights[:, :, :-1] = (
            weights[:, :, :40] @ found.rows.values[:, :, :-1] * (found.rows.weight > 0)[:, None]
        )
    inside = found.rows.logits(weights[:, None])[:, 0].mT
    for f, logits in enumerate(found.to_models(weights).logits(table, index)):
        torch.testing.assert_close(logits, inside[f, : len(index[f])], atol=1e-4, rtol=1e-4)


def test_rows_outside_a_fit_do_not_reach_it():
    rows, _ = case("narrow")
    changed = rows.copy()
    changed[50:] = 1e6 * changed[50:] + 3
    before, after = (
        Design.of(torch.from_numpy(x), [np.arange(50)], "standard") for x in (rows, changed)
    )
    for a, b in (
        (before.rows.values, after.rows.values),
        (before.shift, after.shift),
        (before.scale, after.scale),
    ):
        assert torch.equal(a, b)


# --- answers against scikit-learn, one fit at a time ---


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
        metric=metric,
    )
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
            grid_scores(matrix, fits, truth, grid, classifier="logistic", metric="accuracy"),
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


def test_sparse_tables_stay_sparse():
    table = SparseMatrix.from_scipy(sp.csr_matrix([[3.0, 4.0], [0.0, 0.0]]))
    matrix = PreprocessedMatrix(table, "cpu")
    unit = matrix.under("row")
    assert isinstance(unit, SparseMatrix) and unit is matrix.under("row")  # made once
    np.testing.assert_allclose(unit.to_scipy().toarray(), [[0.6, 0.8], [0.0, 0.0]])
    assert matrix.under("none") is matrix.under("standard")


@pytest.mark.parametrize("sparse", [False, True])
def test_short_rows_have_unit_length_too(sparse):
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]]) * 1e-20
    found = unit_rows(checked_matrix(sp.csr_matrix(rows) if sparse else rows))
    np.testing.assert_allclose(found.to_dense(), [[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]])
