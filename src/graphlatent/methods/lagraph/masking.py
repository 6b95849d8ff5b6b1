"""Random masks: which nodes are masked, and the new values of their features.

All features of a masked node are replaced and the topology is unchanged (section 2.3 of the paper),
with M Gaussian noise, zeros, a learnt row or the features of another node:

    X_masked = 1_{J^c} * X + 1_J * M
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.batches import Batch, ranges
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.ops.feature_views import PatchedRows, replace_rows
from graphlatent.ops.sparse import SparseMatrix, take_rows


@dataclass(frozen=True, eq=False)
class MaskedView:
    """The masked nodes J of a batch and their new features.

    Args:
        rows: masked rows, int64 [R], ascending.
        values: their new features, [R, F], or [1, F] where all have the same.
    """

    rows: Tensor
    values: Tensor | SparseMatrix

    def features(self, batch: Batch) -> Tensor | PatchedRows:
        """The batch's features with the masked rows replaced, [N, F]."""
        return replace_rows(batch.x, self.rows, self.values)


def num_masked(graph_size: Tensor, *, ratio: float, rounding: str) -> Tensor:
    """The number of nodes to mask in graphs of these sizes, int64 [B].

    'round' is max(1, round(ratio * |V_i|)), so that every graph has a masked node. 'floor' is the
    rule of the released scripts, which mask no node of a small graph.
    """
    share = graph_size.to(torch.float64) * ratio
    if rounding == "floor":
        return torch.floor(share).to(torch.int64)
    wanted = torch.round(share).to(torch.int64).clamp(min=1)
    return torch.minimum(wanted, graph_size)


def mask_slots(graph_size: Tensor, settings: LaGraphSettings) -> Tensor:
    """The positions of the masked nodes in a random order of the counted nodes, int64 [R].

    The order is graph by graph, and the first |J_i| nodes of each graph are masked.
    """
    start = torch.cumsum(graph_size, 0) - graph_size
    rounding = str(settings.mask_rounding)
    wanted = num_masked(graph_size, ratio=settings.mask_ratio, rounding=rounding)
    return ranges(start, start + wanted)


def draw_mask(
    batch: Batch,
    settings: LaGraphSettings,
    *,
    generator: torch.Generator,
    slots: Tensor | None = None,
    token: Tensor | None = None,
    limit: Tensor | None = None,
) -> MaskedView:
    """A random mask of each graph's counted nodes, drawn without replacement.

    Args:
        batch: the nodes to choose from.
        settings: `mask_ratio`, `mask_rounding`, `mask_value`, `noise_std`.
        generator: source of randomness, on the batch's device.
        slots: `mask_slots` of the batch, if precomputed.
        token: the learnt row for `mask_value='token'`, [F].
        limit: number of rows that are not padding, int64 []; None means all.
    """
    device = batch.graph_id.device
    candidates = None if batch.counts is None else torch.nonzero(batch.counts)[:, 0]
    graph_id = batch.graph_id if candidates is None else batch.graph_id[candidates]
    if slots is None:
        slots = mask_slots(batch.graph_size, settings)
    # A random order within each graph: sort by (graph, random number).
    key = torch.rand(graph_id.numel(), generator=generator, device=device, dtype=torch.float64)
    chosen = _argsort(key + graph_id)[slots]
    rows = torch.sort(_of_candidates(chosen, candidates)).values
    if settings.mask_value == "swap":
        uniform = torch.rand(len(rows), generator=generator, dtype=torch.float64, device=device)
        size = graph_id.numel() if limit is None else limit
        other = (uniform * size).to(torch.int64)
        return MaskedView(rows, take_rows(batch.x, _of_candidates(other, candidates)))
    return masked_view(batch, rows, settings, generator=generator, token=token)


def masked_view(
    batch: Batch,
    rows: Tensor,
    settings: LaGraphSettings,
    *,
    generator: torch.Generator,
    token: Tensor | None = None,
) -> MaskedView:
    """A mask of given rows, whose new features do not depend on any node: 0, noise or a token.

    Args:
        batch: the plain graph.
        rows: the masked rows, int64 [R], ascending.
        settings: `mask_value`, where 'swap' is as 'zeros', and `noise_std`.
        generator: of the noise, on the batch's device.
        token: the learnt row for `mask_value='token'`, [F].
    """
    device, dtype, width = batch.graph_id.device, batch.x.dtype, batch.x.shape[1]
    if settings.mask_value == "token":
        assert token is not None
        return MaskedView(rows, token[None])
    if settings.mask_value == "noise":
        shape = (len(rows), width)
        noise = torch.randn(shape, generator=generator, dtype=dtype, device=device)
        return MaskedView(rows, noise.mul_(settings.noise_std))
    return MaskedView(rows, torch.zeros(1, width, dtype=dtype, device=device))


def _of_candidates(index: Tensor, candidates: Tensor | None) -> Tensor:
    """The rows of a batch, [R], from positions among its candidates; None means all rows."""
    return index if candidates is None else candidates[index]


def _argsort(key: Tensor) -> Tensor:
    return torch.argsort(key) if key.is_cuda else torch.from_numpy(np.argsort(key.numpy()))
