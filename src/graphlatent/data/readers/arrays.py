"""Graphs from arrays and matrices: edge lists and sparse adjacencies, with or without features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphlatent.data.graph import RawGraph
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix


def is_adjacency(value: object) -> bool:
    """Whether the value is a sparse matrix (SciPy, torch or `SparseMatrix`).

    A sparse matrix is read as an adjacency, anything else as an edge list.
    """
    return (
        sp.issparse(value)
        or isinstance(value, SparseMatrix)
        or (isinstance(value, Tensor) and value.layout != torch.strided)
    )


def read_adjacency(adjacency: Any, x: Any = None, *, name: str = "graph") -> RawGraph:
    """The graph with an edge for each non-zero of a square sparse matrix.

    Values other than 1 are edge weights.

    Args:
        adjacency: SciPy sparse matrix or array, torch sparse tensor or `SparseMatrix`, [N, N].
        x: features [N, F], dense or sparse, or None.
        name: for messages.
    """
    if isinstance(adjacency, Tensor):
        coo = adjacency.detach().cpu().to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        adjacency = sp.coo_matrix(
            (coo.values().numpy(), coo.indices().numpy()), shape=tuple(coo.shape)
        )
    matrix = (adjacency.to_scipy() if isinstance(adjacency, SparseMatrix) else adjacency).tocoo()
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"{name}: an adjacency must be a square matrix, (nodes, nodes). Got shape"
            f" {matrix.shape}."
        )
    kept = matrix.data != 0
    weight = matrix.data[kept]
    return RawGraph(
        edge_index=np.stack([matrix.row[kept], matrix.col[kept]]),
        num_nodes=int(matrix.shape[0]),
        x=x,
        edge_weight=None if bool(np.all(weight == 1)) else weight,
        name=name,
    )


def read_arrays(
    edge_index: Any, x: Any = None, edge_weight: Any = None, *, name: str = "graph"
) -> RawGraph:
    """The graph with the edges [2, E] and one node for each row of `x` [N, F].

    Without `x`, N is the largest id + 1.
    """
    return RawGraph(
        edge_index=edge_index,
        num_nodes=_num_nodes(edge_index, x, name),
        x=x,
        edge_weight=edge_weight,
        name=name,
    )


def _num_nodes(edge_index: Any, x: Any, name: str) -> int:
    if x is not None:
        shape = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
        return int(shape[0]) if shape else 0
    ids = (
        edge_index.detach().cpu().numpy()
        if isinstance(edge_index, Tensor)
        else np.asarray(edge_index)
    )
    if ids.size == 0:
        raise InputError(
            f"{name} has neither edges nor features, so no nodes. Give at least one edge, or"
            " features."
        )
    # Anything but integers is refused when the edges are checked.
    return int(ids.max()) + 1 if ids.dtype.kind in "iu" else 1
