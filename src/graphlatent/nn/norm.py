"""Batch norm without running averages: evaluation statistics are measured exactly, once.

In training it normalises each batch, and each view, with its own statistics; those of a batch that
several processes share are of the rows of all (ops/global_norm.py). Before embedding, the
statistics of the plain view of the whole training set are measured (`measure_statistics`) and
fixed, so an embedding depends neither on momentum nor on the rest of its batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphlatent.ops.collective import current
from graphlatent.ops.global_norm import batch_norm


class BatchNorm(nn.Module):
    """Batch norm over rows.

    Differs from `torch.nn.BatchNorm1d`: it has no running average, and it accepts a single row,
    whose variance is 0.
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
        """Normalised rows, [N, dim].

        In training with the statistics of `x`, in evaluation with the measured ones.
        """
        if self.measuring:
            self.mean = x.mean(0)
            self.var = x.var(0, unbiased=False)
        if not self.training:
            scale: Tensor = self.weight * torch.rsqrt(self.var + self.eps)
            return (x - self.mean) * scale + self.bias
        processes = current()
        if processes is not None:
            return batch_norm(x, self.weight, self.bias, eps=self.eps, processes=processes)
        # torch refuses a single row. Its variance is 0, and so is its difference from the mean.
        if x.shape[0] == 1:
            return (x - x.mean(0)) / math.sqrt(self.eps) * self.weight + self.bias
        normed: Tensor = functional.batch_norm(
            x, None, None, self.weight, self.bias, training=True, eps=self.eps
        )
        return normed


def has_statistics(model: nn.Module) -> bool:
    """Whether `model` contains a batch norm."""
    return any(isinstance(m, BatchNorm | nn.modules.batchnorm._BatchNorm) for m in model.modules())


@torch.no_grad()
def measure_statistics(model: nn.Module, forward: Callable[[], object]) -> None:
    """Set the statistics of every batch norm in `model` to those of its input in `forward`.

    Layers are measured in the order in which they run, each on its input in evaluation, so one call
    of `forward` is exact. Batch norms of `torch.nn` in a custom encoder are measured too.

    Args:
        model: the model, whose other layers are in evaluation mode meanwhile.
        forward: runs the model on all rows of the plain view.
    """
    ours = [m for m in model.modules() if isinstance(m, BatchNorm)]
    torchs = [
        m
        for m in model.modules()
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats
    ]
    momenta = [m.momentum for m in torchs]
    was_training = model.training
    # No dropout while measuring.
    model.eval()
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
