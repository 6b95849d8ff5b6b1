"""Heads against slow NumPy versions; sparse features, tiny and degenerate training sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD

from cases import as_sparse, generator, random_graph
from graphlatent.data.batches import edge_list
from graphlatent.nn import head as module
from graphlatent.nn.head import GraphHead, NodeHead
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
        # z = -1 and 1, limited to 2 tanh(z / 2); 2 tanh(0.5) = 0.924234.
        expected = torch.tensor([[-0.924234, 0.0], [0.924234, 0.0]])
        torch.testing.assert_close(head(rows), expected)
        # New graphs: mean 2 and deviation 1 of the training set; a constant column gives 0.
        new = head(torch.tensor([[4.0, 9.0], [1e9, 0.0]]))
        torch.testing.assert_close(new, torch.tensor([[1.523188, 0.0], [2.0, 0.0]]))

    @settings(max_examples=25, deadline=None)
    @given(num_graphs=st.integers(2, 9), width=st.integers(1, 6), seed=st.integers(0, 99))
    def test_columns_are_standardised_and_limited(self, num_graphs, width, seed):
        rows = 100 + 7 * torch.randn(num_graphs, width, generator=generator(seed))
        found = graph_head(rows)(rows).double()
        standard = (rows - rows.mean(0)) / rows.std(0, unbiased=False)
        expected = 2 * torch.tanh(standard.double() / 2)
        torch.testing.assert_close(found, expected, atol=1e-2, rtol=1e-3)
        assert found.abs().max() < 2

    def test_reduced_columns_are_principal_components(self):
        rows = torch.randn(40, 6, generator=generator(1)) @ torch.randn(
            6, 9, generator=generator(2)
        )
        found = graph_head(rows, embedding_dim=4)(rows).double().numpy()
        exact = rows.double().numpy()
        limited = 2 * np.tanh((exact - exact.mean(0)) / exact.std(0) / 2)
        expected = TruncatedSVD(4, algorithm="arpack").fit_transform(limited)
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
    siblings = (pairs * product).sum() / pairs.sum() / variance
    homophily = np.clip(siblings / neighbours, 0, 1)
    reliability = min(neighbours / homophily, 1) if homophily > 0 else 1
    ratio = homophily**2 * reliability * (a != 0).sum(1).mean() / max(1 - reliability, 0.01)
    return np.clip(0.45 * (ratio / (1 + ratio) / reliability) ** 2, 0.5, 2.0)


def reference(x, matrix, hidden, *, k, k0, few, weight):
    """The embedding in float64, from dense matrices."""
    x, a, h = (np.asarray(m.to_dense(), dtype=np.float64) for m in (x, matrix, hidden))
    keeps_norms = few or (x != 0).mean() > 0.5
    if few:
        z = 2 * x / np.sqrt(x.shape[1] * (x**2).mean(0))
    elif keeps_norms:
        z = 2 * x / np.sqrt((x**2).sum(1).mean())
    else:
        z = unit(x)
    z = z if x.shape[1] <= k0 else z @ leading(z, k0)
    second = a @ a @ z
    second = second * np.linalg.norm(z) / np.linalg.norm(second) if keeps_norms else unit(second)
    ones = (a @ a).sum(1, keepdims=True)
    degree = 2 / np.sqrt(x.shape[1]) * (ones - ones.mean()) / ones.std() * keeps_norms
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
        # Both blocks are 2 x / sqrt(12.5), so their one direction has sqrt(2) of it.
        expected = 2 * x * 2**0.5 / 12.5**0.5
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
