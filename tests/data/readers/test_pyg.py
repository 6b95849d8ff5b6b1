from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import GraphLatentWarning, InputError

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def data(**changes):
    return Data(**{"x": torch.tensor(X), "edge_index": torch.tensor(EDGES), **changes})


class ListDataset(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_pyg_weights_and_labels():
    graph = read_graphs(data(edge_weight=torch.tensor([1.0, 1, 2, 2]), y=torch.tensor([0, 1, 0])))
    assert graph.edge_weight.tolist() == [1, 1, 2, 2]
    assert graph.y.tolist() == [0, 1, 0]
    for shape in ((4,), (4, 1)):
        assert read_graphs(data(edge_attr=torch.full(shape, 3.0))).edge_weight.tolist() == [3] * 4


def test_pyg_what_is_not_used_of_edges_is_said():
    wide = torch.ones(4, 2)
    with pytest.warns(
        GraphLatentWarning,
        match=r"^graph: edge_attr of shape \(4, 2\) is not used: only one number per edge can",
    ) as caught:
        graph = read_graphs(data(edge_attr=wide))
    assert graph.edge_weight is None and graph.notes == (str(caught[0].message),)
    both = data(edge_attr=torch.full((4,), 3.0), edge_weight=torch.full((4,), 5.0))
    with pytest.warns(
        GraphLatentWarning,
        match=r"edge_attr of shape \(4,\) is not used: edge_weight is used instead",
    ):
        assert read_graphs(both).edge_weight.tolist() == [5] * 4
    with pytest.warns(
        GraphLatentWarning,
        match=(
            r"edge_attr of shape \(4, 1\) holds torch.int64 values and is read as edge weights."
            r" Where they are codes, such as kinds of bonds, read them as features with"
        ),
    ):
        assert read_graphs(data(edge_attr=torch.full((4, 1), 3))).edge_weight.tolist() == [3] * 4
    with pytest.warns(GraphLatentWarning, match=r"attributes not used: edge_type\. .* store it as"):
        read_graphs(data(edge_type=torch.zeros(4, dtype=torch.int64)))


def test_pyg_what_is_not_used_of_many_graphs_is_said_once():
    graphs = [data(edge_attr=torch.ones(4, 3)), data(), data(edge_attr=torch.ones(4, 3))]
    for several in (graphs, Batch.from_data_list([graphs[0], graphs[2]])):
        with pytest.warns(GraphLatentWarning) as caught:
            read_graphs(several)
        assert len(caught) == 1 and "edge_attr of shape" in str(caught[0].message)
    with pytest.warns(GraphLatentWarning) as caught:
        read_graphs(graphs)
    assert str(caught[0].message) == (
        "graph 0: edge_attr of shape (4, 3) is not used: only one number per edge can be used, as"
        " its weight. Features of edges are read with read_graphs(...,"
        " edge_features=['edge_attr']). The same holds for 1 more graph."
    )


def test_pyg_without_features_or_edges():
    assert read_graphs(Data(edge_index=torch.tensor(EDGES), num_nodes=5)).num_nodes == 5
    assert read_graphs(Data(edge_index=torch.tensor(EDGES))).num_nodes == 3
    with pytest.warns(GraphLatentWarning, match=r"no edges"):
        assert read_graphs(Data(x=torch.ones(2, 1))).num_nodes == 2
    with pytest.warns(GraphLatentWarning, match=r"no edges"):
        assert read_graphs(Data(num_nodes=4)).num_nodes == 4
    with pytest.raises(
        InputError, match=r"graph is a PyG Data with neither 'edge_index' nor 'x'. Give it edges"
    ):
        read_graphs(Data())


def test_pyg_transposed_adjacency():
    adjacency = torch.tensor([[0, 1.0, 0], [0, 0, 1], [0, 0, 0]])
    graph = read_graphs(Data(adj_t=adjacency.T.to_sparse(), x=torch.ones(3, 1)), symmetrize=False)
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight is None
    weighted = read_graphs(
        Data(adj_t=(2 * adjacency.T).to_sparse(), x=torch.ones(3, 1)), symmetrize=False
    )
    assert weighted.edge_weight.tolist() == [2, 2]


def test_pyg_batch_is_several_graphs():
    graphs = [
        data(y=torch.tensor([3])),
        Data(
            x=torch.ones(1, 2), edge_index=torch.zeros(2, 0, dtype=torch.int64), y=torch.tensor([4])
        ),
    ]
    for form in (Batch.from_data_list(graphs), graphs, tuple(graphs), ListDataset(graphs)):
        graph = read_graphs(form)
        assert graph.ptr.tolist() == [0, 3, 4]
        assert graph.edge_index.tolist() == EDGES.tolist()
        assert graph.y.tolist() == [3, 4]
        assert graph.x.tolist() == [*X.tolist(), [1, 1]]


def test_pyg_data_with_a_batch_vector():
    graph = read_graphs(data(batch=torch.tensor([0, 0, 0])))
    assert graph.num_graphs == 1
    two = Data(
        x=torch.ones(4, 1),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
        batch=torch.tensor([0, 0, 1, 1]),
    )
    assert read_graphs(two).ptr.tolist() == [0, 2, 4]
    two.batch = torch.tensor([1, 1, 0, 0])
    with pytest.raises(
        InputError,
        match=r"graph: 'batch' must name the graph of each of the 4 nodes, in ascending order",
    ):
        read_graphs(two)


def test_pyg_hetero_is_refused():
    with pytest.raises(
        InputError,
        match=r"graph is a PyG HeteroData.* Turn it into one kind with to_homogeneous\(\)",
    ):
        read_graphs(HeteroData())
    with pytest.raises(InputError, match=r"graph 1 is a PyG HeteroData"):
        read_graphs([data(), HeteroData()])
