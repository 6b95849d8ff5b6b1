"""Coordinates computed from the edges."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feature_graphs import ring, star
from graphlatent.data.assemble import assemble
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.structure import (
    log_ratio_matrix,
    randomized_svd,
    smoothed,
    structure_coordinates,
    undirected_adjacency,
)
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import ConfigError, InputError
from graphlatent.ops.sparse import SparseMatrix


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def coordinates(graph, dim=8, **options):
    return structure_coordinates(graph, dim=dim, generator=seeded(), **options)


def of_edges(edges, num_nodes, **options):
    index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return GraphData(index, num_nodes, torch.tensor([0, num_nodes]), **options)


def reference_matrix(weights):
    """Equation 5 of ProNE with loops over nodes."""
    size = len(weights)
    walk = [[w / max(sum(row), 1e-300) for w in row] for row in weights.tolist()]
    negative = [sum(walk[i][j] for i in range(size)) ** 0.75 for j in range(size)]
    found = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if weights[i, j] > 0:
                found[i, j] = np.log(walk[i][j]) - np.log(negative[j] / sum(negative))
    return found


def reference_smoothing(rows, weights, hops):
    """Dense, with the leading eigenvector out of an eigendecomposition."""
    looped = weights + np.eye(len(weights))
    scale = np.diag(looped.sum(1) ** -0.5)
    matrix = scale @ looped @ scale
    leading = np.linalg.eigh(matrix)[1][:, -1:]
    for _ in range(hops):
        rows = rows + matrix @ rows
        rows = rows - leading @ (leading.T @ rows)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


@pytest.fixture
def connected():
    rng = np.random.default_rng(0)
    weights = np.triu(rng.uniform(0.5, 2, (30, 30)) * (rng.random((30, 30)) < 0.2), 1)
    weights += np.diag(np.full(29, 0.7), 1)
    weights = (weights + weights.T).astype(np.float32)
    row, col = np.nonzero(weights)
    raw = RawGraph(np.stack([row, col]), 30, edge_weight=weights[row, col])
    return assemble([raw]), weights.astype(np.float64)


def test_the_matrix_of_a_star_by_hand():
    # From a leaf the walk goes to the centre, from the centre to each of 2 leaves: column sums
    # 2, 1/2, 1/2.
    matrix = log_ratio_matrix(undirected_adjacency(star(2))).to_dense()
    total = 2**0.75 + 2 * 0.5**0.75
    to_leaf = np.log(0.5) - np.log(0.5**0.75 / total)
    to_centre = -np.log(2**0.75 / total)
    expected = [[0, to_leaf, to_leaf], [to_centre, 0, 0], [to_centre, 0, 0]]
    np.testing.assert_allclose(matrix, expected, rtol=1e-6)


def test_the_matrix_equals_the_reference(connected):
    graph, weights = connected
    matrix = log_ratio_matrix(undirected_adjacency(graph)).to_dense()
    np.testing.assert_allclose(matrix, reference_matrix(weights), rtol=1e-5, atol=1e-6)


def test_singular_values_equal_numpys(connected):
    matrix = log_ratio_matrix(undirected_adjacency(connected[0]))
    left, values, _ = np.linalg.svd(matrix.to_dense().double().numpy())
    found = randomized_svd(matrix, rank=5, generator=seeded())
    np.testing.assert_allclose(found.values, values[:5], rtol=1e-5)
    overlap = np.abs((found.left.numpy() * left[:, :5]).sum(0))
    np.testing.assert_allclose(overlap, 1, atol=1e-4)


def test_smoothing_equals_the_reference(connected):
    graph, weights = connected
    rows = np.random.default_rng(1).normal(size=(30, 4))
    found = smoothed(torch.from_numpy(rows).float(), undirected_adjacency(graph), hops=6)
    np.testing.assert_allclose(found, reference_smoothing(rows, weights, 6), atol=1e-4)


def test_two_rounds_of_smoothing_on_an_edge_by_hand():
    # Half the sum of both rows is the leading direction, so opposite unit rows remain.
    rows = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    found = smoothed(rows, undirected_adjacency(ring(2)), hops=2)
    half = np.array([3, -1]) / np.sqrt(10)
    np.testing.assert_allclose(found, [half, -half], atol=1e-6)


def test_no_rounds_of_smoothing_return_the_rows():
    rows = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    assert torch.equal(smoothed(rows, undirected_adjacency(ring(2)), hops=0), rows)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14), st.integers(1, 12))
def test_rows_have_norm_1_or_0_and_the_seed_determines_them(edges, dim):
    both = sorted({(a, b) for a, b in edges} | {(b, a) for a, b in edges})
    graph = of_edges(both, 8)
    found = coordinates(graph, dim)
    assert found.dtype == torch.float32 and found.shape == (8, min(dim, 8))
    norm = found.norm(dim=1)
    assert bool((((norm - 1).abs() < 1e-5) | (norm == 0)).all())
    assert bool((norm[graph.degree == 0] == 0).all())
    assert torch.equal(found, coordinates(graph, dim))


@pytest.mark.parametrize("num_nodes", [1, 3])
def test_without_edges_all_coordinates_are_0(num_nodes):
    assert torch.equal(coordinates(of_edges([], num_nodes)), torch.zeros(num_nodes, num_nodes))


def test_a_self_loop_is_no_neighbour():
    assert torch.equal(coordinates(of_edges([(0, 0)], 1)), torch.zeros(1, 1))


def test_the_order_of_the_nodes_does_not_matter_for_distances(connected):
    graph, weights = connected
    order = np.random.default_rng(3).permutation(30)
    row, col = np.nonzero(weights[np.ix_(order, order)])
    values = weights[np.ix_(order, order)][row, col]
    other = assemble([RawGraph(np.stack([row, col]), 30, edge_weight=values)])
    # All singular vectors: a smaller number would depend on the gap between two of them.
    one, two = (coordinates(g, dim=30, hops=3) for g in (graph, other))
    np.testing.assert_allclose(two @ two.T, (one @ one.T)[order][:, order], atol=2e-3)


def test_weights_and_directions():
    undirected = of_edges([(0, 1), (1, 0), (1, 2), (2, 1)], 3, edge_weight=torch.ones(4))
    once = of_edges([(0, 1), (1, 2)], 3, undirected=False)
    assert torch.equal(coordinates(once), coordinates(undirected))
    heavy = dataclasses.replace(undirected, edge_weight=torch.tensor([1.0, 1.0, 9.0, 9.0]))
    assert not torch.allclose(coordinates(heavy, hops=1), coordinates(undirected, hops=1))
    zero = dataclasses.replace(undirected, edge_weight=torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert bool((coordinates(zero)[2] == 0).all())
    both = of_edges([(0, 1), (1, 0)], 2, undirected=False)
    assert undirected_adjacency(both).value.tolist() == [2, 2]


def test_small_components_beside_a_large_one_stay_distinguishable():
    """Fewer coordinates than components: each pair of nodes has a direction of its own."""
    large = latent_graph(num_nodes=200, num_classes=2, feature_dim=2).graph.edge_index
    pairs = torch.arange(200, 240).reshape(-1, 2)
    edges = torch.cat([large, pairs.T, pairs.flip(1).T], dim=1)
    found = coordinates(GraphData(edges, 240, torch.tensor([0, 240])), dim=8)[200:]
    assert torch.allclose(found.norm(dim=1), torch.ones(40), atol=1e-5)
    likeness = found[::2] @ found[::2].T
    assert float(likeness.fill_diagonal_(0).abs().mean()) < 0.6


def test_communities_are_separated():
    made = latent_graph(num_nodes=600, num_classes=6, feature_dim=2, avg_degree=12, homophily=0.8)
    found = coordinates(made.graph, dim=16)
    means = torch.stack([found[made.labels == k].mean(0) for k in range(6)])
    assert float((found @ means.T).argmax(1).eq(torch.from_numpy(made.labels)).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, r"The 'dim' parameter of structure_coordinates must be an integer of 1 or mo"),
        ({"dim": True}, r"'dim' parameter .* Got True instead"),
        ({"hops": -1}, r"'hops' parameter .* must be an integer of 0 or more. Got -1 instead"),
    ],
)
def test_arguments_out_of_range(options, message):
    with pytest.raises(ConfigError, match=message):
        coordinates(ring(3), **options)


def test_negative_weights_are_refused():
    graph = of_edges([(0, 1), (1, 0)], 2, edge_weight=torch.tensor([-2.0, -2.0]))
    message = r"need edge weights of 0 or more.*Got -2. Shift the weights, or set structure='none'"
    with pytest.raises(InputError, match=message):
        coordinates(graph)


def test_the_matrix_without_edges_is_empty():
    empty = log_ratio_matrix(undirected_adjacency(of_edges([], 2)))
    assert isinstance(empty, SparseMatrix) and empty.nnz == 0
