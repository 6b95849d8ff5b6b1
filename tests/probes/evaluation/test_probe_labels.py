"""What columns of labels mean to a probe."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlatent.errors import InputError
from graphlatent.probes.evaluation.labels import (
    ProbeLabels,
    probe_labels,
    refuse_label_as_feature,
)


def message_of(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "classes", "kept"),
    [
        (np.array(["b", None, "a", "b"], dtype=object), ["b", "a", "b"], [0, 2, 3]),
        (np.array(["b", pd.NA, "a", "b"], dtype=object), ["b", "a", "b"], [0, 2, 3]),
        (np.array([2.0, np.nan, 1.0, 2.0]), [2, 1, 2], [0, 2, 3]),
        (np.array([0.5, 1.0, 0.5, 1.5] * 5), [0.5, 1.0, 0.5, 1.5] * 5, list(range(20))),
        (np.array([True, False]), [True, False], [0, 1]),
        (np.arange(20), list(range(20)), list(range(20))),
    ],
)
def test_classes(values, classes, kept):
    labels = probe_labels({"y": values}, where="t")
    assert (labels.values.tolist(), labels.rows.tolist(), labels.multilabel) == (
        classes,
        kept,
        False,
    )
    assert sum(labels.counts.values()) == len(kept)


def test_several_columns_are_a_table():
    columns = {
        "a": np.array([1, 0, 1]),
        "b": np.array([1.0, np.nan, 0.0]),
        "c": np.array([True, False, True]),
    }
    labels = probe_labels(columns, where="t")
    assert (labels.values.tolist(), labels.rows.tolist(), labels.counts) == (
        [[1, 1, 1], [1, 0, 1]],
        [0, 2],
        {"a": 2, "b": 1, "c": 2},
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"number": np.arange(21)},
            (
                "t: column 'number' has 21 different values in 21 rows, such as '0', so it holds"
                " ids or measurements rather than classes. Name another column with the option"
                " 'label'; if it holds measurements, give the option 'task' as 'regression'."
            ),
        ),
        (
            {"y": np.array([3, 3])},
            "t: every label in column 'y' is '3'. A probe needs two classes or more.",
        ),
        ({"y": np.array([None, None])}, "t: no row has a label in column 'y'."),
        (
            {"y": np.array([1, 0]), "z": np.array([np.nan, np.nan])},
            "t: no row has a label in all of the columns 'y', 'z'.",
        ),
        (
            {"y": np.array([1, 0]), "z": np.array([0, 2])},
            (
                "t: with several label columns each must hold only 0 and 1, but 'z' holds 2. Name"
                " one column of classes, or turn them into columns of 0 and 1."
            ),
        ),
    ],
)
def test_columns_that_are_no_labels(columns, message):
    assert message_of(lambda: probe_labels(columns, where="t")) == message


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (np.array([0, 1, np.inf, 1]), "inf"),
        (np.array([0, 1, -np.inf, 1], dtype=np.float16), "-inf"),
        (np.array([0, 1, 1e300, 1]), "1e+300"),
        (np.array([0, 1, 2.0**63, 1], dtype=np.float32), "9.223372036854776e+18"),
        (np.array([0, 1, 2**63, 1], dtype=np.uint64), "9223372036854775808"),
    ],
)
def test_numbers_that_no_class_can_have(values, shown):
    assert (
        message_of(lambda: probe_labels({"y": values}, where="t"))
        == f"t: column 'y' holds {shown}, and classes given as numbers must be finite and fit into"
        " 64 bits. Write the classes as text or as smaller numbers, or leave the cell empty where"
        " a label is missing."
    )


def test_the_largest_and_smallest_whole_numbers_are_classes():
    assert probe_labels({"y": np.array([-(2.0**63), 1.0])}, where="t").values.tolist() == [
        -(2**63),
        1,
    ]
    assert probe_labels(
        {"y": np.array([2**63 - 1, 1], dtype=np.uint64)}, where="t"
    ).values.tolist() == [2**63 - 1, 1]


def test_classes_as_bytes():
    assert probe_labels({"y": np.array(["é".encode(), b"a"])}, where="t").values.tolist() == [
        "é",
        "a",
    ]
    assert (
        message_of(lambda: probe_labels({"y": np.array([b"\xff", b"a"])}, where="t"))
        == "t: column 'y' holds bytes that are not UTF-8, b'\\xff'. Save the labels as text."
    )


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6), st.booleans()
)
def test_one_to_one_is_what_a_slow_comparison_of_all_pairs_says(pairs, text):
    column, classes = (np.array(each) for each in zip(*pairs, strict=True))
    same = (
        all((a[0] == b[0]) == (a[1] == b[1]) for a in pairs for b in pairs)
        and len(set(classes)) > 1
    )
    values = np.array([f"team {value}" for value in column], dtype=object) if text else column / 2
    values, rows = np.append(values, values[:1]), np.arange(len(pairs))  # the last row has no label
    if same:
        assert "column 'c' correspond one to one" in message_of(
            lambda: refuse_label_as_feature(
                values, ProbeLabels(classes, rows, ("y",)), name="c", where="t"
            )
        )
    else:
        refuse_label_as_feature(values, ProbeLabels(classes, rows, ("y",)), name="c", where="t")


def test_a_raw_column_that_is_one_of_several_labels():
    labels = ProbeLabels(np.array([[0, 1], [1, 1], [0, 0], [0, 1]]), np.arange(4), ("a", "b"))
    assert "column 'c' correspond one to one to those of the label 'b'" in message_of(
        lambda: refuse_label_as_feature(
            np.array(["x", "x", "y", "x"], dtype=object), labels, name="c", where="t"
        )
    )
    refuse_label_as_feature(np.array([1, 1, 0, 0]), labels, name="c", where="t")


@pytest.mark.parametrize(
    "values", [np.arange(40) / 8, np.tile(np.arange(11) / 8, 9), np.array([0.5, np.nan, 1.25])]
)
def test_numbers_that_are_not_whole_are_regressed(values):
    labels = probe_labels({"age": values}, where="t")
    kept = np.flatnonzero(~np.isnan(values))
    assert (labels.task, labels.rows.tolist()) == ("regression", kept.tolist())
    assert labels.values.tolist() == values[kept].tolist()
    assert labels.counts == {}
    assert labels.notes == [
        "'age' holds numbers, which are predicted by regression (the option 'task' says otherwise)"
    ]


def test_a_named_task():
    ages = np.tile(np.arange(25), 4)
    labels = probe_labels({"age": ages}, where="t")
    assert labels.task == "classification"
    assert labels.notes[0].startswith("'age' has 25 different whole numbers, which are taken as c")
    named = probe_labels({"age": ages}, where="t", task="regression")
    assert (named.task, named.values.tolist(), named.notes) == ("regression", ages.tolist(), [])
    marks = np.tile(np.arange(11) / 8, 9)
    assert len(probe_labels({"m": marks}, where="t", task="classification").counts) == 11


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (
            ["a", "b"],
            {"task": "regression"},
            "t: regression needs numbers, and column 'y' holds 'a",
        ),
        (
            [2.5, 2.5],
            {"task": "regression"},
            "t: every label in column 'y' is 2.5, so there is not",
        ),
        (
            [1.5, np.inf],
            {"task": "regression"},
            "t: column 'y' holds infinite numbers. Leave the c",
        ),
        (
            [0, 1],
            {"task": "ranking"},
            "The 'task' parameter of probe must be 'classification' or '",
        ),
        (
            [0, 1],
            {"positive": "2"},
            "t: 'positive' must be one of two classes in column 'y'. Got '2",
        ),
        (
            [0, 1, 2],
            {"positive": "1"},
            "t: 'positive' must be one of two classes in column 'y'. Got",
        ),
    ],
)
def test_tasks_that_cannot_be(values, options, message):
    with pytest.raises(ValueError) as caught:
        probe_labels({"y": np.array(values)}, where="t", **options)
    assert str(caught.value).startswith(message)


def test_regression_is_of_one_column():
    columns = {"a": np.array([0, 1]), "b": np.array([1, 1])}
    assert message_of(lambda: probe_labels(columns, where="t", task="regression")).startswith(
        "t: regression and a positive class are of one label column, and there are 2."
    )


def test_a_raw_column_that_is_the_number_in_other_units():
    numbers = np.random.default_rng(0).normal(size=20)
    labels = ProbeLabels(numbers, np.arange(20), ("price",), "regression")
    for column in (numbers, 3 - 0.01 * numbers):
        assert "column 'c' is the label 'price' in other units" in message_of(
            lambda column=column: refuse_label_as_feature(column, labels, name="c", where="t")
        )
    # All values of both are different, which says nothing of numbers.
    refuse_label_as_feature(numbers**3, labels, name="c", where="t")
