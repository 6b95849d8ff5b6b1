"""Your own encoder: any module that takes (x, edge_index, edge_weight) and returns one row per
node.

python examples/custom_encoder.py
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from graphlatent import NodeLaGraph
from graphlatent.data.synthetic import latent_graph


class TwoLayerSAGE(nn.Module):
    """GraphSAGE with two layers; it has no use for edge weights."""

    def __init__(self, in_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.first, self.second = SAGEConv(in_dim, hidden_dim), SAGEConv(hidden_dim, hidden_dim)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """One row per node, [N, hidden_dim]."""
        return torch.relu(self.second(torch.relu(self.first(x, edge_index)), edge_index))


graph = latent_graph(num_nodes=500).graph
model = NodeLaGraph(encoder=TwoLayerSAGE(64, 32), epochs=30).fit(graph)
print(
    "embeddings:",
    model.transform(graph).shape,
    "loss",
    round(model.history_.loss[0], 2),
    "->",
    round(model.history_.loss[-1], 2),
)

folder = model.save(Path(tempfile.mkdtemp()) / "model")
# A saved folder holds weights, never code
loaded = NodeLaGraph.load(folder, encoder=TwoLayerSAGE(64, 32))
print("loaded gives the same:", np.array_equal(loaded.transform(graph), model.transform(graph)))
