"""The head of graph embeddings: by hand, against scikit-learn, tiny training sets."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from cases import generator
from graphlatent.nn.graph_head import GraphHead


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
