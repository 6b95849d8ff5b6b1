"""The matrix with dropped edges equals the matrix of the remaining edges."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator, random_graph
from graphlatent.data.batches import EdgeList, edge_list
from graphlatent.nn.edge_dropout import DroppableMatrix, drop_edges
from graphlatent.nn.encoders import MATRICES


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 9),
    kind=st.sampled_from(["gcn", "gin"]),
    weighted=st.booleans(),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 999),
)
def test_equals_the_matrix_of_the_remaining_edges(size, kind, weighted, share, seed):
    edges = edge_list(random_graph([size], weighted=weighted, seed=seed))
    matrix = DroppableMatrix.of(edges, kind=kind)
    torch.testing.assert_close(matrix.to_dense(), MATRICES[kind](edges).to_dense())
    keep = torch.rand(edges.edge_index.shape[1], generator=generator(seed)) >= share
    weight = None if edges.edge_weight is None else edges.edge_weight[keep]
    remaining = EdgeList(edges.edge_index[:, keep], weight, size, undirected=False)
    mask = torch.zeros(size, size, dtype=torch.bool)
    mask[edges.edge_index[1], edges.edge_index[0]] = keep
    kept = matrix.with_values(matrix.values_of(mask[matrix.row, matrix.col]))
    torch.testing.assert_close(kept.to_dense(), MATRICES[kind](remaining).to_dense())
    torch.testing.assert_close(kept.transpose.to_dense(), kept.to_dense().T)
    dense = torch.randn(size, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(kept.matmul, (dense,))


@pytest.mark.parametrize("plain", [True, False])
def test_the_expected_share_is_dropped_and_depends_on_the_seed(plain):
    edges = edge_list(random_graph([60], density=0.5))
    structure = edges if plain else DroppableMatrix.of(edges, kind="gin")

    def num_remaining(seed):
        found = drop_edges(structure, 0.3, generator=generator(seed))
        if plain:
            return found.edge_index.shape[1]
        off_diagonal = found.to_dense() - torch.diag(found.to_dense().diagonal())
        return int(torch.count_nonzero(off_diagonal))

    num_edges = edges.edge_index.shape[1]
    assert 0.62 * num_edges < num_remaining(0) < 0.78 * num_edges
    assert num_remaining(0) == num_remaining(0) != num_remaining(1)


def test_conversion_to_float32():
    edges = edge_list(random_graph([7], weighted=True))
    matrix = DroppableMatrix.of(edges, kind="gcn").to("cpu", torch.float32)
    assert matrix.dtype == matrix.weight.dtype == torch.float32
    values = matrix.values_of(torch.ones_like(matrix.edge))
    torch.testing.assert_close(values, matrix.value)
