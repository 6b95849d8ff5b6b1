"""One gradient step."""

from __future__ import annotations

import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.engine import Engine, compute
from graphlatent.methods.lagraph.masking import draw_mask
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.objective import combine, row_weights


def training_step(
    model: LaGraphModel,
    batch: Batch,
    settings: Settings,
    *,
    engine: Engine,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> Tensor:
    """Mask, encode both views, step against the gradient.

    Returns:
        (loss, reconstruction, invariance, reconstruction over the features' own squared norm),
        detached, [4]. The last says whether the Gram identity still subtracts numbers that differ
        enough; it is 1 where nothing was subtracted.
    """
    mask = draw_mask(batch, settings, generator=generator)
    sums = compute(model, batch, mask, settings, engine)
    loss = combine(sums, alpha=settings.alpha)
    loss.total.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    # Now, so that nothing of this step lies in the way of the next one's large arrays
    optimizer.zero_grad(set_to_none=True)
    ratio = torch.ones_like(loss.total)
    if engine.how != "output" and batch.row_energy is not None:
        energy = (
            batch.row_energy * row_weights(batch, mean=settings.loss_reduction == "mean")
        ).sum()
        ratio = torch.where(energy > 0, sums.reconstruction.detach() / energy, ratio)
    return torch.stack([loss.total, loss.reconstruction, loss.invariance, ratio]).detach()
