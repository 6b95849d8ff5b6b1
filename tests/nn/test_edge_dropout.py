"""Propagation without some edges equals the matrix of the edges that are left."""

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
def test_equals_the_matrix_of_the_edges_that_are_left(size, kind, weighted, share, seed):
    edges = edge_list(random_graph([size], weighted=weighted, seed=seed))
    matrix = DroppableMatrix.of(edges, kind=kind)
    torch.testing.assert_close(matrix.to_dense(), MATRICES[kind](edges).to_dense())
    keep = torch.rand(edges.edge_index.shape[1], generator=generator(seed)) >= share
    weight = None if edges.edge_weight is None else edges.edge_weight[keep]
    left = EdgeList(edges.edge_index[:, keep], weight, size, undirected=False)
    place = torch.zeros(size, size, dtype=torch.bool)
    place[edges.edge_index[1], edges.edge_index[0]] = keep
    kept = matrix.with_values(matrix.values_of(place[matrix.row, matrix.col]))
    torch.testing.assert_close(kept.to_dense(), MATRICES[kind](left).to_dense())
    torch.testing.assert_close(kept.transpose.to_dense(), kept.to_dense().T)
    dense = torch.randn(size, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(kept.matmul, (dense,))


@pytest.mark.parametrize("plain", [True, False])
def test_a_share_is_dropped_and_seeds_decide(plain):
    edges = edge_list(random_graph([60], density=0.5))
    structure = edges if plain else DroppableMatrix.of(edges, kind="gin")

    def left(seed):
        found = drop_edges(structure, 0.3, generator=generator(seed))
        if plain:
            return found.edge_index.shape[1]
        off_diagonal = found.to_dense() - torch.diag(found.to_dense().diagonal())
        return int(torch.count_nonzero(off_diagonal))

    whole = edges.edge_index.shape[1]
    assert 0.62 * whole < left(0) < 0.78 * whole
    assert left(0) == left(0) != left(1)


def test_another_type_and_back():
    edges = edge_list(random_graph([7], weighted=True))
    matrix = DroppableMatrix.of(edges, kind="gcn").to("cpu", torch.float32)
    assert matrix.dtype == matrix.weight.dtype == torch.float32
    values = matrix.values_of(torch.ones_like(matrix.edge))
    torch.testing.assert_close(values, matrix.value)
