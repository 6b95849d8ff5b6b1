"""The nearest-neighbour probe: by hand, against scikit-learn and a slow rewrite."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import graphlatent.probes.knn as knn
from graphlatent.data.splits import Split, random_splits
from graphlatent.errors import ConfigError, InputError
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.knn import knn_probe
from graphlatent.probes.metrics import METRICS

EVERYTHING = [(d, s) for d in ("euclidean", "cosine") for s in ("none", "standard")]


def blobs(num_rows=150, num_columns=5, num_classes=3, *, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(num_classes, size=num_rows)
    rows = rng.normal(size=(num_classes, num_columns))[labels] + noise * rng.normal(
        size=(num_rows, num_columns)
    )
    return rows * rng.uniform(0.1, 5, size=num_columns), labels


def one_split(train, val, test) -> list[Split]:
    return [Split(np.array(train), np.array(val, dtype=np.int64), np.array(test))]


def predicted(rows, labels, split, **arguments):
    """The answers for the test rows: what the probe predicts, label by label."""
    answers = []
    for label in np.unique(labels):
        guess = np.array(labels)
        guess[split.test] = label  # the score is then the share of rows that were given this label
        wanted = [Split(split.train, split.val, np.array([row])) for row in split.test]
        answers.append(np.array(knn_probe(rows, guess, splits=wanted, **arguments).scores))
    return np.unique(labels)[np.argmax(answers, axis=0)]


def slow(rows, labels, train, query, k, distance, preprocessing):
    """One row at a time, in plain Python; distances rounded as the docstring says."""
    rows = np.asarray(rows, dtype=float)
    if preprocessing == "standard":
        rows = StandardScaler().fit(rows[train]).transform(rows)

    def between(a, b):
        if distance == "euclidean":
            return round(float(np.sum((a - b) ** 2)), 9)
        size = float(np.linalg.norm(a) * np.linalg.norm(b))
        return round(1 - float(a @ b) / size if size > 0 else 1.0, 9)

    near = sorted(range(len(train)), key=lambda i: (between(rows[query], rows[train[i]]), i))[:k]
    votes = [labels[train[i]] for i in near]
    most = max(Counter(votes).values())
    return next(v for v in votes if Counter(votes)[v] == most)


# --- values by hand ---


def test_votes_by_hand():
    rows, labels = np.array([[0.0], [1.0], [10.0], [0.4]]), np.array(["a", "b", "b", "?"])
    split = one_split([0, 1, 2], [], [3])[0]
    alone = {"distances": ["euclidean"], "preprocessing": ["none"]}

    def says(k):
        return [
            knn_probe(rows, [*labels[:3], c], splits=[split], neighbours=[k], **alone).scores[0]
            for c in "ab"
        ]

    assert says(1) == [1.0, 0.0]  # the nearest is a
    assert says(2) == [1.0, 0.0]  # one vote each: the nearest decides
    assert says(3) == [0.0, 1.0]  # two votes of three


# --- independent references ---


@pytest.mark.parametrize("k", [1, 5, 15])
def test_answers_are_scikit_learns(k):
    rows, labels = blobs(num_classes=2)  # odd k, two classes: no votes are equal
    (split,) = random_splits(150, num_splits=1, train_ratio=0.4)
    theirs = KNeighborsClassifier(k).fit(rows[split.train], labels[split.train])
    result = knn_probe(
        rows,
        labels,
        splits=[split],
        neighbours=[k],
        distances=["euclidean"],
        preprocessing=["none"],
    )
    assert result.scores[0] == pytest.approx(theirs.score(rows[split.test], labels[split.test]))
    assert result.choices[0].val_score == pytest.approx(
        theirs.score(rows[split.val], labels[split.val])
    )


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6), st.sampled_from(EVERYTHING), st.booleans())
# Equal distances that fall on both sides of a rounding step
@example(seed=570, k=1, which=("euclidean", "standard"), sparse=False)
def test_answers_are_the_slow_rewrites_on_rows_full_of_ties(seed, k, which, sparse):
    distance, preprocessing = which
    rng = np.random.default_rng(seed)
    rows, labels = rng.integers(-1, 2, size=(20, 3)).astype(float), rng.integers(3, size=20)
    split = one_split(rng.permutation(8), [], np.arange(8, 20))[0]
    settings_ = {"neighbours": [k], "distances": [distance], "preprocessing": [preprocessing]}
    expected = [slow(rows, labels, split.train, q, k, distance, preprocessing) for q in split.test]
    score = knn_probe(
        sp.csr_matrix(rows) if sparse else rows, labels, splits=[split], **settings_
    ).scores[0]
    assert score == np.mean(expected == labels[split.test])
    if not sparse:
        np.testing.assert_array_equal(predicted(rows, labels, split, **settings_), expected)


# --- properties ---


def test_blocks_of_votes_change_nothing(monkeypatch):
    rows, labels = blobs()
    splits = random_splits(150, num_splits=2)
    whole = knn_probe(rows, labels, splits=splits)
    # The votes of two rows at a time
    monkeypatch.setattr(knn, "_BLOCK", 6)
    assert knn_probe(rows, labels, splits=splits).to_dict() == whole.to_dict()


def test_every_form_of_the_rows_gives_the_same():
    rows = np.random.default_rng(0).poisson(0.5, size=(60, 6)).astype(np.float32)
    labels = rows.argmax(1)
    splits = random_splits(60, num_splits=2, train_ratio=0.3)
    forms = [
        rows,
        rows.tolist(),
        torch.from_numpy(rows),
        sp.coo_matrix(rows),
        SparseMatrix.from_scipy(sp.csr_matrix(rows)),
    ]
    results = [knn_probe(form, torch.from_numpy(labels), splits=splits) for form in forms]
    assert all(
        result.scores == results[0].scores and result.splits == results[0].splits
        for result in results
    )
    assert all(
        a.settings == b.settings
        for result in results
        for a, b in zip(result.choices, results[0].choices, strict=True)
    )


def test_the_input_is_not_changed():
    rows, labels = blobs()
    before = rows.copy(), labels.copy()
    sparse = sp.csr_matrix(rows)
    for form in (rows, torch.from_numpy(rows), sparse):
        knn_probe(form, labels, splits=random_splits(150, num_splits=1))
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(sparse.toarray(), before[0])
    np.testing.assert_array_equal(labels, before[1])


# --- the protocol ---


def test_the_choice_sees_neither_test_labels_nor_test_rows():
    rows, labels = blobs()
    splits = random_splits(150, num_splits=3)
    honest = knn_probe(rows, labels, splits=splits)
    for split, choice in zip(splits, honest.choices, strict=True):
        other_labels, other_rows = labels.copy(), rows.copy()
        other_labels[split.test] = np.roll(labels[split.test], 7)
        other_rows[split.test] = 1000.0 * np.random.default_rng(1).normal(
            size=(len(split.test), rows.shape[1])
        )
        assert knn_probe(rows, other_labels, splits=[split]).choices == (choice,)
        assert knn_probe(other_rows, labels, splits=[split]).choices == (choice,)


def test_the_best_on_validation_is_chosen_and_equals_go_to_the_first_named():
    # Everything is right
    rows, labels = np.repeat([[1.0, 0.0], [0.0, 1.0]], 15, axis=0), np.repeat([0, 1], 15)
    order = np.random.default_rng(0).permutation(30)
    splits = one_split(order[:10], order[10:20], order[20:])
    for chosen in (
        {"neighbours": [3, 1]},
        {"distances": ["cosine", "euclidean"]},
        {"preprocessing": ["standard", "none"]},
    ):
        result = knn_probe(rows, labels, splits=splits, **chosen)
        usual = {"preprocessing": "none", "distance": "euclidean", "neighbours": 1}
        named = {
            name.replace("distances", "distance"): values[0] for name, values in chosen.items()
        }
        assert result.choices[0].settings == usual | named
        assert (result.scores, result.choices[0].val_score) == ((1.0,), 1.0)
    noisy, labels = blobs(noise=2.0)
    (split,) = random_splits(150, num_splits=1, train_ratio=0.3, val_ratio=0.3)
    each = [
        knn_probe(
            noisy,
            labels,
            splits=[split],
            neighbours=[k],
            distances=[distance],
            preprocessing=[preprocessing],
        ).choices[0]
        for distance, preprocessing in EVERYTHING
        for k in knn.NEIGHBOURS[:5]
    ]
    best = knn_probe(noisy, labels, splits=[split]).choices[0]
    assert (
        best.val_score
        == max(choice.val_score for choice in each)
        > min(choice.val_score for choice in each)
    )
    assert best in each


def test_refit_takes_the_validation_rows_as_neighbours():
    rows, labels = np.array([[0.0], [5.0], [9.0], [8.0]]), np.array([0, 0, 1, 1])
    splits = one_split([0, 1], [2], [3])
    settings_ = {"neighbours": [1], "distances": ["euclidean"], "preprocessing": ["none"]}
    plain, refitted = (
        knn_probe(rows, labels, splits=splits, refit=refit, **settings_) for refit in (False, True)
    )
    assert (plain.scores, refitted.scores) == ((0.0,), (1.0,))
    assert refitted.choices == plain.choices
    assert refitted.selection == plain.selection + knn.REFITTED
    assert "highest validation accuracy" in plain.selection


def test_several_labels_are_voted_on_one_by_one():
    rows = np.array([[0.0], [1.0], [2.0], [0.1], [0.2]])
    labels = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [1, 0, 1], [1, 1, 0]])
    alone = {
        "splits": one_split([0, 1, 2], [], [3, 4]),
        "distances": ["euclidean"],
        "preprocessing": ["none"],
        "metric": "micro-F1",
    }
    # Votes 2, 1, 1 of 2: the nearest decides, so (1, 0, 1)
    two = knn_probe(rows, labels, neighbours=[2], **alone)
    assert two.scores == (pytest.approx(6 / 8),)  # 3 right, 1 wrong, 1 missing
    assert two.others["accuracy"] == (pytest.approx(4 / 6),)
    three = knn_probe(rows, labels, neighbours=[3], **alone)  # votes 2, 2, 1 of 3: (1, 1, 0)
    assert three.scores == (pytest.approx(6 / 8),)
    assert np.isnan(three.choices[0].val_score)


# --- tiny cases and failures ---


def test_tiny_cases():
    lonely = knn_probe([[0.0], [1.0], [2.0]], [0, 0, 1], splits=one_split([0], [1], [2]))
    assert lonely.scores == (0.0,)
    # The only number that one training row allows
    assert lonely.choices[0].settings["neighbours"] == 1
    constant = knn_probe(
        np.ones((9, 2)), np.arange(9) % 2, splits=one_split([0, 1, 2], [3, 4], [5, 6, 7, 8])
    )
    assert constant.scores == (0.5,)  # every row is as near as the first one


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"neighbours": [0]},
            ConfigError,
            (
                "The 'neighbours' parameter of knn_probe must be one or more ints of at least 1."
                " Got [0] instead."
            ),
        ),
        (
            {"distances": "cosine"},
            ConfigError,
            (
                "The 'distances' parameter of knn_probe must be one or more of ('euclidean',"
                " 'cosine'). Got 'cosine' instead."
            ),
        ),
        (
            {"preprocessing": ["row"]},
            ConfigError,
            (
                "The 'preprocessing' parameter of knn_probe must be one or more of ('none',"
                " 'standard'). Got ['row'] instead."
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
            {"neighbours": [7, 5]},
            InputError,
            (
                "Split 0 has 2 training rows, fewer than each of neighbours=(7, 5). Add a smaller"
                " number, or train on more rows."
            ),
        ),
        (
            {"splits": one_split([0, 1], [], [2])},
            InputError,
            (
                "Split 0 has no validation rows, and there are 4 settings to choose from. "
                "Give it validation rows, or name one of each setting."
            ),
        ),
        (
            {"labels": [0, 1, 0, 1, 1]},
            InputError,
            "Labels must have one entry per row of the representation, 4. Got 5.",
        ),
        (
            {"representation": [[0.0, np.nan]] * 4},
            InputError,
            (
                "The representation holds NaN or infinite values. Look at the training history"
                " before probing it."
            ),
        ),
        (
            {"representation": sp.csr_matrix([[np.inf]] * 4)},
            InputError,
            (
                "The representation holds NaN or infinite values. Look at the training history"
                " before probing it."
            ),
        ),
        (
            {"representation": [["a"]] * 4},
            InputError,
            "The representation must hold numbers. Got values of type <U1.",
        ),
        (
            {"representation": np.zeros(4)},
            InputError,
            "The representation must be a 2-D array, one row per node or graph. Got shape (4,).",
        ),
    ],
)
def test_failures(arguments, kind, message):
    usual = {
        "representation": np.eye(4),
        "labels": [0, 1, 0, 1],
        "splits": one_split([0, 1], [2], [3]),
    } | arguments
    with pytest.raises(kind) as caught:
        knn_probe(usual.pop("representation"), usual.pop("labels"), **usual)
    assert str(caught.value) == message
