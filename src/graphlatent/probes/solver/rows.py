"""Training rows of several fits, and the products that a Newton step needs.

Legend: F fits, Q problems, C classes fitted together, n rows, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Preprocessed rows of every fit with their weights.

    Args:
        values: [F, n, D + 1], the last column ones (the bias).
        weight: weight of every row [F, n], summing to 1 over a fit; 0 for padding.
    """

    values: Tensor
    weight: Tensor

    def to_float32(self) -> WeightedRows:
        """The same in float32."""
        return WeightedRows(self.values.float(), self.weight.float())

    def logits(self, coef: Tensor) -> Tensor:
        """The products w x, [F, Q, C, n] from coefficients [F, Q, C, D + 1]."""
        fits, problems, classes, width = coef.shape
        flat = torch.bmm(coef.reshape(fits, problems * classes, width), self.values.mT)
        return flat.view(fits, problems, classes, -1)

    def weighted_sum(self, factor: Tensor) -> Tensor:
        """sum_v r_v factor_v x_v, [F, Q, C, D + 1] from [F, Q, C, n]."""
        fits, problems, classes, num = factor.shape
        weighted = (factor * self.weight[:, None, None, :]).reshape(fits, problems * classes, num)
        return torch.bmm(weighted, self.values).view(fits, problems, classes, -1)

    def weighted_mean(self, losses: Tensor) -> Tensor:
        """sum_v r_v loss_v, [F, Q] from [F, Q, n]."""
        return torch.bmm(losses, self.weight[:, :, None]).squeeze(2)
