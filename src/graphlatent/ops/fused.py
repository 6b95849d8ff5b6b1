"""Activation and batch norm as one differentiable operation that saves only its input.

The backward pass recomputes the activation instead of saving it. It also recomputes the input of
the masked view, which is that of the plain view plus a product with the masked columns. On a GPU
both passes are Triton kernels (kernels/norm.py). Where several processes share a batch, the
statistics are of the rows of all (global_norm.py), and the kernels are not used. Shapes: N rows, H
columns, R masked nodes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.ops.collective import Processes, current
from graphlatent.ops.global_norm import Statistics, gradients, normalized, statistics
from graphlatent.ops.kernels import usable
from graphlatent.ops.masked import MaskedOperator


def activate_and_normalize(
    z: Tensor,
    *,
    slope: Tensor | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    eps: float = 0.0,
    limit: Tensor | None = None,
    operator: MaskedOperator | None = None,
    change: Tensor | None = None,
) -> Tensor:
    """Batch norm (where `gamma` is given) of the activation of `z + A[:, J] @ change`, [N, H].

    Args:
        z: [N, H].
        slope: PReLU's slope, [1]; None means ReLU.
        gamma: batch norm's scale, [H].
        beta: batch norm's shift, [H].
        eps: added to the variance.
        limit: number of rows that are not padding, int64 []; None means all.
        operator: A[:, J]; given together with `change`.
        change: [R, H].
    """
    out: Tensor = _ActivateNorm.apply(  # type: ignore[no-untyped-call]
        z, operator, change, slope, gamma, beta, eps, limit
    )
    return out


def select_rows(hidden: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The pair (hidden [N, H], hidden[rows] [R, H]).

    The gradient of the selected rows is added in place to that of `hidden`, without a matrix of
    zeros.
    """
    pair: tuple[Tensor, Tensor] = _SelectRows.apply(hidden, rows)  # type: ignore[no-untyped-call]
    return pair


def select_columns(both: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The pair (both [N, M], both[:, :width]), with gradients added as in `select_rows`."""
    pair: tuple[Tensor, Tensor] = _SelectColumns.apply(both, width)  # type: ignore[no-untyped-call]
    return pair


class _SelectRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows)
        ctx.shape = hidden.shape
        return hidden.view_as(hidden), hidden[rows]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        d_all, d_rows = grads
        if d_rows is not None:
            d_all = _writable(d_all, d_rows, ctx.shape)
            d_all.index_add_(0, ctx.saved_tensors[0], d_rows)
        return d_all, None


class _SelectColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor, width: int) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.shape = both.shape
        return both.view_as(both), both[:, :width]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        d_all, d_columns = grads
        if d_columns is not None:
            d_all = _writable(d_all, d_columns, ctx.shape)
            d_all[:, : d_columns.shape[1]] += d_columns
        return d_all, None


def _writable(d_all: Tensor | None, d_part: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of the whole matrix, zeros if None, to be modified in place.

    That is safe because autograd passes a gradient that nothing else refers to.
    """
    return d_part.new_zeros(shape) if d_all is None else d_all.contiguous()


class _ActivateNorm(torch.autograd.Function):
    """See `activate_and_normalize`."""

    @staticmethod
    def forward(
        ctx: Any,
        base: Tensor,
        operator: MaskedOperator | None,
        change: Tensor | None,
        slope: Tensor | None,
        gamma: Tensor | None,
        beta: Tensor | None,
        eps: float,
        limit: Tensor | None,
    ) -> Tensor:
        z = base if operator is None or change is None else operator.scatter_raw(change, base)
        processes = None if gamma is None else current()
        mean: Tensor | None
        rstd: Tensor | None
        count: Tensor | None = None
        if processes is not None:
            assert gamma is not None
            assert beta is not None
            act = _activated(z[:limit], slope)
            found = statistics(act, processes)
            mean, rstd, count = found.mean, found.var, found.count
            out = _pad_rows(normalized(act, found, gamma, beta, eps), z.shape[0])
        elif _on_gpu(z):
            from graphlatent.ops.kernels.norm import activate_norm

            out, mean, rstd = activate_norm(z, slope, gamma, beta, eps=eps, limit=limit)
        else:
            out, mean, rstd = _forward(z[:limit], slope, gamma, beta, eps)
            out = _pad_rows(out, z.shape[0])
        ctx.operator, ctx.eps, ctx.limit, ctx.processes = operator, eps, limit, processes
        # With several processes, the variance stands in the place of 1 / sqrt(variance + eps).
        ctx.save_for_backward(base, change, slope, gamma, mean, rstd, count)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        base, change, slope, gamma, mean, rstd, count = ctx.saved_tensors
        z = base if change is None else ctx.operator.scatter_raw(change, base)
        if ctx.processes is None and _on_gpu(z):
            from graphlatent.ops.kernels.norm import activate_norm_backward

            d_z, d_slope, d_gamma, d_beta = activate_norm_backward(
                grads[0], z, slope, gamma, mean, rstd, limit=ctx.limit
            )
        else:
            shared = None if count is None else (Statistics(mean, rstd, count), ctx.processes)
            d_z, d_slope, d_gamma, d_beta = _backward(
                *(grads[0][: ctx.limit], z[: ctx.limit], slope, gamma, mean, rstd, ctx.eps, shared)
            )
            d_z = _pad_rows(d_z, z.shape[0])
        d_change = None if change is None else ctx.operator.transposed.gather_raw(d_z)
        return d_z, None, d_change, d_slope, d_gamma, d_beta, None, None


def _on_gpu(z: Tensor) -> bool:
    # The kernels accumulate in float32.
    return usable(z) and z.dtype != torch.float64


def _activated(z: Tensor, slope: Tensor | None) -> Tensor:
    return torch.relu(z) if slope is None else torch.prelu(z, slope)


def _pad_rows(rows: Tensor, size: int) -> Tensor:
    """The rows followed by rows of zeros, `size` in all."""
    missing = size - rows.shape[0]
    return functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def _forward(
    z: Tensor, slope: Tensor | None, gamma: Tensor | None, beta: Tensor | None, eps: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    act = _activated(z, slope)
    if gamma is None:
        return act, None, None
    return torch.native_batch_norm(act, gamma, beta, None, None, True, 0.0, eps)


def _backward(
    grad: Tensor,
    z: Tensor,
    slope: Tensor | None,
    gamma: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor | None,
    eps: float,
    shared: tuple[Statistics, Processes] | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of z, slope, gamma and beta; with `shared` statistics, of a batch of several.

    Large arrays are reused as soon as possible: allocating new ones takes longer than the
    arithmetic.
    """
    d_gamma = d_beta = act = None
    if gamma is not None:
        act = _activated(z, slope)
    if gamma is not None and act is not None and shared is not None:
        grad, d_gamma, d_beta = gradients(grad, act, gamma, shared[0], eps, shared[1])
    elif gamma is not None:
        grad, d_gamma, d_beta = torch.ops.aten.native_batch_norm_backward(
            grad.contiguous(), act, gamma, None, None, mean, rstd, True, eps, [True, True, True]
        )
    if slope is None:
        return torch.ops.aten.threshold_backward(grad, z, 0.0), None, d_gamma, d_beta
    negative_part = torch.clamp(z, max=0.0, out=act)
    d_slope = torch.dot(grad.reshape(-1), negative_part.view(-1)).reshape(slope.shape)
    out = torch.empty_like(z) if act is None else grad
    d_z = torch.ops.aten.leaky_relu_backward.grad_input(
        grad, z, slope.item(), False, grad_input=out
    )
    return d_z, d_slope, d_gamma, d_beta
