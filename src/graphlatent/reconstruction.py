"""The squared reconstruction error of a linear last decoder layer, without ever forming the N x F matrix of residuals.

For rows h_v with weights w_v,

    sum_v w_v ||W h_v + b - x_v||^2 = <W G, W> + 2 <W s, b> + (sum w) |b|^2 - 2 <W, X^T diag(w) H> - 2 <b, X^T w> + sum_v w_v ||x_v||^2

with G = H^T diag(w) H and s = H^T w: exact algebra, and X stays sparse (`gram_error`). Where the reconstruction is so good that this
subtracts almost equal numbers, `blocked_error` forms the residual in blocks of rows instead. Legend: N rows, F features, H hidden.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphlatent.data.sparse import SparseMatrix, matmul, take_rows, to_dense

SAFE_RATIO = 1e-2
"""`gram_error` is used while the error is at least this share of sum_v w_v ||x_v||^2 (float32 then keeps 4 digits of its gradient)."""
_BLOCK = 1 << 23  # entries of a block of residuals


def gram_error(hidden: Tensor, weight: Tensor, bias: Tensor, x: Tensor | SparseMatrix, *, row_weight: Tensor, row_energy: Tensor) -> Tensor:
    """sum_v w_v ||W h_v + b - x_v||^2, a scalar, by the identity above.

    Args:
        hidden: H, [N, H].
        weight: W, [F, H].
        bias: b, [F].
        x: features, [N, F], dense or sparse.
        row_weight: w, [N]; no gradient flows to it.
        row_energy: ||x_v||^2, [N].
    """
    error: Tensor = _GramError.apply(hidden, weight, bias, x, row_weight, row_energy)  # type: ignore[no-untyped-call]
    return error


def blocked_error(hidden: Tensor, weight: Tensor, bias: Tensor, x: Tensor | SparseMatrix, *, row_weight: Tensor) -> Tensor:
    """The same scalar from residuals formed in blocks of rows; the gradient is formed on the way."""
    error: Tensor = _BlockedError.apply(hidden, weight, bias, x, row_weight)  # type: ignore[no-untyped-call]
    return error


class _GramError(torch.autograd.Function):
    """The error is quadratic, so its gradient is formed on the way, from the same products."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, x: Tensor | SparseMatrix, row_weight: Tensor, row_energy: Tensor
    ) -> Tensor:
        weighted = hidden * row_weight[:, None]
        sides = torch.cat([weighted, row_weight[:, None]], dim=1)  # one product gives X^T diag(w) H and X^T w
        crossed = x.transpose.matmul(sides) if isinstance(x, SparseMatrix) else x.T @ sides
        cross, mean = crossed[:, :-1], crossed[:, -1]  # [F, H], [F]
        total = weighted.sum(0)  # s, [H]
        by_gram = weight @ (hidden.T @ weighted)  # W G, [F, H]
        by_total = weight @ total + row_weight.sum() * bias - mean  # [F]
        # The large terms are paired feature by feature before they are summed.
        error = (weight * (by_gram - 2 * cross)).sum(dtype=torch.float64)
        error += (bias * (by_total + weight @ total - mean)).sum(dtype=torch.float64)
        error += (row_energy * row_weight).sum(dtype=torch.float64)
        d_hidden = torch.addmm(bias @ weight, hidden, weight.T @ weight)  # (W^T)(W h + b)
        d_hidden -= matmul(x, weight)
        d_hidden *= 2 * row_weight[:, None]
        ctx.save_for_backward(d_hidden, 2 * (by_gram - cross + torch.outer(bias, total)), 2 * by_total)
        return error.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return grads[0] * d_hidden, grads[0] * d_weight, grads[0] * d_bias, None, None, None


class _BlockedError(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, x: Tensor | SparseMatrix, row_weight: Tensor) -> Tensor:
        error = torch.zeros((), dtype=torch.float64, device=hidden.device)
        d_hidden, d_weight, d_bias = torch.empty_like(hidden), torch.zeros_like(weight), torch.zeros_like(bias)
        step = max(1, _BLOCK // weight.shape[0])
        for start in range(0, hidden.shape[0], step):
            rows = torch.arange(start, min(start + step, hidden.shape[0]), device=hidden.device)
            block = hidden[start : start + step]
            residual = torch.addmm(bias, block, weight.T) - to_dense(take_rows(x, rows))
            weighted = residual * row_weight[start : start + step, None]
            error += (residual * weighted).sum(dtype=torch.float64)
            d_hidden[start : start + step] = 2 * weighted @ weight
            d_weight.addmm_(weighted.T, block, alpha=2)
            d_bias += 2 * weighted.sum(0)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return error.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return grads[0] * d_hidden, grads[0] * d_weight, grads[0] * d_bias, None, None
