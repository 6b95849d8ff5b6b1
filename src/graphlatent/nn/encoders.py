"""GCN and GIN encoders, and the adapter for custom encoders.

A layer is a convolution, an activation and batch norm. The last layer has no batch norm, as in the
paper; the released scripts have one (`last_norm=True`). Edges with features need GIN, whose layers
are then those of GINE.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from graphlatent.config import Settings
from graphlatent.data.batches import EdgeList, Structure
from graphlatent.data.edges import is_symmetric
from graphlatent.errors import ConfigError, InputError
from graphlatent.nn.norm import BatchNorm
from graphlatent.nn.propagation import gcn_matrix, gin_matrix, propagate
from graphlatent.ops.messages import message_sum
from graphlatent.ops.sparse import Features, SparseMatrix, matmul, to_dense

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


class GINELayer(GINLayer):
    """`MLP(x_v + sum_e w_e ReLU(x_u + a_e W_e + b_e))` over the edges e from u to v.

    A GIN layer with edge features (`Hu et al. 2020 <https://arxiv.org/abs/1905.12265>`_), as PyG's
    `GINEConv`; edge weights w_e are factors of the messages. Messages are not linear in x, so the
    fast path does not apply to this layer.
    """

    def __init__(self, in_dim: int, out_dim: int, edge_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        self.weight_edge = nn.Parameter(torch.empty(edge_dim, in_dim, dtype=torch.float32))
        self.bias_edge = nn.Parameter(torch.zeros(in_dim))

    def linear_part(self, x: Features, matrix: Structure) -> Tensor:
        """The first layer of the MLP before its activation, [N, out_dim]."""
        rows = to_dense(x)
        if not isinstance(matrix, EdgeList):
            raise TypeError("a layer with edge features needs an edge list, not a matrix")
        parameters = (self.weight_edge, self.bias_edge, self.weight, self.bias)
        weight_edge, bias_edge, weight, bias = (p.to(rows.dtype) for p in parameters)
        total = rows + message_sum(rows, matrix.messages, weight_edge, bias_edge)
        return torch.addmm(bias, total, weight)


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
        edge_dim: features of an edge, D; 0 for none. With edge features the kind must be 'gin', and
            a linear map to width H stands before the first layer, in which features of nodes and
            edges are then added.
        generator: source of the initial weights.

    Raises:
        ConfigError: where there are edge features and the kind is 'gcn'.
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
        edge_dim: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if edge_dim and kind != "gin":
            raise no_edge_features(f"encoder='{kind}'")
        self.kind, self.norm_first, self.edge_dim = kind, norm_first, edge_dim
        self.out_dim = hidden_dim if out_dim is None else out_dim
        prelu = activation == "prelu" or (activation == "auto" and kind == "gcn")
        widths = [in_dim] + [hidden_dim] * (num_layers - 1) + [self.out_dim]
        if edge_dim:
            # Uninitialised: torch would initialise it from the global generator.
            self.embed_features = skip_init(  # type: ignore[no-untyped-call]
                nn.Linear, in_dim, hidden_dim, bias=False, dtype=torch.float32
            )
            widths[0] = hidden_dim
            self.convs = nn.ModuleList(GINELayer(a, b, edge_dim) for a, b in pairwise(widths))
        else:
            self.convs = nn.ModuleList(LAYERS[kind](a, b) for a, b in pairwise(widths))
        self.activations = nn.ModuleList(nn.PReLU() if prelu else nn.ReLU() for _ in self.convs)
        normalized = widths[1:] if last_norm else widths[1:-1]
        self.norms = nn.ModuleList(BatchNorm(width) for width in normalized)
        initialise(self, generator)

    def prepare(self, edges: EdgeList) -> Structure:
        """The propagation matrix of these edges, or the edges where the encoder uses features."""
        return edges if self.edge_dim else MATRICES[self.kind](edges)

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The output of every layer, each [N, H]."""
        if isinstance(structure, SparseMatrix) == bool(self.edge_dim):
            raise TypeError(
                "a built-in encoder needs a propagation matrix, or with edge features an edge list"
            )
        outputs: list[Tensor] = []
        hidden: Features = x
        if self.edge_dim:
            dtype = x.dtype if isinstance(x, Tensor) else self.embed_features.weight.dtype
            hidden = matmul(x, self.embed_features.weight.T.to(dtype))
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

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """The last layer's output, [N, H], from plain tensors, for use outside graphlatent."""
        if self.edge_dim:
            edges = EdgeList(edge_index, edge_weight, x.shape[0], False, edge_attr)
            return self.layers(x, edges)[-1]
        if edge_attr is not None:
            raise no_edge_features("an encoder with edge_dim=0")
        undirected = is_symmetric(edge_index, edge_weight, num_nodes=x.shape[0])
        edges = EdgeList(edge_index, edge_weight, x.shape[0], undirected)
        return self.layers(x, self.prepare(edges).to(x.device, x.dtype))[-1]


class CustomEncoder(nn.Module):
    """A user's module `(x, edge_index, edge_weight) -> [N, H]` with the interface of an encoder.

    The module receives dense features and plain edges. It counts as one layer, so a graph's
    embedding pools its output. Edge features are passed as `edge_attr`.

    Args:
        module: the user's module.
        in_dim: features of a node, F.
        edge_dim: features of an edge, D; 0 for none.

    Raises:
        ConfigError: where there are edge features and the module has no argument `edge_attr`, or
            the module has no parameters.
        InputError: where it fails on features of this width.
    """

    def __init__(self, module: nn.Module, in_dim: int, *, edge_dim: int = 0) -> None:
        super().__init__()
        if edge_dim and "edge_attr" not in inspect.signature(module.forward).parameters:
            raise no_edge_features(f"The custom encoder {type(module).__name__}")
        self.module, self.edge_dim = module, edge_dim
        self.out_dim = self._measure_width(in_dim)

    def prepare(self, edges: EdgeList) -> EdgeList:
        """The edges, unchanged."""
        return edges

    def layers(self, x: Features, structure: Structure) -> list[Tensor]:
        """The module's output as the only layer, [[N, H]]."""
        if isinstance(structure, SparseMatrix):
            raise TypeError("a custom encoder needs an edge list, not a propagation matrix")
        dense = to_dense(x).contiguous()
        features = {"edge_attr": structure.edge_attr} if self.edge_dim else {}
        out = self.module(dense, structure.edge_index, structure.edge_weight, **features)
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
        attr = x.new_zeros(2, self.edge_dim) if self.edge_dim else None
        index = torch.tensor([[0, 1], [1, 0]], device=x.device)
        edges = EdgeList(index, None, 2, edge_attr=attr)
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


def no_edge_features(owner: str) -> ConfigError:
    """The error where an encoder cannot use the features that edges have."""
    return ConfigError(
        f"{owner} does not use edge features. Use encoder='gin', or read the graph without them"
        " (edge_features=[], --edge-features '' on the command line)."
    )


def build_encoder(
    settings: Settings,
    in_dim: int,
    *,
    edge_dim: int = 0,
    out_dim: int | None = None,
    last_norm: bool = False,
    norm_first: bool = False,
    generator: torch.Generator,
) -> GNNEncoder | CustomEncoder:
    """A newly initialised encoder: GCN, GIN or a custom module, according to the settings.

    `edge_dim`, `out_dim`, `last_norm` and `norm_first` are those of `GNNEncoder`; the last three
    are ignored for a custom module.
    """
    if isinstance(settings.encoder, nn.Module):
        return CustomEncoder(settings.encoder, in_dim, edge_dim=edge_dim)
    return GNNEncoder(
        in_dim,
        kind=settings.encoder,
        hidden_dim=settings.hidden_dim,
        num_layers=settings.num_layers,
        out_dim=out_dim,
        activation=settings.activation,
        last_norm=last_norm,
        norm_first=norm_first,
        edge_dim=edge_dim,
        generator=generator,
    )
