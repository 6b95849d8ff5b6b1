"""The prediction of latent features: denoised and completed features of nodes.

Under the paper's model, x = f + noise with independent noise of different nodes, a prediction b_v
that does not see x_v has an error that is independent of the noise of x_v. So (docs/theory.md)

    E (x - b)^2 = sigma^2 + E (f - b)^2,    and    b + w (x - b),    w = 1 - sigma^2 / E (x - b)^2

is the best linear combination of both, column by column. Legend: N nodes, F features.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.masking import masked_view
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.settings import LaGraphSettings

# Parts in which the nodes are masked, so that each is predicted once.
_FEWEST_PARTS, _MOST_PARTS = 4, 20
# Slopes of a calibration lie between 0 and this.
_STEEPEST = 10.0


@torch.no_grad()
def blind_prediction(
    model: LaGraphModel, batch: Batch, settings: LaGraphSettings, *, generator: torch.Generator
) -> Tensor:
    """The decoder's output for each node while its features are masked, [N, F].

    The nodes are masked in random parts, as in training, each node in one of them.

    Args:
        model: in evaluation mode.
        batch: the graph.
        settings: of the training, for the masks.
        generator: of the parts and of masking noise, on the CPU.
    """
    parts = min(max(round(1 / settings.mask_ratio), _FEWEST_PARTS), _MOST_PARTS)
    order = torch.randperm(batch.num_nodes, generator=generator)
    values_from = torch.Generator(device=batch.graph_id.device)
    values_from.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
    predicted = torch.zeros(batch.x.shape, dtype=torch.float32, device=batch.graph_id.device)
    for part in torch.chunk(order, parts):
        rows = torch.sort(part).values.to(batch.graph_id.device)
        view = masked_view(batch, rows, settings, generator=values_from, token=model.token)
        masked = replace(batch, x=view.features(batch))  # type: ignore[arg-type]
        hidden = model.encode(masked.x, batch.structure)[-1]
        predicted[rows] = model.decode(hidden, batch.structure)[rows].to(torch.float32)
    return predicted


def with_length_of(direction: Tensor, x: Tensor, observed: Tensor) -> Tensor:
    """Rows of given directions with the lengths that fit the observed features best, [N, F].

    Cosine objectives learn no length.
    """
    seen = direction * observed
    inner = (seen * x).sum(1, keepdim=True).clamp(min=0)
    return direction * (inner / seen.square().sum(1, keepdim=True).clamp(min=1e-30))


def calibrated(predicted: Tensor, x: Tensor, observed: Tensor) -> Tensor:
    """The line through the predictions of each column that fits its observed features best, [N, F].

    A network that is trained on features with gaps filled by means predicts too close to the means.
    """
    count = observed.sum(0).clamp(min=1)
    centre, mean = ((each * observed).sum(0) / count for each in (predicted, x))
    apart = (predicted - centre) * observed
    square = apart.square().sum(0)
    slope = (apart * (x - mean)).sum(0) / torch.where(square > 0, square, 1.0)
    return mean + slope.clamp(0, _STEEPEST) * (predicted - centre)


def combined(x: Tensor, blind: Tensor, observed: Tensor, variance: Tensor) -> Tensor:
    """Observed features and predictions that do not see them, weighted by their errors, [N, F].

    Args:
        x: observed features.
        blind: predictions.
        observed: 1 where a feature is observed, else 0, [N, F].
        variance: of the noise of each column, [F].
    """
    count = observed.sum(0).clamp(min=1)
    apart = ((x - blind).square() * observed).sum(0) / count
    own = 1 - (variance / torch.where(apart > 0, apart, 1.0)).clamp(max=1)
    return blind + torch.where(apart > 0, own, 1.0) * (x - blind)
