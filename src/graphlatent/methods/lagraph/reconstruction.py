"""The squared reconstruction error of a linear layer without the N x F matrix of residuals.

For rows h_v with weights w_v, and with G = H^T diag(w) H and s = H^T w,

    sum_v w_v ||W h_v + b - x_v||^2 =   <W G, W> + 2 <W s, b> + (sum_v w_v) ||b||^2
                                      - 2 <W, X^T diag(w) H> - 2 <b, X^T w>
                                      + sum_v w_v ||x_v||^2

This identity is exact, and X stays sparse (`gram_error`). Where the reconstruction is so good that
it subtracts almost equal numbers, `blocked_error` computes the residuals in blocks of rows instead.
Legend: N rows, F features, H hidden.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.ops.sparse import SparseMatrix, dense_rows, multiply

SAFE_RATIO = 1e-2
"""`gram_error` is used while the error is at least this share of sum_v w_v ||x_v||^2.

In float32 its gradient then has 4 correct digits.
"""
# Entries per block of residuals, by device type.
_BLOCK = {"cpu": 1 << 23, "cuda": 1 << 25}


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
        hidden: H, [N, H]; sums are computed in the dtype of W.
        weight: W, [F, H].
        bias: b, [F].
        x: features, [N, F], dense or sparse.
        row_weight: w, [N], or [] where all weights are equal; without gradient.
        x_sq_norm: ||x_v||^2, [N].
        x_sum: sum_v x_v, [F], if precomputed; used where all weights are equal.
    """
    error: Tensor = _GramError.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, x, row_weight, x_sq_norm, x_sum
    )
    return error


def blocked_error(
    hidden: Tensor, weight: Tensor, bias: Tensor, x: Tensor | SparseMatrix, *, row_weight: Tensor
) -> Tensor:
    """The scalar of `gram_error`, from residuals in blocks of rows.

    On a GPU a dense `x` may be padded with columns of zeros to a multiple of 8, as fast matrix
    products require.
    """
    error: Tensor = _BlockedError.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, x, row_weight
    )
    return error


class _GramError(torch.autograd.Function):
    """See `gram_error`; the forward pass also computes the gradient, from the same products."""

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
        # Equal weights are 1 below, and the result is scaled at the end.
        uniform = row_weight.ndim == 0
        h = hidden.to(weight.dtype)
        wh = h if uniform else h * row_weight[:, None]
        x_t = x.transpose if isinstance(x, SparseMatrix) else x.T
        # X^T diag(w) H, [F, H]
        cross = multiply(x_t, wh)
        # X^T w, [F]
        if uniform and x_sum is not None:
            x_total = x_sum
        else:
            w = h.new_ones(h.shape[0]) if uniform else row_weight
            x_total = multiply(x_t, w[:, None])[:, 0]
        # s, [H]
        h_total = wh.sum(0)
        # W G, [F, H]
        w_gram = weight @ (h.T @ wh)
        w_total: float | Tensor = h.shape[0] if uniform else row_weight.sum()
        # W s + (sum_v w_v) b - X^T w, [F]
        d_bias = weight @ h_total + w_total * bias - x_total
        # The large terms are combined feature by feature before they are summed.
        error = (weight * (w_gram - 2 * cross)).sum(dtype=torch.float64)
        error += (bias * (d_bias + weight @ h_total - x_total)).sum(dtype=torch.float64)
        error += (x_sq_norm if uniform else x_sq_norm * row_weight).sum(dtype=torch.float64)
        # W^T (W h + b - x), [N, H]
        base = torch.addmm(bias @ weight, h, weight.T @ weight)
        d_hidden = multiply(x, weight, base=base, alpha=-1.0)
        if not uniform:
            d_hidden *= row_weight[:, None]
        ctx.save_for_backward(row_weight)
        ctx.gradients = d_hidden.to(hidden.dtype), (w_gram - cross).addr_(bias, h_total), d_bias
        return (error * row_weight if uniform else error).to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled_gradients(ctx, grads[0]), None, None, None, None)


class _BlockedError(torch.autograd.Function):
    """See `blocked_error`; the forward pass also computes the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        x: Tensor | SparseMatrix,
        row_weight: Tensor,
    ) -> Tensor:
        uniform = row_weight.ndim == 0
        error = torch.zeros((), dtype=torch.float64, device=hidden.device)
        width = weight.shape[0]
        # Fast products require a multiple of 8. Added features are 0, and so is their prediction.
        if hidden.is_cuda:
            weight = functional.pad(weight, (0, 0, 0, -width % 8))
            bias = functional.pad(bias, (0, -width % 8))
        d_hidden = torch.empty_like(hidden)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        step = max(1, _BLOCK.get(hidden.device.type, 1 << 23) // weight.shape[0])
        for start in range(0, hidden.shape[0], step):
            stop = min(start + step, hidden.shape[0])
            h = hidden[start:stop].to(weight.dtype)
            residual = torch.addmm(bias, h, weight.T)
            block = dense_rows(x, start, stop)
            residual[:, : block.shape[1]].sub_(block)
            squares = torch.linalg.vector_norm(residual, dim=1).square()
            if not uniform:
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
        ctx.gradients = d_hidden, d_weight[:width], d_bias[:width]
        return (error * row_weight if uniform else error).to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled_gradients(ctx, grads[0]), None, None)


def _scaled_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    """The gradients of the forward pass, multiplied by their common factor.

    They are scaled in place, so this can be called only once.
    """
    if ctx.gradients is None:
        raise RuntimeError("the gradient of a reconstruction error was already taken")
    (row_weight,), gradients = ctx.saved_tensors, ctx.gradients
    ctx.gradients = None
    factor = 2 * grad * row_weight if row_weight.ndim == 0 else 2 * grad
    return tuple(gradient.mul_(factor) for gradient in gradients)
