from __future__ import annotations

import datetime
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.assemble import assemble
from graphlatent.data.columns import ColumnSpec
from graphlatent.data.features import FeatureSpec, encode_features, fit_features
from graphlatent.data.graph import RawGraph
from graphlatent.errors import ConfigError, GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense


def ring(num_nodes, **changes):
    ids = np.arange(num_nodes)
    edges = np.stack([ids, np.roll(ids, 1)])
    return assemble([RawGraph(edge_index=edges, num_nodes=num_nodes, directed=False, **changes)])


def star(leaves):
    edges = np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)])
    return assemble([RawGraph(edge_index=edges, num_nodes=leaves + 1, directed=False)])


def with_columns(**columns):
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    return ring(len(next(iter(arrays.values()))), columns=arrays)


def objects(*values):
    return np.fromiter(values, dtype=object, count=len(values))


def fit(graph, **options):
    return fit_features(graph, **{"degree_cap": 128, **options})


def test_a_matrix_is_taken_as_it_is():
    graph = ring(3, x=np.arange(6).reshape(3, 2))
    spec = fit(graph)
    assert spec == FeatureSpec("given", num_features=2)
    assert (spec.width, spec.names) == (2, ["x0", "x1"])
    assert encode_features(spec, graph) is graph


def test_columns_by_hand():
    graph = with_columns(age=[1, 3, 5], alive=[True, False, True], color=["red", "blue", "red"])
    spec = fit(graph)
    assert [c.kind for c in spec.columns] == ["numeric", "boolean", "categorical"]
    assert spec.columns[2].categories == ("blue", "red")
    assert spec.names == ["age", "alive", "color=blue", "color=red"]
    encoded = encode_features(spec, graph)
    unit = np.sqrt(1.5)  # (5 - 3) / std of (1, 3, 5)
    assert torch.allclose(
        encoded.x,
        torch.tensor([[-unit, 1, 0, 1], [0, 0, 1, 0], [unit, 1, 0, 1]], dtype=torch.float32),
    )
    assert encoded.x.dtype == torch.float32
    assert encoded.columns is None
    assert graph.columns is not None


def test_mean_and_scale_are_those_of_the_fit():
    spec = fit(with_columns(age=[1.0, 3.0]))
    assert encode_features(spec, with_columns(age=[2.0, 5.0, 1.0])).x.tolist() == [[0], [3], [-1]]


def test_without_standardize_numbers_stay():
    graph = with_columns(age=[1.5, 3.0])
    spec = fit(graph, standardize=False)
    assert encode_features(spec, graph).x.tolist() == [[1.5], [3.0]]


def test_constant_column_becomes_zero():
    graph = with_columns(c=[0.1] * 7)
    spec = fit(graph)
    assert (spec.columns[0].mean, spec.columns[0].scale) == (0.1, 1.0)
    assert encode_features(spec, graph).x.abs().sum() == 0


@pytest.mark.parametrize("values", [[0, 1, 1], [0.0, 1.0, 0.0], [0, 0, 0], [1, 1, 1]])
def test_columns_of_0_and_1_are_left_as_they_are(values):
    graph = with_columns(word=values, objects=objects(*values))
    spec = fit(graph)
    assert [(c.kind, c.mean, c.scale) for c in spec.columns] == [("numeric", 0.0, 1.0)] * 2
    assert encode_features(spec, graph).x.tolist() == [[v, v] for v in values]
    # Another number may come later
    assert encode_features(spec, with_columns(word=[2], objects=[0.5])).x.tolist() == [[2, 0.5]]


def test_wide_columns_are_sparse_where_most_values_are_0():
    numbers = np.arange(4.0)
    words = {f"w{i}": np.eye(4)[i % 4] for i in range(257)}
    graph = with_columns(**words)
    assert isinstance(encode_features(fit(graph), graph).x, SparseMatrix)
    narrow = with_columns(**dict(list(words.items())[:256]))
    assert isinstance(encode_features(fit(narrow), narrow).x, torch.Tensor)
    full = with_columns(**{f"n{i}": numbers for i in range(257)})
    assert isinstance(encode_features(fit(full), full).x, torch.Tensor)


def test_the_order_of_columns_at_transform_does_not_matter():
    spec = fit(with_columns(a=[1, 2, 4], b=["x", "y", "x"]))
    one = encode_features(spec, with_columns(a=[1, 2], b=["x", "y"]))
    other = encode_features(spec, with_columns(b=["x", "y"], a=[1, 2]))
    assert torch.equal(one.x, other.x)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (objects(1, 2.5, 3), "numeric"),
        (objects(np.int64(1), True, 3), "numeric"),
        (objects(True, False, np.bool_(True)), "boolean"),
        (objects("a", 1, True), "categorical"),
        (np.array([b"a", b"b", b"a"]), "categorical"),
        (np.array([1, 2, 3], dtype=np.uint8), "numeric"),
    ],
)
def test_kinds_of_arrays(values, kind):
    graph = with_columns(c=values)
    spec = fit(graph)
    assert spec.columns[0].kind == kind
    assert encode_features(spec, graph).x.shape == (3, spec.width)


def test_bytes_are_read_as_text():
    assert fit(with_columns(c=np.array([b"a", b"b"]))).columns[0].categories == ("a", "b")


def test_categories_compare_as_text():
    spec = fit(with_columns(c=objects("1", "2", "x")))
    assert to_dense(encode_features(spec, with_columns(c=[2, 1])).x).tolist() == [
        [0, 1, 0],
        [1, 0, 0],
    ]


def test_truth_values_and_numbers_stand_for_each_other():
    boolean = fit(with_columns(c=[True, False]))
    assert encode_features(boolean, with_columns(c=[0, 1])).x.tolist() == [[0], [1]]
    numeric = fit(with_columns(c=[0, 1]), standardize=False)
    assert encode_features(numeric, with_columns(c=[True, False])).x.tolist() == [[1], [0]]


def test_wide_one_hot_is_sparse():
    values = [f"v{i % 257:03d}" for i in range(600)]
    graph = with_columns(number=np.arange(600), c=values)
    spec = fit(graph)
    x = encode_features(spec, graph).x
    assert spec.width == 258
    assert isinstance(x, SparseMatrix)
    dense = x.to_dense()
    numbers = np.arange(600)
    assert np.allclose(dense[:, 0], (numbers - numbers.mean()) / numbers.std(), atol=1e-6)
    assert dense[:, 1:].argmax(1).tolist() == [i % 257 for i in range(600)]
    assert dense[:, 1:].sum(1).tolist() == [1.0] * 600
    narrow = with_columns(c=[f"v{i % 256:03d}" for i in range(600)])
    assert isinstance(encode_features(fit(narrow), narrow).x, torch.Tensor)


def test_degrees_by_hand():
    graph = star(3)
    spec = fit(graph, degree_cap=2)
    assert spec == FeatureSpec("degree", cap=2)
    assert spec.names == ["degree=0", "degree=1", "degree>=2"]
    assert encode_features(spec, graph).x.tolist() == [[0, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0]]


def test_degree_width_follows_the_fit_and_clips_later():
    spec = fit(star(3), degree_cap=128)
    assert spec.width == 4
    assert encode_features(spec, star(10)).x[0].tolist() == [0, 0, 0, 1]


def test_wide_degrees_are_sparse():
    narrow, wide = star(63), star(64)
    assert isinstance(encode_features(fit(narrow), narrow).x, torch.Tensor)
    x = encode_features(fit(wide), wide).x
    assert isinstance(x, SparseMatrix)
    assert x.shape == (65, 65)
    assert x.to_dense()[0, 64] == 1
    assert x.to_dense()[1:, 1].tolist() == [1] * 64


def test_one_node_without_edges_has_degree_zero():
    with pytest.warns(GraphLatentWarning, match="no edges"):
        graph = assemble([RawGraph(edge_index=[[], []], num_nodes=1)])
    spec = fit(graph)
    assert spec.width == 1
    assert encode_features(spec, graph).x.tolist() == [[1.0]]


names = st.text(min_size=1, max_size=5)
column_specs = st.one_of(
    st.builds(
        lambda n, m, s: ColumnSpec(n, "numeric", mean=m, scale=s),
        names,
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(min_value=1e-30, max_value=1e30),
    ),
    st.builds(lambda n: ColumnSpec(n, "boolean"), names),
    st.builds(
        lambda n, c: ColumnSpec(n, "categorical", tuple(sorted(c))),
        names,
        st.sets(st.text(max_size=4), min_size=1, max_size=4),
    ),
)
specs = st.one_of(
    st.builds(lambda f: FeatureSpec("given", num_features=f), st.integers(1, 10_000)),
    st.builds(lambda c: FeatureSpec("degree", cap=c), st.integers(0, 10_000)),
    st.builds(
        lambda c: FeatureSpec("columns", columns=tuple(c)),
        st.lists(column_specs, min_size=1, max_size=4, unique_by=lambda c: c.name),
    ),
)


@settings(max_examples=50, deadline=None)
@given(specs)
def test_json_round_trip(spec):
    assert FeatureSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    if spec.width <= 1000:
        assert len(spec.names) == spec.width


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0]) | st.floats(-1e6, 1e6),
            st.booleans(),
            st.sampled_from(["a", "b", "ä", "", "a b"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_columns_equal_a_loop(rows):
    numbers, truths, texts = zip(*rows, strict=True)
    graph = with_columns(n=list(numbers), t=list(truths), c=list(texts))
    spec = fit(graph)
    known = sorted(set(texts))
    mean, scale = np.mean(numbers), np.std(numbers) if min(numbers) != max(numbers) else 1.0
    if set(numbers) <= {0.0, 1.0}:
        mean, scale = 0.0, 1.0
    expected = [
        [(n - mean) / (scale or 1.0), float(t), *[float(c == k) for k in known]] for n, t, c in rows
    ]
    assert np.allclose(encode_features(spec, graph).x.numpy(), np.array(expected), atol=1e-4)


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
            r"Column 'c' held numbers when the model was fitted, and now holds text such as 'a'."
            r" Give it"
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
        ({"kind": "magic"}, r"kind must be one of \('given', 'columns', 'degree'\). Got 'magic'"),
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
