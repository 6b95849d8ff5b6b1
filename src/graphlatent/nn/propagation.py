"""The two matrices that built-in layers multiply with, and the product with a weight in the cheaper
order.

Matrices are made in float64 and cast by the caller, so that every precision starts from the same
numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphlatent.data.batches import EdgeList
from graphlatent.errors import InputError
from graphlatent.ops.sparse import Features, SparseMatrix, matmul


def gcn_matrix(edges: EdgeList) -> SparseMatrix:
    """D^-1/2 A D^-1/2 with a self-loop at every node, [N, N], row = target: PyG's `GCNConv`.

    A node that has a self-loop keeps it, with its weight; the others get one of weight 1. D counts
    incoming weight.
    """
    source, target = edges.edge_index
    weight = _weights(edges)
    if edges.edge_weight is not None and bool((weight < 0).any()):
        raise InputError(
            "encoder='gcn' needs edge weights of 0 or more, since it divides by their sum. Use"
            " encoder='gin', or shift them."
        )
    loops = torch.ones(edges.num_nodes, dtype=torch.bool, device=source.device)
    loops[source[source == target]] = False
    added = torch.nonzero(loops)[:, 0]
    row, col = torch.cat([target, added]), torch.cat([source, added])
    value = torch.cat([weight, weight.new_ones(added.numel())])
    degree = torch.zeros(edges.num_nodes, dtype=torch.float64, device=value.device).index_add(
        0, row, value
    )
    scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
    return SparseMatrix.from_coo(
        row,
        col,
        scale[row] * value * scale[col],
        (edges.num_nodes, edges.num_nodes),
        symmetric=edges.undirected,
    )


def gin_matrix(edges: EdgeList) -> SparseMatrix:
    """A + I, [N, N], row = target: PyG's `GINConv` with eps = 0 (a self-loop in the graph counts
    once more).
    """
    source, target = edges.edge_index
    weight = _weights(edges)
    loop = source == target
    own = torch.ones(edges.num_nodes, dtype=torch.float64, device=weight.device).index_add(
        0, source[loop], weight[loop]
    )
    every = torch.arange(edges.num_nodes, device=source.device)
    row, col = torch.cat([target[~loop], every]), torch.cat([source[~loop], every])
    value = torch.cat([weight[~loop], own])
    return SparseMatrix.from_coo(
        row, col, value, (edges.num_nodes, edges.num_nodes), symmetric=edges.undirected
    )


def propagate(matrix: SparseMatrix, x: Features, weight: Tensor, bias: Tensor) -> Tensor:
    """`matrix @ x @ weight + bias`, [N, H], in the order that multiplies less, and in the type of a
    dense `x`.
    """
    if isinstance(x, Tensor):
        weight, bias = weight.to(x.dtype), bias.to(x.dtype)
    if isinstance(x, Tensor) and weight.shape[0] < weight.shape[1]:
        return torch.addmm(bias, matrix.matmul(x), weight)
    return matrix.matmul(matmul(x, weight), bias)


def _weights(edges: EdgeList) -> Tensor:
    if edges.edge_weight is not None:
        return edges.edge_weight.to(torch.float64)
    return torch.ones(
        edges.edge_index.shape[1], dtype=torch.float64, device=edges.edge_index.device
    )
