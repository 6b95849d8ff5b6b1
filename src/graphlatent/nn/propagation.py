"""The propagation matrices of GCN and GIN, and the product `matrix @ x @ weight`.

Matrices are computed in float64 and cast by the caller, so that all dtypes start from the same
values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphlatent.data.batches import EdgeList, Structure
from graphlatent.errors import InputError
from graphlatent.ops.sparse import Features, SparseMatrix, matmul


def gcn_matrix(edges: EdgeList) -> SparseMatrix:
    """D^-1/2 A D^-1/2 with a self-loop at every node, [N, N], as in PyG's `GCNConv`.

    Rows are targets. A self-loop of the graph is kept with its weight; other nodes get one of
    weight 1. D is the sum of incoming weights, or `edges.degree` where that is given.

    Raises:
        InputError: where an edge weight is negative.
    """
    source, target = edges.edge_index
    weight = edge_weights(edges)
    refuse_negative(weight)
    size = edges.num_nodes
    without_loop = torch.ones(size, dtype=torch.bool, device=source.device)
    without_loop[source[source == target]] = False
    added = torch.nonzero(without_loop)[:, 0]
    row, col = torch.cat([target, added]), torch.cat([source, added])
    value = torch.cat([weight, weight.new_ones(added.numel())])
    degree = edges.degree
    if degree is None:
        degree = value.new_zeros(size).index_add(0, row, value)
    scale = gcn_scale(degree)
    value = scale[row] * value * scale[col]
    return SparseMatrix.from_coo(row, col, value, (size, size), symmetric=edges.undirected)


def gcn_scale(degree: Tensor) -> Tensor:
    """D^-1/2 of the degrees of all nodes with their self-loops [N]; 0 where the degree is 0."""
    return torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)


def gin_matrix(edges: EdgeList) -> SparseMatrix:
    """A + I, [N, N], as in PyG's `GINConv` with eps = 0.

    Rows are targets. A self-loop of the graph is added to the identity.
    """
    source, target = edges.edge_index
    weight = edge_weights(edges)
    size, loop = edges.num_nodes, source == target
    diagonal = weight.new_ones(size).index_add(0, source[loop], weight[loop])
    node = torch.arange(size, device=source.device)
    row, col = torch.cat([target[~loop], node]), torch.cat([source[~loop], node])
    value = torch.cat([weight[~loop], diagonal])
    return SparseMatrix.from_coo(row, col, value, (size, size), symmetric=edges.undirected)


def as_gcn_matrix(structure: Structure, *, kind: str | None, dtype: torch.dtype) -> SparseMatrix:
    """The matrix of `gcn_matrix` from what any encoder propagates with, [N, N].

    Negative weights, which `gcn_matrix` refuses, count with their absolute values in D.

    Args:
        structure: edges, or the matrix of a built-in encoder.
        kind: kind of that encoder, 'gcn' or 'gin'.
        dtype: of the result for edges; a matrix keeps its own.
    """
    if isinstance(structure, EdgeList):
        return _gcn_from_gin(gin_matrix(structure), structure.degree).to(dtype=dtype)
    if kind not in ("gcn", "gin"):
        raise TypeError(
            "cannot tell what the encoder's matrix is: override Method.smoothing_matrix, which"
            " returns D^-1/2 (A + I) D^-1/2"
        )
    return structure if kind == "gcn" else _gcn_from_gin(structure)


def _gcn_from_gin(matrix: SparseMatrix, degree: Tensor | None = None) -> SparseMatrix:
    """The matrix of a GCN layer from that of a GIN layer, A + I; `degree` as of `EdgeList`."""
    row, value = matrix.row, matrix.value
    # GIN adds a self-loop of weight 1 to every node, GCN to those without one.
    looped = (row == matrix.col) & (value != 1)
    value = torch.where(looped, value - 1, value)
    if degree is None:
        degree = value.new_zeros(matrix.shape[0]).index_add(0, row, value.abs())
    scale = torch.where(degree > 0, degree, 1.0).rsqrt()
    value = scale[row] * value * scale[matrix.col]
    return SparseMatrix(matrix.crow, matrix.col, value, matrix.shape, matrix.symmetric)


def propagate(matrix: SparseMatrix, x: Features, weight: Tensor, bias: Tensor) -> Tensor:
    """`matrix @ x @ weight + bias`, [N, H], in the order with fewer multiplications.

    Weight and bias are cast to the dtype of a dense `x`.
    """
    if isinstance(x, Tensor):
        weight, bias = weight.to(x.dtype), bias.to(x.dtype)
    if isinstance(x, Tensor) and widens(weight):
        return torch.addmm(bias, matrix.matmul(x), weight)
    return matrix.matmul(matmul(x, weight), bias)


def widens(weight: Tensor) -> bool:
    """Whether rows have fewer columns before they are multiplied by `weight` than after it."""
    return weight.shape[0] < weight.shape[1]


def refuse_negative(weight: Tensor) -> None:
    """Raise an `InputError` where an edge weight is negative."""
    if bool((weight < 0).any()):
        raise InputError(
            "encoder='gcn' needs edge weights of 0 or more, since it divides by their sum. Use"
            " encoder='gin', or shift them."
        )


def edge_weights(edges: EdgeList) -> Tensor:
    """The weights of the edges in float64, [E]; 1 where they have none."""
    if edges.edge_weight is not None:
        return edges.edge_weight.to(torch.float64)
    index = edges.edge_index
    return torch.ones(index.shape[1], dtype=torch.float64, device=index.device)
