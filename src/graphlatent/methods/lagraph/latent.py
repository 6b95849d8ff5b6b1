"""The prediction of latent features: denoised and completed features of nodes.

Under the paper's model, x = f + noise with independent noise of different nodes, a prediction b_v
that does not see x_v has an error that is independent of the noise of x_v. So (docs/theory.md)

    E (x - b)^2 = sigma^2 + E (f - b)^2,    and    b + w (x - b),    w = 1 - sigma^2 / E (x - b)^2

is the best linear combination of both, column by column. Legend: N nodes, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.masking import masked_view
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.settings import LaGraphSettings

# Parts in which the nodes are masked, so that each is predicted once.
_FEWEST_PARTS, _MOST_PARTS = 4, 20
# Parts in which observed entries are hidden where others are missing.
_HIDDEN_PARTS = 20
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


@torch.no_grad()
def held_out_prediction(
    predict: Callable[[Tensor, Tensor], Tensor],
    encoded: Tensor,
    gaps: Tensor,
    columns: Tensor,
    *,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Predictions of observed entries that are hidden, as missing entries are, from the network.

    In each of several passes a random part of the observed entries is replaced by what stands for
    missing entries of the same column, and predicted from all others. Only columns with missing
    entries are needed.

    Args:
        predict: features [N, W], from encoded features [N, F] and the entries to be trusted there,
            bool [N, W].
        encoded: features with a guess in place of missing entries, [N, F].
        gaps: the missing entries, bool [N, W]; coordinates, features W to F, have none.
        columns: column of each feature, int64 [W]; the features of a column are hidden together.
        generator: of the parts, on the CPU.

    Returns:
        Predictions [N, W], 0 where there are none, and bool [N, W], where there are some.
    """
    width, device = gaps.shape[1], gaps.device
    num_columns = int(columns.max()) + 1 if width else 0
    per_column = torch.zeros(len(gaps), num_columns, device=device)
    missing = (per_column.index_add(1, columns, gaps.float()) > 0)[:, columns]
    count = missing.sum(0)
    guess = (encoded[:, :width] * missing).sum(0) / count.clamp(min=1)
    part = torch.randint(_HIDDEN_PARTS, per_column.shape, generator=generator, dtype=torch.uint8)
    part = part.to(device)[:, columns].masked_fill(missing | (count == 0), _HIDDEN_PARTS)
    predicted = torch.zeros_like(gaps, dtype=torch.float32)
    for i in range(_HIDDEN_PARTS):
        hidden = part == i
        view = encoded.clone()
        view[:, :width] = torch.where(hidden, guess, encoded[:, :width])
        predicted = torch.where(hidden, predict(view, ~(gaps | hidden)), predicted)
    return predicted, part < _HIDDEN_PARTS


@dataclass(frozen=True, eq=False)
class Calibration:
    """A line for each column, which turns predictions into features.

    Args:
        centre: mean prediction, [F].
        mean: mean feature, [F].
        slope: of the line, [F].
    """

    centre: Tensor
    mean: Tensor
    slope: Tensor

    def __call__(self, predicted: Tensor) -> Tensor:
        """Calibrated predictions, [N, F]."""
        return self.mean + self.slope * (predicted - self.centre)


def calibration(predicted: Tensor, x: Tensor, used: Tensor) -> Calibration:
    """The lines that fit features by predictions that did not see them.

    A network that is trained on features with gaps filled by means predicts too close to the means.
    Where predictions say nothing, the slope is 0 and the mean of the column is left: least squares,
    multiplied by 1 - 1 / t^2, or 0, with t the quotient of slope and standard error. So a slope
    that may be chance does not make predictions worse than the mean.

    Args:
        predicted: predictions, [N, F].
        x: features, [N, F].
        used: 1 for the entries that are compared, else 0, [N, F].
    """
    count = used.sum(0)
    centre, mean = ((each * used).sum(0) / count.clamp(min=1) for each in (predicted, x))
    apart, wanted = (predicted - centre) * used, (x - mean) * used
    square = apart.square().sum(0)
    slope = (apart * wanted).sum(0) / torch.where(square > 0, square, 1.0)
    unexplained = (wanted - slope * apart).square().sum(0) / (count - 2).clamp(min=1)
    explained = slope.square() * square
    certain = 1 - unexplained / torch.where(explained > 0, explained, 1.0)
    certain = torch.where((explained > 0) & (count > 2), certain.clamp(min=0), 0.0)
    return Calibration(centre, mean, slope.clamp(0, _STEEPEST) * certain)


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
    own = torch.where(apart > 0, own, 1.0)
    # Without noise, observed features themselves and not their sum with a rounding error.
    return torch.where(own == 1, x, blind + own * (x - blind))
