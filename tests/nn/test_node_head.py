"""The head of node embeddings against a NumPy version; sparse, tiny and degenerate cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from cases import generator
from graphlatent.nn import node_head as module
from graphlatent.nn.node_head import NodeHead
from graphlatent.ops.sparse import SparseMatrix
from head_reference import case, dense, embedding, same_signs, unit


def node_head(x, matrix, hidden, coordinates=None, **settings):
    width = 0 if coordinates is None else coordinates.shape[1]
    settings = {"embedding_dim": None, "coordinate_dim": width, **settings}
    head = NodeHead(x.shape[1], hidden.shape[1], **settings)
    head.fit(x, matrix, hidden, coordinates, generator=generator(0))
    return head


def edgeless(size):
    return SparseMatrix.from_scipy(np.eye(size))


def coordinates_of(size):
    return torch.randn(size, 2, generator=generator(7)) + 1


FORMS = pytest.mark.parametrize(
    ("k0", "few"), [(512, 64), (512, 0), (6, 0)], ids=["few", "narrow", "wide"]
)


class TestReference:
    @FORMS
    @pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
    @pytest.mark.parametrize("kind", ["alike", "unlike", "random"])
    @pytest.mark.parametrize("weight", [1.0, 0.3])
    def test_equals_the_reference(self, monkeypatch, k0, few, sparse, kind, weight):
        monkeypatch.setattr(module, "BASIS_DIM", k0)
        monkeypatch.setattr(module, "FEW_FEATURES", few)
        arguments = case([25, 15], num_features=8, sparse=sparse, kind=kind)
        if weight != 1:
            arguments = (*arguments, coordinates_of(40))
        weights = {"feature_weight": 1 / weight, "encoder_weight": weight}
        head = node_head(*arguments, embedding_dim=5, **weights)
        expected = embedding(arguments, k=5, k0=k0, few=few, **weights)
        assert (expected.estimate.deviations > 2) == (kind == "alike")
        assert bool(head.keeps_norms) == expected.keeps_norms == (few > 0 or not sparse)
        found, rows = head(*arguments).double().numpy(), expected.embed(*arguments)
        np.testing.assert_allclose(cdist(found, found), cdist(rows, rows), atol=5e-4)
        # Components of similar variance mix by rounding.
        np.testing.assert_allclose(found, same_signs(found, rows), atol=5e-3)

    @FORMS
    @pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
    def test_new_nodes_equal_the_reference(self, monkeypatch, k0, few, sparse):
        monkeypatch.setattr(module, "BASIS_DIM", k0)
        monkeypatch.setattr(module, "FEW_FEATURES", few)
        arguments = case([25, 15], num_features=8, sparse=sparse, kind="alike")
        new = case([9, 1, 7], num_features=8, sparse=sparse, seed=5)
        arguments, new = (*arguments, coordinates_of(40)), (*new, coordinates_of(17))
        head = node_head(*arguments, embedding_dim=5)
        expected = embedding(arguments, k=5, k0=k0, few=few)
        known, found = head(*arguments).double().numpy(), head(*new).double().numpy()
        signs = np.sign((known * expected.embed(*arguments)).sum(0))
        np.testing.assert_allclose(found, signs * expected.embed(*new), atol=1e-3)

    @pytest.mark.parametrize(("num_features", "sparse"), [(8, False), (70, False), (70, True)])
    def test_all_directions_keep_all_distances(self, num_features, sparse):
        arguments = case([20], num_features=num_features, sparse=sparse, kind="alike")
        found = node_head(*arguments)(*arguments)
        joined = embedding(arguments, k=200).joined(*arguments)
        np.testing.assert_allclose(cdist(found, found), cdist(joined, joined), atol=1e-4)
        assert found.mean(0).abs().max() < 1e-6

    def test_signs_of_the_reference_where_directions_are_columns(self):
        arguments = case([25], num_features=8)
        found = node_head(*arguments, embedding_dim=5)(*arguments)
        expected = embedding(arguments, k=5).embed(*arguments)
        np.testing.assert_allclose(found, expected, atol=5e-4)


class TestNodeHead:
    def test_one_feature_by_hand(self):
        # Two nodes without edges, features 3 and 4: A A z = z; averages have 0.1 of a variance of
        # 1. The encoder's output and degrees are equal, so they have no variance.
        x, ones = torch.tensor([[3.0], [4.0]]), torch.ones(2, 1)
        head = node_head(x, edgeless(2), ones, embedding_dim=1)
        torch.testing.assert_close(head(x, edgeless(2), ones), torch.tensor([[-1.0], [1.0]]))
        # A new node with a feature of 5, three times as far from the mean as that with 4.
        new = head(torch.tensor([[5.0]]), edgeless(1), torch.ones(1, 1))
        torch.testing.assert_close(new, torch.tensor([[3.0]]))

    def test_weights_are_those_of_the_blocks(self):
        x, matrix, hidden = case([20], num_features=5)
        squares = []
        for feature_weight, encoder_weight in ((0, 0), (1, 0), (2, 0), (0, 1), (0, 3)):
            weights = {"feature_weight": feature_weight, "encoder_weight": encoder_weight}
            found = node_head(x, matrix, hidden, **weights)(x, matrix, hidden)
            squares.append(float(found.square().sum(1).mean()))
        # Averages have 0.1, features the other 0.9, the encoder half of 0.1, degrees 1 / 5.
        expected = [0.3, 0.3 + 0.9, 0.3 + 4 * 0.9, 0.3 + 0.05, 0.3 + 9 * 0.05]
        assert squares == pytest.approx(expected, rel=1e-4)
        with_coordinates = (x, matrix, hidden, 50 * coordinates_of(20))
        found = node_head(*with_coordinates, feature_weight=0, encoder_weight=0)(*with_coordinates)
        assert float(found.square().sum(1).mean()) == pytest.approx(0.3 + 0.4, rel=1e-4)

    def test_sparse_and_dense_features_agree(self, monkeypatch):
        monkeypatch.setattr(module, "BASIS_DIM", 8)
        monkeypatch.setattr(module, "FEW_FEATURES", 0)
        x, matrix, hidden = case([40], num_features=12, sparse=True)
        sparse = node_head(x, matrix, hidden, embedding_dim=6)(x, matrix, hidden)
        full = x.to_dense()
        found = node_head(full, matrix, hidden, embedding_dim=6)(full, matrix, hidden)
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

    def test_a_node_without_words_is_as_far_from_others_as_their_blocks_are_long(self, monkeypatch):
        monkeypatch.setattr(module, "FEW_FEATURES", 0)
        arguments = case([60], num_features=8, sparse=True, kind="alike")
        head = node_head(*arguments)
        # Its blocks are zero, so that it is at minus the mean.
        blank = head(torch.zeros(2, 8), edgeless(2), torch.zeros(2, 3))
        assert torch.equal(blank[0], blank[1])
        distances = cdist(blank[:1], head(*arguments))[0]
        expected = np.linalg.norm(embedding(arguments, k=200, few=0).joined(*arguments), axis=1)
        np.testing.assert_allclose(distances, expected, rtol=1e-4)

    @settings(max_examples=25, deadline=None)
    @given(
        sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
        num_features=st.sampled_from([1, 4, 70, 520]),
        embedding_dim=st.sampled_from([None, 1, 7, 600]),
        num_coordinates=st.sampled_from([0, 2]),
        seed=st.integers(0, 20),
    )
    def test_shapes_follow_from_widths(
        self, sizes, num_features, embedding_dim, num_coordinates, seed
    ):
        arguments = case(sizes, num_features=num_features, seed=seed)
        if num_coordinates:
            arguments = (*arguments, coordinates_of(sum(sizes)))
        settings = {"embedding_dim": embedding_dim, "coordinate_dim": num_coordinates}
        blank = NodeHead(num_features, 3, **settings)
        fitted = node_head(*arguments, **settings)
        shapes = {name: value.shape for name, value in blank.state_dict().items()}
        assert shapes == {name: value.shape for name, value in fitted.state_dict().items()}
        found = fitted(*arguments)
        reduced = min(num_features, max(512, embedding_dim or 512))
        width = 2 * reduced + 3 + 1 + num_coordinates
        assert found.shape == (sum(sizes), min(embedding_dim or 512, width))
        assert torch.isfinite(found).all()
        # No more directions than training rows.
        assert int(found.abs().sum(0).count_nonzero()) <= sum(sizes)

    @settings(max_examples=25, deadline=None)
    @given(
        kind=st.sampled_from(["alike", "unlike", "random"]),
        scale=st.sampled_from([1e-3, 50.0]),
        seed=st.integers(0, 30),
    )
    def test_units_of_few_features_change_nothing(self, kind, scale, seed):
        x, matrix, hidden = case([12, 8], num_features=4, seed=seed, kind=kind)
        other = x * torch.tensor([1.0, scale, 1.0, -scale])
        found = node_head(other, matrix, hidden)(other, matrix, hidden)
        expected = node_head(x, matrix, hidden)(x, matrix, hidden)
        np.testing.assert_allclose(cdist(found, found), cdist(expected, expected), atol=5e-3)

    @settings(max_examples=25, deadline=None)
    @given(num_features=st.sampled_from([1, 4, 70]), seed=st.integers(0, 30))
    def test_components_are_uncorrelated_in_descending_order(self, num_features, seed):
        arguments = case([20], num_features=num_features, seed=seed, kind="alike")
        found = node_head(*arguments)(*arguments).double()
        products = found.T @ found / 20
        variances = products.diagonal()
        torch.testing.assert_close(products, variances.diag(), atol=1e-5, rtol=0)
        assert (variances.diff() <= 1e-6).all()

    def test_a_graph_does_not_depend_on_others_in_the_batch(self):
        x, matrix, hidden = case([12, 9], num_features=5, kind="alike")
        head = node_head(x, matrix, hidden, embedding_dim=6)
        first = SparseMatrix.from_scipy(matrix.to_dense()[:12, :12].numpy())
        alone = head(x[:12], first, hidden[:12])
        torch.testing.assert_close(alone, head(x, matrix, hidden)[:12])

    def test_constant_features_leave_degrees_and_the_encoder(self):
        x, matrix, hidden = case([9], num_features=4)
        ones = torch.ones_like(x)
        found = node_head(ones, matrix, hidden)(ones, matrix, hidden).numpy()
        degree = (dense(matrix) @ dense(matrix)).sum(1, keepdims=True)
        # Averages of ones are functions of the degrees too: 0.1 of four equal columns, and 1 / 4.
        degree = (degree - degree.mean()) / degree.std() * np.sqrt(0.1 + 0.25)
        rows = unit(dense(hidden))
        rows *= np.sqrt(0.05 / ((rows - rows.mean(0)) ** 2).sum(1).mean())
        expected = np.concatenate([degree, rows], axis=1)
        np.testing.assert_allclose(cdist(found, found), cdist(expected, expected), atol=1e-4)

    def test_degrees_that_differ_by_rounding_have_no_variance(self):
        ring = [0.31, 0.21, 0.1, 0.035, *[0.0] * 13, 0.035, 0.1, 0.21]
        matrix = SparseMatrix.from_scipy(sp.csr_matrix([np.roll(ring, i) for i in range(20)]))
        degree = matrix.multiply(matrix.multiply(torch.ones(20, 1)))
        assert degree.unique().numel() > 1
        x, hidden = torch.randn(20, 4, generator=generator(0)), torch.ones(20, 1)
        # Averages have 0.1; of an irregular graph, degrees would add 1 / 4.
        found = node_head(x, matrix, hidden, feature_weight=0)(x, matrix, hidden)
        assert float(found.square().sum(1).mean()) == pytest.approx(0.1, rel=1e-4)

    def test_an_unused_column_of_few_features_is_ignored(self):
        x, matrix, hidden = case([9], num_features=4)
        x[:, 2] = 0
        head = node_head(x, matrix, hidden)
        other = x.clone()
        other[:, 2] = 7.0
        torch.testing.assert_close(head(other, matrix, hidden), head(x, matrix, hidden))

    @pytest.mark.parametrize("num_features", [4, 70])
    def test_one_node_is_its_mean(self, num_features):
        x, matrix, hidden = case([1], num_features=num_features)
        head = node_head(x, matrix, hidden)
        assert head(x, matrix, hidden).abs().max() == 0
        assert torch.isfinite(head(2 * x + 1, matrix, -hidden)).all()

    def test_zeros_give_zeros(self):
        zeros, hidden = torch.zeros(5, 3), torch.zeros(5, 2)
        found = node_head(zeros, edgeless(5), hidden)(zeros, edgeless(5), hidden)
        assert found.abs().max() == 0

    def test_without_edges_averages_are_own_features(self):
        x, _, hidden = case([9], num_features=4)
        found = node_head(x, edgeless(9), hidden, encoder_weight=0)(x, edgeless(9), hidden)
        rows = dense(x) / np.sqrt((dense(x) ** 2).mean(0))
        rows /= np.sqrt(((rows - rows.mean(0)) ** 2).sum(1).mean())
        np.testing.assert_allclose(cdist(found, found), cdist(rows, rows), atol=1e-4)
