"""Activation and batch norm of encoder and decoder layers by the fused operation of ops/fused.py.

The results equal those of `GNNEncoder.post_linear` and `MLPDecoder.body` in training, which are
the specification, with less memory and time. Shapes: N rows, H columns, R masked nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.nn.norm import BatchNorm, normalize_by
from graphlatent.ops.fused import activate_and_normalize
from graphlatent.ops.masked import MaskedOperator


def post_linear(encoder: GNNEncoder, i: int, z: Tensor, *, limit: Tensor | None = None) -> Tensor:
    """The output of layer `i`, [N, H], from its linear part `z` [N, H].

    Rows from `limit` on are padding.
    """
    z = encoder.convs[i].row_wise(z)  # type: ignore[operator]
    return _activate_and_normalize(encoder, i, z, limit)


def post_linear_masked(
    encoder: GNNEncoder,
    z: Tensor,
    operator: MaskedOperator,
    change: Tensor,
    *,
    limit: Tensor | None = None,
) -> Tensor:
    """The output of the masked view's first layer, [N, H].

    Args:
        encoder: GCN or GIN.
        z: linear part of the plain view's first layer, [N, H].
        operator: the masked columns of the propagation matrix.
        change: change of x @ weight by masking, on masked nodes, [R, H].
        limit: number of rows that are not padding, int64 []; None means all.
    """
    if encoder.kind == "gcn":
        return _activate_and_normalize(encoder, 0, z, limit, operator, change)
    return post_linear(encoder, 0, operator.scatter(change, z), limit=limit)


def post_linear_pair(
    encoder: GNNEncoder, i: int, z: Tensor, *, limit: Tensor | None = None
) -> Tensor:
    """The output of layer `i` for both views side by side, [N, 2 H], from their linear parts.

    Each view has its own batch-norm statistics.
    """
    rows, width = z.shape
    stacked = z.view(2 * rows, width // 2)
    z = encoder.convs[i].row_wise(stacked).view(rows, width)  # type: ignore[operator]
    return _activate_and_normalize(encoder, i, z, limit)


def decoder_body(decoder: MLPDecoder, hidden: Tensor, *, limit: Tensor | None = None) -> Tensor:
    """The output of all but the last linear layer, [N, H]; `hidden` where there is only one."""
    for linear, norm in zip(decoder.linears, decoder.norms, strict=False):
        assert isinstance(norm, BatchNorm)
        z = linear(hidden.to(norm.weight.dtype))
        if norm.counted is not None:
            hidden = norm(torch.relu(z))
            continue
        hidden = activate_and_normalize(
            z, gamma=norm.weight, beta=norm.bias, eps=norm.eps, limit=limit
        )
    return hidden


def _activate_and_normalize(
    encoder: GNNEncoder,
    i: int,
    z: Tensor,
    limit: Tensor | None,
    operator: MaskedOperator | None = None,
    change: Tensor | None = None,
) -> Tensor:
    activation = encoder.activations[i]
    slope = activation.weight if isinstance(activation, nn.PReLU) else None
    norm = encoder.norms[i] if i < len(encoder.norms) else None
    gamma: Tensor | None = None
    beta: Tensor | None = None
    if isinstance(norm, BatchNorm):
        views = z.shape[1] // norm.weight.numel()
        gamma, beta = norm.weight, norm.bias
        if views > 1:
            gamma, beta = gamma.repeat(views), beta.repeat(views)
        if norm.counted is not None:
            if operator is not None and change is not None:
                z = operator.scatter(change, z)
            z = torch.relu(z) if slope is None else torch.prelu(z, slope.to(z.dtype))
            return normalize_by(z, norm.counted, gamma, beta, eps=norm.eps)
    return activate_and_normalize(
        z,
        slope=slope,
        gamma=gamma,
        beta=beta,
        eps=norm.eps if isinstance(norm, BatchNorm) else 0.0,
        limit=limit,
        operator=operator,
        change=change,
    )
