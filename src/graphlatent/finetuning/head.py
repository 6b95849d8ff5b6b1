"""The head of a classifier: standardised embeddings, a linear layer, a temperature.

Legend: M rows, D columns of an embedding, K classes or labels.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.nn import functional

from graphlatent.finetuning.labels import UNLABELLED
from graphlatent.nn.decoders import linear
from graphlatent.nn.graph_head import LARGEST_FACTOR, GraphHead
from graphlatent.probes.solver.losses import Sigmoid, Softmax
from graphlatent.probes.solver.newton import minimize_path
from graphlatent.probes.solver.rows import WeightedRows

PROBE_L2 = (1e-1, 1e-2, 1e-3, 1e-4)
"""L2 weights of the linear probe that validation chooses from; rows have mean squared norm 1."""
DEFAULT_L2 = 1e-2
"""The one that is used where there is no validation part."""
# Largest |log T| of a temperature.
_WIDEST = 5.0


class ClassifierHead(nn.Module):
    """Logits from embeddings: (x - mean) * scale, then a linear layer that starts at 0.

    Means and scales are those of the pre-trained embedding over all rows, labelled or not, and stay
    fixed (`fit_scale`). A head of zeros draws nothing at random: its first steps follow the class
    means.

    Args:
        width: D.
        num_classes: K.
    """

    temperature: Tensor

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.standard = GraphHead(width, embedding_dim=None)
        self.linear = linear(width, num_classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.register_buffer("temperature", torch.ones(()))

    @torch.no_grad()
    def fit_scale(self, rows: Tensor, *, same: bool, generator: torch.Generator) -> None:
        """Measure the means and scales of embeddings [M, D].

        Principal components need the same scale. Each divided by its own deviation, the last ones,
        which are noise, would count as much as the first, and as many components as rows would
        make all pairs of rows equally far from each other. So do blocks that were weighed against
        each other.

        Args:
            rows: the embeddings of all rows.
            same: divide all columns by the root mean square of their standard deviations; otherwise
                each by its own.
            generator: as of `GraphHead.fit`.
        """
        self.standard.fit(rows, generator=generator)
        deviation = float(rows.double().var(0, unbiased=False).mean().sqrt())
        if same and deviation > 0:
            self.standard.scale.fill_(min(1 / deviation, LARGEST_FACTOR))

    def forward(self, rows: Tensor) -> Tensor:
        """Logits [M, K] of embeddings [M, D], before they are divided by the temperature."""
        logits: Tensor = self.linear(self.standard(rows))
        return logits

    def calibrated(self, rows: Tensor) -> Tensor:
        """Logits divided by the temperature."""
        logits: Tensor = self(rows)
        return logits / self.temperature

    @torch.no_grad()
    def fit_probe(self, rows: Tensor, codes: Tensor, weights: Tensor, l2: Tensor) -> list[Tensor]:
        """The linear layers of logistic regressions on standardised rows, one for each `l2`.

        Each minimises the loss of `label_loss` + l2/2 |w|^2, exactly, with rows scaled to mean
        squared norm 1; the bias is not penalised.

        Args:
            rows: embeddings of labelled rows [M, D].
            codes: their labels, [M] or [M, K].
            weights: of `labels.label_weights`.
            l2: descending [G].

        Returns:
            Weights and bias side by side, [K, D + 1] each.
        """
        standard = self.standard(rows).double()
        norm = standard.square().sum(1).mean().sqrt().clamp(min=1e-12)
        values = torch.cat([standard / norm, standard.new_ones(len(rows), 1)], dim=1)
        weights = weights.to(values)
        if codes.ndim == 1:
            every = torch.arange(self.linear.out_features, device=codes.device)
            one_hot = (codes[None, :] == every[:, None]).double()[None, None]
            absent = ~(one_hot > 0).any(3, keepdim=True)
            share = weights[codes] / weights[codes].sum()
            found = minimize_path(
                WeightedRows(values[None], share[None]),
                Softmax(one_hot, absent),
                l2[None].to(values),
                num_classes=len(every),
            )[0]
            # A class without a row here: the log-odds of less than one row.
            found[:, absent.flatten(), -1] = -math.log(len(rows) + 1)
        else:
            each = [
                self._one_label(values, codes[:, k], weights[:, k], l2)
                for k in range(codes.shape[1])
            ]
            found = torch.stack(each, dim=1)
        found[..., :-1] /= norm
        return list(found)

    def _one_label(self, values: Tensor, codes: Tensor, weights: Tensor, l2: Tensor) -> Tensor:
        """The logistic regressions of one label against its absence, [G, D + 1]."""
        known = codes != UNLABELLED
        if len(torch.unique(codes[known])) < 2:
            # Nothing to tell apart: the share of ones, with one row of each kind added.
            ones = float((codes[known] == 1).sum())
            found = values.new_zeros(len(l2), values.shape[1])
            found[:, -1] = math.log((ones + 1) / (float(known.sum()) - ones + 1))
            return found
        target = codes[known]
        share = weights[target] / weights[target].sum()
        sign = target.double() * 2 - 1
        rows = WeightedRows(values[known][None], share[None])
        return minimize_path(
            rows, Sigmoid(sign[None, None, None]), l2[None].to(values), num_classes=1
        )[0, :, 0]

    @torch.no_grad()
    def set_linear(self, coefficients: Tensor) -> None:
        """Set weights and bias, [K, D + 1]."""
        self.linear.weight.copy_(coefficients[:, :-1])
        self.linear.bias.copy_(coefficients[:, -1])

    @torch.no_grad()
    def fit_temperature(self, logits: Tensor, codes: Tensor) -> None:
        """Set the temperature T to that with the lowest loss on validation rows.

        It changes probabilities and not the most probable class (Guo et al. 2017, "On Calibration
        of Modern Neural Networks"). Differs from that paper, since there may be only a few rows:
        targets are smoothed by as much as Platt (1999) does for n rows, so that rows that are all
        right do not give certainty, and log T has a standard normal prior, so that rows told by
        chance do not give its opposite. With many rows neither matters. Minimised is
        sum_v loss(z_v / T, target_v) + (log T)^2 / 2.
        """
        target, known = smoothed_targets(codes, logits.shape[1])
        logits, target = logits[known].double(), target[known]

        def penalised_loss(log_temperature: float) -> float:
            scaled = logits / math.exp(log_temperature)
            if codes.ndim == 1:
                loss = -(target * torch.log_softmax(scaled, dim=1)).sum()
            else:
                loss = functional.binary_cross_entropy_with_logits(scaled, target, reduction="sum")
            return float(loss) + log_temperature**2 / 2

        found = minimize_scalar(penalised_loss, bounds=(-_WIDEST, _WIDEST), method="bounded")
        self.temperature.fill_(math.exp(float(found.x)))


def smoothed_targets(codes: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Targets for calibration, and which of them are known.

    Of n rows with K classes the class that a row has gets (n + 1) / (n + K), every other one
    1 / (n + K). Of a 0/1 matrix, with n known entries in a column, a 1 is (n + 1) / (n + 2) and a 0
    is 1 / (n + 2).
    """
    known = codes != UNLABELLED
    n = known.sum(0).double()
    if codes.ndim == 2:
        return (codes.clamp(min=0) * n + 1) / (n + 2), known
    one_hot = functional.one_hot(codes.clamp(min=0), num_classes).double()
    return (one_hot * n + 1) / (n + num_classes), known
