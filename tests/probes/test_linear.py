"""The linear probe as a whole: against a slow rewrite with scikit-learn, and its selection."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler, normalize

from graphlatent.data.splits import Split, random_splits
from graphlatent.errors import ConfigError, InputError
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.results import Choice

L2_GRID, PREPROCESSING = (1e-3, 1e-1), ("none", "row", "standard")


def blobs(num_rows=120, num_columns=6, num_classes=3, *, noise=1.5, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(num_classes, size=num_rows)
    rows = (
        2
        + rng.normal(size=(num_classes, num_columns))[labels]
        + noise * rng.normal(size=(num_rows, num_columns))
    )
    return rows * rng.uniform(0.1, 3, size=num_columns), labels


def prepared(rows, train, preprocessing):
    """What "none", "row" and "standard" mean, in plain NumPy and scikit-learn."""
    if preprocessing == "row":
        rows = normalize(rows)
    if preprocessing == "standard":
        rows = StandardScaler().fit(rows[train]).transform(rows)
    rows = rows - rows[train].mean(0)
    return rows / np.sqrt((rows[train] ** 2).sum(1).mean())


def reference(x, y, l2):
    """scikit-learn at the same objective: its C multiplies the sum of the losses."""
    model = LogisticRegression(C=1 / (len(x) * l2), solver="newton-cg", tol=1e-9, max_iter=20_000)
    return (OneVsRestClassifier(model) if y.ndim == 2 else model).fit(x, y)


def score(truth, predicted):
    return (
        f1_score(truth, predicted, average="micro", zero_division=0.0)
        if truth.ndim == 2
        else np.mean(truth == predicted)
    )


def slow_probe(representations, labels, split, *, refit=False):
    """One split, one setting after the other: the choice and the test score."""
    best = None
    for name, rows in representations.items():
        for preprocessing in PREPROCESSING:
            x = prepared(rows, split.train, preprocessing)
            for l2 in sorted(L2_GRID, reverse=True):
                model = reference(x[split.train], labels[split.train], l2)
                val = score(labels[split.val], model.predict(x[split.val]))
                if best is None or val > best[0]:
                    best = val, name, preprocessing, l2
    val, name, preprocessing, l2 = best
    train = np.concatenate([split.train, split.val]) if refit else split.train
    x = prepared(representations[name], train, preprocessing)
    test = score(labels[split.test], reference(x[train], labels[train], l2).predict(x[split.test]))
    return Choice(
        name, {"preprocessing": preprocessing, "strength": l2}, pytest.approx(val)
    ), pytest.approx(test)


# --- a value by hand, and the slow rewrite ---


def test_a_probe_by_hand():
    # Rows -1 and +1 by class; row 5 lies on the wrong side, so one of two validation rows and two
    # of three test rows are right.
    rows = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0])[:, None]
    labels = np.array(["n", "p", "n", "p", "n", "p", "p", "n", "p"])
    split = Split(np.arange(4), np.array([4, 5]), np.array([6, 7, 8]))
    result = linear_probe(rows, labels, splits=[split], l2=[0.1], preprocessing=["none"])
    assert result.scores == pytest.approx((2 / 3,))
    assert result.choices == (Choice("", {"preprocessing": "none", "strength": 0.1}, 0.5),)
    assert result.metric == "accuracy"
    assert (
        result.selection
        == "Per split, the preprocessing and L2 strength with the highest validation accuracy;"
        " among equals the one named first, then the larger strength. The test labels of a split"
        " are read once, after its choice."
    )


@pytest.mark.parametrize("case", ["one", "several", "refitted", "wide", "table"])
def test_whole_probe_is_the_slow_rewrite(case):
    rows, labels = blobs(num_rows=160, num_classes=4, num_columns=60 if case == "wide" else 6)
    representations = {"": rows}
    if case == "several":
        noise = np.random.default_rng(1).normal(size=rows.shape)
        representations = {"first": rows + 0.3 * noise, "second": rows}
    if case == "table":
        labels = np.column_stack([labels == 0, labels > 1, rows[:, 0] > 0.5]).astype(int)
    splits = random_splits(160, num_splits=2, train_ratio=0.3, val_ratio=0.3, seed=1)
    result = linear_probe(
        representations if case == "several" else rows,
        labels,
        splits=splits,
        l2=L2_GRID,
        preprocessing=PREPROCESSING,
        refit=case == "refitted",
    )
    expected = [
        slow_probe(representations, labels, split, refit=case == "refitted") for split in splits
    ]
    assert list(result.choices) == [choice for choice, _ in expected]
    assert list(result.scores) == [test for _, test in expected]
    if case == "several":
        assert len({choice.candidate for choice in result.choices}) > 1
        assert result.selection.startswith(
            "Per split, the representation, preprocessing and L2 strength with the highest"
            " validation accuracy"
        )


def test_a_table_of_labels_has_micro_f1_and_accuracy_beside_it():
    rows, labels = blobs()
    table = np.eye(3, dtype=int)[labels]
    splits = random_splits(120, num_splits=2, train_ratio=0.4, val_ratio=0.3)
    result = linear_probe(rows, table, splits=splits)
    assert result.metric == "micro-F1" and "validation micro-F1" in result.selection
    # Zeros are most of the cells
    assert all(
        f1 < cells for f1, cells in zip(result.scores, result.others["accuracy"], strict=True)
    )
    by_cells = linear_probe(rows, table, splits=splits, metric="accuracy")
    assert (by_cells.metric, list(by_cells.others)) == ("accuracy", ["micro-F1"])
    assert linear_probe(rows, table.tolist(), splits=splits) == result
    assert linear_probe(rows, torch.from_numpy(table), splits=splits) == result


# --- forms of the same input ---


@pytest.mark.parametrize(
    "change",
    [
        "sparse",
        "sparse matrix",
        "tensor",
        "float32",
        "names",
        "label tensor",
        "scaled",
        "shifted",
        "named",
    ],
)
def test_forms_of_the_same_input(change):
    rows, labels = blobs()
    splits = random_splits(120, num_splits=2, train_ratio=0.4, val_ratio=0.3)
    quick = {"splits": splits, "preprocessing": ("none", "standard"), "l2": (1e-4, 1e-2)}
    expected = linear_probe(rows, labels, **quick)
    changed = {
        "sparse": (sp.coo_matrix(rows), labels),
        "sparse matrix": (
            SparseMatrix.from_scipy(sp.csr_matrix(rows), dtype=torch.float64),
            labels,
        ),
        "tensor": (torch.from_numpy(rows).requires_grad_(), labels),
        "float32": (rows.astype(np.float32), labels),
        "names": (rows, np.array(["ant", "bee", "cat"])[labels]),
        "label tensor": (rows.tolist(), torch.from_numpy(labels)),
        "scaled": (rows * 1e5, labels),
        "shifted": (rows + 1e3, labels),
        "named": ({"": rows}, labels),
    }[change]
    assert linear_probe(*changed, **quick) == expected


def test_nothing_that_came_in_is_changed():
    rows, labels = blobs()
    splits = random_splits(120, num_splits=2, train_ratio=0.4, val_ratio=0.3)
    before = [
        a.copy() for a in (rows, labels, *(p for s in splits for p in (s.train, s.val, s.test)))
    ]
    linear_probe(rows, labels, splits=splits, refit=True)
    after = (rows, labels, *(p for s in splits for p in (s.train, s.val, s.test)))
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_order_of_rows_and_columns_does_not_matter(seed):
    rows, labels = blobs(num_rows=60, num_columns=4, seed=seed)
    (split,) = random_splits(60, num_splits=1, train_ratio=0.4, val_ratio=0.3, seed=seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(60)
    place = np.argsort(order)
    moved = Split(*(np.sort(place[part]) for part in (split.train, split.val, split.test)))
    arguments = {"l2": (1e-2,), "preprocessing": ("standard",)}
    plain = linear_probe(rows, labels, splits=[split], **arguments)
    shuffled = linear_probe(
        rows[order][:, rng.permutation(4)], labels[order], splits=[moved], **arguments
    )
    assert (plain.scores, plain.choices) == (shuffled.scores, shuffled.choices)


# --- choosing ---


def test_validation_rows_choose_but_do_not_train():
    rows, labels = blobs(num_rows=200, noise=3.0)
    (split,) = random_splits(200, num_splits=1)
    wrong = labels.copy()
    wrong[split.val] = (labels[split.val] + 1) % 3
    honest, misled = (linear_probe(rows, y, splits=[split]) for y in (labels, wrong))
    assert honest.choices != misled.choices
    # Nothing to choose: validation labels say nothing
    one = {"l2": (1e-2,), "preprocessing": ("none",)}
    assert (
        linear_probe(rows, labels, splits=[split], **one).scores
        == linear_probe(rows, wrong, splits=[split], **one).scores
    )


def test_refitting_changes_the_last_fit_and_not_the_choice():
    rows, labels = blobs(num_rows=200, noise=3.0)
    splits = random_splits(200, num_splits=3)
    plain, again = (
        linear_probe(rows, labels, splits=splits, refit=refit) for refit in (False, True)
    )
    assert plain.choices == again.choices
    assert plain.scores != again.scores
    assert (
        again.selection
        == plain.selection + " Then fitted once more on its training and validation rows together."
    )


def test_equals_go_to_the_first_representation_and_preprocessing_and_the_larger_strength():
    labels = np.arange(100) % 2
    rows, splits = np.eye(2)[labels], random_splits(100, num_splits=1)
    (choice,) = linear_probe(
        {"b": rows, "a": rows}, labels, splits=splits, l2=(1e-3, 1e-1, 1e-2)
    ).choices
    assert choice == Choice("b", {"preprocessing": "none", "strength": 1e-1}, 1.0)
    (choice,) = linear_probe(
        rows, labels, splits=splits, preprocessing=("standard", "none")
    ).choices
    assert choice.settings["preprocessing"] == "standard"


def test_perfect_and_hopeless():
    labels = np.arange(200) % 4
    splits = random_splits(200, num_splits=3)
    assert linear_probe(np.eye(4)[labels], labels, splits=splits).scores == (1.0,) * 3
    noise = np.random.default_rng(0).normal(size=(200, 5))
    assert linear_probe(noise, labels, splits=splits).mean < 0.4


# --- small and bad input ---


def test_a_class_missing_from_training_is_never_predicted():
    labels = np.array([0, 1] * 10 + [2] * 4)
    split = Split(np.arange(10), np.arange(10, 20), np.arange(20, 24))
    assert linear_probe(np.eye(3)[labels], labels, splits=[split]).scores == (0.0,)


@pytest.mark.parametrize("rows", [np.ones((30, 3)), np.zeros((30, 50)), sp.csr_matrix((30, 4))])
def test_constant_rows_predict_one_class(rows):
    labels = np.array([1] * 20 + [0] * 10)
    splits = random_splits(30, num_splits=2, train_ratio=0.4, val_ratio=0.2, stratify=labels)
    assert linear_probe(rows, labels, splits=splits).scores == pytest.approx((2 / 3,) * 2)


def test_a_single_class_and_three_rows():
    assert linear_probe(
        np.arange(20.0)[:, None], np.zeros(20), splits=random_splits(20, num_splits=1)
    ).scores == (1.0,)
    three = linear_probe(
        np.arange(3.0)[:, None],
        [0, 1, 0],
        splits=[Split(np.array([0]), np.array([1]), np.array([2]))],
    )
    assert three.scores == (1.0,)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"l2": (0.0,)},
            ConfigError,
            (
                "The 'l2' parameter of linear_probe must be one or more floats in the range"
                " [1e-08, 1000]. Got (0.0,) instead."
            ),
        ),
        (
            {"l2": ()},
            ConfigError,
            (
                "The 'l2' parameter of linear_probe must be one or more floats in the range"
                " [1e-08, 1000]. Got () instead."
            ),
        ),
        (
            {"preprocessing": ("whiten",)},
            ConfigError,
            (
                "The 'preprocessing' parameter of linear_probe must be one or more of ('none',"
                " 'row', 'standard'). Got ('whiten',) instead."
            ),
        ),
        (
            {"preprocessing": "none"},
            ConfigError,
            (
                "The 'preprocessing' parameter of linear_probe must be one or more of ('none',"
                " 'row', 'standard'). Got 'none' instead."
            ),
        ),
        (
            {"metric": "auc"},
            ConfigError,
            (
                f"The 'metric' parameter of Protocol must be one of {tuple(METRICS)}. Got 'auc'"
                " instead."
            ),
        ),
        (
            {"labels": np.arange(11) % 2},
            InputError,
            "Labels must be one per row of the representation, 10. Got 11.",
        ),
        (
            {"splits": ()},
            InputError,
            "There are no splits to probe on. Make some with random_splits or fold_splits.",
        ),
        (
            {"splits": [Split(np.arange(3), np.arange(0), np.arange(5, 10))]},
            InputError,
            (
                "A split without validation rows leaves nothing to choose settings on. Use"
                " svm_probe, which makes inner folds."
            ),
        ),
        (
            {"representation": {}},
            InputError,
            "There is no representation to probe: the mapping is empty.",
        ),
        (
            {"representation": np.full((10, 2), np.nan)},
            InputError,
            (
                "The representation holds NaN or infinite values. Look at the training history"
                " before probing it."
            ),
        ),
        (
            {"representation": np.zeros(10)},
            InputError,
            "The representation must be a 2-D array, one row per node or graph. Got shape (10,).",
        ),
        (
            {"representation": [["a"]] * 10},
            InputError,
            "The representation must hold numbers. Got values of type <U1.",
        ),
    ],
)
def test_bad_input(changes, kind, message):
    arguments = {
        "representation": np.eye(10),
        "labels": np.arange(10) % 2,
        "splits": random_splits(10, num_splits=1),
        **changes,
    }
    with pytest.raises(kind) as caught:
        linear_probe(arguments.pop("representation"), arguments.pop("labels"), **arguments)
    assert str(caught.value) == message
