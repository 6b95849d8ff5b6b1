"""The end of an encoder layer, activation and batch norm, as one differentiable step that keeps
nothing but its input.

The numbers are those of `GNNEncoder.finish` in training, its specification. What it does better:
the activation is made again in the backward pass instead of being kept, and so is the masked view's
input, which is the plain view's plus a few products with masked columns. On a GPU both passes are
kernels of their own (kernels/norm.py). Shapes: N rows, H columns, R masked nodes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.nn.norm import BatchNorm
from graphlatent.ops.kernels import usable
from graphlatent.ops.masked import Slice


def finish(encoder: GNNEncoder, i: int, inner: Tensor, *, limit: Tensor | None = None) -> Tensor:
    """Layer `i` from its linear part `inner` [N, H] on, [N, H]; rows from `limit` on are
    padding.
    """
    return _finish(encoder, i, encoder.convs[i].outer(inner), limit)  # type: ignore[operator]


def finish_masked(
    encoder: GNNEncoder, inner: Tensor, part: Slice, change: Tensor, *, limit: Tensor | None = None
) -> Tensor:
    """The masked view's first layer, [N, H], from the plain view's linear part `inner` [N, H] and
    its `change` [R, H] on masked nodes.
    """
    if encoder.kind == "gcn":
        return _finish(encoder, 0, inner, limit, part, change)
    return finish(encoder, 0, part.spread(change, inner), limit=limit)


def finish_both(
    encoder: GNNEncoder, i: int, inner: Tensor, *, limit: Tensor | None = None
) -> Tensor:
    """Layer `i` of both views side by side, [N, 2 H], from their linear parts [N, 2 H]; each has
    its own statistics.
    """
    rows, width = inner.shape
    if encoder.kind == "gin":
        inner = encoder.convs[i].outer(inner.view(2 * rows, width // 2)).view(rows, width)  # type: ignore[operator]
    return _finish(encoder, i, inner, limit)


def relu_norm(x: Tensor, norm: BatchNorm, *, limit: Tensor | None = None) -> Tensor:
    """Batch norm of ReLU, [N, H], as a decoder has it between layers."""
    out: Tensor = _ActivateNorm.apply(x, None, None, None, norm.weight, norm.bias, norm.eps, limit)  # type: ignore[no-untyped-call]
    return out


def decoder_body(decoder: MLPDecoder, hidden: Tensor, *, limit: Tensor | None = None) -> Tensor:
    """All but the last linear layer of a decoder, [N, H]; of a deep one in the decoder's own
    precision.
    """
    for linear, norm in zip(decoder.linears, decoder.norms, strict=False):
        assert isinstance(norm, BatchNorm)
        hidden = relu_norm(linear(hidden.to(norm.weight.dtype)), norm, limit=limit)
    return hidden


def pick(hidden: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(hidden [N, H], its rows [R, H]); the rows' gradient is added to the rest in place instead of
    as a matrix of zeros.
    """
    both: tuple[Tensor, Tensor] = _Pick.apply(hidden, rows)  # type: ignore[no-untyped-call]
    return both


def pick_columns(both: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """(both [N, M], its first columns [N, width]), the gradient put together as in `pick`."""
    parts: tuple[Tensor, Tensor] = _PickColumns.apply(both, width)  # type: ignore[no-untyped-call]
    return parts


def _finish(
    encoder: GNNEncoder,
    i: int,
    z: Tensor,
    limit: Tensor | None,
    part: Slice | None = None,
    change: Tensor | None = None,
) -> Tensor:
    activation = encoder.activations[i]
    slope = activation.weight if isinstance(activation, nn.PReLU) else None
    norm = encoder.norms[i] if i < len(encoder.norms) else None
    gamma = beta = None
    if isinstance(norm, BatchNorm):
        views = z.shape[1] // norm.weight.numel()
        gamma, beta = (
            (norm.weight, norm.bias)
            if views == 1
            else (norm.weight.repeat(views), norm.bias.repeat(views))
        )
    eps = norm.eps if isinstance(norm, BatchNorm) else 0.0
    out: Tensor = _ActivateNorm.apply(z, part, change, slope, gamma, beta, eps, limit)  # type: ignore[no-untyped-call]
    return out


class _Pick(torch.autograd.Function):
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
        part: Slice | None,
        change: Tensor | None,
        slope: Tensor | None,
        gamma: Tensor | None,
        beta: Tensor | None,
        eps: float,
        limit: Tensor | None,
    ) -> Tensor:
        z = base if part is None or change is None else part.raw_spread(change, base)
        if _on_gpu(z):
            from graphlatent.ops.kernels.norm import activate_norm

            out, mean, rstd = activate_norm(z, slope, gamma, beta, eps=eps, limit=limit)
        else:
            out, mean, rstd = _forward(z[:limit], slope, gamma, beta, eps)
            out = (
                out if limit is None else functional.pad(out, (0, 0, 0, z.shape[0] - out.shape[0]))
            )
        ctx.part, ctx.eps, ctx.limit = part, eps, limit
        ctx.save_for_backward(base, change, slope, gamma, mean, rstd)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        base, change, slope, gamma, mean, rstd = ctx.saved_tensors
        z = base if change is None else ctx.part.raw_spread(change, base)
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
        d_change = None if change is None else ctx.part.flipped.raw_take(d_z)
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
