"""The SVM probe: nested cross-validation against a slow rewrite, and its folds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC, LinearSVC

import graphlatent.probes.rbf as rbf
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.kernel_svm import rbf_gamma
from graphlatent.probes.results import Choice
from graphlatent.probes.svm import inner_splits, outer_fold_protocol, outer_fold_splits, svm_probe

PREPROCESSING = ("none", "row", "standard")
L2_GRID, C_GRID = (1e-3, 1e-1), (0.1, 10.0)
SMALL = {
    "num_folds": 3,
    "inner_folds": 2,
    "l2": L2_GRID,
    "C": C_GRID,
    "preprocessing": PREPROCESSING,
}

QUICK = {**SMALL, "num_folds": 2, "preprocessing": ("none", "standard")}


def blobs(num_rows=90, num_columns=5, num_classes=3, *, noise=1.5, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(num_classes, size=num_rows)
    rows = (
        1
        + rng.normal(size=(num_classes, num_columns))[labels]
        + noise * rng.normal(size=(num_rows, num_columns))
    )
    return rows * rng.uniform(0.2, 3, size=num_columns), labels


# --- the slow rewrites: predictions of one fit ---


def linear_machine(rows, labels, train, answer, preprocessing, l2, *, outer):
    """Rows of mean 0 and mean squared norm 1; the scaled intercept is almost unpenalised."""
    x = normalize(rows) if preprocessing == "row" else rows
    x = StandardScaler().fit(x[train]).transform(x) if preprocessing == "standard" else x
    x = x - x[train].mean(0)
    x = x / np.sqrt((x[train] ** 2).sum(1).mean())
    model = LinearSVC(
        C=1 / (len(train) * l2),
        dual=False,
        intercept_scaling=100.0,
        tol=1e-9,
        max_iter=100_000,
    )
    return model.fit(x[train], labels[train]).predict(x[answer])


def rbf_machine(rows, labels, train, answer, preprocessing, cost, *, outer):
    """gamma is 1 / (sum of the variances); deviations are those of the outer training part."""
    x = normalize(rows) if preprocessing == "row" else rows
    x = StandardScaler().fit(x[outer]).transform(x) if preprocessing == "standard" else x
    return (
        SVC(C=cost, gamma=1 / x[train].var(0).sum()).fit(x[train], labels[train]).predict(x[answer])
    )


def slow_probe(machine, representations, labels, *, grid, seed=0):
    """Choice and accuracy of every outer fold, one fit after the other."""
    name_of = "strength" if machine is linear_machine else "C"
    protocol = outer_fold_protocol(labels, num_folds=3, seed=seed)
    found = []
    for part, folds in zip(
        protocol.visible(), inner_splits(protocol.visible(), inner_folds=2, seed=seed), strict=True
    ):
        scores = {}
        for name, rows in representations.items():
            for preprocessing in PREPROCESSING:
                for value in grid:
                    right = []
                    for fold in folds:
                        held = part.train[fold.test]
                        rest = np.setdiff1d(part.train, held)
                        predicted = machine(
                            rows, labels, rest, held, preprocessing, value, outer=part.train
                        )
                        right.append(np.mean(predicted == labels[held]))
                    scores[name, preprocessing, value] = np.mean(right)
        best = max(scores, key=lambda setting: round(scores[setting], 12))  # the first of equals
        predicted = machine(
            representations[best[0]], labels, part.train, part.test, *best[1:], outer=part.train
        )
        choice = Choice(
            best[0], {"preprocessing": best[1], name_of: best[2]}, pytest.approx(scores[best])
        )
        found.append((choice, pytest.approx(np.mean(predicted == labels[part.test]))))
    return found


# --- values by hand and the slow rewrite ---


def test_rows_that_say_everything_and_nothing():
    labels = np.arange(40) % 2
    for kernel in ("linear", "rbf"):
        perfect = svm_probe(2.0 * labels[:, None], labels, kernel=kernel, **QUICK)
        assert perfect.scores == (1.0,) * 2
        # Folds are stratified, and one class is predicted
        constant = svm_probe(np.ones((40, 3)), labels, kernel=kernel, **QUICK)
        assert constant.scores == (0.5,) * 2


def test_a_circle_needs_the_rbf_kernel():
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    rows = (
        np.column_stack([np.cos(angle), np.sin(angle)])
        * np.where(np.arange(60) % 2, 1.0, 3.0)[:, None]
    )
    labels = np.arange(60) % 2
    small = {**SMALL, "preprocessing": ("none",)}
    assert svm_probe(rows, labels, kernel="rbf", **small).mean == 1.0
    assert svm_probe(rows, labels, kernel="linear", **small).mean < 0.8


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_probe_of_folds_is_the_slow_rewrite(classes):
    rows, labels = blobs(num_classes=classes)
    result = svm_probe(rows, labels, seed=5, **SMALL)
    expected = slow_probe(linear_machine, {"": rows}, labels, grid=L2_GRID[::-1], seed=5)
    assert list(zip(result.choices, result.scores, strict=True)) == expected
    assert (
        result.selection
        == "Per outer fold, the preprocessing and strength with the highest mean accuracy over 2"
        " stratified shuffled inner folds of its training part; among equals the one named"
        " first, then the stronger penalty. Then fitted on the whole training part. The test"
        " fold's labels are read once."
    )


@pytest.mark.parametrize("kind", ["dense", "sparse", "far away"])
def test_rbf_probe_of_folds_is_the_slow_rewrite(kind):
    rows, labels = blobs()
    rows = rows * (np.random.default_rng(0).random(rows.shape) < 0.7) if kind == "sparse" else rows
    given_rows = {"sparse": sp.csr_matrix(rows), "far away": rows + 1e5}.get(kind, rows)
    ways = {"preprocessing": ("none", "standard")} if kind == "far away" else {}
    result = svm_probe(given_rows, labels, kernel="rbf", **{**SMALL, **ways})
    if kind == "far away":  # distances do not see it
        assert result == svm_probe(rows, labels, kernel="rbf", **{**SMALL, **ways})
        return
    expected = slow_probe(rbf_machine, {"": rows}, labels, grid=C_GRID)
    assert list(zip(result.choices, result.scores, strict=True)) == expected
    assert "the preprocessing and C with the highest mean accuracy" in result.selection


def test_several_representations_are_chosen_from_per_fold():
    rows, labels = blobs(noise=2.0)
    noise = np.random.default_rng(1).normal(size=rows.shape)
    representations = {"early": rows + 0.4 * noise, "late": np.tanh(rows)}
    linear = svm_probe(representations, labels, **SMALL)
    expected = slow_probe(linear_machine, representations, labels, grid=L2_GRID[::-1])
    assert list(zip(linear.choices, linear.scores, strict=True)) == expected
    names = [choice.candidate for choice in linear.choices]
    assert len(set(names)) == 2
    # The RBF kernel takes the representation that the linear SVM chose, and chooses the rest
    # itself.
    kernel = svm_probe(representations, labels, kernel="rbf", **SMALL)
    alone = {
        name: svm_probe(rows, labels, kernel="rbf", **SMALL)
        for name, rows in representations.items()
    }
    assert [choice.candidate for choice in kernel.choices] == names
    assert kernel.scores == tuple(alone[name].scores[k] for k, name in enumerate(names))
    assert [c.settings for c in kernel.choices] == [
        alone[name].choices[k].settings for k, name in enumerate(names)
    ]
    assert (
        "the epoch or representation (by the linear SVM), preprocessing and C with"
        in kernel.selection
    )
    assert "the epoch or representation, preprocessing and strength with" in linear.selection


def test_gamma_by_hand():
    distances = np.array([[0.0, 4.0, 16.0], [4.0, 0.0, 4.0], [16.0, 4.0, 0.0]])  # of 0, 2 and 4
    assert rbf_gamma(distances) == pytest.approx(1 / np.var([0, 2, 4]))
    assert rbf_gamma(distances[:2, :2]) == pytest.approx(1.0)  # variance 1
    assert rbf_gamma(distances[1:2, 1:2]) == 1.0  # no variance


# --- folds ---


def test_outer_folds_test_every_row_once_and_train_on_all_others():
    labels = blobs()[1]
    splits = outer_fold_splits(torch.from_numpy(labels), num_folds=4, seed=3)
    assert np.sort(np.concatenate([s.test for s in splits])).tolist() == list(range(90))
    for split in splits:
        assert len(split.val) == 0
        np.testing.assert_array_equal(
            np.sort(np.concatenate([split.train, split.test])), np.arange(90)
        )
    assert any(
        not np.array_equal(a.test, b.test)
        for a, b in zip(splits, outer_fold_splits(labels, num_folds=4, seed=4), strict=True)
    )


def test_inner_folds_are_of_the_training_part_alone():
    labels = blobs()[1]
    parts = outer_fold_protocol(labels, num_folds=4).visible()
    inner = inner_splits(parts, inner_folds=3, seed=0)
    for part, folds in zip(parts, inner, strict=True):
        held = np.concatenate([part.train[fold.test] for fold in folds])
        np.testing.assert_array_equal(np.sort(held), part.train)
        counts = np.array(
            [np.bincount(part.train_labels[fold.test], minlength=3) for fold in folds]
        )
        assert (np.ptp(counts, axis=0) <= 1).all()  # stratified
    alike = inner_splits(
        outer_fold_protocol(np.zeros(40), num_folds=4).visible(), inner_folds=3, seed=0
    )
    assert not np.array_equal(alike[0][0].test, alike[1][0].test)  # drawn anew for every outer fold


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_order_of_columns_and_scale_change_nothing(kernel):
    rows, labels = blobs(num_rows=45)
    columns = np.random.default_rng(0).permutation(5)
    plain, moved = (
        svm_probe(x, labels, kernel=kernel, **SMALL) for x in (rows, 1e4 * rows[:, columns])
    )
    assert plain.scores == moved.scores
    assert plain.choices == moved.choices


def test_seeds_change_the_folds_and_nothing_else():
    rows, labels = blobs()
    one, again, other = (svm_probe(rows, labels, seed=seed, **SMALL) for seed in (0, 0, 1))
    assert one == again
    assert one.splits != other.splits


# --- small and bad input ---


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_class_with_fewer_members_than_folds(kernel):
    rows, labels = blobs(num_rows=30)
    labels = np.where(np.arange(30) == 0, 9, labels)  # one row of a class of its own
    result = svm_probe(rows, labels, kernel=kernel, **SMALL)
    assert len(result.scores) == 3 and all(0 <= score < 1 for score in result.scores)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_single_class(kernel):
    assert svm_probe(blobs()[0], np.zeros(90), kernel=kernel, **SMALL).scores == (1.0,) * 3


def test_nothing_that_came_in_is_changed():
    rows, labels = blobs()
    before = rows.copy(), labels.copy()
    for kernel in ("linear", "rbf"):
        svm_probe(rows, labels, kernel=kernel, **SMALL)
    assert np.array_equal(rows, before[0]) and np.array_equal(labels, before[1])


def test_distances_are_exact_beside_a_huge_row():
    rows = np.vstack([blobs()[0], np.full((1, 5), 1e9)])
    found = rbf._squared_distances(rows)[:90, :90]
    np.testing.assert_allclose(found, ((rows[:90, None] - rows[None, :90]) ** 2).sum(2), atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"kernel": "poly"},
            ConfigError,
            "The 'kernel' parameter of svm_probe must be 'linear' or 'rbf'. Got 'poly' instead.",
        ),
        (
            {"l2": (-1.0,)},
            ConfigError,
            (
                "The 'l2' parameter of svm_probe must be one or more floats in the range"
                " [1e-08, 1000]. Got (-1.0,) instead."
            ),
        ),
        (
            {"preprocessing": ("pca",)},
            ConfigError,
            (
                "The 'preprocessing' parameter of svm_probe must be one or more of ('none', 'row',"
                " 'standard'). Got ('pca',) instead."
            ),
        ),
        (
            {"kernel": "rbf", "C": ()},
            ConfigError,
            (
                "The 'C' parameter of svm_probe must be one or more floats in the range (0.0,"
                " inf). Got () instead."
            ),
        ),
        (
            {"kernel": "rbf", "C": (0.0, 1.0)},
            ConfigError,
            (
                "The 'C' parameter of svm_probe must be one or more floats in the range (0.0,"
                " inf). Got (0.0, 1.0) instead."
            ),
        ),
        (
            {"num_folds": 1},
            ConfigError,
            "The 'num_folds' parameter of fold_splits must be an int of at least 2. Got 1 instead.",
        ),
        (
            {"labels": np.arange(80) % 2},
            InputError,
            "Labels must be one per row of the representation, 90. Got 80.",
        ),
        (
            {"labels": np.arange(80) % 2, "kernel": "rbf"},
            InputError,
            "Labels must be one per row of the representation, 90. Got 80.",
        ),
        (
            {"labels": np.eye(90, 2)},
            InputError,
            "Labels must be a 1-D array, one label per row. Got shape (90, 2).",
        ),
    ],
)
def test_bad_input(changes, kind, message):
    rows, labels = blobs()
    arguments = {"labels": labels, **SMALL, **changes}
    with pytest.raises(kind) as caught:
        svm_probe(rows, arguments.pop("labels"), **arguments)
    assert str(caught.value) == message
