"""How features are encoded."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feature_graphs import fit, objects, ring, star, with_columns
from graphlatent.data.assemble import assemble
from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.features import FeatureSpec, encode_features, fit_standard
from graphlatent.data.graph import RawGraph
from graphlatent.errors import GraphLatentWarning
from graphlatent.ops.sparse import SparseMatrix, to_dense


def test_a_matrix_is_taken_as_it_is():
    graph = ring(3, x=np.arange(6).reshape(3, 2))
    spec = fit(graph)
    assert spec == FeatureSpec("given", num_features=2)
    assert (spec.width, spec.names) == (2, ["x0", "x1"])
    assert encode_features(spec, graph) is graph


def test_names_of_columns_are_looked_up_a_fixed_number_of_times():
    looked_up = 0

    class Name(str):
        def __hash__(self):
            nonlocal looked_up
            looked_up += 1
            return super().__hash__()

    def lookups_of(count):
        nonlocal looked_up
        graph = with_columns(**{f"c{i}": [0, 1, 2] for i in range(count)})
        columns = {Name(name): values for name, values in graph.columns.items()}
        graph = dataclasses.replace(graph, columns=columns)
        looked_up = 0
        encode_features(fit(graph), graph)
        return looked_up

    # Not with the square of the number of columns.
    assert 0 < lookups_of(100) <= 2 * lookups_of(50)


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
            st.sampled_from(["a", "b", "ä", " a", "a b"]),
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


class TestFarValues:
    """New nodes with values of another unit: still finite, but no longer like the fitted ones."""

    def test_a_column(self):
        spec = fit(with_columns(a=[0.001, 0.002, 0.003], b=[1.0, 2.0, 3.0]))
        message = (
            r"Column 'a' holds -1e\+30 in row 1 .*, which is 1.2e\+33 standard deviations from the"
            r" mean of the fitted values \(0.002, standard deviation 0.000816497\); 2 values"
            r" are that far from it\. Embeddings of such rows say little\. Check the unit"
        )
        with pytest.warns(GraphLatentWarning, match=message):
            encode_features(spec, with_columns(a=[0.001, -1e30, 1e29], b=[1.0, 1e5, -1e5]))

    @pytest.mark.parametrize("value", [1e30, -1e30])
    def test_a_matrix(self, value):
        x = torch.randn(50, 3)
        edges = np.array([[0], [1]])
        graph = assemble([RawGraph(edges, 50, x=x.numpy(), directed=False)])
        spec = fit_standard(fit(graph), graph)
        x[4, 1] = value
        with pytest.warns(GraphLatentWarning, match=r"Column 'x1' holds -?1e\+30 in row 4 "):
            encode_features(spec, graph.with_features(x))

    def test_what_is_not_standardised_or_not_far_is_told_nothing(self):
        # Warnings are errors in these tests.
        zero_one = fit(with_columns(a=[0.0, 1.0, 1.0]))
        encode_features(zero_one, with_columns(a=[1e30, 0.0, 1.0]))
        spec = fit(with_columns(a=[1.0, 2.0, 3.0]))
        encode_features(spec, with_columns(a=[1e5, 2.0, -1e5]))
