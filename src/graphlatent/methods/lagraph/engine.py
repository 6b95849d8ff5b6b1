"""Which exact way computes a step: the general one, or what the encoder, decoder and objective
allow to share.

Users never choose; `engine="general"` is there for checking. Both ways give the same numbers, and
tests hold them equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.config import GraphSettings, Settings
from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.objective import LossSums, Reconstruct, loss_sums
from graphlatent.methods.lagraph.views import can_share, general, shared
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.ops.kernels import usable


@dataclass(frozen=True)
class Engine:
    """How a step is computed.

    Args:
        share: compute the masked view from the plain one.
        rows_only: of the masked view's last layer, compute the masked rows only.
        how: the way of the reconstruction term.
        dtype: what the encoder's products and rows are kept in; None is the features' own type.
    """

    share: bool
    rows_only: bool
    how: Reconstruct
    dtype: torch.dtype | None = None


def choose_engine(model: LaGraphModel, settings: Settings) -> Engine:
    """The fastest exact way for this model and objective."""
    if settings.engine == "general":
        return Engine(share=False, rows_only=False, how="output")
    decoder = model.decoder
    linear_end = isinstance(decoder, MLPDecoder) and not decoder.relu_output
    row_wise = isinstance(decoder, MLPDecoder) and len(decoder.norms) == 0
    if settings.objective.endswith("-embed"):
        rows_only = not isinstance(settings, GraphSettings) and settings.invariance_on == "masked"
    # The decoder's output on masked rows: a decoder with batch norm needs all rows for its
    # statistics
    else:
        rows_only = row_wise and (
            settings.invariance_on == "masked" or settings.objective == "denoise"
        )
    squared = settings.objective in ("mse-embed", "mse-output")
    share = can_share(model)
    low = (
        torch.bfloat16
        if settings.precision == "bf16" and usable(next(model.parameters()))
        else None
    )
    return Engine(
        share=share,
        rows_only=share and rows_only,
        how="gram" if squared and linear_end else "output",
        dtype=low,
    )


def compute(
    model: LaGraphModel, batch: Batch, mask: MaskedView, settings: Settings, engine: Engine
) -> LossSums:
    """The terms of the loss, the way `engine` says."""
    views = (
        shared(model, batch, mask, rows_only=engine.rows_only, dtype=engine.dtype)
        if engine.share
        else general(model, batch, mask)
    )
    return loss_sums(
        model,
        batch,
        mask,
        views,
        settings,
        how=_cheaper(engine.how, batch, views.plain[-1].shape[1]),
    )


def _cheaper(how: Reconstruct, batch: Batch, hidden_dim: int) -> Reconstruct:
    """Blocks instead of the Gram identity for dense features narrower than 2 H.

    Multiplications of N rows, forward and backward: blocks 3 F H, Gram 2 F H + 2 H^2 (and, for
        sparse features, 2 H per stored value).
    """
    narrow = isinstance(batch.x, Tensor) and batch.x.shape[1] < 2 * hidden_dim
    return "blocks" if how == "gram" and narrow else how
