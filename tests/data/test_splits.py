"""Splits: sizes by hand, shares of classes, and that split k depends on nothing but the seed and
k.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.splits import fold_splits, random_splits
from graphlatent.errors import ConfigError, InputError


def assert_partition(split, num_rows):
    parts = (split.train, split.val, split.test)
    assert all(part.dtype == np.int64 and len(part) and (np.diff(part) > 0).all() for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(num_rows))


def test_default_sizes_are_10_10_80():
    splits = random_splits(250)
    assert len(splits) == 20
    assert {(len(s.train), len(s.val), len(s.test)) for s in splits} == {(25, 25, 200)}


def test_split_k_does_not_depend_on_the_number_of_splits():
    few, many = random_splits(50, num_splits=2, seed=3), random_splits(50, num_splits=7, seed=3)
    for a, b in zip(few, many, strict=False):
        for part in ("train", "val", "test"):
            np.testing.assert_array_equal(getattr(a, part), getattr(b, part))


def test_splits_and_seeds_differ():
    train = [
        tuple(s.train) for seed in (0, 1) for s in random_splits(100, num_splits=10, seed=seed)
    ]
    assert len(set(train)) == 20


def test_every_row_is_drawn_about_equally_often():
    counts = np.zeros(20)
    for split in random_splits(20, num_splits=2000, train_ratio=0.25, val_ratio=0.25):
        counts[split.train] += 1
    assert abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


def test_global_random_state_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    random_splits(30)
    fold_splits(np.arange(30) % 3)
    assert torch.equal(before, torch.get_rng_state())


def test_stratified_shares_by_hand():
    labels = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 10)
    for split in random_splits(100, num_splits=5, stratify=labels):
        for part, sizes in (("train", (6, 3, 1)), ("val", (6, 3, 1)), ("test", (48, 24, 8))):
            names, counts = np.unique(labels[getattr(split, part)], return_counts=True)
            assert dict(zip(names, counts, strict=True)) == dict(zip("abc", sizes, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=12, max_size=60),
    st.floats(0.05, 0.45),
    st.floats(0.05, 0.45),
    st.booleans(),
    st.integers(0, 10),
)
def test_random_splits_are_partitions(labels, train_ratio, val_ratio, stratified, seed):
    labels = np.array(labels)
    stratify = labels if stratified else None
    for split in random_splits(
        len(labels),
        num_splits=2,
        train_ratio=train_ratio,
        val_ratio=val_ratio,
        seed=seed,
        stratify=stratify,
    ):
        assert_partition(split, len(labels))
        assert len(split.train) == max(1, round(train_ratio * len(labels)))
        if stratified:
            share = len(split.train) / len(labels)
            for label, size in zip(*np.unique(labels, return_counts=True), strict=True):
                assert abs((labels[split.train] == label).sum() - share * size) <= 1.5


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=6, max_size=50), st.integers(2, 6), st.integers(0, 10))
def test_folds_are_stratified_partitions(labels, num_folds, seed):
    labels = np.array(labels)
    splits = fold_splits(labels, num_folds=num_folds, seed=seed)
    assert len(splits) == num_folds
    for split in splits:
        assert_partition(split, len(labels))
    np.testing.assert_array_equal(
        np.sort(np.concatenate([s.test for s in splits])), np.arange(len(labels))
    )
    for label in np.unique(labels):  # also where a class has fewer members than there are folds
        counts = [int((labels[s.test] == label).sum()) for s in splits]
        assert max(counts) - min(counts) <= 1
    assert max(len(s.test) for s in splits) - min(len(s.test) for s in splits) <= 1


def test_fold_sizes_by_hand():
    labels = torch.tensor([0] * 50 + [1] * 50)
    for split in fold_splits(labels):
        assert (len(split.train), len(split.val), len(split.test)) == (81, 9, 10)
        assert np.bincount(labels.numpy()[split.test]).tolist() == [5, 5]
        assert set(np.bincount(labels.numpy()[split.val]).tolist()) == {4, 5}


def test_folds_agree_with_scikit_learn_on_sizes():
    from sklearn.model_selection import StratifiedKFold

    labels = np.repeat([0, 1, 2], [17, 9, 5])
    reference = sorted(
        len(test)
        for _, test in StratifiedKFold(5, shuffle=True, random_state=0).split(labels, labels)
    )
    assert sorted(len(s.test) for s in fold_splits(labels, num_folds=5)) == reference


def test_folds_are_shuffled():
    labels = np.zeros(40)
    assert any(
        tuple(a.test) != tuple(b.test)
        for a, b in zip(fold_splits(labels), fold_splits(labels, seed=1), strict=True)
    )


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"num_rows": 2},
            InputError,
            (
                "There are too few rows to split: 2 rows with train_ratio=0.1 and val_ratio=0.1"
                " leave none for the test. Give more rows, or smaller ratios."
            ),
        ),
        (
            {"num_rows": 9, "train_ratio": 1.5},
            ConfigError,
            (
                "The 'train_ratio' parameter of random_splits must be a float in the range (0.0,"
                " 1.0). Got 1.5 instead."
            ),
        ),
        (
            {"num_rows": 9, "train_ratio": 0.6, "val_ratio": 0.4},
            ConfigError,
            (
                "The 'train_ratio' and 'val_ratio' parameters of random_splits must sum to less"
                " than 1, to leave rows for the test. Got 0.6 + 0.4 instead."
            ),
        ),
        (
            {"num_rows": 9, "stratify": np.zeros(8)},
            InputError,
            "Labels must have one entry per row, 9. Got 8.",
        ),
        (
            {"num_rows": 9, "num_splits": 0},
            ConfigError,
            (
                "The 'num_splits' parameter of random_splits must be an int of at least 1. Got 0"
                " instead."
            ),
        ),
    ],
)
def test_bad_random_splits(arguments, kind, message):
    with pytest.raises(kind) as caught:
        random_splits(arguments.pop("num_rows"), **arguments)
    assert str(caught.value) == message


def test_bad_folds():
    with pytest.raises(
        InputError,
        match=r"^There are too few rows for 10 folds: 4 rows\. Every fold needs a row to test",
    ):
        fold_splits(np.zeros(4))
    with pytest.raises(
        ConfigError, match="The 'num_folds' parameter of fold_splits must be an int of at least 2"
    ):
        fold_splits(np.zeros(4), num_folds=1)
    with pytest.raises(
        InputError, match=r"Labels must be a 1-D array, one label per row. Got shape \(4, 1\)."
    ):
        fold_splits(np.zeros((4, 1)), num_folds=2)


def test_smallest_cases():
    assert_partition(random_splits(3, num_splits=1)[0], 3)
    for split in fold_splits(np.array([0, 0, 1]), num_folds=3):
        assert_partition(split, 3)
