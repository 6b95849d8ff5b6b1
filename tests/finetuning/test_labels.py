"""Labels of which some are missing, their weights, and the validation part."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from cases import generator
from graphlatent.errors import ConfigError, InputError
from graphlatent.finetuning.labels import held_out, label_weights, read_labels


def read(y, num_rows=None):
    return read_labels(
        y, num_rows=len(y) if num_rows is None else num_rows, of="graph", owner="fit"
    )


class TestReading:
    @pytest.mark.parametrize(
        ("y", "classes"),
        [
            (np.array([3, -1, 5, 3]), [3, 5]),
            (np.array([3.0, np.nan, 5.0, 3.0]), [3, 5]),
            ([3, -1, 5, 3], [3, 5]),
            (torch.tensor([3, -1, 5, 3]), [3, 5]),
            (np.array(["a", None, "b", "a"], dtype=object), ["a", "b"]),
            (np.array(["a", -1, "b", "a"], dtype=object), ["a", "b"]),
            (np.array(["a", float("nan"), "b", "a"], dtype=object), ["a", "b"]),
            (pd.Series(["a", None, "b", "a"], dtype="string"), ["a", "b"]),
            (pd.Series(["a", None, "b", "a"], dtype="category"), ["a", "b"]),
            (pd.Series([3, None, 5, 3], dtype="Int64"), [3, 5]),
        ],
        ids=[
            *("ints", "floats", "list", "tensor", "None", "objects", "nan"),
            *("pandas-texts", "pandas-categories", "pandas-ints"),
        ],
    )
    def test_what_marks_a_missing_label(self, y, classes):
        labels = read(y)
        assert labels.classes.tolist() == classes and not labels.multilabel
        assert labels.codes.tolist() == [0, -1, 1, 0]
        assert labels.labelled.tolist() == [0, 2, 3]
        assert labels.values(np.array([2, 0])).tolist() == [classes[1], classes[0]]

    def test_counts(self):
        assert read([3, -1, 5, 3]).counts.tolist() == [2, 1]
        assert read(np.array([[1, 0], [-1, -1], [-1, 1], [1, 0]])).counts.tolist() == [2, 1]

    def test_a_text_is_never_missing(self):
        labels = read(np.array(["NA", None, "nan", "NA"], dtype=object))
        assert labels.classes.tolist() == ["NA", "nan"] and labels.codes.tolist() == [0, -1, 1, 0]

    def test_a_matrix_of_pandas_may_lack_single_entries(self):
        frame = pd.DataFrame({"a": [1, None, 0], "b": [0, 1, 1]}, dtype="Int64")
        assert read(frame).codes.tolist() == [[1, 0], [-1, 1], [0, 1]]

    def test_a_matrix_may_lack_single_entries(self):
        labels = read(np.array([[1, 0], [-1, -1], [-1, 1]]))
        assert labels.multilabel and labels.labelled.tolist() == [0, 2]
        assert labels.codes.tolist() == [[1, 0], [-1, -1], [-1, 1]]

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (np.zeros(3, dtype=int), "Got only 0; -1 marks rows without a label and is no class."),
            (np.array([1, -1, 1, -1]), "at least two classes .* Got only 1; -1 marks"),
            (np.full(3, -1), "at least two classes among the labelled graphs. Got none"),
            (np.array(["a", "-1"]), "is text and contains '-1'.* dtype=object"),
            (np.array([0.5, 1.0]), "must hold classes: whole numbers or names. Got 0.5"),
            (np.array(["a", 2], dtype=object), "mixes types that cannot be sorted"),
            (np.array([[0, 2]]), "must hold 0 and 1, and -1 where a label is missing. Got 2"),
            (np.full((2, 2), -1), "has no label: every entry is -1"),
        ],
    )
    def test_failures(self, y, message):
        with pytest.raises(InputError, match=f"'y' of fit .*{message}|'y' of fit {message}"):
            read(y)

    def test_one_entry_per_row(self):
        with pytest.raises(
            InputError,
            match=r"'y' of fit must have one entry per graph, 4, and -1 where a label is missing."
            r" Got shape \(3,\).",
        ):
            read(np.array([0, 1, 0]), num_rows=4)


class TestWeights:
    def test_balanced_are_those_of_scikit_learn(self):
        y = np.array([0, 0, 0, 1, 2, 2, -1])
        labels = read(y)
        ours = label_weights(labels, labels.labelled, "balanced", owner="C")
        theirs = compute_class_weight("balanced", classes=np.arange(3), y=y[:6])
        np.testing.assert_allclose(ours.numpy(), theirs)

    def test_balanced_labels_of_a_matrix_by_hand(self):
        labels = read(np.array([[1, 0], [0, 0], [0, -1], [0, 1]]))
        weights = label_weights(labels, labels.labelled, "balanced", owner="C")
        # One 1 and three 0; one 1 and two 0.
        assert weights.tolist() == [[1.0, 1.0], [3.0, 2.0]]

    def test_given_weights(self):
        labels = read(np.array(["a", "b", None], dtype=object))
        for five in (5, np.float32(5), np.int8(5)):
            assert label_weights(labels, np.arange(2), {"b": five}, owner="C").tolist() == [1, 5]

    @pytest.mark.parametrize(
        ("y", "weight", "message"),
        [
            ([0, 1], {2: 1.0}, r"'class_weight' .* must be of classes in y \(0, 1\). Got 2"),
            ([0, 1], {1: 0.0}, "'class_weight' .* must be of finite numbers above 0. Got 0.0"),
            ([0, 1], {1: math.inf}, "must be of finite numbers above 0. Got inf"),
            ([0, 1], {1: True}, "must be of finite numbers above 0. Got True"),
            ([[0, 1], [1, 0]], {1: 2.0}, "None or 'balanced' for several labels per row"),
        ],
    )
    def test_failures(self, y, weight, message):
        labels = read(np.array(y))
        with pytest.raises(ConfigError, match=message):
            label_weights(labels, labels.labelled, weight, owner="C")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=2, max_size=60), st.floats(0, 0.9), st.integers(0, 99))
def test_the_validation_part_is_stratified_and_leaves_every_class_a_row(y, ratio, seed):
    y = np.array(y)
    if len(set(y[y >= 0].tolist())) < 2:
        return
    labels = read(y)
    train, val = held_out(labels, ratio, generator=generator(seed))
    assert sorted([*train, *val]) == labels.labelled.tolist()
    assert set(labels.codes[train]) == set(range(len(labels.classes)))
    assert len(val) <= round(ratio * len(labels.labelled))
    free = np.bincount(labels.codes[labels.labelled]) - 1
    taken = np.bincount(labels.codes[val], minlength=len(free))
    # As many of each class as its share of the rows that may be taken, up to one.
    assert (np.abs(taken - len(val) * free / max(free.sum(), 1)) <= 1).all()
