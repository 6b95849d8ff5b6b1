"""Labels of whole graphs that a table gives once per node."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from graphlatent import read_graphs
from graphlatent.data.graph_labels import first_rows, level_labels
from graphlatent.errors import InputError


def read(labels, *, label="y"):
    nodes = pd.DataFrame({"graph": list("aabbb"), "id": [0, 1, 0, 1, 2], "f": 1.5, **labels})
    edges = pd.DataFrame({"graph": list("aabb"), "source": [0, 1, 0, 1], "target": [1, 0, 1, 2]})
    return read_graphs(edges, nodes=nodes, label=label, symmetrize=False)


def test_equal_labels_of_nodes_are_those_of_their_graphs():
    graph = read({"y": ["p", "p", None, None, None]})
    assert level_labels(graph, "graph").tolist() == ["p", None]
    assert len(level_labels(graph, "node")) == 5
    several = read({"y": [1, 1, 0, 0, 0], "z": [0, 0, 1, 1, 1]}, label=["y", "z"])
    assert level_labels(several, "graph").tolist() == [[1, 0], [0, 1]]


def test_labels_of_graphs_and_no_labels_stay():
    assert level_labels(read({}, label=None), "graph") is None
    torch_geometric = pytest.importorskip("torch_geometric.data")
    import torch

    one = torch_geometric.Data(
        x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([4])
    )
    assert level_labels(read_graphs([one, one], symmetrize=False), "graph").ravel().tolist() == [
        4,
        4,
    ]


@pytest.mark.parametrize(
    ("values", "had"), [([1.0, 1.0, 2.0, np.nan, 2.0], "2.0 and no value"), (list("ppqqr"), "q")]
)
def test_the_first_graph_that_differs_is_named(values, had):
    with pytest.raises(
        InputError, match=f"column 'y' differs between the nodes of graph 'b'.*{had}"
    ):
        level_labels(read({"y": values}), "graph")


def test_rows_of_a_graph_need_not_follow_each_other():
    rows = first_rows(
        {"y": np.array(list("pqp"))}, np.array([0, 1, 0]), graph_name=str, where="labels"
    )
    assert rows.tolist() == [0, 1]
