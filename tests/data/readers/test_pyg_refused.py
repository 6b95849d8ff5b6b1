"""PyG objects that contradict themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import InputError

EDGES = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
PIECES = torch.tensor([0, 0, 1, 1])


def two(**changes):
    return Data(**{"x": torch.ones(4, 1), "edge_index": EDGES, "batch": PIECES, **changes})


@pytest.mark.parametrize(
    "batch",
    [
        torch.tensor([-1, 0, 0, 1]),
        torch.tensor([1, 0, 1, 0]),
        torch.tensor([0.0, 0, 1, 1]),
        torch.tensor([0, 0, 1]),
        torch.tensor([[0, 0, 1, 1]]),
        torch.tensor(0),
        [0, 1, 0, 1],
        ["a", "a", "b", "b"],
        [[0], [0, 1]],
        "0011",
    ],
)
def test_batch_vectors(batch):
    with pytest.raises(InputError, match=r"^graph: '?batch'? must "):
        read_graphs(two(batch=batch))


def test_a_batch_vector_may_be_a_list():
    for batch in ([0, 0, 1, 1], np.array([0, 0, 1, 1], dtype=np.uint8)):
        assert read_graphs(two(batch=batch)).ptr.tolist() == [0, 2, 4]


def test_a_batch_vector_of_huge_or_missing_numbers():
    for last in (2, 10**9, 2**63 - 1):
        with pytest.raises(InputError, match=f"numbers them up to {last}, so some graph has no no"):
            read_graphs(two(batch=torch.tensor([0, 0, last, last])))


def test_edges_between_graphs_of_a_batch():
    with pytest.raises(InputError, match=r"the edge \(1, 2\) joins nodes of two graphs of the bat"):
        read_graphs(two(edge_index=torch.tensor([[0, 1], [1, 2]])))


@pytest.mark.parametrize("batch", [PIECES, None])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": EDGES.float()}, "edge_index must hold integers.* Got float32"),
        ({"edge_index": EDGES + 1}, "must hold ids from 0 to 3.* Got 4"),
        ({"edge_index": EDGES - 1}, "must hold ids from 0 to 3.* Got -1"),
        ({"edge_index": EDGES * 2**61}, "must hold ids from 0 to 3"),
        ({"edge_index": EDGES[0]}, "edge_index must have shape"),
        ({"edge_index": [[0, 1], [1]]}, "edge_index must be a regular array"),
        ({"edge_weight": torch.ones(3)}, "edge_weight must have one number per edge, 4"),
        ({"edge_weight": torch.tensor(1.0)}, "edge_weight must have one number per edge, 4"),
        ({"y": torch.zeros(3)}, "y must hold one label per node"),
        ({"x": torch.tensor(1.0)}, "x must be a matrix"),
        ({"x": torch.ones(4)}, "features must be a 2-D array"),
        ({"x": None, "num_nodes": "four"}, "num_nodes must be an integer. Got 'four'"),
    ],
)
def test_other_parts(changes, message, batch):
    with pytest.raises(InputError, match=message):
        read_graphs(two(**{**changes, "batch": batch}))


def test_a_batch_of_changed_parts():
    batch = Batch.from_data_list([Data(x=torch.ones(2, 1), edge_index=EDGES[:, :2])] * 2)
    assert read_graphs(batch).num_graphs == 2
    batch.edge_index = batch.edge_index + 1
    with pytest.raises(InputError, match=r"edge_index must hold ids|joins nodes of two graphs"):
        read_graphs(batch)


def test_values_that_numpy_does_not_have():
    y, weight = torch.arange(4, dtype=torch.bfloat16), torch.ones(4, dtype=torch.bfloat16)
    graph = read_graphs(two(y=y, edge_weight=2 * weight))
    assert (graph.y.tolist(), graph.edge_weight.tolist()) == ([0, 1, 2, 3], [2, 2, 2, 2])
    meta = torch.ones(4, 1, device="meta")
    with pytest.raises(InputError, match="features must be a regular array of numbers"):
        read_graphs(two(x=meta, batch=None))
    with pytest.raises(InputError, match=r"^graph: PyTorch Geometric cannot count the nodes"):
        read_graphs(two(edge_attr=4 * [object()], edge_index={1: 2}, batch=None, x=None))
