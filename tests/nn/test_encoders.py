"""Layers against PyTorch Geometric's; shapes, initialisation, batch norm and readout."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cases import as_sparse, double_batch, double_model, generator, make_settings, random_graph
from graphlatent.data.batches import EdgeList
from graphlatent.data.edges import clean_edges
from graphlatent.errors import InputError
from graphlatent.methods.lagraph.model import build_model
from graphlatent.nn.encoders import CustomEncoder, GNNEncoder
from graphlatent.nn.norm import BatchNorm, measure_statistics
from graphlatent.nn.propagation import gcn_matrix, gin_matrix
from graphlatent.nn.readout import readout

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_gcn_layer_equals_pyg(weighted, directed):
    graph = random_graph([9], weighted=weighted, density=0.3)
    edge_index, weight = graph.edge_index, graph.edge_weight
    if directed:
        keep = torch.rand(edge_index.shape[1], generator=generator(1)) < 0.6
        edge_index, weight = edge_index[:, keep], None if weight is None else weight[keep]
    conv = pyg.GCNConv(4, 3)
    ours = GNNEncoder(4, kind="gcn", hidden_dim=3, num_layers=1, activation="relu")
    with torch.no_grad():
        ours.convs[0].weight.copy_(conv.lin.weight.T)
        ours.convs[0].bias.copy_(conv.bias)
    expected = torch.relu(conv(graph.x, edge_index, weight))
    torch.testing.assert_close(ours(graph.x, edge_index, weight), expected)


@pytest.mark.parametrize("directed", [True, False])
def test_gin_layer_equals_pyg(directed):
    graph = random_graph([9], density=0.3)
    edge_index = graph.edge_index[:, ::2] if directed else graph.edge_index
    ours = GNNEncoder(4, kind="gin", hidden_dim=3, num_layers=1)
    mlp = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
    conv = pyg.GINConv(mlp)
    with torch.no_grad():
        for linear, weight, bias in ((mlp[0], "weight", "bias"), (mlp[2], "weight2", "bias2")):
            linear.weight.copy_(getattr(ours.convs[0], weight).T)
            getattr(ours.convs[0], bias).copy_(linear.bias)
    torch.testing.assert_close(ours(graph.x, edge_index), torch.relu(conv(graph.x, edge_index)))


def test_gcn_matrix_by_hand():
    # The path 0 - 1 - 2 has degrees 2, 3, 2, with self-loops.
    edges = EdgeList(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), None, 3)
    expected = torch.tensor(
        [[1 / 2, 6**-0.5, 0], [6**-0.5, 1 / 3, 6**-0.5], [0, 6**-0.5, 1 / 2]], dtype=torch.float64
    )
    torch.testing.assert_close(gcn_matrix(edges).to_dense(), expected)


def test_gin_matrix_adds_self_loops_to_the_identity():
    edges = EdgeList(torch.tensor([[0, 0], [0, 1]]), torch.tensor([2.0, 0.5]), 2, undirected=False)
    assert gin_matrix(edges).to_dense().tolist() == [[3.0, 0.0], [0.5, 1.0]]


def test_gcn_rejects_negative_weights():
    edges = EdgeList(torch.tensor([[0, 1], [1, 0]]), torch.tensor([-1.0, -1.0]), 2)
    with pytest.raises(InputError, match="encoder='gcn' needs edge weights of 0 or more"):
        gcn_matrix(edges)
    assert gin_matrix(edges).to_dense().tolist() == [[1.0, -1.0], [-1.0, 1.0]]


def test_matrices_without_edges_are_the_identity():
    edges = EdgeList(torch.zeros(2, 0, dtype=torch.int64), None, 3)
    assert torch.equal(gcn_matrix(edges).to_dense(), torch.eye(3, dtype=torch.float64))
    assert torch.equal(gin_matrix(edges).to_dense(), torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["gcn", "gin"])
def test_all_layers_are_returned_and_the_last_has_no_norm(kind):
    encoder = GNNEncoder(4, kind=kind, hidden_dim=6, num_layers=3)
    assert len(encoder.norms) == 2
    assert len(GNNEncoder(4, kind=kind, num_layers=3, last_norm=True).norms) == 3
    assert len(GNNEncoder(4, kind=kind, num_layers=1).norms) == 0
    graph = random_graph([5])
    structure = encoder.prepare(EdgeList(graph.edge_index, None, 5)).to("cpu", torch.float32)
    layers = encoder.layers(graph.x, structure)
    assert [tuple(h.shape) for h in layers] == [(5, 6)] * 3


def test_weights_are_xavier_uniform():
    encoder = GNNEncoder(300, kind="gcn", hidden_dim=200, num_layers=1, generator=generator(0))
    bound = (6 / 500) ** 0.5
    weight = encoder.convs[0].weight
    assert weight.abs().max().item() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    assert encoder.convs[0].bias.abs().sum() == 0
    assert encoder.activations[0].weight.tolist() == [0.25]


def test_sparse_and_dense_features_give_the_same_output():
    graph = random_graph([7], one_hot=True)
    for kind in ("gcn", "gin"):
        model = double_model(make_settings("node", encoder=kind), 4)
        a, b = (double_batch(g, model) for g in (graph, as_sparse(graph)))
        torch.testing.assert_close(
            model.encode(a.x, a.structure)[-1], model.encode(b.x, b.structure)[-1]
        )


@pytest.mark.parametrize("level", ["node", "graph"])
def test_node_permutation_equivariance(level):
    graph = random_graph([9], weighted=True)
    permutation = torch.randperm(9, generator=generator(3))
    position = torch.argsort(permutation)
    clean = clean_edges(position[graph.edge_index], graph.edge_weight, num_nodes=9, symmetrize=True)
    moved = type(graph)(
        clean.edge_index, 9, graph.ptr, x=graph.x[permutation], edge_weight=clean.edge_weight
    )
    model = double_model(make_settings(level, num_layers=3), 4).train()
    a, b = double_batch(graph, model), double_batch(moved, model)
    rows_a, rows_b = model.encode(a.x, a.structure), model.encode(b.x, b.structure)
    torch.testing.assert_close(rows_a[-1][permutation], rows_b[-1])
    torch.testing.assert_close(model.pool(rows_a, a.graph_id, 1), model.pool(rows_b, b.graph_id, 1))


class TestBatchNorm:
    def test_training_equals_torch(self):
        ours, torchs = BatchNorm(3), nn.BatchNorm1d(3)
        x = torch.randn(8, 3, generator=generator(0))
        torch.testing.assert_close(ours(x), torchs(x))

    def test_a_single_row_has_variance_zero(self):
        norm = BatchNorm(3)
        x = torch.randn(1, 3, requires_grad=True)
        out = norm(x)
        out.sum().backward()
        assert torch.equal(out, torch.zeros(1, 3))
        assert x.grad is not None and torch.isfinite(x.grad).all()

    def test_training_does_not_change_the_statistics(self):
        norm = BatchNorm(3)
        norm(torch.randn(8, 3) + 5)
        assert norm.mean.tolist() == [0, 0, 0] and norm.var.tolist() == [1, 1, 1]

    def test_measured_statistics_are_exact_in_every_layer(self):
        graph = random_graph([30], density=0.1)
        model = double_model(make_settings("graph", num_layers=4), 4)
        batch = double_batch(graph, model)
        in_training = model.train().encode(batch.x, batch.structure)
        measure_statistics(model, lambda: model.encode(batch.x, batch.structure))
        in_evaluation = model.eval().encode(batch.x, batch.structure)
        for a, b in zip(in_training, in_evaluation, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)

    def test_torch_norms_in_a_custom_encoder_are_measured(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
                self.drop = nn.Dropout(0.9)

            def forward(self, x, edge_index, edge_weight):
                return self.drop(self.norm(self.linear(x)))

        model = CustomEncoder(Own(), 4)
        x = torch.randn(50, 4, generator=generator(0))
        edges = EdgeList(torch.zeros(2, 0, dtype=torch.int64), None, 50)
        measure_statistics(model, lambda: model.layers(x, edges))
        rows = model.module.linear(x)
        torch.testing.assert_close(model.module.norm.running_mean, rows.mean(0))
        torch.testing.assert_close(model.module.norm.running_var, rows.var(0))
        assert model.module.norm.momentum == 0.1


class TestReadout:
    def test_sum_and_mean_by_hand(self):
        rows = [torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([[1.0], [1.0], [1.0]])]
        graph_id = torch.tensor([0, 0, 1])
        assert readout(rows, graph_id, num_graphs=2).tolist() == [[3, 2], [5, 1]]
        assert readout(rows, graph_id, num_graphs=2, pooling="mean").tolist() == [[1.5, 1], [5, 1]]


class TestCustomEncoder:
    @pytest.mark.parametrize(
        ("returned", "got"),
        [(lambda x: x[0], "shape"), (lambda x: x[:1], "shape"), (lambda x: [x], "list")],
    )
    def test_wrong_output_is_reported(self, returned, got):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(1))

            def forward(self, x, edge_index, edge_weight):
                return returned(x * self.weight)

        with pytest.raises(
            InputError, match=f"custom encoder Own must return one row per node.*Got {got}"
        ):
            build_model(make_settings("node", encoder=Own()), in_dim=4, generator=generator(0))

    def test_wrong_width_is_reported(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(7, 2)

            def forward(self, x, edge_index, edge_weight):
                return self.linear(x)

        with pytest.raises(InputError, match="custom encoder Own failed on features of width 4"):
            build_model(make_settings("node", encoder=Own()), in_dim=4, generator=generator(0))
