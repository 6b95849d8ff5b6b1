"""One gradient step."""

from __future__ import annotations

import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.batches import Batch
from graphlatent.masking import draw_mask
from graphlatent.nn.model import LaGraphModel
from graphlatent.objective import combine, loss_sums
from graphlatent.two_view import general


def training_step(
    model: LaGraphModel, batch: Batch, settings: Settings, *, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> Tensor:
    """Mask, encode both views, step against the gradient. Returns (loss, reconstruction, invariance), detached, [3]."""
    mask = draw_mask(batch, settings, generator=generator)
    views = general(model, batch, mask)
    loss = combine(loss_sums(model, batch, mask, views, settings), alpha=settings.alpha)
    optimizer.zero_grad(set_to_none=True)
    loss.total.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return torch.stack([loss.total, loss.reconstruction, loss.invariance]).detach()
