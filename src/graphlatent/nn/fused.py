"""The ends of encoder and decoder layers through the fused operation of ops/fused.py.

The numbers are those of `GNNEncoder.post_linear` and `MLPDecoder.body` in training, the
specification; memory and time are less. Shapes: N rows, H columns, R masked nodes.
"""

from __future__ import annotations

from torch import Tensor, nn

from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.nn.norm import BatchNorm
from graphlatent.ops.fused import activate_and_normalize
from graphlatent.ops.masked import MaskedOperator


def post_linear(encoder: GNNEncoder, i: int, z: Tensor, *, limit: Tensor | None = None) -> Tensor:
    """Layer `i` from its linear part `z` [N, H] on, [N, H]; rows from `limit` on are padding."""
    return _end(encoder, i, encoder.convs[i].row_wise(z), limit)  # type: ignore[operator]


def post_linear_masked(
    encoder: GNNEncoder,
    z: Tensor,
    operator: MaskedOperator,
    change: Tensor,
    *,
    limit: Tensor | None = None,
) -> Tensor:
    """The masked view's first layer, [N, H].

    Args:
        encoder: GCN or GIN.
        z: linear part of the plain view's first layer, [N, H].
        operator: the propagation matrix's masked columns.
        change: what masking adds to the linear part on masked nodes, [R, H].
        limit: rows from there on are padding.
    """
    if encoder.kind == "gcn":
        return _end(encoder, 0, z, limit, operator, change)
    return post_linear(encoder, 0, operator.scatter(change, z), limit=limit)


def post_linear_pair(
    encoder: GNNEncoder, i: int, z: Tensor, *, limit: Tensor | None = None
) -> Tensor:
    """Layer `i` of both views side by side, [N, 2 H], from their linear parts [N, 2 H].

    Each view has its own batch-norm statistics.
    """
    rows, width = z.shape
    if encoder.kind == "gin":
        stacked = z.view(2 * rows, width // 2)
        z = encoder.convs[i].row_wise(stacked).view(rows, width)  # type: ignore[operator]
    return _end(encoder, i, z, limit)


def decoder_body(decoder: MLPDecoder, hidden: Tensor, *, limit: Tensor | None = None) -> Tensor:
    """All but the last linear layer, [N, H]; of a deep decoder in the decoder's own precision."""
    for linear, norm in zip(decoder.linears, decoder.norms, strict=False):
        assert isinstance(norm, BatchNorm)
        z = linear(hidden.to(norm.weight.dtype))
        hidden = activate_and_normalize(
            z, gamma=norm.weight, beta=norm.bias, eps=norm.eps, limit=limit
        )
    return hidden


def _end(
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
