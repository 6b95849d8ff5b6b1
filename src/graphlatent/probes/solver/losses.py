"""The convex losses of linear probes: value, gradient and curvature in the logits.

Logits are [F, Q, C, n]: F fits (a split, a fold), Q problems each (values of `l2`; for the last two
losses also labels), C classes fitted together, n rows. A loss holds the targets; row weights are
applied by `WeightedRows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class ConvexLoss(Protocol):
    """A convex loss of every row with its first two derivatives."""

    def value(self, logits: Tensor) -> Tensor:
        """The loss of every row, [F, Q, n]."""

    def gradient(self, logits: Tensor) -> Tensor:
        """The derivative in the logits, [F, Q, C, n]."""

    def curvature(self, logits: Tensor) -> Tensor:
        """What `hessian_product` needs, [F, Q, C, n].

        For one logit its second derivative, for a softmax the probabilities.
        """

    def hessian_product(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """The second derivative times a direction, [F, Q, C, n]."""

    def select(self, problems: Tensor) -> ConvexLoss:
        """The loss of some of the Q problems."""


@dataclass(frozen=True, eq=False)
class Softmax:
    """Cross-entropy of C classes fitted together: log sum_k exp z_k - z_y.

    Args:
        target: one-hot class of every row [F, 1, C, n]; zeros for padding.
        absent: [F, 1, C, 1], True where a fit has no row of a class: its probability is 0, so it
            is never predicted.
    """

    target: Tensor
    absent: Tensor

    def value(self, logits: Tensor) -> Tensor:
        """[F, Q, n]."""
        return torch.logsumexp(self._present(logits), 2) - (logits * self.target).sum(2)

    def gradient(self, logits: Tensor) -> Tensor:
        """[F, Q, C, n]."""
        return torch.softmax(self._present(logits), 2) - self.target

    def curvature(self, logits: Tensor) -> Tensor:
        """The probabilities p [F, Q, C, n]."""
        return torch.softmax(self._present(logits), 2)

    def hessian_product(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """(diag(p) - p p^T) v."""
        product = curvature * direction
        return product - curvature * product.sum(2, keepdim=True)

    def select(self, problems: Tensor) -> Softmax:
        """Itself: all problems share the targets."""
        return self

    def _present(self, logits: Tensor) -> Tensor:
        return logits.masked_fill(self.absent, -torch.inf)


@dataclass(frozen=True, eq=False)
class SquaredHinge:
    """max(0, 1 - y z)^2 of one class against the rest.

    Args:
        sign: y = 1 or -1, [F, Q, 1, n].
    """

    sign: Tensor

    def value(self, logits: Tensor) -> Tensor:
        """[F, Q, n]."""
        return torch.relu(1 - self.sign * logits).square().squeeze(2)

    def gradient(self, logits: Tensor) -> Tensor:
        """[F, Q, 1, n]."""
        return -2 * self.sign * torch.relu(1 - self.sign * logits)

    def curvature(self, logits: Tensor) -> Tensor:
        """2 inside the margin, 0 outside."""
        return 2.0 * (self.sign * logits < 1).to(logits.dtype)

    def hessian_product(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """Elementwise."""
        return curvature * direction

    def select(self, problems: Tensor) -> SquaredHinge:
        """The targets of those problems."""
        return SquaredHinge(self.sign[:, problems])


@dataclass(frozen=True, eq=False)
class Sigmoid:
    """log(1 + exp(-y z)): binary cross-entropy of one label.

    Args:
        sign: y = 1 or -1, [F, Q, 1, n].
    """

    sign: Tensor

    def value(self, logits: Tensor) -> Tensor:
        """[F, Q, n]."""
        return torch.nn.functional.softplus(-self.sign * logits).squeeze(2)

    def gradient(self, logits: Tensor) -> Tensor:
        """[F, Q, 1, n]."""
        return -self.sign * torch.sigmoid(-self.sign * logits)

    def curvature(self, logits: Tensor) -> Tensor:
        """The product p (1 - p)."""
        probability = torch.sigmoid(logits)
        return probability * (1 - probability)

    def hessian_product(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """Elementwise."""
        return curvature * direction

    def select(self, problems: Tensor) -> Sigmoid:
        """The targets of those problems."""
        return Sigmoid(self.sign[:, problems])
