"""The squared reconstruction error of a linear last decoder layer, without ever forming the N x F
matrix of residuals.

For rows h_v with weights w_v,

    sum_v w_v ||W h_v + b - x_v||^2 = <W G, W> + 2 <W s, b> + (sum w) |b|^2 - 2 <W, X^T diag(w) H> -
    2 <b, X^T w> + sum_v w_v ||x_v||^2

with G = H^T diag(w) H and s = H^T w: exact algebra, and X stays sparse (`gram_error`). Where the
reconstruction is so good that this subtracts almost equal numbers, `blocked_error` forms the
residual in blocks of rows instead. Legend: N rows, F features, H hidden.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.ops.sparse import SparseMatrix, dense_rows, multiply

SAFE_RATIO = 1e-2
"""`gram_error` is used while the error is at least this share of sum_v w_v ||x_v||^2 (float32 then
keeps 4 digits of its gradient).
"""
_BLOCK = {"cpu": 1 << 23, "cuda": 1 << 25}  # entries of a block of residuals, by kind of device


def gram_error(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    x: Tensor | SparseMatrix,
    *,
    row_weight: Tensor,
    x_sq_norm: Tensor,
    x_sum: Tensor | None = None,
) -> Tensor:
    """sum_v w_v ||W h_v + b - x_v||^2, a scalar, by the identity above.

    Args:
        hidden: H, [N, H]; where it is less precise than W, sums are still made in W's type.
        weight: W, [F, H].
        bias: b, [F].
        x: features, [N, F], dense or sparse.
        row_weight: w, [N], or [] where all rows weigh the same; no gradient flows to it.
        x_sq_norm: ||x_v||^2, [N].
        x_sum: sum_v x_v, [F], where it is precomputed; used where all rows weigh the same.
    """
    error: Tensor = _GramError.apply(hidden, weight, bias, x, row_weight, x_sq_norm, x_sum)  # type: ignore[no-untyped-call]
    return error


def blocked_error(
    hidden: Tensor, weight: Tensor, bias: Tensor, x: Tensor | SparseMatrix, *, row_weight: Tensor
) -> Tensor:
    """The same scalar from residuals formed in blocks of rows; the gradient is formed on the way.

    On a GPU dense `x` may have columns of zeros up to a multiple of 8, which fast products ask for;
    no others.
    """
    error: Tensor = _BlockedError.apply(hidden, weight, bias, x, row_weight)  # type: ignore[no-untyped-call]
    return error


class _GramError(torch.autograd.Function):
    """The error is quadratic, so its gradient is formed on the way, from the same products."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        x: Tensor | SparseMatrix,
        row_weight: Tensor,
        x_sq_norm: Tensor,
        x_sum: Tensor | None,
    ) -> Tensor:
        even = row_weight.ndim == 0  # then w = 1 below, and all is scaled at the end
        h = hidden.to(weight.dtype)
        weighted = h if even else h * row_weight[:, None]
        flipped = x.transpose if isinstance(x, SparseMatrix) else x.T
        cross = multiply(flipped, weighted)  # X^T diag(w) H, [F, H]
        if even and x_sum is not None:
            mean = x_sum
        else:
            # X^T w, [F]
            mean = multiply(flipped, (h.new_ones(h.shape[0]) if even else row_weight)[:, None])[
                :, 0
            ]
        total = weighted.sum(0)  # s, [H]
        by_gram = weight @ (h.T @ weighted)  # W G, [F, H]
        rows: float | Tensor = h.shape[0] if even else row_weight.sum()
        by_total = weight @ total + rows * bias - mean  # [F]
        # The large terms are paired feature by feature before they are summed.
        error = (weight * (by_gram - 2 * cross)).sum(dtype=torch.float64)
        error += (bias * (by_total + weight @ total - mean)).sum(dtype=torch.float64)
        error += (x_sq_norm if even else x_sq_norm * row_weight).sum(dtype=torch.float64)
        # W^T (W h + b - x)
        d_hidden = multiply(
            x, weight, base=torch.addmm(bias @ weight, h, weight.T @ weight), alpha=-1.0
        )
        if not even:
            d_hidden *= row_weight[:, None]
        ctx.save_for_backward(row_weight)
        ctx.formed = d_hidden.to(hidden.dtype), (by_gram - cross).addr_(bias, total), by_total
        return (error * row_weight if even else error).to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled(ctx, grads[0]), None, None, None, None)


class _BlockedError(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        x: Tensor | SparseMatrix,
        row_weight: Tensor,
    ) -> Tensor:
        even = row_weight.ndim == 0
        error = torch.zeros((), dtype=torch.float64, device=hidden.device)
        width = weight.shape[0]
        # Fast products ask for a multiple of 8; features of zero that are predicted as zero change
        # nothing
        if hidden.is_cuda:
            weight, bias = (
                functional.pad(weight, (0, 0, 0, -width % 8)),
                functional.pad(bias, (0, -width % 8)),
            )
        d_hidden, d_weight, d_bias = (
            torch.empty_like(hidden),
            torch.zeros_like(weight),
            torch.zeros_like(bias),
        )
        step = max(1, _BLOCK.get(hidden.device.type, 1 << 23) // weight.shape[0])
        for start in range(0, hidden.shape[0], step):
            stop = min(start + step, hidden.shape[0])
            h = hidden[start:stop].to(weight.dtype)
            residual = torch.addmm(bias, h, weight.T)
            block = dense_rows(x, start, stop)
            residual[:, : block.shape[1]].sub_(block)
            squares = torch.linalg.vector_norm(residual, dim=1).square()
            if not even:
                squares *= row_weight[start:stop]
                residual *= row_weight[start:stop, None]
            error += squares.sum(dtype=torch.float64)
            if d_hidden.dtype == weight.dtype:
                torch.mm(residual, weight, out=d_hidden[start:stop])
            else:
                d_hidden[start:stop] = residual @ weight
            d_weight.addmm_(residual.T, h)
            d_bias += residual.sum(0)
        ctx.save_for_backward(row_weight)
        ctx.formed = d_hidden, d_weight[:width], d_bias[:width]
        return (error * row_weight if even else error).to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled(ctx, grads[0]), None, None)


def _scaled(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    """The gradients formed on the way, times what their common factor is; scaled in place, so this
    can be asked once only.
    """
    if ctx.formed is None:
        raise RuntimeError("the gradient of a reconstruction error was already taken")
    (row_weight,), formed = ctx.saved_tensors, ctx.formed
    ctx.formed = None
    factor = 2 * grad * row_weight if row_weight.ndim == 0 else 2 * grad
    return tuple(part.mul_(factor) for part in formed)
