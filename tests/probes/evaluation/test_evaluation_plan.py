"""Which probe is run, on which splits and with how many seeds."""

from __future__ import annotations

import numpy as np
import pytest

from graphlatent.data.splits import fold_splits, random_splits
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.evaluation.labels import ProbeLabels
from graphlatent.probes.evaluation.plan import KINDS, EvaluationPlan, evaluation_plan

CLASSES = ProbeLabels(np.arange(60) % 3, np.arange(60), ("y",))
MATRIX = ProbeLabels(np.eye(60, 2, dtype=int), np.arange(60), ("a", "b"))


def test_defaults_are_those_of_the_kind():
    assert evaluation_plan() == EvaluationPlan("linear", 20, 0.1, 0.1, None, 1)
    assert evaluation_plan("knn", splits=3, train=0.3, val=0.2, seeds=2) == EvaluationPlan(
        "knn", 3, 0.3, 0.2, None, 2
    )
    for kind in ("svm", "rbf"):
        assert evaluation_plan(kind).num_folds == 10
        assert evaluation_plan(kind, folds=4).num_folds == 4
    for kind in ("clusters", "spectral", "communities"):
        assert evaluation_plan(kind).num_seeds == 5 and evaluation_plan(kind).is_search


@pytest.mark.parametrize(
    ("kind", "options", "description"),
    [
        ("linear", {}, "20 random splits: 10% training, 10% validation, 80% test"),
        ("knn", {"folds": 4, "seeds": 2}, "4 shuffled folds, with 2 seeds"),
        ("svm", {}, "10 shuffled folds"),
        ("spectral", {"seeds": 2}, "2 seeds of spectral clustering on all rows with a label"),
    ],
)
def test_descriptions(kind, options, description):
    assert evaluation_plan(kind, **options).description == description


@pytest.mark.parametrize("kind", ["linear", "knn"])
def test_splits_of_every_seed(kind):
    plan = evaluation_plan(kind, splits=3, train=0.3, val=0.3, seeds=2)
    expected = [
        random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3, seed=seed)
        for seed in (0, 1)
    ]
    assert_same(plan.splits(CLASSES), expected)
    folds = evaluation_plan(kind, folds=3)
    assert_same(
        folds.splits(CLASSES), [fold_splits(CLASSES.values, num_folds=3, val_ratio=0.1, seed=0)]
    )
    assert_same(
        folds.splits(MATRIX), [fold_splits(np.zeros(60), num_folds=3, val_ratio=0.1, seed=0)]
    )


def test_other_kinds_draw_their_own():
    assert evaluation_plan("svm", seeds=2).splits(CLASSES) == [(), ()]
    assert evaluation_plan("clusters").splits(CLASSES) == [()] * 5


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for split, wanted in zip(one, other, strict=True):
            for part in ("train", "val", "test"):
                np.testing.assert_array_equal(getattr(split, part), getattr(wanted, part))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "tree",
            {},
            f"The 'kind' parameter of probe must be one of {', '.join(KINDS)}. Got 'tree' instead.",
        ),
        (
            "rbf",
            {"splits": 3, "val": 0.2},
            "Leave out 'splits' and 'val': with kind='rbf', settings are chosen in inner folds.",
        ),
        (
            "clusters",
            {"folds": 3},
            "Leave out 'folds': with kind='clusters', there are no training rows.",
        ),
        (
            "linear",
            {"folds": 3, "train": 0.5},
            "Leave out 'train': with kind='linear' and 'folds', every row is tested once and trains"
            " otherwise.",
        ),
    ],
)
def test_options_that_mean_nothing(kind, options, message):
    with pytest.raises(ConfigError) as caught:
        evaluation_plan(kind, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("plan", "labels", "message"),
    [
        (
            evaluation_plan("svm"),
            MATRIX,
            "kind='svm' needs one class per row, and there are 2 label columns. Use linear, knn or"
            " communities.",
        ),
        (
            evaluation_plan("communities"),
            CLASSES,
            "kind='communities' needs a column of 0 and 1 for each community: name several label"
            " columns, or give an array [M, K]. For one class per row use clusters.",
        ),
        (
            evaluation_plan(train=0.8, val=0.2),
            CLASSES,
            "The 'train_ratio' and 'val_ratio' parameters of random_splits must sum to less than 1,"
            " to leave rows for the test. Got 0.8 + 0.2 instead.",
        ),
        (
            evaluation_plan(folds=61),
            CLASSES,
            "There are too few rows for 61 folds: 60 rows. Every fold needs a row to test, and"
            " the other folds one to train and one to choose settings on. Give more rows, or a"
            " smaller num_folds.",
        ),
    ],
)
def test_plans_that_do_not_go_with_the_labels(plan, labels, message):
    with pytest.raises((ConfigError, InputError)) as caught:
        plan.splits(labels)
    assert str(caught.value) == message
