"""Features that cannot be encoded, each with the message that says why."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from feature_graphs import fit, objects, ring, star, with_columns
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.errors import ConfigError, GraphLatentWarning, InputError


def test_a_column_that_names_the_nodes_is_pointed_out():
    graph = with_columns(name=[f"person {i}" for i in range(150)])
    with pytest.warns(
        GraphLatentWarning,
        match="Column 'name' has 150 different values in 150 rows and becomes as many features",
    ):
        fit(graph)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1.0, np.nan, np.nan],
            (
                r"Column 'c' has 2 missing value\(s\), the first in row 1 \(from 0\). Fill them,"
                r" drop those nodes"
            ),
        ),
        (
            objects("a", "b", None),
            r"Column 'c' has 1 missing value\(s\), the first in row 2 \(from 0\)",
        ),
        (objects("a", float("nan"), "b"), r"1 missing value\(s\), the first in row 1"),
        (objects(True, None, False), r"1 missing value\(s\), the first in row 1"),
        ([1.0, np.inf, 0.0], r"Column 'c' holds inf in row 1 \(from 0\), too large for a feature"),
        ([1.0, 2.0, -1e39], r"Column 'c' holds -1e\+39 in row 2"),
        (
            objects([1], [2], [3]),
            (
                "Column 'c' holds values of type list. A feature column must hold numbers, truth"
                " values or text"
            ),
        ),
        (objects(*[datetime.date(2020, 1, 1)] * 3), "Column 'c' holds values of type date"),
        (
            np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
            r"Column 'c' holds values of type datetime64\[D\].*turn dates into numbers",
        ),
    ],
)
def test_columns_that_cannot_be_used(values, message):
    with pytest.raises(InputError, match=message):
        fit(with_columns(c=values))


def test_a_missing_value_names_the_node():
    graph = ring(3, columns={"c": np.array([1.0, 2.0, np.nan])}, node_ids=np.array(["x", "y", "z"]))
    with pytest.raises(InputError, match=r"the first in row 2 \(from 0\), node z"):
        fit(graph)


def test_missing_values_at_transform_too():
    spec = fit(with_columns(c=[1.0, 2.0]))
    with pytest.raises(InputError, match=r"Column 'c' has 1 missing value\(s\)"):
        encode_features(spec, with_columns(c=[1.0, np.nan]))


def test_degree_cap_is_checked():
    for wrong in (0, 1.5, True):
        with pytest.raises(
            ConfigError,
            match=(
                r"The 'degree_cap' parameter of fit_features must be an integer of 1 or more. Got"
            ),
        ):
            fit(star(2), degree_cap=wrong)


def test_another_width():
    with pytest.raises(
        InputError,
        match=r"The features have 3 columns, but the model was fitted on 2. Give the same features",
    ):
        encode_features(FeatureSpec("given", num_features=2), ring(2, x=np.ones((2, 3))))


def test_other_columns():
    spec = fit(with_columns(a=[1, 2], b=[1, 2]))
    with pytest.raises(
        InputError,
        match=r"missing \['a'\], not known \['c', 'd'\]. Give exactly the columns \['a', 'b'\]",
    ):
        encode_features(spec, with_columns(b=[1, 2], d=[1, 2], c=[1, 2]))


def test_a_category_never_seen():
    spec = fit(with_columns(c=["a", "b"]))
    with pytest.raises(
        InputError,
        match=(
            r"Column 'c' holds 'z' in row 1 \(from 0\), a value it never held when the model was"
            r" fitted \(known: 'a', 'b'\). Replace it"
        ),
    ):
        encode_features(spec, with_columns(c=["a", "z"]))
    many = fit(with_columns(c=list("abcdefgh")))
    with pytest.raises(InputError, match=r"known: 'a', 'b', 'c', 'd', 'e', \.\.\.\)"):
        encode_features(many, with_columns(c=["zz"]))


def test_a_column_that_changed_its_type():
    numeric, boolean = fit(with_columns(c=[1, 2])), fit(with_columns(c=[True, False]))
    with pytest.raises(
        InputError,
        match=(
            r"Column 'c' held numbers when the model was fitted, and now holds text such as 'a'"
            r" in row 0 \(from 0\). Give it"
        ),
    ):
        encode_features(numeric, with_columns(c=["a", "b"]))
    with pytest.raises(
        InputError,
        match=(
            "Column 'c' held truth values when the model was fitted, and now holds text such as 'a'"
        ),
    ):
        encode_features(boolean, with_columns(c=["a", "b"]))
    with pytest.raises(
        InputError, match="Column 'c' held truth values when the model was fitted, and now holds 2"
    ):
        encode_features(boolean, with_columns(c=[1, 2]))


GRAPHS = {
    "given": ring(2, x=np.eye(2)),
    "columns": ring(2, columns={"a": np.array([1, 2])}),
    "degree": ring(2),
}
WORDS = {"given": "a feature matrix", "columns": "named feature columns", "degree": "no features"}


@pytest.mark.parametrize("fitted", WORDS)
@pytest.mark.parametrize("came", WORDS)
def test_another_kind_of_features(fitted, came):
    spec = fit(GRAPHS[fitted])
    if fitted == came:
        assert encode_features(spec, GRAPHS[came]).x.shape == (2, spec.width)
        return
    way_out = "Leave the features out" if fitted == "degree" else "Give the same features"
    with pytest.raises(
        InputError,
        match=(
            rf"fitted on graphs with {WORDS[fitted]}.* this graph has {WORDS[came]}. {way_out}, or"
            r" fit a new"
        ),
    ):
        encode_features(spec, GRAPHS[came])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "Feature spec: it needs 'kind'"),
        ({"cap": 3}, "Feature spec: it needs 'kind'"),
        ({"kind": "degree", "other": 1}, "keys out of"),
        (
            {"kind": "magic"},
            "'degree', 'structure'\\). Got 'magic'",
        ),
        ({"kind": "degree", "cap": -1}, "cap must be an integer of 0 or more. Got -1"),
        ({"kind": "degree", "cap": "3"}, "cap must be an integer of 0 or more. Got '3'"),
        ({"kind": "given", "num_features": 0}, "kind 'given' does not go with num_features=0"),
        ({"kind": "given", "num_features": 2, "cap": 1}, "kind 'given' does not go with cap=1"),
        ({"kind": "columns", "columns": []}, "kind 'columns' does not go with 0 columns"),
        ({"kind": "columns", "columns": "abc"}, "columns must be a list. Got 'abc'"),
        ({"kind": "columns", "columns": ["abc"]}, "a column needs 'name' and 'kind'"),
        ({"kind": "columns", "columns": [{"kind": "boolean"}]}, "a column needs 'name' and 'kind'"),
        (
            {"kind": "columns", "columns": [{"name": "a", "kind": "boolean"}] * 2},
            r"columns must have different names. Got \['a', 'a'\]",
        ),
        (
            {"kind": "columns", "columns": [{"name": 3, "kind": "boolean"}]},
            "column 3: the name must be text",
        ),
        (
            {"kind": "columns", "columns": [{"name": "a", "kind": "odd"}]},
            "column 'a': kind must be one of",
        ),
        (
            {"kind": "columns", "columns": [{"name": "a", "kind": "categorical"}]},
            r"kind 'categorical' does not go with categories \(\)",
        ),
        (
            {
                "kind": "columns",
                "columns": [{"name": "a", "kind": "categorical", "categories": "b"}],
            },
            "categories must be a list. Got 'b'",
        ),
        (
            {
                "kind": "columns",
                "columns": [{"name": "a", "kind": "categorical", "categories": ["b", "a"]}],
            },
            "must be text, sorted",
        ),
        (
            {
                "kind": "columns",
                "columns": [{"name": "a", "kind": "categorical", "categories": [1]}],
            },
            "must be text, sorted",
        ),
        (
            {"kind": "columns", "columns": [{"name": "a", "kind": "numeric", "scale": 0}]},
            "scale must be a finite number above 0. Got 0",
        ),
        (
            {
                "kind": "columns",
                "columns": [{"name": "a", "kind": "numeric", "mean": float("nan")}],
            },
            "mean must be a finite number. Got nan",
        ),
    ],
)
def test_damaged_specs(values, message):
    with pytest.raises(InputError, match=message):
        FeatureSpec.from_dict(values)
