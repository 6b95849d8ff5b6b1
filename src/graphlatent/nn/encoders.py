"""GCN and GIN encoders, and the adapter for custom encoders.

A layer is a convolution, an activation and batch norm. The last layer has no batch norm, as in the
paper; the released scripts have one (`last_norm=True`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from graphlatent.config import Settings
from graphlatent.data.batches import EdgeList, Structure
from graphlatent.data.edges import is_symmetric
from graphlatent.errors import ConfigError, InputError
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

    def linear_part(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """The part of the layer that is linear in `x`, [N, out_dim]."""
        return propagate(matrix, x, self.weight, self.bias)

    def row_wise(self, z: Tensor) -> Tensor:
        """The row-wise function after the linear part: the identity."""
        return z

    def forward(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """Convolved rows, [N, out_dim]."""
        return self.row_wise(self.linear_part(x, matrix))


class GINLayer(nn.Module):
    """`MLP((A + I) X)` with a two-layer MLP and eps fixed at 0 (Xu et al. 2019)."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.weight2 = nn.Parameter(torch.empty(out_dim, out_dim, dtype=torch.float32))
        self.bias2 = nn.Parameter(torch.zeros(out_dim))

    def linear_part(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """The part of the layer that is linear in `x`, [N, out_dim].

        The first layer of the MLP and the sum over neighbours commute.
        """
        return propagate(matrix, x, self.weight, self.bias)

    def row_wise(self, z: Tensor) -> Tensor:
        """The row-wise function after the linear part: the rest of the MLP."""
        weight, bias = self.weight2.to(z.dtype), self.bias2.to(z.dtype)
        return torch.addmm(bias, torch.relu(z), weight)

    def forward(self, x: Features, matrix: SparseMatrix) -> Tensor:
        """Convolved rows, [N, out_dim]."""
        return self.row_wise(self.linear_part(x, matrix))


LAYERS: dict[str, type[GCNLayer] | type[GINLayer]] = {"gcn": GCNLayer, "gin": GINLayer}
MATRICES: dict[str, Callable[[EdgeList], SparseMatrix]] = {"gcn": gcn_matrix, "gin": gin_matrix}


def initialise(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Set the weights of every layer in `module` Xavier-uniform and its biases to 0.

    Batch norms and PReLU slopes are left as they are.
    """
    for layer in module.modules():
        if isinstance(layer, (GCNLayer, GINLayer, nn.Linear)):
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("weight"):
                    nn.init.xavier_uniform_(parameter, generator=generator)
                else:
                    nn.init.zeros_(parameter)


class Encoder(Protocol):
    """The interface of an encoder."""

    out_dim: int

    def prepare(self, edges: EdgeList) -> Structure:
        """The structure that `layers` propagates with, computed once for fixed edges."""

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The output of every layer, each [N, H]."""


class GNNEncoder(nn.Module):
    """A GCN or GIN of any depth and width.

    Args:
        in_dim: features of a node, F.
        kind: 'gcn' or 'gin'.
        hidden_dim: width of every layer, H.
        num_layers: number of layers.
        out_dim: width of the last layer; None means `hidden_dim`.
        activation: 'prelu' (one slope per layer, initially 0.25) or 'relu'; 'auto' is PReLU for
            GCN and ReLU for GIN.
        last_norm: batch norm in the last layer too.
        norm_first: batch norm before the activation instead of after it.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        in_dim: int,
        *,
        kind: Kind = "gcn",
        hidden_dim: int = 512,
        num_layers: int = 2,
        out_dim: int | None = None,
        activation: str = "auto",
        last_norm: bool = False,
        norm_first: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.kind, self.norm_first = kind, norm_first
        self.out_dim = hidden_dim if out_dim is None else out_dim
        prelu = activation == "prelu" or (activation == "auto" and kind == "gcn")
        widths = [in_dim] + [hidden_dim] * (num_layers - 1) + [self.out_dim]
        self.convs = nn.ModuleList(LAYERS[kind](a, b) for a, b in pairwise(widths))
        self.activations = nn.ModuleList(nn.PReLU() if prelu else nn.ReLU() for _ in self.convs)
        normalized = widths[1:] if last_norm else widths[1:-1]
        self.norms = nn.ModuleList(BatchNorm(width) for width in normalized)
        initialise(self, generator)

    def prepare(self, edges: EdgeList) -> SparseMatrix:
        """The propagation matrix of these edges."""
        return MATRICES[self.kind](edges)

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The output of every layer, each [N, H]."""
        if not isinstance(structure, SparseMatrix):
            raise TypeError("a built-in encoder needs a propagation matrix, not an edge list")
        outputs: list[Tensor] = []
        hidden: Features = x
        for i, conv in enumerate(self.convs):
            z = conv.linear_part(hidden, structure)  # type: ignore[operator]
            hidden = self.post_linear(i, z)
            outputs.append(hidden)
        return outputs

    def post_linear(self, i: int, z: Tensor) -> Tensor:
        """The output of layer `i`, [N, H], from its linear part `z` [N, H].

        Applies the rest of the convolution, the activation and, if the layer has one, batch norm.
        """
        steps = [self.convs[i].row_wise, self.activations[i]]
        if i < len(self.norms):
            steps.insert(1 if self.norm_first else 2, self.norms[i])
        for step in steps:
            z = step(z)  # type: ignore[operator]
        return z

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The last layer's output, [N, H], from plain tensors, for use outside graphlatent."""
        undirected = is_symmetric(edge_index, edge_weight, num_nodes=x.shape[0])
        edges = EdgeList(edge_index, edge_weight, x.shape[0], undirected)
        return self.layers(x, self.prepare(edges).to(x.device, x.dtype))[-1]


class CustomEncoder(nn.Module):
    """A user's module `(x, edge_index, edge_weight) -> [N, H]` with the interface of an encoder.

    The module receives dense features and plain edges. It counts as one layer, so a graph's
    embedding pools its output.

    Args:
        module: the user's module.
        in_dim: features of a node, F.
    """

    def __init__(self, module: nn.Module, in_dim: int) -> None:
        super().__init__()
        self.module = module
        self.out_dim = self._measure_width(in_dim)

    def prepare(self, edges: EdgeList) -> EdgeList:
        """The edges, unchanged."""
        return edges

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The module's output as the only layer, [[N, H]]."""
        if isinstance(structure, SparseMatrix):
            raise TypeError("a custom encoder needs an edge list, not a propagation matrix")
        dense = to_dense(x).contiguous()
        out = self.module(dense, structure.edge_index, structure.edge_weight)
        if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[0] != dense.shape[0]:
            got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise InputError(
                f"The custom encoder {type(self.module).__name__} must return one row per node, a"
                f" tensor of shape ({dense.shape[0]}, H). Got {got}."
            )
        return [out]

    def _measure_width(self, in_dim: int) -> int:
        """The width of the module's output, found by running it on a graph of one edge."""
        parameter = next(self.module.parameters(), None)
        if parameter is None:
            raise ConfigError("The custom encoder has no parameters, so there is nothing to train.")
        x = torch.zeros(2, in_dim, dtype=parameter.dtype, device=parameter.device)
        edges = EdgeList(torch.tensor([[0, 1], [1, 0]], device=x.device), None, 2)
        was_training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                return int(self.layers(x, edges)[-1].shape[1])
        except (RuntimeError, ValueError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"The custom encoder {type(self.module).__name__} failed on features of width"
                f" {in_dim}: {error}. It must take (x, edge_index, edge_weight) and accept that"
                " width."
            ) from error
        finally:
            self.module.train(was_training)


def build_encoder(
    settings: Settings,
    in_dim: int,
    *,
    out_dim: int | None = None,
    last_norm: bool = False,
    norm_first: bool = False,
    generator: torch.Generator,
) -> GNNEncoder | CustomEncoder:
    """A newly initialised encoder: GCN, GIN or a custom module, according to the settings.

    `out_dim`, `last_norm` and `norm_first` are those of `GNNEncoder` and ignored for a custom
    module.
    """
    if isinstance(settings.encoder, nn.Module):
        return CustomEncoder(settings.encoder, in_dim)
    return GNNEncoder(
        in_dim,
        kind=settings.encoder,
        hidden_dim=settings.hidden_dim,
        num_layers=settings.num_layers,
        out_dim=out_dim,
        activation=settings.activation,
        last_norm=last_norm,
        norm_first=norm_first,
        generator=generator,
    )
