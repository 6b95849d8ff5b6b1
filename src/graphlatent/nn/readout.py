"""Pooling of node rows to one row per graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def readout(
    layers: Sequence[Tensor], graph_id: Tensor, *, num_graphs: int, pooling: str = "sum"
) -> Tensor:
    """Each layer's rows [N, H] pooled per graph and the layers concatenated, [B, layers * H].

    Args:
        layers: outputs of the encoder's layers.
        graph_id: graph of each row, int64 [N].
        num_graphs: B.
        pooling: 'sum' (the paper's) or 'mean'.
    """
    exact = torch.promote_types(layers[0].dtype, torch.float32)
    start = layers[0].new_zeros(num_graphs, layers[0].shape[1], dtype=exact)
    pooled = torch.cat([start.index_add(0, graph_id, rows.to(exact)) for rows in layers], dim=1)
    if pooling == "sum":
        return pooled
    size = start.new_zeros(num_graphs).index_add(0, graph_id, start.new_ones(graph_id.numel()))
    return pooled / size.clamp(min=1)[:, None]
