"""The matrix of a GCN layer from what any encoder propagates with."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import random_graph
from graphlatent.data.batches import EdgeList, edge_list
from graphlatent.nn.edge_dropout import DroppableMatrix
from graphlatent.nn.propagation import as_gcn_matrix, gcn_matrix, gin_matrix

DOUBLE = torch.float64


def test_by_hand():
    # One edge 0 - 1 and a self-loop of weight 3 at 0: rows sum to 4 and 2.
    edges = EdgeList(torch.tensor([[0, 0, 1], [0, 1, 0]]), torch.tensor([3.0, 1.0, 1.0]), 2)
    expected = torch.tensor([[3 / 4, 8**-0.5], [8**-0.5, 1 / 2]], dtype=DOUBLE)
    found = as_gcn_matrix(gin_matrix(edges), kind="gin", dtype=DOUBLE)
    torch.testing.assert_close(found.to_dense(), expected)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    weighted=st.booleans(),
    directed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_gcn_matrix(sizes, weighted, directed, seed):
    edges = edge_list(random_graph(sizes, weighted=weighted, seed=seed))
    if directed:
        weight = None if edges.edge_weight is None else edges.edge_weight[::2]
        edges = EdgeList(edges.edge_index[:, ::2], weight, edges.num_nodes, undirected=False)
    expected = gcn_matrix(edges).to_dense()
    structures = {
        "gin": gin_matrix(edges),
        "gcn": gcn_matrix(edges),
        "edges": edges,
        "droppable gin": DroppableMatrix.of(edges, kind="gin"),
    }
    for name, structure in structures.items():
        kind = None if name == "edges" else name.split()[-1]
        found = as_gcn_matrix(structure, kind=kind, dtype=DOUBLE)
        torch.testing.assert_close(found.to_dense(), expected, check_dtype=False)


def test_negative_weights_count_with_their_absolute_values():
    edges = EdgeList(torch.tensor([[0, 1], [1, 0]]), torch.tensor([-1.0, -1.0]), 2)
    expected = torch.tensor([[0.5, -0.5], [-0.5, 0.5]], dtype=DOUBLE)
    torch.testing.assert_close(as_gcn_matrix(edges, kind=None, dtype=DOUBLE).to_dense(), expected)


def test_the_matrix_of_an_unknown_encoder_is_refused():
    matrix = gin_matrix(edge_list(random_graph([3])))
    with pytest.raises(TypeError, match=r"override Method\.smoothing_matrix"):
        as_gcn_matrix(matrix, kind=None, dtype=DOUBLE)
