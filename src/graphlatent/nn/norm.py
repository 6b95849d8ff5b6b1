"""Batch norm whose evaluation never depends on momentum or on what else is in the batch.

In training it normalises with the statistics of the rows at hand, each view with its own. For
embedding, the statistics are measured exactly, once, over the plain view of the whole training set
(`measure_statistics`), and then fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class BatchNorm(nn.Module):
    """Batch norm over rows. Differs from `torch.nn.BatchNorm1d`: no running average; a single row
    has variance 0.
    """

    mean: Tensor
    var: Tensor

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.measuring = False
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalised rows, [N, dim]: with their own statistics in training, with the measured ones
        in evaluation.
        """
        if self.measuring:
            self.mean = x.mean(0)
            self.var = x.var(0, unbiased=False)
        if not self.training:
            scale: Tensor = self.weight * torch.rsqrt(self.var + self.eps)
            return (x - self.mean) * scale + self.bias
        # Torch refuses; variance 0 leaves the difference from the mean, which is 0
        if x.shape[0] == 1:
            return (x - x.mean(0)) / math.sqrt(self.eps) * self.weight + self.bias
        normed: Tensor = functional.batch_norm(
            x, None, None, self.weight, self.bias, training=True, eps=self.eps
        )
        return normed


def has_statistics(model: nn.Module) -> bool:
    """Whether there is a batch norm in `model`."""
    return any(isinstance(m, BatchNorm | nn.modules.batchnorm._BatchNorm) for m in model.modules())


@torch.no_grad()
def measure_statistics(model: nn.Module, forward: Callable[[], object]) -> None:
    """Set the statistics of every batch norm in `model` to those of one call of `forward` (the
    plain view, all rows).

    Layers are measured in the order in which they run, each on the input it will see in evaluation,
    so one pass is exact. `torch.nn` batch norms inside a user's encoder are measured too.
    """
    ours = [m for m in model.modules() if isinstance(m, BatchNorm)]
    torchs = [
        m
        for m in model.modules()
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats
    ]
    momenta = [m.momentum for m in torchs]
    was_training = model.training
    model.eval()  # dropout and the like stay off
    for norm in ours:
        norm.measuring = True
    for other in torchs:
        other.train()
        other.momentum = 1.0
    try:
        forward()
    finally:
        for norm in ours:
            norm.measuring = False
        for other, momentum in zip(torchs, momenta, strict=True):
            other.momentum = momentum
        model.train(was_training)
