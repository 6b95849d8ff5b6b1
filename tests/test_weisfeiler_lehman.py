"""The Weisfeiler-Lehman subtree kernel: by hand, against a slow rewrite, and its invariances."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.assemble import assemble
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.errors import ConfigError, InputError
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.weisfeiler_lehman import (
    first_labels,
    refined_labels,
    subtree_counts,
    subtree_features,
    subtree_kernels,
)

pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.GraphLatentWarning")


def graph_of(*parts: tuple[list[tuple[int, int]], list[int] | int]) -> GraphData:
    """Graphs of (edges, label of each node or number of nodes); labels become one-hot features."""
    raw = []
    for edges, nodes in parts:
        both = torch.tensor([*edges, *((b, a) for a, b in edges)], dtype=torch.int64)
        labels = None if isinstance(nodes, int) else torch.eye(4)[nodes]
        size = nodes if isinstance(nodes, int) else len(nodes)
        raw.append(RawGraph(both.reshape(-1, 2).T, size, x=labels))
    return assemble(raw)


@st.composite
def random_parts(draw):
    """One to four small graphs with labels out of three, isolated nodes and lone nodes included."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 7))
        pairs = [(a, b) for a in range(size) for b in range(a)]
        edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
        parts.append((edges, draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))))
    return parts


def slow_kernel(parts, iterations: int) -> np.ndarray:
    """Labels are nested tuples, which are written out and counted one by one."""
    counts = []
    for edges, nodes in parts:
        around = {v: [] for v in range(len(nodes))}
        for a, b in edges:
            around[a].append(b)
            around[b].append(a)
        labels = {v: ("first", label) for v, label in enumerate(nodes)}
        seen = Counter((0, label) for label in labels.values())
        for h in range(1, iterations + 1):
            labels = {
                v: (labels[v], tuple(sorted((labels[u] for u in around[v]), key=repr)))
                for v in around
            }
            seen.update((h, label) for label in labels.values())
        counts.append(seen)
    products = np.array([[sum(a[k] * b[k] for k in a) for b in counts] for a in counts], float)
    norm = np.sqrt(products.diagonal())
    return products / norm[:, None] / norm[None, :]


class TestByHand:
    # A path a - b - a, and a triangle a, b, a.
    GRAPH = graph_of(([(0, 1), (1, 2)], [0, 1, 0]), ([(0, 1), (1, 2), (0, 2)], [0, 1, 0]))

    def test_labels(self):
        first = first_labels(self.GRAPH)
        assert first[0] == first[2] == first[3] == first[5] != first[1] == first[4]
        second = refined_labels(self.GRAPH, first)
        # path: a{b}, b{a,a}, a{b}; triangle: a{a,b}, b{a,a}, a{a,b}
        assert second[0] == second[2] and second[3] == second[5] and second[1] == second[4]
        assert len(set(second.tolist())) == 3

    def test_counts_and_kernel(self):
        counts = [each.toarray() for each in subtree_counts(self.GRAPH, iterations=1)]
        assert sorted(counts[0].T.tolist()) == [[1, 1], [2, 2]]
        assert sorted(counts[1].T.tolist()) == [[0, 2], [1, 1], [2, 0]]
        # k(path, path) = (4 + 1) + (4 + 1), k(path, triangle) = (4 + 1) + 1
        kernels = subtree_kernels(self.GRAPH, iterations=1)
        np.testing.assert_allclose(kernels[0], np.ones((2, 2)))
        np.testing.assert_allclose(kernels[1], [[1, 0.6], [0.6, 1]])
        rows = subtree_features(self.GRAPH, iterations=1)
        np.testing.assert_allclose((rows @ rows.T).toarray(), kernels[1])

    def test_without_features_the_degrees_are_the_first_labels(self):
        graph = graph_of(([(0, 1), (1, 2)], 3), ([(0, 1)], 3))
        assert first_labels(graph).tolist() == [1, 2, 1, 1, 1, 0]

    def test_a_number_of_two_columns_is_one_label(self):
        x = torch.tensor([[1.0, 0.0, 2.0], [1.0, 2.0, 0.0], [1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
        graph = graph_of(([(0, 1)], 4))
        dense = first_labels(graph.with_features(x))
        sparse = first_labels(
            graph.with_features(SparseMatrix.from_scipy(sp.csr_matrix(x.numpy())))
        )
        assert dense.tolist() == sparse.tolist()
        assert dense[0] == dense[2] and len(set(dense.tolist())) == 3

    def test_minus_zero_is_zero(self):
        graph = graph_of(([(0, 1)], 2)).with_features(torch.tensor([[0.0, 1.0], [-0.0, 1.0]]))
        assert first_labels(graph).tolist() == [0, 0]


@settings(max_examples=60, deadline=None)
@given(random_parts(), st.integers(0, 4))
def test_against_a_slow_rewrite(parts, iterations):
    kernels = subtree_kernels(graph_of(*parts), iterations=iterations)
    assert list(kernels) == list(range(iterations + 1))
    for h, found in kernels.items():
        np.testing.assert_allclose(found, slow_kernel(parts, h), atol=1e-12)
    rows = subtree_features(graph_of(*parts), iterations=iterations)
    np.testing.assert_allclose((rows @ rows.T).toarray(), kernels[iterations], atol=1e-12)


def test_many_graphs_with_rare_and_common_labels_against_a_slow_rewrite():
    """Enough graphs that some labels are multiplied as sparse columns."""
    rng, parts = np.random.default_rng(0), []
    for _ in range(60):
        size = int(rng.integers(1, 9))
        edges = [(a, b) for a in range(size) for b in range(a) if rng.random() < 0.4]
        parts.append((edges, rng.integers(0, 3, size).tolist()))
    found = subtree_kernels(graph_of(*parts), iterations=3)
    np.testing.assert_allclose(found[3], slow_kernel(parts, 3), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(random_parts(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(parts, random):
    moved = []
    for edges, labels in parts:
        order = random.sample(range(len(labels)), len(labels))
        renamed = [(order[a], order[b]) for a, b in edges]
        moved.append((renamed, [labels[order.index(v)] for v in range(len(labels))]))
    # A graph and its isomorphic copy: the same row of features
    kernel = subtree_kernels(graph_of(*parts, *moved))[5]
    np.testing.assert_allclose(kernel[: len(parts), len(parts) :].diagonal(), 1, atol=1e-12)
    np.testing.assert_allclose(
        kernel[: len(parts), : len(parts)], kernel[len(parts) :, len(parts) :], atol=1e-12
    )
    rows = subtree_features(graph_of(*parts, *moved)).toarray()
    np.testing.assert_allclose(rows[: len(parts)], rows[len(parts) :], atol=1e-12)


def test_two_triangles_and_a_hexagon_are_alike():
    """What the kernel cannot tell apart, as Weisfeiler and Lehman's test cannot."""
    triangles = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    hexagon = [(i, (i + 1) % 6) for i in range(6)]
    kernel = subtree_kernels(graph_of((triangles, [0] * 6), (hexagon, [0] * 6)))[5]
    np.testing.assert_allclose(kernel, np.ones((2, 2)))


class TestTinyCases:
    def test_one_node(self):
        graph = graph_of(([], [2]))
        assert subtree_features(graph, iterations=2).shape == (1, 3)
        np.testing.assert_allclose(subtree_kernels(graph)[5], [[1.0]])

    def test_no_edges_and_constant_features(self):
        graph = graph_of(([], [1, 1]), ([], [1, 1, 1]), ([], [1]))
        np.testing.assert_allclose(subtree_kernels(graph)[5], np.ones((3, 3)))

    def test_a_graph_without_nodes_is_like_nothing(self):
        graph = replace(graph_of(([(0, 1)], [0, 1])), ptr=torch.tensor([0, 2, 2]))
        np.testing.assert_allclose(subtree_kernels(graph)[5], [[1, 0], [0, 0]], rtol=1e-12)
        assert subtree_features(graph)[1].nnz == 0

    def test_nothing_that_came_in_is_changed(self):
        graph = graph_of(([(0, 1)], [0, 1]), ([(0, 1), (1, 2)], [0, 0, 1]))
        before = graph.fingerprint()
        subtree_features(graph)
        assert graph.fingerprint() == before


class TestMistakes:
    @pytest.mark.parametrize("iterations", [-1, 1.5, True])
    def test_iterations(self, iterations):
        message = (
            "The 'iterations' parameter of subtree_counts must be an int of at least 0. Got"
            f" {iterations} instead."
        )
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
            subtree_features(graph_of(([], [0])), iterations=iterations)

    def test_columns_that_are_not_encoded(self):
        graph = replace(graph_of(([(0, 1)], 2)), columns={"age": np.array([1, 2])})
        message = (
            "The Weisfeiler-Lehman kernel needs a graph with encoded features, and this one has"
            " columns that are not encoded: age. Encode them with fit_features and encode_features."
        )
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            subtree_kernels(graph)
