"""From node rows to one row per graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def readout(layers: Sequence[Tensor], graph_id: Tensor, *, num_graphs: int, how: str = "sum") -> Tensor:
    """Each layer's rows [N, H] pooled per graph and the layers concatenated, [B, layers * H].

    Args:
        layers: outputs of the encoder's layers.
        graph_id: graph of each row, int64 [N].
        num_graphs: B.
        how: 'sum' (the paper's) or 'mean'.
    """
    rows = torch.cat(list(layers), dim=1)
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    pooled = rows.new_zeros(num_graphs, rows.shape[1]).index_add(0, graph_id, rows)
    if how == "sum":
        return pooled
    size = rows.new_zeros(num_graphs).index_add(0, graph_id, rows.new_ones(rows.shape[0]))
    return pooled / size.clamp(min=1)[:, None]
