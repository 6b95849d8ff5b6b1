"""An upper bound on the Lipschitz constant of a decoder, which the corollaries need."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from graphlatent.errors import ConfigError
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.norm import BatchNorm


@torch.no_grad()
def lipschitz_constant(decoder: nn.Module) -> float:
    """Product of the spectral norms of a decoder's linear layers, with respect to the l2-norm.

    ReLU has constant 1. A batch norm in evaluation mode multiplies each column by a fixed number,
    which is folded into the linear layer after it. (In training mode it has no such constant: it
    divides by a deviation that depends on the other rows.)

    Args:
        decoder: an `MLPDecoder` whose batch-norm statistics were measured.

    Raises:
        ConfigError: where the decoder is another module.
    """
    if not isinstance(decoder, MLPDecoder):
        raise ConfigError(
            "The Lipschitz constant is known of decoder='mlp' only, since another decoder's rows"
            f" depend on each other. Got {type(decoder).__name__}. Use decoder='mlp'."
        )
    product = 1.0
    scale: Tensor | None = None
    for i, layer in enumerate(decoder.linears):
        weight = cast(nn.Linear, layer).weight.double()
        weight = weight if scale is None else weight * scale
        product *= float(torch.linalg.matrix_norm(weight, ord=2))
        if i < len(decoder.norms):
            norm = cast(BatchNorm, decoder.norms[i])
            scale = norm.weight.double() * torch.rsqrt(norm.var.double() + norm.eps)
    return product
