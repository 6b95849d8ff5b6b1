"""Decoders, which reconstruct features from the encoder's last layer."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from graphlatent.data.batches import Structure
from graphlatent.nn.encoders import LAYERS, Kind, initialise
from graphlatent.nn.norm import BatchNorm
from graphlatent.ops.sparse import SparseMatrix


def linear(in_dim: int, out_dim: int) -> nn.Linear:
    """An uninitialised linear layer: torch would initialise it from the global generator."""
    layer: nn.Linear = skip_init(  # type: ignore[no-untyped-call]
        nn.Linear, in_dim, out_dim, dtype=torch.float32
    )
    return layer


class MLPDecoder(nn.Module):
    """An MLP with ReLU and batch norm after every layer but the last.

    Args:
        in_dim: width of the encoder's last layer, H.
        out_dim: features of a node, F.
        num_layers: depth; 1 is a linear map.
        relu_output: apply ReLU to the output, as the released scripts do.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        num_layers: int = 1,
        relu_output: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = [in_dim] * num_layers + [out_dim]
        self.linears = nn.ModuleList(linear(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(BatchNorm(in_dim) for _ in range(num_layers - 1))
        self.relu_output = relu_output
        initialise(self, generator)

    def forward(self, hidden: Tensor, structure: Structure) -> Tensor:
        """Reconstructed features, [N, F]."""
        out: Tensor = self.linears[-1](self.body(hidden))
        return torch.relu(out) if self.relu_output else out

    def body(self, hidden: Tensor) -> Tensor:
        """The output of all but the last linear layer, [N, H], in the decoder's dtype."""
        hidden = hidden.to(self.linears[0].weight.dtype)  # type: ignore[arg-type]
        for linear, norm in zip(self.linears, self.norms, strict=False):
            hidden = norm(torch.relu(linear(hidden)))
        return hidden


class GNNDecoder(nn.Module):
    """The decoder with graph convolutions in place of linear layers.

    It is allowed at graph level only (Corollary 2 of the paper).
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        kind: Kind,
        num_layers: int = 1,
        relu_output: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = [in_dim] * num_layers + [out_dim]
        self.convs = nn.ModuleList(LAYERS[kind](a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(BatchNorm(in_dim) for _ in range(num_layers - 1))
        self.relu_output = relu_output
        initialise(self, generator)

    def forward(self, hidden: Tensor, structure: Structure) -> Tensor:
        """Reconstructed features, [N, F]."""
        if not isinstance(structure, SparseMatrix):
            raise TypeError("a GNN decoder needs a propagation matrix, not an edge list")
        for conv, norm in zip(self.convs, self.norms, strict=False):
            hidden = norm(torch.relu(conv(hidden, structure)))
        out: Tensor = self.convs[-1](hidden, structure)
        return torch.relu(out) if self.relu_output else out
