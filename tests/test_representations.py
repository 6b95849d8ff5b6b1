"""Representations: by hand, against dense NumPy and PyG, and as the estimator gives them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphlatent.representations as representations
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.data.assemble import assemble
from graphlatent.data.features import encode_features
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.errors import ConfigError, InputError
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.representations import REPRESENTATIONS, propagated_features, raw_features


def path_of_three() -> GraphData:
    """0 - 1 - 2 with features 1, 2, 4."""
    return assemble(
        [
            RawGraph(
                torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, x=torch.tensor([[1.0], [2.0], [4.0]])
            )
        ]
    )


def random_graphs(sizes: list[int], *, seed: int = 0, weighted: bool = False) -> GraphData:
    rng = np.random.default_rng(seed)
    edges, weights, start = [], [], 0
    for size in sizes:
        for i in range(size):
            for j in range(i, size):  # self-loops too
                if rng.random() < 0.4:
                    weight = rng.random() + 0.1
                    edges += {(start + i, start + j), (start + j, start + i)}
                    weights += [weight] * (1 if i == j else 2)
        start += size
    order = sorted(range(len(edges)), key=edges.__getitem__)
    return GraphData(
        edge_index=torch.tensor([edges[i] for i in order], dtype=torch.int64)
        .reshape(-1, 2)
        .T.contiguous(),
        num_nodes=start,
        ptr=torch.tensor([0, *np.cumsum(sizes).tolist()]),
        x=torch.from_numpy(
            (rng.normal(size=(start, 4)) * (rng.random((start, 4)) < 0.6)).astype(np.float32)
        ),
        edge_weight=(
            torch.tensor([weights[i] for i in order], dtype=torch.float32) if weighted else None
        ),
    )


def as_sparse(graph: GraphData) -> GraphData:
    return graph.with_features(SparseMatrix.from_scipy(sp.csr_matrix(graph.x.numpy())))


def dense_reference(graph: GraphData, hops: int) -> np.ndarray:
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    for e, (source, target) in enumerate(graph.edge_index.T.tolist()):
        adjacency[target, source] = (
            1.0 if graph.edge_weight is None else float(graph.edge_weight[e])
        )
    diagonal = np.diag(adjacency)
    np.fill_diagonal(adjacency, np.where(diagonal > 0, diagonal, 1.0))
    root = np.diag(adjacency.sum(1) ** -0.5)
    return np.linalg.matrix_power(root @ adjacency @ root, hops) @ graph.x.numpy().astype(
        np.float64
    )


def summed(graph: GraphData, rows: np.ndarray) -> np.ndarray:
    return np.stack([rows[a:b].sum(0) for a, b in zip(graph.ptr[:-1], graph.ptr[1:], strict=True)])


def test_one_hop_by_hand():
    out = propagated_features(path_of_three(), level="node", hops=1)
    root = 6**-0.5  # degrees with self-loop: 2, 3, 2
    expected = [[1 / 2 + 2 * root], [root + 2 / 3 + 4 * root], [2 * root + 4 / 2]]
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_raw_by_hand():
    graph = path_of_three()
    np.testing.assert_array_equal(raw_features(graph, level="node"), [[1], [2], [4]])
    np.testing.assert_array_equal(raw_features(graph, level="graph"), [[7]])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("hops", [0, 1, 3])
def test_against_dense_numpy(weighted, sparse, hops):
    graph = random_graphs([7, 1, 9], weighted=weighted)
    given_graph = as_sparse(graph) if sparse else graph
    expected = dense_reference(graph, hops)
    node, pooled = (
        propagated_features(given_graph, level=level, hops=hops) for level in ("node", "graph")
    )
    assert isinstance(node, np.ndarray)
    assert node.dtype == pooled.dtype == np.float32
    np.testing.assert_allclose(node, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pooled, summed(graph, expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_concat_is_every_hop_side_by_side(sparse):
    graph = random_graphs([6, 5])
    given_graph = as_sparse(graph) if sparse else graph
    expected = np.concatenate([dense_reference(graph, hop) for hop in range(3)], axis=1)
    np.testing.assert_allclose(
        propagated_features(given_graph, level="node", concat=True), expected, rtol=1e-4, atol=1e-5
    )
    pooled = propagated_features(given_graph, level="graph", concat=True)
    np.testing.assert_allclose(pooled, summed(graph, expected), rtol=1e-4, atol=1e-5)


def test_against_pyg():
    sg_conv = pytest.importorskip("torch_geometric.nn").SGConv
    graph = random_graphs([12])
    conv = sg_conv(4, 4, K=2, bias=False)
    with torch.no_grad():
        conv.lin.weight.copy_(torch.eye(4))
        expected = conv(graph.x, graph.edge_index).numpy()
    np.testing.assert_allclose(
        propagated_features(graph, level="node"), expected, rtol=1e-4, atol=1e-5
    )


def test_blocks_of_columns_change_nothing(monkeypatch):
    graph = as_sparse(random_graphs([8]))
    whole = propagated_features(graph, level="node", concat=True)
    monkeypatch.setattr(representations, "_BLOCK", 8)  # one column at a time
    np.testing.assert_array_equal(propagated_features(graph, level="node", concat=True), whole)


def test_sparse_raw_features_stay_sparse_at_node_level():
    graph = random_graphs([5, 3])
    raw = raw_features(as_sparse(graph), level="node")
    assert sp.issparse(raw)
    assert raw.dtype == np.float32
    np.testing.assert_array_equal(raw.toarray(), graph.x.numpy())
    np.testing.assert_allclose(
        raw_features(as_sparse(graph), level="graph"), summed(graph, graph.x.numpy()), rtol=1e-6
    )


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 5))
def test_graphs_do_not_see_each_other(sizes, hops, seed):
    graph = random_graphs(sizes, seed=seed)
    together = propagated_features(graph, level="graph", hops=hops)
    for i, (a, b) in enumerate(zip(graph.ptr[:-1].tolist(), graph.ptr[1:].tolist(), strict=True)):
        inside = (graph.edge_index[0] >= a) & (graph.edge_index[0] < b)
        alone = GraphData(
            graph.edge_index[:, inside] - a, b - a, torch.tensor([0, b - a]), x=graph.x[a:b]
        )
        np.testing.assert_allclose(
            propagated_features(alone, level="graph", hops=hops)[0],
            together[i],
            rtol=1e-4,
            atol=1e-5,
        )


def test_input_is_not_changed_and_isolated_nodes_keep_their_features():
    graph = GraphData(
        torch.zeros(2, 0, dtype=torch.int64),
        2,
        torch.tensor([0, 2]),
        x=torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
    )
    out = propagated_features(graph, level="node", hops=2)
    np.testing.assert_array_equal(out, [[1, 2], [3, 4]])
    out[:] = 0
    raw_features(graph, level="node")[:] = 0
    assert graph.x.tolist() == [[1, 2], [3, 4]]


# --- the registry ---


def with_columns() -> GraphData:
    """A path of six nodes whose features are columns: one to standardise, one of 0 and 1."""
    raw = RawGraph(np.array([np.arange(5), np.arange(1, 6)]), 6, directed=False)
    columns = {"size": np.arange(1.0, 7.0), "flag": np.array([0, 1, 0, 0, 1, 1])}
    return replace(assemble([raw]), columns=columns)


@pytest.mark.parametrize("row_normalize", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_baselines_see_the_features_of_the_estimator(standardize, row_normalize):
    graph = with_columns()
    estimator = NodeLaGraph(
        epochs=1,
        hidden_dim=4,
        standardize=standardize,
        row_normalize=row_normalize,
        random_state=3,
        progress=False,
    )
    rows = {name: each.rows(graph, estimator) for name, each in REPRESENTATIONS.items()}
    assert not hasattr(estimator, "model_")
    fitted = type(estimator)(**estimator.get_params()).fit(graph)
    encoded = encode_features(fitted.features_, graph)
    if row_normalize:
        # The scale comes last.
        rows_of_1 = encoded.x / encoded.x.abs().sum(1, keepdim=True)
        encoded = encoded.with_features(rows_of_1 * fitted.features_.scale)
    untrained = type(estimator)(**{**estimator.get_params(), "epochs": 0}).fit(graph)
    expected = {
        "raw": raw_features(encoded, level="node"),
        "propagated": propagated_features(encoded, level="node"),
        "random": untrained.transform(graph),
        "trained": fitted.transform(graph),
    }
    assert list(rows) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(rows[name], values, rtol=1e-6)
        np.testing.assert_allclose(REPRESENTATIONS[name].rows(graph, fitted), values, rtol=1e-6)
    if not row_normalize:
        assert (abs(rows["raw"][:, 0].mean()) < 1e-6) == standardize


def test_what_training_may_see():
    seen, whole = random_graphs([4, 5]), random_graphs([4, 5, 6])
    for name, each in REPRESENTATIONS.items():
        values = {"epochs": 2, "hidden_dim": 4, "batch_size": 2, "progress": False}
        estimator = GraphLaGraph(**values, scale_features=False)
        apart, together = (each.rows(whole, estimator, train_graph=g) for g in (seen, whole))
        assert apart.shape == together.shape and len(apart) == 3
        # Training on other graphs gives other weights, and batch norm other statistics
        assert np.array_equal(apart, together) == (name in ("raw", "propagated"))
    # The scale of the features is that of the graphs that training sees.
    raw = REPRESENTATIONS["raw"].rows(whole, estimator)
    scaled = GraphLaGraph(**values, standardize=False)
    for graph in (seen, whole):
        scale = float(graph.x.double().square().sum(1).mean()) ** -0.5
        rows = REPRESENTATIONS["raw"].rows(whole, scaled, train_graph=graph)
        np.testing.assert_allclose(rows, scale * raw, rtol=1e-5)


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_seeded_says_whether_the_seed_matters(name):
    graph, each = random_graphs([6, 7]), REPRESENTATIONS[name]
    first, second = (
        each.rows(graph, GraphLaGraph(epochs=1, hidden_dim=4, random_state=s, progress=False))
        for s in (0, 1)
    )
    assert np.array_equal(first, second) != each.seeded


def test_failures():
    graph = path_of_three()
    with pytest.raises(ConfigError) as caught:
        raw_features(graph, level="edge")
    assert (
        str(caught.value)
        == "The 'level' parameter of raw_features must be one of ('node', 'graph'). Got 'edge'"
        " instead."
    )
    with pytest.raises(
        ConfigError,
        match=(
            r"The 'hops' parameter of propagated_features must be an int of at least 0\. Got -1"
            r" instead\."
        ),
    ):
        propagated_features(graph, level="node", hops=-1)
    with pytest.raises(InputError) as caught:
        propagated_features(replace(graph, x=None), level="node")
    assert (
        str(caught.value)
        == "propagated_features needs a graph with encoded features, and this one has none. Set"
        " them with graph.with_features(x)."
    )
    with pytest.raises(
        InputError, match=r"propagated_features needs edge weights of 0 or more.* Got -1\."
    ):
        propagated_features(replace(graph, edge_weight=torch.tensor([-1.0, 1, 1, 1])), level="node")
