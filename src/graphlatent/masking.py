"""Which nodes are masked, and what stands in their place.

All attributes of a masked node are replaced, the topology stays (section 2.3 of the paper):
X_masked = 1_{J^c} * X + 1_J * M, with M Gaussian noise or zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.batches import Batch
from graphlatent.data.sparse import PatchedRows, replace_rows


@dataclass(frozen=True, eq=False)
class MaskedView:
    """The masked nodes J of a batch and their new features.

    Args:
        rows: masked rows, int64 [R], ascending.
        values: what stands there, [R, F].
    """

    rows: Tensor
    values: Tensor

    def features(self, batch: Batch) -> Tensor | PatchedRows:
        """The batch's features with the masked rows replaced, [N, F]."""
        return replace_rows(batch.x, self.rows, self.values)


def num_masked(graph_size: Tensor, *, ratio: float, rounding: str) -> Tensor:
    """How many nodes to mask in graphs of these sizes, int64 [B].

    'round': max(1, round(ratio * |V_i|)), so that no step is without a masked node. 'floor' is what the released
    scripts do: none in small graphs.
    """
    share = graph_size.to(torch.float64) * ratio
    if rounding == "floor":
        return torch.floor(share).to(torch.int64)
    wanted = torch.round(share).to(torch.int64).clamp(min=1)
    return torch.minimum(wanted, graph_size)


def draw_mask(batch: Batch, settings: Settings, *, generator: torch.Generator) -> MaskedView:
    """A fresh mask: a share of each graph's counted nodes, drawn without replacement, and their new features.

    Args:
        batch: the nodes to choose from.
        settings: `mask_ratio`, `mask_rounding`, `mask_value`, `noise_std`.
        generator: source of randomness, on the batch's device.
    """
    device = batch.graph_id.device
    candidates = torch.arange(batch.num_nodes, device=device) if batch.counts is None else torch.nonzero(batch.counts)[:, 0]
    graph_id, size = batch.graph_id[candidates], batch.graph_size
    # A random order within each graph: sort by (graph, random number); the first |J_i| of each graph are masked.
    key = torch.rand(candidates.numel(), generator=generator, device=device, dtype=torch.float64) + graph_id
    order = torch.argsort(key)
    start = torch.cumsum(size, 0) - size
    rank = torch.arange(candidates.numel(), device=device) - start[graph_id]
    wanted = num_masked(size, ratio=settings.mask_ratio, rounding=str(settings.mask_rounding))
    rows = torch.sort(candidates[order[rank < wanted[graph_id]]]).values
    shape = (rows.numel(), batch.x.shape[1])
    if settings.mask_value == "zeros":
        return MaskedView(rows, torch.zeros(shape, dtype=batch.x.dtype, device=device))
    noise = torch.randn(shape, generator=generator, dtype=batch.x.dtype, device=device)
    return MaskedView(rows, noise * settings.noise_std)
