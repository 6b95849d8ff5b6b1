"""Batch norm with the statistics of the rows of all processes (collective.py).

Legend: N rows of this process, H columns, K processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphlatent.ops.collective import Processes


@dataclass(frozen=True, eq=False)
class Statistics:
    """The mean [H] and variance [H] of the rows of all processes, and how many these are, []."""

    mean: Tensor
    var: Tensor
    count: Tensor


def batch_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float, processes: Processes
) -> Tensor:
    """Normalised rows, [N, H]."""
    out: Tensor = _BatchNorm.apply(x, gamma, beta, eps, processes)  # type: ignore[no-untyped-call]
    return out


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, eps: float, processes: Processes
    ) -> Tensor:
        found = statistics(x, processes)
        ctx.eps, ctx.processes = eps, processes
        ctx.save_for_backward(x, gamma, found.mean, found.var, found.count)
        return normalized(x, found, gamma, beta, eps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, *found = ctx.saved_tensors
        d_x, d_gamma, d_beta = gradients(
            grads[0], x, gamma, Statistics(*found), ctx.eps, ctx.processes
        )
        return d_x, d_gamma, d_beta, None, None


def statistics(x: Tensor, processes: Processes) -> Statistics:
    """The statistics of the rows of all processes; of no row at all, mean 0 and variance 0.

    Means and squared deviations of the processes are combined as by Chan et al. (1983), so that
    nothing is lost where means are large.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    count = x.new_full((1,), float(x.shape[0]), dtype=torch.float64)
    mean = x.sum(0, dtype=exact) / max(x.shape[0], 1)
    deviation = (x - mean).square().sum(0, dtype=exact)
    parts = processes.gather(torch.cat([mean.double(), deviation.double(), count]))
    means, deviations, counts = parts[:, : mean.numel()], parts[:, mean.numel() : -1], parts[:, -1:]
    total = counts.sum()
    divisor = total.clamp(min=1)
    mean = (counts * means).sum(0) / divisor
    var = (deviations + counts * (means - mean).square()).sum(0) / divisor
    return Statistics(mean.to(exact), var.to(exact), total)


def normalized(x: Tensor, found: Statistics, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    """Rows normalised with given statistics, [N, H]."""
    # With given statistics, torch's operation is that of evaluation.
    return torch.native_batch_norm(x, gamma, beta, found.mean, found.var, False, 0.0, eps)[0]


def gradients(
    grad: Tensor, x: Tensor, gamma: Tensor, found: Statistics, eps: float, processes: Processes
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x [N, H], gamma [H] and beta [H]; those of the last two by own rows alone."""
    if x.shape[0]:
        d_x, d_gamma, d_beta = torch.ops.aten.native_batch_norm_backward(
            *(grad.contiguous(), x, gamma, found.mean, found.var, None, None),
            *(False, eps, [True, True, True]),
        )
    else:
        # torch divides by the number of rows.
        d_x, d_gamma, d_beta = torch.empty_like(x), gamma * 0, gamma * 0
    sums = processes.sum_(torch.cat([d_gamma, d_beta])) / found.count.clamp(min=1).to(gamma.dtype)
    of_scale, of_shift = sums.chunk(2)
    # Through the statistics: gamma / s (mean(dy) + (x - m) / s mean(dy (x - m) / s)).
    rstd = torch.rsqrt(found.var + eps)
    slope = gamma * rstd.square() * of_scale
    constant = gamma * rstd * of_shift - slope * found.mean
    d_x -= torch.addcmul(constant, x, slope).to(d_x.dtype)
    return d_x, d_gamma, d_beta
