"""Features that cannot be encoded, each with the message that says why."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from feature_graphs import fit, objects, ring, star, with_columns
from graphlatent.data.features import FeatureSpec, encode_features
from graphlatent.errors import ConfigError, InputError


def test_a_column_that_names_the_nodes_is_refused():
    names = [f"person {i}" for i in range(150)]
    with pytest.raises(
        InputError,
        match=r"Column 'name' holds text with 150 different values in 150 rows, too many .* If it"
        r" names the nodes, leave it out \(drop, --drop .* hash it into 256 features",
    ):
        fit(with_columns(name=objects(*names)))
    # Given as categories, it is meant.
    assert fit(with_columns(name=names)).width == 150
    assert fit(with_columns(name=objects(*(names[:100] * 2)))).width == 100


def test_all_refused_columns_are_named():
    columns = {"a": objects(1, None), "b": [1, 2], "c": objects([1], [2]), "d": [np.inf, 1]}
    message = r"^Column 'a' has 1 missing .* Also refused: 'c', 'd'; 'graphlatent info' says why\.$"
    with pytest.raises(InputError, match=message):
        fit(with_columns(**columns))


def test_text_with_more_values_than_an_encoder_can_hold():
    many = objects(*[f"v{i % 10_001}" for i in range(20_100)])
    with pytest.raises(InputError, match="10,001 different values in 20,100 rows"):
        fit(with_columns(c=many))


def test_dates_in_an_unsafe_order_are_pointed_out():
    dates = [f"{1 + i % 28}/{1 + i // 28}/2024" for i in range(150)]
    with pytest.raises(InputError, match=r"If it holds dates, write all of them as YYYY-MM-DD\."):
        fit(with_columns(c=objects(*dates)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1.0, np.nan, np.nan],
            (
                r"Column 'c' has 2 missing values, the first in row 1 \(from 0\). Fill them,"
                r" drop those nodes, have them filled \(impute='mean', --impute mean"
            ),
        ),
        (
            objects("a", "b", None),
            r"Column 'c' has 1 missing value, the first in row 2 \(from 0\)",
        ),
        (objects("a", float("nan"), "b"), r"1 missing value, the first in row 1"),
        (objects(True, None, False), r"1 missing value, the first in row 1"),
        ([1.0, np.inf, 0.0], r"Column 'c' holds inf in row 1 \(from 0\), too large for a feature"),
        ([1.0, 2.0, -1e39], r"Column 'c' holds -1e\+39 in row 2"),
        (
            objects([1], [2], [3]),
            (
                "Column 'c' holds values of type list. A feature column must hold numbers, truth"
                " values, dates, times or text. Leave it out"
            ),
        ),
        (objects([1], [2, [3]], None), "Column 'c' holds values of type list"),
        (objects("a", [2], None), "Column 'c' holds values of type list"),
        (np.ones(3, dtype=complex), "Column 'c' holds values of type complex128"),
        (objects(None, None, None), "Column 'c' holds no value at all. Leave it out"),
        ([np.nan, np.nan], "Column 'c' holds no value at all. Leave it out"),
        (objects(datetime.date(2020, 1, 1), None), r"1 missing value, the first in row 1"),
    ],
)
def test_columns_that_cannot_be_used(values, message):
    with pytest.raises(InputError, match=message):
        fit(with_columns(c=values))


@pytest.mark.parametrize("values", [objects("yes", None, "no"), objects(True, None, False)])
def test_a_column_with_gaps_may_be_what_is_to_be_predicted(values):
    with pytest.raises(InputError, match=r"what you want to predict, .* \(label, --label\)\.$"):
        fit(with_columns(c=values))


def test_an_amount_with_gaps_is_no_label():
    with pytest.raises(InputError, match=r"leave the column out \(drop, --drop\)\.$"):
        fit(with_columns(c=[1.0, 2.5, np.nan]))


def test_a_missing_value_names_the_node():
    graph = ring(3, columns={"c": np.array([1.0, 2.0, np.nan])}, node_ids=np.array(["x", "y", "z"]))
    with pytest.raises(InputError, match=r"the first in row 2 \(from 0\), node z"):
        fit(graph)


def test_missing_values_at_transform_too():
    spec = fit(with_columns(c=[1.0, 2.0]))
    with pytest.raises(
        InputError, match=r"1 missing value.* a model that is to fill them must be fitted to"
    ):
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


def test_missing_columns_are_named_beside_those_not_used():
    spec = fit(with_columns(a=[1, 2], b=[1, 2]))
    with pytest.raises(
        InputError, match=r"Missing: 'a'; not used: 'd', 'c'\. Add the missing columns, or fit"
    ):
        encode_features(spec, with_columns(b=[1, 2], d=[1, 2], c=[1, 2]))
    with pytest.raises(InputError, match=r"Missing: 'a'\. Add"):
        encode_features(spec, with_columns(b=[1, 2]))
    many = fit(with_columns(**{f"c{i}": [1, 2] for i in range(20)}))
    with pytest.raises(InputError, match=r"Missing: 'c0', .*, 'c7' and 12 more; not used: 'a'"):
        encode_features(many, with_columns(a=[1, 2]))


def test_a_category_never_seen():
    spec = fit(with_columns(c=["a", "b"]))
    with pytest.raises(
        InputError,
        match=(
            r"Column 'c' holds 'z' in row 1 \(from 0\), a value it never held when the model was"
            r" fitted \(known: 'a', 'b'\). Replace it by a known value, leave such values out"
            r" \(unknown='ignore', --unknown ignore"
        ),
    ):
        encode_features(spec, with_columns(c=["a", "z"]))
    many = fit(with_columns(c=list("abcdefgh")))
    with pytest.raises(InputError, match=r"known: 'a', 'b', 'c', 'd', 'e' and 3 more\)"):
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
