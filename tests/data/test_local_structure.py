"""Local structure: values by hand, against networkx, and as features of graphs without any."""

from __future__ import annotations

import json
import math
import tracemalloc

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.features import (
    LOCAL_SCALE,
    FeatureSpec,
    encode_features,
    fit_features,
    fit_local,
    fit_scale,
)
from graphlatent.data.graph import GraphData
from graphlatent.data.local_structure import NAMES, local_structure
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense


def of_edges(
    edges: list[tuple[int, int]], num_nodes: int, *, x: torch.Tensor | None = None
) -> GraphData:
    """One graph with these edges as they are, sorted, each once."""
    pairs = sorted(set(edges))
    index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return GraphData(index, num_nodes, torch.tensor([0, num_nodes]), x=x, undirected=False)


def both(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*edges, *((t, s) for s, t in edges)]


def logs(*values: float) -> list[float]:
    """log(1 + v) of all but the third value, which is the clustering."""
    return [v if i == 2 else math.log1p(v) for i, v in enumerate(values)]


TRIANGLE = [(0, 1), (1, 2), (0, 2)]
STAR = [(0, 1), (0, 2), (0, 3), (0, 4)]
PATH = [(0, 1), (1, 2), (2, 3)]
# A triangle 0, 1, 2 with the tail 2 - 3.
PAW = [*TRIANGLE, (2, 3)]


@pytest.mark.parametrize(
    ("edges", "num_nodes", "expected"),
    [
        (TRIANGLE, 3, [logs(2, 1, 1, 2)] * 3),
        (STAR, 5, [logs(4, 0, 0, 1), *[logs(1, 0, 0, 4)] * 4]),
        (PATH, 4, [logs(1, 0, 0, 2), logs(2, 0, 0, 1.5), logs(2, 0, 0, 1.5), logs(1, 0, 0, 2)]),
        (
            PAW,
            4,
            [
                logs(2, 1, 1, 2.5),
                logs(2, 1, 1, 2.5),
                logs(3, 1, 1 / 3, 5 / 3),
                logs(1, 0, 0, 3),
            ],
        ),
        ([], 2, [[0.0] * 4] * 2),
        ([], 1, [[0.0] * 4]),
        ([(0, 1)], 3, [logs(1, 0, 0, 1), logs(1, 0, 0, 1), [0.0] * 4]),
    ],
    ids=["triangle", "star", "path", "paw", "no edges", "one node", "isolated node"],
)
def test_values_by_hand(edges, num_nodes, expected):
    found = local_structure(of_edges(both(edges), num_nodes))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-6, atol=1e-7)


random_edges = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(edges=random_edges)
def test_values_equal_those_of_networkx(edges):
    graph = nx.Graph()
    graph.add_nodes_from(range(9))
    graph.add_edges_from((s, t) for s, t in edges if s != t)
    degree = dict(graph.degree())
    around = nx.average_neighbor_degree(graph)
    expected = np.stack(
        [
            np.log1p([degree[v] for v in range(9)]),
            np.log1p([nx.triangles(graph, v) for v in range(9)]),
            [nx.clustering(graph, v) for v in range(9)],
            np.log1p([around[v] for v in range(9)]),
        ],
        axis=1,
    )
    # One direction of an edge is as good as both, and a self-loop is no neighbour.
    for listed in (edges, both(edges)):
        found = local_structure(of_edges(listed, 9))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(edges=random_edges, order=st.permutations(range(9)))
def test_renamed_nodes_keep_their_values(edges, order):
    plain = local_structure(of_edges(edges, 9))
    renamed = local_structure(of_edges([(order[s], order[t]) for s, t in edges], 9))
    torch.testing.assert_close(renamed[torch.tensor(order)], plain)


def test_weights_do_not_matter():
    graph = of_edges(both(PAW), 4)
    weighted = GraphData(
        graph.edge_index, 4, graph.ptr, edge_weight=torch.arange(1.0, 9.0), undirected=False
    )
    assert torch.equal(local_structure(weighted), local_structure(graph))


def test_features_are_degrees_and_standardised_local_structure():
    graph = of_edges(both(PAW), 4)
    spec = fit_local(fit_features(graph, degree_cap=8), graph)
    assert spec.names[-4:] == list(NAMES)
    assert spec.width == len(spec.names) == 4 + 4
    x = to_dense(encode_features(spec, graph).x)
    assert torch.equal(x[:, :4], torch.eye(4)[[2, 2, 3, 1]])
    columns = local_structure(graph).double().numpy()
    expected = LOCAL_SCALE * (columns - columns.mean(0)) / columns.std(0)
    np.testing.assert_allclose(x[:, 4:].numpy(), expected, rtol=1e-5, atol=1e-6)
    # Mean and standard deviation are those of the fit.
    star = of_edges(both(STAR), 5)
    expected = LOCAL_SCALE * (local_structure(star).numpy() - columns.mean(0)) / columns.std(0)
    found = to_dense(encode_features(spec, star).x)[:, 4:]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_constant_columns_become_0():
    triangle = of_edges(both(TRIANGLE), 3)
    spec = fit_local(fit_features(triangle, degree_cap=8), triangle)
    assert not to_dense(encode_features(spec, triangle).x)[:, 3:].any()
    # Also in graphs where the column is not constant: no deviation is known to divide by.
    assert not to_dense(encode_features(spec, of_edges(both(PAW), 4)).x)[:, 3:].any()


def test_beside_wide_degrees_they_are_sparse():
    hub = of_edges(both([(0, i) for i in range(1, 100)]), 100)
    spec = fit_local(fit_features(hub, degree_cap=512), hub)
    x = encode_features(spec, hub).x
    assert isinstance(x, SparseMatrix)
    assert x.shape == (100, 104)
    assert float(x.to_dense()[0, 99]) == 1.0


LOCAL = ((1.0, 0.5), (0.0, 0.0), (0.25, 0.125), (2.0, 1.0))


@pytest.mark.parametrize(
    "spec",
    [
        FeatureSpec("degree", cap=3, local=LOCAL),
        FeatureSpec("degree", cap=3, local=LOCAL, scale=0.1),
        FeatureSpec("given", num_features=5, scale=1e-30),
    ],
    ids=["local", "both", "scale"],
)
def test_a_spec_goes_through_json(spec):
    read = FeatureSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert read == spec


def test_a_spec_without_them_is_written_as_before():
    assert set(FeatureSpec("degree", cap=3).to_dict()) == {
        "kind",
        "num_features",
        "columns",
        "cap",
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale": 0.0}, "Feature spec: scale must be a positive float. Got 0.0."),
        ({"scale": -1.0}, "Feature spec: scale must be a positive float. Got -1.0."),
        ({"scale": math.inf}, "Feature spec: scale must be a positive float. Got inf."),
        ({"scale": math.nan}, "Feature spec: scale must be a positive float. Got nan."),
        ({"scale": "2"}, "Feature spec: scale must be a positive float. Got '2'."),
        (
            {"local": [[1.0, 2.0]]},
            "Feature spec: kind 'degree' does not go with local=((1.0, 2.0),).",
        ),
        (
            {"local": [[1.0]] * 4},
            "Feature spec: local must be a list of pairs of numbers. Got [[1.0], [1.0], [1.0],"
            " [1.0]].",
        ),
        ({"local": 7}, "Feature spec: local must be a list of pairs of numbers. Got 7."),
        (
            {"local": [[0.0, 1.0]] * 3 + [[0.0, -1.0]]},
            "Feature spec: local must hold finite means and standard deviations of 0 or more. Got"
            " ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, -1.0)).",
        ),
        (
            {"local": [[0.0, 1.0]] * 3 + [[math.nan, 1.0]]},
            "Feature spec: local must hold finite means and standard deviations of 0 or more. Got"
            " ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (nan, 1.0)).",
        ),
    ],
)
def test_bad_values_are_refused(changed, message):
    values = {"kind": "degree", "cap": 3, **changed}
    with pytest.raises(InputError) as caught:
        FeatureSpec.from_dict(values)
    assert str(caught.value) == message


def test_local_structure_goes_with_degrees_only():
    with pytest.raises(InputError, match="kind 'given' does not go with local="):
        FeatureSpec("given", num_features=2, local=LOCAL)


@settings(max_examples=30, deadline=None)
@given(
    exponent=st.integers(-12, 12),
    num_nodes=st.integers(1, 6),
    sparse=st.booleans(),
    seed=st.integers(0, 999),
)
def test_scaled_rows_have_a_mean_squared_norm_of_1(exponent, num_nodes, sparse, seed):
    gen = torch.Generator().manual_seed(seed)
    dense = torch.randn(num_nodes, 3, generator=gen) * 10.0**exponent
    row, col = torch.nonzero(dense, as_tuple=True)
    x = SparseMatrix.from_coo(row, col, dense[row, col], (num_nodes, 3)) if sparse else dense
    graph = of_edges([], num_nodes, x=x)
    spec = fit_scale(fit_features(graph, degree_cap=8), graph)
    found = to_dense(encode_features(spec, graph).x)
    assert float(found.double().square().sum()) / num_nodes == pytest.approx(1.0, rel=1e-5)
    # One number for all: directions and ratios stay.
    torch.testing.assert_close(found / spec.scale, dense, rtol=1e-5, atol=0.0)


def test_features_of_zeros_are_not_scaled():
    graph = of_edges([], 3, x=torch.zeros(3, 2))
    assert fit_scale(fit_features(graph, degree_cap=8), graph).scale == 1.0


def test_a_hub_needs_no_memory_for_the_pairs_of_its_neighbours():
    leaves = 6000
    star = of_edges(both([(0, i) for i in range(1, leaves + 1)] + [(1, 2)]), leaves + 1)
    tracemalloc.start()
    try:
        found = local_structure(star)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One number for each of 36 million pairs would be 288 MB.
    assert peak < 30e6
    # The one triangle goes through the hub and two leaves.
    assert found[:, 1].expm1().round().tolist() == [1, 1, 1] + [0] * (leaves - 2)
