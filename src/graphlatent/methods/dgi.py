"""Deep Graph Infomax (`Velickovic et al. 2019 <https://arxiv.org/abs/1809.10341>`_).

A discriminator learns to distinguish the nodes of the graph from those of a corrupted graph, whose
feature rows are permuted, by comparing each node with a summary of the graph:

    s = sigmoid(mean_i h_i),   D(h, s) = sigmoid(h^T W s)
    L = - ( sum_i log D(h_i, s) + sum_j log(1 - D(h~_j, s)) ) / (N + M),   M = N
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphlatent import config
from graphlatent.config import NodeSettings
from graphlatent.data.batches import Batch
from graphlatent.estimator import NodeEstimator
from graphlatent.methods.base import Method, Term
from graphlatent.methods.registry import register
from graphlatent.nn.encoders import CustomEncoder, GNNEncoder, build_encoder
from graphlatent.ops.feature_views import PermutedRows


@dataclass(kw_only=True, eq=False, repr=False)
class DGISettings(NodeSettings):
    """Settings of `NodeDGI`: those of the paper, with fewer epochs."""

    hidden_dim: config.HiddenDim = 512
    num_layers: config.NumLayers = 1
    epochs: config.Epochs = 500
    lr: config.LearningRate = 1e-3
    patience: config.Patience = 20
    row_normalize: config.RowNormalize = True
    precision: config.Float32Precision = "tf32"


class DGIModel(nn.Module):
    """The encoder and the discriminator's bilinear form W, [H, H]."""

    def __init__(self, encoder: GNNEncoder | CustomEncoder, *, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = encoder
        self.weight = nn.Parameter(torch.empty(encoder.out_dim, encoder.out_dim))
        nn.init.xavier_uniform_(self.weight, generator=generator)


class DGI(Method[DGISettings]):
    """Deep Graph Infomax; each graph of a batch has its own summary."""

    name: ClassVar[str] = "dgi"
    term_names: tuple[str, ...] = ("positive", "negative")
    fixed_shapes: ClassVar[bool] = True
    parallel: ClassVar[bool] = True

    def build(self, in_dim: int, *, generator: torch.Generator) -> DGIModel:
        """A newly initialised encoder and discriminator."""
        encoder = build_encoder(self.settings, in_dim, edge_dim=self.edge_dim, generator=generator)
        return DGIModel(encoder, generator=generator)

    def step(
        self, model: nn.Module, batch: Batch, *, generator: torch.Generator
    ) -> dict[str, Term]:
        """The two terms of the binary cross-entropy, for a random permutation of the features."""
        device = batch.graph_id.device
        key = torch.rand(batch.num_nodes, generator=generator, device=device)
        return self.terms(cast(DGIModel, model), batch, torch.argsort(key))

    def terms(self, model: DGIModel, batch: Batch, order: Tensor) -> dict[str, Term]:
        """The two terms of the binary cross-entropy, for the permutation `order` of rows, [N]."""
        positive = self.encode(model, batch)[-1]
        corrupted = PermutedRows(batch.x, order)
        negative = model.encoder.layers(corrupted, batch.structure)[-1]
        weight = positive.new_ones(batch.num_nodes) if batch.counts is None else batch.counts
        weight = weight.to(positive.dtype)
        summary = _summary(positive, weight, batch)
        # W s of each node's own graph, [N, H].
        direction = (summary @ model.weight.T)[batch.graph_id]
        count = weight.sum()
        # -log sigmoid(a) = softplus(-a), -log(1 - sigmoid(a)) = softplus(a).
        positive_loss = functional.softplus(-(positive * direction).sum(1))
        negative_loss = functional.softplus((negative * direction).sum(1))
        return {
            "positive": Term((positive_loss * weight).sum(), count, 0.5),
            "negative": Term((negative_loss * weight).sum(), count, 0.5),
        }


def _summary(hidden: Tensor, weight: Tensor, batch: Batch) -> Tensor:
    """The sigmoid of the mean of each graph's counted rows, [B, H]."""
    zeros = hidden.new_zeros(batch.num_graphs, hidden.shape[1])
    total = zeros.index_add(0, batch.graph_id, hidden * weight[:, None])
    size = zeros[:, 0].index_add(0, batch.graph_id, weight).clamp(min=1)
    return torch.sigmoid(total / size[:, None])


@register
@dataclass(kw_only=True, repr=False, eq=False)
class NodeDGI(DGISettings, NodeEstimator):
    """Embeddings of nodes by `Deep Graph Infomax <https://arxiv.org/abs/1809.10341>`_.

    >>> embeddings = NodeDGI().fit_transform((edge_index, x))                   # doctest: +SKIP
    """

    method: ClassVar[type[Method[Any]]] = DGI
    settings_class: ClassVar[type[config.Settings]] = DGISettings
