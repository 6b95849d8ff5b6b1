"""The paper's node probe: against a plain training loop, and splits independent of each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from graphlatent.data.splits import Split, random_splits
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes import adam
from graphlatent.probes.adam import adam_predictions
from graphlatent.probes.protocol import Protocol
from graphlatent.probes.results import Choice

HOW = {"epochs": 12, "weight_decay": 1e-2}


def blobs(num_rows=240, num_columns=6, num_classes=4, *, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(num_classes, size=num_rows)
    return (
        rng.normal(size=(num_classes, num_columns))[labels]
        + 1.5 * rng.normal(size=(num_rows, num_columns)),
        labels,
    )


def halves(num_rows, *, num_splits=3, train=0.3, seed=0):
    return random_splits(
        num_rows, num_splits=num_splits, train_ratio=train, val_ratio=0.2, seed=seed
    )


def answers(rows, labels, splits, **how):
    return adam_predictions({"it": rows}, Protocol(labels, splits), **{**HOW, **how})["it"]


def slow_probe(rows, labels, split, *, epochs, weight_decay, lr=0.01, seed=0):
    """One split in plain torch: the answers to validation and test rows."""
    x = torch.as_tensor(rows, dtype=torch.float32)
    classes = sorted(set(labels[split.train].tolist()))
    target = torch.tensor([classes.index(label) for label in labels[split.train].tolist()])
    model = nn.Linear(x.shape[1], len(classes))
    nn.init.xavier_uniform_(model.weight, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(epochs):
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(model(x[split.train]), target).backward()
        optimizer.step()
    with torch.no_grad():
        given = np.array(classes)[model(x).argmax(1).numpy()]
    return given[split.val], given[split.test]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.choice == other.choice
        np.testing.assert_array_equal(one.predicted, other.predicted)


# --- a value by hand, and the plain loop ---


def test_one_step_by_hand():
    """Adam's first step is lr times the sign of the gradient; a large lr outweighs the start."""
    rows = np.array([-1.0, 1.0, -2.0, 3.0, 0.5, -0.5, 4.0])[:, None]
    labels = np.array(["n", "p", "n", "p", "p", "n", "n"])
    (found,) = answers(
        rows,
        labels,
        [Split(np.arange(2), np.arange(2, 4), np.arange(4, 7))],
        epochs=1,
        weight_decay=0.0,
        lr=100.0,
    )
    assert found.predicted.tolist() == ["p", "n", "p"]
    assert found.choice == Choice("it", {"epochs": 1, "weight_decay": 0.0, "lr": 100.0}, 1.0)


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize(
    "how", [{}, {"weight_decay": 0.5}, {"epochs": 1}, {"epochs": 60, "lr": 0.1, "seed": 7}]
)
def test_is_the_plain_loop_of_torch(how, names):
    rows, labels = blobs()
    labels = np.array(list("dcba"))[labels] if names else labels * 3 - 5
    splits = halves(240)
    for found, split in zip(answers(rows, labels, splits, **how), splits, strict=True):
        val, test = slow_probe(rows, labels, split, **{**HOW, **how})
        np.testing.assert_array_equal(found.predicted, test)
        assert found.choice.val_score == np.mean(val == labels[split.val])
        said = {"lr": 0.01, **HOW, **how}
        assert found.choice.settings == {key: said[key] for key in ("epochs", "weight_decay", "lr")}


def test_rows_are_taken_as_they_are_in_any_form():
    rows, labels = blobs()
    rows = np.where(np.abs(rows) > 1, rows, 0.0).astype(np.float32)
    row, col = np.nonzero(rows)
    sparse = SparseMatrix.from_coo(
        torch.from_numpy(row), torch.from_numpy(col), torch.from_numpy(rows[row, col]), rows.shape
    )
    splits = halves(240)
    expected = answers(rows, labels, splits)
    for form in (torch.from_numpy(rows), sparse, rows.astype(np.float64)):
        assert_same(answers(form, labels, splits), expected)
    moved = answers(rows + 5, labels, splits)
    # Nothing is centred
    assert any((a.predicted != b.predicted).any() for a, b in zip(moved, expected, strict=True))


def test_candidates_do_not_see_each_other():
    rows, labels = blobs()
    protocol = Protocol(labels, halves(240))
    both = adam_predictions({"a": rows, "b": -rows[:, :3]}, protocol, **HOW)
    assert list(both) == ["a", "b"] and not protocol.opened
    for name, alone in (("a", rows), ("b", -rows[:, :3])):
        assert_same(both[name], adam_predictions({name: alone}, protocol, **HOW)[name])


# --- splits do not see each other ---


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 999), num_classes=st.integers(2, 9))
def test_several_splits_are_each_alone(seed, num_classes):
    """Also where classes are so many that splits of a few rows miss different ones."""
    rows, labels = blobs(num_rows=60, num_classes=num_classes, seed=seed)
    splits = halves(60, num_splits=3, train=0.2, seed=seed)
    assert_same(
        answers(rows, labels, splits, seed=seed),
        [answers(rows, labels, [split], seed=seed)[0] for split in splits],
    )


def test_splits_of_different_sizes():
    rows, labels = blobs()
    splits = [*halves(240), *halves(240, train=0.1), *halves(240)[:1]]
    found = answers(rows, labels, splits)
    assert_same(found, [answers(rows, labels, [split])[0] for split in splits])
    assert_same(found[-1:], found[:1])


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_chunks_change_nothing(monkeypatch, at_once):
    rows, labels = blobs()
    splits = halves(240, num_splits=5)
    expected, sizes = answers(rows, labels, splits), []
    trained = adam._trained

    def counted(table, parts, *rest, **options):
        sizes.append(len(parts))
        return trained(table, parts, *rest, **options)

    monkeypatch.setattr(adam, "_trained", counted)
    monkeypatch.setattr(adam, "_ROOM", at_once * 72 * 6)  # 72 training rows of 6 columns
    assert_same(answers(rows, labels, splits), expected)
    assert sizes == {1: [1] * 5, 2: [2, 2, 1], 3: [3, 2]}[at_once]


def test_a_class_missing_from_training_is_never_answered():
    rows, labels = blobs(num_classes=3)
    where = [np.flatnonzero(labels == k) for k in range(3)]
    parts = [np.array_split(each, 3) for each in where]

    def split(*classes):
        train = np.sort(np.concatenate([parts[k][0] for k in classes])[:40])
        return Split(
            train,
            np.sort(np.concatenate([p[1] for p in parts])),
            np.sort(np.concatenate([p[2] for p in parts])),
        )

    splits = [split(0, 1), split(0, 1, 2), split(2, 1), split(1)]
    found = answers(rows, labels, splits, epochs=30)
    assert [sorted(set(each.predicted.tolist())) for each in found] == [
        sorted(set(labels[s.train].tolist())) for s in splits
    ]
    assert_same(found, [answers(rows, labels, [each], epochs=30)[0] for each in splits])


def test_test_labels_change_nothing():
    rows, labels = blobs()
    splits = halves(240, num_splits=2)
    permuted = labels.copy()
    permuted[splits[0].test] = np.random.default_rng(1).permutation(labels[splits[0].test])
    first, second = answers(rows, labels, splits), answers(rows, permuted, splits)
    assert_same(first[:1], second[:1])
    # They are training labels of the other split
    assert (first[1].predicted != second[1].predicted).any()


def test_without_validation_rows_there_is_no_score():
    rows, labels = blobs(num_rows=20)
    (found,) = answers(rows, labels, [Split(np.arange(10), np.arange(0), np.arange(10, 20))])
    assert math.isnan(found.choice.val_score) and found.predicted.shape == (10,)


def test_global_random_state_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    rows, labels = blobs()
    answers(rows, labels, halves(240))
    assert torch.equal(before, torch.get_rng_state())


def test_input_is_not_changed():
    rows, labels = blobs()
    kept = rows.copy(), labels.copy()
    answers(rows, labels, halves(240))
    assert np.array_equal(rows, kept[0]) and np.array_equal(labels, kept[1])


def test_a_table_of_labels_is_fitted_cell_by_cell():
    rows, labels = blobs()
    table = np.eye(4, dtype=np.int64)[labels]
    table[::7] = 0  # rows without a label
    split = halves(240)[0]
    (answer,) = adam_predictions(
        {"": rows},
        Protocol(table, [split], metric="micro-F1"),
        epochs=30,
        weight_decay=1e-3,
        lr=0.05,
        seed=2,
    )[""]
    bound = (6 / (rows.shape[1] + 4)) ** 0.5
    model = torch.nn.Linear(rows.shape[1], 4)
    with torch.no_grad():
        model.weight.uniform_(-bound, bound, generator=torch.Generator().manual_seed(2))
        model.bias.zero_()
    adam = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=1e-3)
    x, y = torch.from_numpy(rows).float(), torch.from_numpy(table).float()
    for _ in range(30):
        adam.zero_grad()
        torch.nn.BCEWithLogitsLoss()(model(x[split.train]), y[split.train]).backward()
        adam.step()
    expected = (model(x[split.test]) > 0).long().numpy()
    assert (answer.predicted == expected).mean() > 0.999 and 0 < expected.sum() < expected.size


def test_failures():
    rows, labels = blobs()
    with pytest.raises(
        InputError,
        match=(
            r"^The representation holds NaN or infinite values\. Look at the training history"
            r" before"
        ),
    ):
        answers(rows * np.nan, labels, halves(240))
