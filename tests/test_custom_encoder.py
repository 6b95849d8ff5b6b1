"""Estimators with a custom encoder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from cases import as_sparse, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.errors import ConfigError

SMALL = {"hidden_dim": 8, "epochs": 3, "device": "cpu"}
SIZES = [5, 4, 3, 6, 2, 7, 4, 3, 5, 6]


def node(**values) -> NodeLaGraph:
    return NodeLaGraph(**{**SMALL, **values})


def graph(**values) -> GraphLaGraph:
    return GraphLaGraph(**{**SMALL, **values})


class NeighbourSum(nn.Module):
    """A custom encoder: a weighted sum over neighbours, in plain PyTorch."""

    def __init__(self, in_dim: int = 4, out_dim: int = 6) -> None:
        super().__init__()
        self.linear = nn.Linear(in_dim, out_dim)

    def forward(self, x, edge_index, edge_weight):
        weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        messages = x[edge_index[0]] * weight[:, None]
        return torch.tanh(self.linear(x.index_add(0, edge_index[1], messages)))


class TestCustomEncoder:
    @pytest.mark.parametrize("make", [node, graph])
    def test_works_in_both_estimators(self, make, tmp_path):
        data, encoder = random_graph(SIZES), NeighbourSum()
        before = encoder.linear.weight.detach().clone()
        fitted = make(encoder=encoder).fit(data)
        # fit trains a copy.
        assert torch.equal(encoder.linear.weight, before)
        # Of a node x, A^2 x, A^2 1 and the encoder's output; of a graph sum and mean of x, and sum,
        # mean and maximum of the encoder's output.
        expected = (45, 4 + 4 + 1 + 6) if make is node else (10, 2 * 4 + 3 * 6)
        assert fitted.transform(data).shape == expected
        assert not torch.equal(fitted.model_.encoder.module.linear.weight, before)
        folder = fitted.save(tmp_path / "model")
        loaded = type(fitted).load(folder, encoder=NeighbourSum())
        np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
        message = r"with your own encoder NeighbourSum. Load it with encoder=NeighbourSum\(...\)"
        with pytest.raises(ConfigError, match=message):
            type(fitted).load(folder)

    def test_an_encoder_is_rejected_where_none_is_needed(self, tmp_path):
        folder = node().fit(random_graph([6])).save(tmp_path / "model")
        with pytest.raises(ConfigError, match="encoder='gcn'; leave out the 'encoder' argument"):
            NodeLaGraph.load(folder, encoder=NeighbourSum())

    def test_a_pyg_model_works(self):
        from torch_geometric.nn import GCN

        data = random_graph([20], weighted=True)
        assert node(encoder=GCN(4, 6, num_layers=2)).fit_transform(data).shape == (
            20,
            4 + 4 + 1 + 6,
        )

    def test_sparse_features_are_converted_to_dense(self):
        data = as_sparse(random_graph([9], one_hot=True))
        assert node(encoder=NeighbourSum()).fit_transform(data).shape == (9, 4 + 4 + 1 + 6)
