"""The GIN encoder with edge features: against PyTorch Geometric, by hand, and its symmetries."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cases import as_sparse, generator, random_graph
from graphlatent.data.batches import EdgeList
from graphlatent.errors import ConfigError
from graphlatent.nn.edge_dropout import drop_edges
from graphlatent.nn.encoders import CustomEncoder, GINELayer, GNNEncoder, initialise

pyg = pytest.importorskip("torch_geometric.nn")


def layer(in_dim=4, out_dim=3, edge_dim=2) -> GINELayer:
    made = GINELayer(in_dim, out_dim, edge_dim)
    initialise(made, generator(0))
    with torch.no_grad():
        for bias in (made.bias, made.bias2, made.bias_edge):
            bias.uniform_(-1, 1, generator=generator(1))
    return made


def encoder(**values) -> GNNEncoder:
    return GNNEncoder(
        4, **{"kind": "gin", "hidden_dim": 5, "edge_dim": 2, "generator": generator(0), **values}
    )


def random_edges(sizes=(9,), *, weighted=False, seed=0):
    graph = random_graph(list(sizes), weighted=weighted, density=0.4, seed=seed)
    attr = torch.randn(graph.num_edges, 2, generator=generator(seed + 1))
    return graph, EdgeList(graph.edge_index, graph.edge_weight, graph.num_nodes, True, attr)


@pytest.mark.parametrize("directed", [True, False])
def test_a_layer_equals_that_of_pyg(directed):
    graph, edges = random_edges()
    edges = edges.chosen(torch.arange(0, graph.num_edges, 2)) if directed else edges
    ours = layer()
    mlp = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
    conv = pyg.GINEConv(mlp, edge_dim=2)
    pairs = (
        (mlp[0], ours.weight, ours.bias),
        (mlp[2], ours.weight2, ours.bias2),
        (conv.lin, ours.weight_edge, ours.bias_edge),
    )
    with torch.no_grad():
        for linear, weight, bias in pairs:
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
    expected = conv(graph.x, edges.edge_index, edges.edge_attr)
    torch.testing.assert_close(ours.row_wise(ours.linear_part(graph.x, edges)), expected)


def test_a_layer_by_hand():
    # Node 0 receives 2 * ReLU(x_1 + 3 a - 1) along its only edge; the MLP adds its biases.
    ours = GINELayer(1, 1, 1)
    with torch.no_grad():
        for name, value in (
            ("weight_edge", 3.0),
            ("bias_edge", -1.0),
            ("weight", 1.0),
            ("bias", 0.25),
            ("weight2", -2.0),
            ("bias2", 0.5),
        ):
            getattr(ours, name).fill_(value)
    edges = EdgeList(torch.tensor([[1], [0]]), torch.tensor([2.0]), 2, False, torch.tensor([[0.5]]))
    x = torch.tensor([[1.0], [4.0]])
    # Node 0: 1 + 2 * (4 + 1.5 - 1) = 10. Node 1 has no incoming edge.
    expected = torch.tensor([[-2 * (10 + 0.25) + 0.5], [-2 * (4 + 0.25) + 0.5]])
    torch.testing.assert_close(ours.row_wise(ours.linear_part(x, edges)), expected)


def test_an_edge_of_weight_0_has_no_influence():
    graph, edges = random_edges()
    without = edges.chosen(edges.edge_index[0] != 3)
    weight = (edges.edge_index[0] != 3).to(torch.float32)
    zero = EdgeList(edges.edge_index, weight, edges.num_nodes, False, edges.edge_attr)
    ours = encoder()
    for a, b in zip(ours.layers(graph.x, zero), ours.layers(graph.x, without), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("weighted", [True, False])
def test_a_permutation_of_nodes_permutes_the_output(weighted):
    graph, edges = random_edges(weighted=weighted)
    ours, order = encoder(num_layers=3), torch.randperm(9, generator=generator(5))
    place = torch.argsort(order)
    mixed = torch.randperm(graph.num_edges, generator=generator(6))
    permuted = edges.chosen(mixed)
    index = place[permuted.edge_index]
    found = ours(graph.x[order], index, permuted.edge_weight, permuted.edge_attr)
    expected = ours(graph.x, edges.edge_index, edges.edge_weight, edges.edge_attr)[order]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_features_of_an_edge_change_the_row_of_its_target_only():
    graph, edges = random_edges()
    ours = encoder(num_layers=1)
    attr = edges.edge_attr.clone()
    attr[0] += 3
    before, after = (ours(graph.x, edges.edge_index, None, a) for a in (edges.edge_attr, attr))
    changed = (before != after).any(1).nonzero()[:, 0]
    assert changed.tolist() == [int(edges.edge_index[1, 0])]


def test_sparse_features_give_the_same_output():
    graph, edges = random_edges()
    ours = encoder()
    found = ours.layers(as_sparse(graph).x, edges)
    for a, b in zip(found, ours.layers(graph.x, edges), strict=True):
        torch.testing.assert_close(a, b)


def test_without_edge_features_nothing_is_added():
    plain = GNNEncoder(4, kind="gin", hidden_dim=5, generator=generator(0))
    assert not any("edge" in name or "embed" in name for name in plain.state_dict())
    assert all(type(conv).__name__ == "GINLayer" for conv in plain.convs)


def test_dropped_edges_take_their_features_with_them():
    _, edges = random_edges(weighted=True)
    kept = drop_edges(edges, 0.5, generator=generator(3))
    number = {tuple(pair): i for i, pair in enumerate(edges.edge_index.T.tolist())}
    rows = [number[tuple(pair)] for pair in kept.edge_index.T.tolist()]
    assert 0 < len(rows) < edges.edge_index.shape[1] and not kept.undirected
    torch.testing.assert_close(kept.edge_attr, edges.edge_attr[rows])
    torch.testing.assert_close(kept.edge_weight, edges.edge_weight[rows])


def test_gcn_refuses_edge_features():
    with pytest.raises(ConfigError) as caught:
        GNNEncoder(4, kind="gcn", edge_dim=2)
    assert str(caught.value) == (
        "encoder='gcn' does not use edge features. Use encoder='gin', or read the graph without"
        " them (edge_features=[], --edge-features '' on the command line)."
    )


def test_a_custom_encoder_gets_edge_features_or_refuses_them():
    class WithEdges(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.GINEConv(nn.Linear(4, 6), edge_dim=2)

        def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
            return self.conv(x, edge_index, edge_attr)

    class Without(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 6)

        def forward(self, x, edge_index, edge_weight=None):
            return self.linear(x)

    graph, edges = random_edges()
    module = WithEdges()
    (found,) = CustomEncoder(module, 4, edge_dim=2).layers(graph.x, edges)
    torch.testing.assert_close(found, module(graph.x, edges.edge_index, None, edges.edge_attr))
    with pytest.raises(ConfigError, match="The custom encoder Without does not use edge features"):
        CustomEncoder(Without(), 4, edge_dim=2)
    assert CustomEncoder(Without(), 4).out_dim == 6
