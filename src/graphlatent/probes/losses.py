"""The convex losses of linear probes, for many fits at once: value, slope and curvature in the
logits.

Logits are [F, Q, C, n]: F fits (a split, a fold), Q problems each (strengths, for the last two also
labels), C classes that are fitted together, n rows. A loss holds the targets; rows are weighed by
whoever sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Loss(Protocol):
    """A convex loss of every row and its first two derivatives."""

    def value(self, logits: Tensor) -> Tensor:
        """The loss of every row, [F, Q, n]."""

    def slope(self, logits: Tensor) -> Tensor:
        """Its derivative in the logits, [F, Q, C, n]."""

    def curvature(self, logits: Tensor) -> Tensor:
        """What `bend` needs, [F, Q, C, n], and at the same time the curvature of each logit but for
        its couplings.
        """

    def bend(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """The second derivative times a direction, [F, Q, C, n]."""

    def pick(self, problems: Tensor) -> Loss:
        """The same for some of the Q problems."""


@dataclass(frozen=True, eq=False)
class Softmax:
    """Cross-entropy of C classes fitted together: log sum_k exp z_k - z_y.

    Args:
        target: one-hot class of every row [F, 1, C, n]; all zeros in rows that do not count.
        absent: [F, 1, C, 1], True where a fit has no row of a class: it is left out there, so it is
            never answered.
    """

    target: Tensor
    absent: Tensor

    def value(self, logits: Tensor) -> Tensor:
        """[F, Q, n]."""
        return torch.logsumexp(self._present(logits), 2) - (logits * self.target).sum(2)

    def slope(self, logits: Tensor) -> Tensor:
        """[F, Q, C, n]."""
        return torch.softmax(self._present(logits), 2) - self.target

    def curvature(self, logits: Tensor) -> Tensor:
        """The shares p [F, Q, C, n]."""
        return torch.softmax(self._present(logits), 2)

    def bend(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """(diag(p) - p p^T) v."""
        moved = curvature * direction
        return moved - curvature * moved.sum(2, keepdim=True)

    def pick(self, problems: Tensor) -> Softmax:
        """Itself."""
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

    def slope(self, logits: Tensor) -> Tensor:
        """[F, Q, 1, n]."""
        return -2 * self.sign * torch.relu(1 - self.sign * logits)

    def curvature(self, logits: Tensor) -> Tensor:
        """2 inside the margin, 0 outside."""
        return 2.0 * (self.sign * logits < 1).to(logits.dtype)

    def bend(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """Row by row."""
        return curvature * direction

    def pick(self, problems: Tensor) -> SquaredHinge:
        """The targets of those problems."""
        return SquaredHinge(self.sign[:, problems])


@dataclass(frozen=True, eq=False)
class Sigmoid:
    """log(1 + exp(-y z)): one label, yes or no.

    Args:
        sign: y = 1 or -1, [F, Q, 1, n].
    """

    sign: Tensor

    def value(self, logits: Tensor) -> Tensor:
        """[F, Q, n]."""
        return torch.nn.functional.softplus(-self.sign * logits).squeeze(2)

    def slope(self, logits: Tensor) -> Tensor:
        """[F, Q, 1, n]."""
        return -self.sign * torch.sigmoid(-self.sign * logits)

    def curvature(self, logits: Tensor) -> Tensor:
        """The product p (1 - p)."""
        share = torch.sigmoid(logits)
        return share * (1 - share)

    def bend(self, curvature: Tensor, direction: Tensor) -> Tensor:
        """Row by row."""
        return curvature * direction

    def pick(self, problems: Tensor) -> Sigmoid:
        """The targets of those problems."""
        return Sigmoid(self.sign[:, problems])
