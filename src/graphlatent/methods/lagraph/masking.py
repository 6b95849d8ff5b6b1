"""Which nodes are masked, and what stands in their place.

All attributes of a masked node are replaced, the topology stays (section 2.3 of the paper):
X_masked = 1_{J^c} * X + 1_J * M, with M Gaussian noise or zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.batches import Batch, ranges
from graphlatent.ops.sparse import PatchedRows, replace_rows


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

    'round': max(1, round(ratio * |V_i|)), so that no step is without a masked node. 'floor' is what
    the released scripts do: none in small graphs.
    """
    share = graph_size.to(torch.float64) * ratio
    if rounding == "floor":
        return torch.floor(share).to(torch.int64)
    wanted = torch.round(share).to(torch.int64).clamp(min=1)
    return torch.minimum(wanted, graph_size)


def with_places(batch: Batch, settings: Settings) -> Batch:
    """The batch with what no draw changes: in a random order of the nodes, graph by graph, the
    first |J_i| of each are masked.
    """
    size = batch.graph_size
    start = torch.cumsum(size, 0) - size
    wanted = num_masked(size, ratio=settings.mask_ratio, rounding=str(settings.mask_rounding))
    return replace(batch, masked_places=ranges(start, start + wanted))


def _argsort(key: Tensor) -> Tensor:
    return torch.argsort(key) if key.is_cuda else torch.from_numpy(np.argsort(key.numpy()))


def draw_mask(batch: Batch, settings: Settings, *, generator: torch.Generator) -> MaskedView:
    """A fresh mask: a share of each graph's counted nodes, drawn without replacement, and their new
    features.

    Args:
        batch: the nodes to choose from.
        settings: `mask_ratio`, `mask_rounding`, `mask_value`, `noise_std`.
        generator: source of randomness, on the batch's device.
    """
    device = batch.graph_id.device
    candidates = None if batch.counts is None else torch.nonzero(batch.counts)[:, 0]
    graph_id = batch.graph_id if candidates is None else batch.graph_id[candidates]
    places = (
        batch.masked_places
        if batch.masked_places is not None
        else with_places(batch, settings).masked_places
    )
    assert places is not None
    # A random order within each graph: sort by (graph, random number).
    key = (
        torch.rand(graph_id.numel(), generator=generator, device=device, dtype=torch.float64)
        + graph_id
    )
    chosen = _argsort(key)[places]
    rows = torch.sort(chosen if candidates is None else candidates[chosen]).values
    shape = (rows.numel(), batch.x.shape[1])
    if settings.mask_value == "zeros":
        return MaskedView(rows, torch.zeros(shape, dtype=batch.x.dtype, device=device))
    noise = torch.randn(shape, generator=generator, dtype=batch.x.dtype, device=device)
    return MaskedView(rows, noise.mul_(settings.noise_std))
