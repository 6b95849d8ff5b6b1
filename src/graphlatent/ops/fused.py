"""Activation and batch norm as one differentiable operation that keeps nothing but its input.

In the backward pass the activation is computed again instead of being kept, and so is the masked
view's input, which is the plain view's plus a few products with masked columns. On a GPU both
passes are kernels of their own (kernels/norm.py). Shapes: N rows, H columns, R masked nodes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

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
        slope: of PReLU, [1]; None is ReLU.
        gamma: batch norm's scale, [H].
        beta: batch norm's shift, [H].
        eps: batch norm's.
        limit: number of rows that are not padding, int64 []; None means all.
        operator: A[:, J]; given together with `change`.
        change: [R, H].
    """
    out: Tensor = _ActivateNorm.apply(  # type: ignore[no-untyped-call]
        z, operator, change, slope, gamma, beta, eps, limit
    )
    return out


def pick_rows(hidden: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The pair (hidden [N, H], its rows [R, H]).

    The rows' gradient is added to the rest in place instead of as a matrix of zeros.
    """
    both: tuple[Tensor, Tensor] = _PickRows.apply(hidden, rows)  # type: ignore[no-untyped-call]
    return both


def pick_columns(both: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The pair (both [N, M], its first columns [N, width]), with gradients as in `pick_rows`."""
    parts: tuple[Tensor, Tensor] = _PickColumns.apply(both, width)  # type: ignore[no-untyped-call]
    return parts


class _PickRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows)
        ctx.shape = hidden.shape
        return hidden.view_as(hidden), hidden[rows]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        whole, some = grads
        if some is not None:
            whole = _writable(whole, some, ctx.shape).index_add_(0, ctx.saved_tensors[0], some)
        return whole, None


class _PickColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor, width: int) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.shape = both.shape
        return both.view_as(both), both[:, :width]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        whole, some = grads
        if some is not None:
            whole = _writable(whole, some, ctx.shape)
            whole[:, : some.shape[1]] += some
        return whole, None


def _writable(whole: Tensor | None, some: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of the whole, to be written into: nothing else holds the one that comes in."""
    return some.new_zeros(shape) if whole is None else whole.contiguous()


class _ActivateNorm(torch.autograd.Function):
    """Batch norm (where `gamma` is given) of the activation (PReLU, or ReLU without a slope) of
    `base + A[:, J] @ change`.
    """

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
        if _on_gpu(z):
            from graphlatent.ops.kernels.norm import activate_norm

            out, mean, rstd = activate_norm(z, slope, gamma, beta, eps=eps, limit=limit)
        else:
            out, mean, rstd = _forward(z[:limit], slope, gamma, beta, eps)
            out = (
                out if limit is None else functional.pad(out, (0, 0, 0, z.shape[0] - out.shape[0]))
            )
        ctx.operator, ctx.eps, ctx.limit = operator, eps, limit
        ctx.save_for_backward(base, change, slope, gamma, mean, rstd)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        base, change, slope, gamma, mean, rstd = ctx.saved_tensors
        z = base if change is None else ctx.operator.scatter_raw(change, base)
        if _on_gpu(z):
            from graphlatent.ops.kernels.norm import activate_norm_backward

            d_z, d_slope, d_gamma, d_beta = activate_norm_backward(
                grads[0], z, slope, gamma, mean, rstd, limit=ctx.limit
            )
        else:
            d_z, d_slope, d_gamma, d_beta = _backward(
                grads[0][: ctx.limit], z[: ctx.limit], slope, gamma, mean, rstd, ctx.eps
            )
            d_z = (
                d_z
                if ctx.limit is None
                else functional.pad(d_z, (0, 0, 0, z.shape[0] - d_z.shape[0]))
            )
        d_change = None if change is None else ctx.operator.transposed.gather_raw(d_z)
        return d_z, None, d_change, d_slope, d_gamma, d_beta, None, None


def _on_gpu(z: Tensor) -> bool:
    return usable(z) and z.dtype != torch.float64  # those kernels count in float32


def _forward(
    z: Tensor, slope: Tensor | None, gamma: Tensor | None, beta: Tensor | None, eps: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    act = torch.relu(z) if slope is None else torch.prelu(z, slope)
    return (
        (act, None, None)
        if gamma is None
        else torch.native_batch_norm(act, gamma, beta, None, None, True, 0.0, eps)
    )


def _backward(
    grad: Tensor,
    z: Tensor,
    slope: Tensor | None,
    gamma: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Large arrays are written over as soon as they are not needed: asking for new ones costs more
    than the arithmetic.
    """
    d_gamma = d_beta = act = None
    if gamma is not None:
        act = torch.relu(z) if slope is None else torch.prelu(z, slope)
        grad, d_gamma, d_beta = torch.ops.aten.native_batch_norm_backward(
            grad.contiguous(), act, gamma, None, None, mean, rstd, True, eps, [True, True, True]
        )
    if slope is None:
        return torch.ops.aten.threshold_backward(grad, z, 0.0), None, d_gamma, d_beta
    below = torch.clamp(z, max=0.0, out=act)
    d_slope = torch.dot(grad.reshape(-1), below.view(-1)).reshape(slope.shape)
    own = torch.empty_like(z) if act is None else grad
    d_z = torch.ops.aten.leaky_relu_backward.grad_input(
        grad, z, slope.item(), False, grad_input=own
    )
    return d_z, d_slope, d_gamma, d_beta
