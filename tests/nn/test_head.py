"""Heads against slow NumPy versions; sparse features, tiny and degenerate training sets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from cases import as_sparse, generator, random_graph
from graphlatent.data.batches import edge_list
from graphlatent.nn import head as module
from graphlatent.nn.head import (
    GraphHead,
    NeighbourSimilarity,
    NodeHead,
    neighbour_similarity,
)
from graphlatent.nn.propagation import gcn_matrix
from graphlatent.ops.sparse import SparseMatrix


def graph_head(rows, *, embedding_dim=None):
    head = GraphHead(rows.shape[1], embedding_dim=embedding_dim)
    head.fit(rows, generator=generator(0))
    return head


class TestGraphHead:
    def test_by_hand(self):
        rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
        head = graph_head(rows)
        assert head(rows).tolist() == [[-1, 0], [1, 0]]
        # New graphs: mean 2 and deviation 1 of the training set; a constant column gives 0.
        assert head(torch.tensor([[4.0, 9.0]])).tolist() == [[2, 0]]

    @settings(max_examples=25, deadline=None)
    @given(num_graphs=st.integers(2, 9), width=st.integers(1, 6), seed=st.integers(0, 99))
    def test_columns_have_mean_0_and_variance_1(self, num_graphs, width, seed):
        rows = 100 + 7 * torch.randn(num_graphs, width, generator=generator(seed))
        found = graph_head(rows)(rows).double()
        expected = (rows - rows.mean(0)) / rows.std(0, unbiased=False)
        torch.testing.assert_close(found, expected.double(), atol=1e-2, rtol=1e-3)

    def test_pca_is_that_of_scikit_learn(self):
        rows = torch.randn(40, 6, generator=generator(1)) @ torch.randn(
            6, 9, generator=generator(2)
        )
        found = graph_head(rows, embedding_dim=4)(rows).double().numpy()
        exact = rows.double().numpy()
        standard = (exact - exact.mean(0)) / exact.std(0)
        expected = PCA(4, svd_solver="full").fit_transform(standard)
        signs = np.sign((found * expected).sum(0))
        np.testing.assert_allclose(found, expected * signs, atol=1e-4)

    def test_rounding_errors_of_a_constant_column_are_no_signal(self):
        rows = torch.full((50, 1), 1000.0) + 1e-4 * torch.randn(50, 1, generator=generator(0))
        assert rows.unique().numel() > 1
        both = torch.cat([rows, torch.randn(50, 1, generator=generator(1))], dim=1)
        assert graph_head(both)(both)[:, 0].abs().max() == 0

    def test_one_graph_is_taken_as_it_is(self):
        rows = torch.tensor([[1.0, 2.0, 2.0]])
        head = graph_head(rows)
        assert head(rows).tolist() == [[1, 2, 2]]
        assert head(torch.tensor([[0.0, 7.0, 1.0]])).tolist() == [[0, 7, 1]]
        reduced = graph_head(rows, embedding_dim=2)(rows)
        torch.testing.assert_close(reduced, torch.tensor([[3.0, 0.0]]))

    def test_shapes_do_not_depend_on_the_training_set(self):
        for num_graphs in (1, 2, 30):
            head = graph_head(torch.randn(num_graphs, 5), embedding_dim=9)
            assert head.components.shape == (5, 5)


def case(sizes, *, num_features, num_hidden=3, seed=0, sparse=False):
    """The arguments of `NodeHead.fit`: features, matrix, output of the encoder."""
    graph = random_graph(sizes, num_features=num_features, seed=seed, one_hot=sparse)
    if sparse:
        graph = as_sparse(graph)
    hidden = torch.randn(graph.num_nodes, num_hidden, generator=generator(seed + 1))
    return graph.x, gcn_matrix(edge_list(graph)).to(dtype=torch.float32), hidden


def node_head(x, matrix, hidden, *, embedding_dim=None, encoder_weight=1.0):
    head = NodeHead(
        x.shape[1], hidden.shape[1], embedding_dim=embedding_dim, encoder_weight=encoder_weight
    )
    head.fit(x, matrix, hidden, generator=generator(0))
    return head


def unit(rows):
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norm > 0, norm, 1)


def leading(rows, k):
    """The right singular vectors, signed by their largest entry."""
    vectors = np.linalg.svd(rows, full_matrices=False)[2][:k].T
    largest = np.abs(vectors).argmax(0)
    return vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])


def smooth_weight(z, a):
    """The weight of the averages, from all pairs and triples of different nodes."""
    u, a = z - z.mean(0), a * (1 - np.eye(len(a)))
    product, covariance = u @ u.T, u.T @ u / len(u)
    total = (a * product).sum()
    if total / np.sqrt(2 * (a**2).sum() * (covariance**2).sum()) <= 2:
        return 1.0
    pairs, variance = a.T @ a * (1 - np.eye(len(a))), np.trace(covariance)
    neighbours = total / a.sum() / variance
    homophily = max((pairs * product).sum() / pairs.sum() / variance / neighbours, 0)
    return np.clip(0.75 * homophily**2 / neighbours, 0.5, 2.0)


def reference(x, matrix, hidden, *, k, k0, few, weight):
    """The embedding in float64, from dense matrices."""
    x, a, h = (np.asarray(m.to_dense(), dtype=np.float64) for m in (x, matrix, hidden))
    keeps_norms = few or (x != 0).mean() > 0.5
    if few:
        z = 6 * x / np.sqrt(x.shape[1] * (x**2).mean(0))
    elif keeps_norms:
        z = 2 * x / np.sqrt((x**2).sum(1).mean())
    else:
        z = unit(x)
    z = z if x.shape[1] <= k0 else z @ leading(z, k0)
    second = a @ a @ z
    second = second * np.linalg.norm(z) / np.linalg.norm(second) if keeps_norms else unit(second)
    ones = (a @ a).sum(1, keepdims=True)
    norm = 6 if few else 2
    degree = norm / np.sqrt(x.shape[1]) * (ones - ones.mean()) / ones.std() * keeps_norms
    smooth = smooth_weight(z, a)
    blocks = np.concatenate([z, smooth * second, weight * unit(h), smooth * degree], axis=1)
    return blocks @ leading(blocks, k)


class TestNodeHead:
    @pytest.mark.parametrize(
        ("k0", "few"), [(512, 64), (512, 0), (6, 0)], ids=["few", "narrow", "wide"]
    )
    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("weight", [1.0, 0.3])
    def test_equals_the_reference(self, monkeypatch, k0, few, sparse, weight):
        monkeypatch.setattr(module, "BASIS_DIM", k0)
        monkeypatch.setattr(module, "FEW_FEATURES", few)
        arguments = case([25, 15], num_features=8, sparse=sparse)
        head = node_head(*arguments, embedding_dim=5, encoder_weight=weight)
        assert bool(head.keeps_norms) == (few > 0 or not sparse)
        expected = reference(*arguments, k=5, k0=k0, few=few > 0, weight=weight)
        np.testing.assert_allclose(head(*arguments), expected, atol=5e-4)

    def test_one_feature_by_hand(self):
        # Two isolated nodes, features 3 and 4: root mean square sqrt(12.5); no encoder weight.
        x, matrix = torch.tensor([[3.0], [4.0]]), SparseMatrix.from_scipy(np.eye(2))
        head = node_head(x, matrix, torch.ones(2, 1), embedding_dim=1, encoder_weight=0.0)
        # Both blocks are 6 x / sqrt(12.5), so their one direction has sqrt(2) of it.
        expected = 6 * x * 2**0.5 / 12.5**0.5
        torch.testing.assert_close(head(x, matrix, torch.ones(2, 1)), expected)

    def test_sparse_and_dense_features_agree(self, monkeypatch):
        monkeypatch.setattr(module, "BASIS_DIM", 8)
        monkeypatch.setattr(module, "FEW_FEATURES", 0)
        x, matrix, hidden = case([40], num_features=12, sparse=True)
        sparse = node_head(x, matrix, hidden, embedding_dim=6)(x, matrix, hidden)
        dense = x.to_dense()
        found = node_head(dense, matrix, hidden, embedding_dim=6)(dense, matrix, hidden)
        torch.testing.assert_close(sparse, found, atol=1e-4, rtol=0)

    def test_sparse_features_are_not_made_dense(self, monkeypatch):
        monkeypatch.setattr(module, "BASIS_DIM", 8)
        monkeypatch.setattr(module, "FEW_FEATURES", 0)
        monkeypatch.setattr("graphlatent.ops.svd.EXACT_WIDTH", 11)
        arguments = case([40], num_features=12, num_hidden=2, sparse=True)
        assert isinstance(arguments[0], SparseMatrix)

        def refuse(*_):
            raise AssertionError("made dense")

        monkeypatch.setattr(SparseMatrix, "dense_rows", refuse)
        monkeypatch.setattr(SparseMatrix, "to_dense", refuse)
        head = node_head(*arguments, embedding_dim=6)
        assert head(*arguments).shape == (40, 6)

    @pytest.mark.parametrize("num_features", [70, 600])
    def test_rows_of_zeros_stay_zeros_among_words(self, num_features):
        x, matrix, hidden = case([12], num_features=num_features)
        x = x * (x > 0.5)
        head = node_head(x, matrix, hidden)
        found = head(torch.zeros_like(x), matrix, torch.zeros_like(hidden))
        assert found.abs().max() == 0

    def test_the_weight_of_the_averages_follows_from_the_similarity_of_neighbours(self):
        def ring(size, times):
            """A ring, and rows that go round a circle `times` times."""
            step = np.roll(np.eye(size), 1, axis=1)
            matrix = ((step + step.T + np.eye(size)) / 3).astype(np.float32)
            angle = times * torch.arange(size) * 2 * torch.pi / size
            return torch.stack([angle.sin(), angle.cos()], dim=1), SparseMatrix.from_scipy(matrix)

        def weight(rows, matrix):
            return float(node_head(rows, matrix, torch.ones(len(rows), 3)).smooth_weight)

        # By hand: each node has two neighbours with weight 1/3, whose rows have an angle of t =
        # 360 degrees * times / size, 2 t from each other; the covariance is 1/2 on the diagonal.
        near, far = (0.75 * np.cos(2 * t) ** 2 / np.cos(t) ** 3 for t in (np.pi / 20, np.pi / 10))
        cases = {(40, 1): near, (40, 2): far, (40, 6): 0.5, (40, 9): 1.0}
        for (size, times), expected in cases.items():
            angle = 2 * np.pi * times / size
            found = neighbour_similarity(*ring(size, times))
            assert found.neighbours == pytest.approx(np.cos(angle), rel=1e-3)
            assert found.siblings == pytest.approx(np.cos(2 * angle), abs=1e-3)
            deviations = size * 2 / 3 * np.cos(angle) / np.sqrt(2 * 2 * size / 9 * 0.5)
            assert found.deviations == pytest.approx(deviations, rel=1e-3)
            assert weight(*ring(size, times)) == pytest.approx(expected, rel=1e-3)
        # Neighbours that are not more alike than others, or unlike each other.
        similar, matrix = ring(40, 1)
        shuffled = similar[torch.randperm(40, generator=generator(0))]
        assert abs(neighbour_similarity(shuffled, matrix).deviations) < 2
        assert weight(shuffled, matrix) == weight(*ring(40, 15)) == 1
        # Nothing to compare: constant rows, or no edges.
        nothing = NeighbourSimilarity(0.0, 0.0, 0.0)
        assert neighbour_similarity(torch.ones(40, 2), matrix) == nothing
        assert neighbour_similarity(similar, SparseMatrix.from_scipy(np.eye(40))) == nothing

    @pytest.mark.parametrize(("homophily", "reliability"), [(0.9, 0.1), (0.5, 0.5), (0.2, 0.8)])
    def test_homophily_and_reliability_are_recovered_without_labels(self, homophily, reliability):
        """Classes with one direction each, noise of each node, edges in a class or anywhere."""
        rng, size, width = np.random.default_rng(0), 4000, 200
        label = rng.integers(0, 20, size)
        signal = unit(rng.standard_normal((20, width)))[label] * reliability**0.5
        noise = unit(rng.standard_normal((size, width))) * (1 - reliability) ** 0.5
        source = rng.integers(0, size, 10 * size)
        order = np.argsort(label, kind="stable")
        first = np.searchsorted(label[order], np.arange(21))
        spread = (rng.random(len(source)) * np.diff(first)[label[source]]).astype(int)
        inside = rng.random(len(source)) < homophily
        target = np.where(
            inside, order[first[label[source]] + spread], rng.integers(0, size, len(source))
        )
        ends = np.stack([np.append(source, target), np.append(target, source)])
        ones = np.ones(ends.shape[1], dtype=np.float32)
        matrix = sp.csr_matrix((ones, tuple(ends)), shape=(size, size))
        rows = torch.from_numpy((signal + noise).astype(np.float32))
        found = neighbour_similarity(rows, SparseMatrix.from_scipy(matrix))
        assert found.homophily == pytest.approx(homophily, abs=0.05)
        assert found.neighbours / found.homophily == pytest.approx(reliability, rel=0.1, abs=0.02)
        expected = np.clip(0.75 * homophily / reliability, 0.5, 2.0)
        assert found.smooth_weight == pytest.approx(expected, rel=0.15)

    def test_skewed_features_that_are_independent_of_the_edges_are_not_similar(self):
        rng = np.random.default_rng(0)
        found = []
        for _ in range(20):
            ends = sp.csr_matrix(rng.random((300, 300)) < 0.01).astype(np.float32)
            rows = torch.from_numpy(rng.lognormal(size=(300, 3)).astype(np.float32))
            matrix = SparseMatrix.from_scipy(ends.maximum(ends.T))
            found.append(neighbour_similarity(rows, matrix).deviations)
        assert abs(np.mean(found)) < 0.5 and 0.5 < np.std(found) < 1.5

    def test_without_siblings_edges_alone_count(self):
        # Pairs of nodes: no node has two neighbours.
        pairs = np.kron(np.eye(30), [[0.5, 0.5], [0.5, 0.5]]).astype(np.float32)
        rows = torch.randn(30, 4, generator=generator(0)).repeat_interleave(2, 0)
        found = neighbour_similarity(rows, SparseMatrix.from_scipy(pairs))
        assert found.neighbours == found.siblings == pytest.approx(1.0)
        assert found.smooth_weight == pytest.approx(0.75)

    @settings(max_examples=25, deadline=None)
    @given(
        sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
        num_features=st.sampled_from([1, 4, 70, 520]),
        embedding_dim=st.sampled_from([None, 1, 7, 600]),
        seed=st.integers(0, 20),
    )
    def test_shapes_follow_from_widths(self, sizes, num_features, embedding_dim, seed):
        arguments = case(sizes, num_features=num_features, seed=seed)
        blank = NodeHead(num_features, 3, embedding_dim=embedding_dim, encoder_weight=1.0)
        fitted = node_head(*arguments, embedding_dim=embedding_dim)
        shapes = {name: value.shape for name, value in blank.state_dict().items()}
        assert shapes == {name: value.shape for name, value in fitted.state_dict().items()}
        found = fitted(*arguments)
        reduced = min(num_features, max(512, embedding_dim or 512))
        assert found.shape == (sum(sizes), min(embedding_dim or 512, 2 * reduced + 4))
        assert torch.isfinite(found).all()
        # No more directions than training rows.
        assert int(found.abs().sum(0).count_nonzero()) <= sum(sizes)

    def test_all_directions_keep_all_distances(self):
        x, matrix, hidden = case([20], num_features=70)
        x = x * (x > 0.5)
        found = node_head(x, matrix, hidden)(x, matrix, hidden).double().numpy()
        z = unit(x.double().numpy())
        a = matrix.to_dense().double().numpy()
        smooth = smooth_weight(z, a)
        blocks = np.concatenate(
            [z, smooth * unit(a @ a @ z), unit(hidden.double().numpy())], axis=1
        )
        np.testing.assert_allclose(found @ found.T, blocks @ blocks.T, atol=1e-5)

    def test_a_graph_does_not_depend_on_others_in_the_batch(self):
        arguments = case([12, 9], num_features=5)
        head = node_head(*arguments, embedding_dim=6)
        together = head(*arguments)
        graph = random_graph([12, 9], num_features=5)
        first = gcn_matrix(edge_list(graph)).to(dtype=torch.float32).to_dense()[:12, :12]
        matrix = SparseMatrix.from_scipy(first.numpy())
        alone = head(arguments[0][:12], matrix, arguments[2][:12])
        torch.testing.assert_close(alone, together[:12])

    def test_constant_features(self):
        x, matrix, hidden = case([9], num_features=4)
        ones = torch.ones_like(x)
        assert torch.isfinite(node_head(ones, matrix, hidden)(ones, matrix, hidden)).all()

    def test_an_unused_column_of_few_features_is_ignored(self):
        x, matrix, hidden = case([9], num_features=4)
        x[:, 2] = 0
        head = node_head(x, matrix, hidden)
        other = x.clone()
        other[:, 2] = 7.0
        torch.testing.assert_close(head(other, matrix, hidden), head(x, matrix, hidden))
