"""GCN and GIN encoders, and the adapter for the user's own.

A layer is convolution, activation, batch norm. The last one ends with its activation: no batch norm
anywhere inside it, as the paper says (the released scripts have one there: `last_norm=True`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from graphlatent.data.batches import EdgeList, Structure
from graphlatent.data.edges import is_symmetric
from graphlatent.errors import InputError
from graphlatent.nn.norm import BatchNorm
from graphlatent.nn.propagation import gcn_matrix, gin_matrix, propagate
from graphlatent.ops.sparse import Features, SparseMatrix, to_dense

Kind = Literal["gcn", "gin"]


class GCNLayer(nn.Module):
    """`A_hat X W + b` (Kipf and Welling 2017)."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros(out_dim))

    def inner(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """What is linear in `x`, [N, out_dim]."""
        return propagate(matrix, x, self.weight, self.bias)

    def outer(self, inner: Tensor) -> Tensor:
        """What follows, row by row: nothing."""
        return inner

    def forward(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """Convolved rows, [N, out_dim]."""
        return self.outer(self.inner(x, matrix))


class GINLayer(nn.Module):
    """`MLP((A + I) X)` with a two-layer MLP and eps fixed at 0 (Xu et al. 2019)."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.weight2 = nn.Parameter(torch.empty(out_dim, out_dim, dtype=torch.float32))
        self.bias2 = nn.Parameter(torch.zeros(out_dim))

    def inner(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """What is linear in `x`, [N, out_dim]: the first linear map and the sum over neighbours
        commute.
        """
        return propagate(matrix, x, self.weight, self.bias)

    def outer(self, inner: Tensor) -> Tensor:
        """What follows, row by row: the rest of the MLP."""
        return torch.addmm(
            self.bias2.to(inner.dtype), torch.relu(inner), self.weight2.to(inner.dtype)
        )

    def forward(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """Convolved rows, [N, out_dim]."""
        return self.outer(self.inner(x, matrix))


LAYERS: dict[str, type[GCNLayer] | type[GINLayer]] = {"gcn": GCNLayer, "gin": GINLayer}
MATRICES: dict[str, Callable[[EdgeList], SparseMatrix]] = {"gcn": gcn_matrix, "gin": gin_matrix}


def initialise(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Xavier-uniform weights and zero biases in every layer of `module`; batch norms and slopes
    keep their start.
    """
    for layer in module.modules():
        if isinstance(layer, (GCNLayer, GINLayer, nn.Linear)):
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("weight"):
                    nn.init.xavier_uniform_(parameter, generator=generator)
                else:
                    nn.init.zeros_(parameter)


class Encoder(Protocol):
    """What the model asks of an encoder."""

    def prepare(self, edges: EdgeList) -> Structure:
        """What `layers` propagates with, made once for a fixed graph."""

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The output of every layer, each [N, H]."""


class GNNEncoder(nn.Module):
    """A GCN or GIN of any depth and width.

    Args:
        in_dim: features of a node, F.
        kind: 'gcn' or 'gin'.
        hidden_dim: width of every layer, H.
        num_layers: depth.
        activation: 'prelu' (one slope a layer, starting at 0.25) or 'relu'; 'auto' is PReLU in GCN,
            ReLU in GIN.
        last_norm: batch norm after the last layer too.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        kind: Kind = "gcn",
        hidden_dim: int = 512,
        num_layers: int = 2,
        activation: str = "auto",
        last_norm: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.kind, self.out_dim = kind, hidden_dim
        prelu = activation == "prelu" or (activation == "auto" and kind == "gcn")
        widths = [in_dim] + [hidden_dim] * num_layers
        self.convs = nn.ModuleList(LAYERS[kind](a, b) for a, b in pairwise(widths))
        self.activations = nn.ModuleList(nn.PReLU() if prelu else nn.ReLU() for _ in self.convs)
        num_norms = num_layers if last_norm else num_layers - 1
        self.norms = nn.ModuleList(BatchNorm(hidden_dim) for _ in range(num_norms))
        initialise(self, generator)

    def prepare(self, edges: EdgeList) -> SparseMatrix:
        """The propagation matrix of these edges."""
        return MATRICES[self.kind](edges)

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The output of every layer, each [N, H]."""
        if not isinstance(structure, SparseMatrix):
            raise TypeError("a built-in encoder takes a prepared matrix")
        outputs: list[Tensor] = []
        hidden: Features = x
        for i, conv in enumerate(self.convs):
            hidden = self.finish(i, conv.inner(hidden, structure))  # type: ignore[operator]
            outputs.append(hidden)
        return outputs

    def finish(self, i: int, inner: Tensor) -> Tensor:
        """Layer `i` from its linear part on, [N, H]: the rest of the convolution, the activation,
        the batch norm where it has one.
        """
        out: Tensor = self.activations[i](self.convs[i].outer(inner))  # type: ignore[operator]
        if i < len(self.norms):
            out = self.norms[i](out)
        return out

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The last layer's output, [N, H], from plain tensors: for use outside of graphlatent."""
        undirected = is_symmetric(edge_index, edge_weight, num_nodes=x.shape[0])
        edges = EdgeList(edge_index, edge_weight, x.shape[0], undirected)
        return self.layers(x, self.prepare(edges).to(x.device, x.dtype))[-1]


class CustomEncoder(nn.Module):
    """The user's module `(x, edge_index, edge_weight) -> [N, H]` in the form the model asks for.

    The module gets dense features and plain edges; it counts as one layer, so a graph's embedding
    pools its output.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def prepare(self, edges: EdgeList) -> EdgeList:
        """The edges as they are."""
        return edges

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The module's output, as the only layer."""
        if isinstance(structure, SparseMatrix):
            raise TypeError("a custom encoder takes an EdgeList")
        dense = to_dense(x).contiguous()
        out = self.module(dense, structure.edge_index, structure.edge_weight)
        if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[0] != dense.shape[0]:
            got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise InputError(
                f"The custom encoder {type(self.module).__name__} must return one row per node, a"
                f" tensor of shape ({dense.shape[0]}, H). Got {got}."
            )
        return [out]
