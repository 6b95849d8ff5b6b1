"""Graphs from arrays and matrices: edge lists and sparse adjacencies, with or without features."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphlatent.data.arrays import as_array
from graphlatent.data.graph import RawGraph
from graphlatent.data.memory_limit import require_memory
from graphlatent.data.sparse_input import consistent_coo, consistent_csr
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]
# Of a row pointer: what a matrix without a single entry takes in the formats of SciPy.
_BYTES_PER_NODE = 8


def is_adjacency(value: object) -> bool:
    """Whether the value is a sparse matrix (SciPy, torch or `SparseMatrix`) or a square array.

    These are read as an adjacency, anything else as an edge list. An array of shape (2, 2) may hold
    two edges, and is no adjacency.
    """
    if isinstance(value, Tensor) and value.layout != torch.strided:
        return True
    if isinstance(value, np.ndarray | Tensor):
        return value.ndim == 2 and value.shape[0] == value.shape[1] != 2
    return sp.issparse(value) or isinstance(value, SparseMatrix)


def read_adjacency(adjacency: Any, x: Any = None, *, name: str = "graph") -> RawGraph:
    """The graph with an edge for each non-zero of a square matrix.

    Values other than 1 are edge weights. A value that is stored in several parts is their sum, as
    SciPy and torch define it, so that all their formats of one matrix give one graph.

    Args:
        adjacency: SciPy sparse matrix or array, torch tensor, `SparseMatrix` or NumPy array,
            [N, N].
        x: features [N, F], dense or sparse, or None.
        name: for messages.

    Raises:
        InputError: where the matrix is not square, or holds something else than real numbers.
    """
    shape = tuple(int(size) for size in adjacency.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(
            f"{name}: an adjacency must be a square matrix, (nodes, nodes). Got shape {shape}."
        )
    require_memory(_BYTES_PER_NODE * shape[0], what=f"{name}: an adjacency of shape {shape}")
    row, col, weight = nonzeros(_as_scipy(adjacency, name), name=name)
    return RawGraph(
        edge_index=np.stack([row, col]),
        num_nodes=shape[0],
        x=x,
        edge_weight=None if bool(np.all(weight == 1)) else weight,
        name=name,
    )


def nonzeros(matrix: Any, *, name: str) -> tuple[Array, Array, Array]:
    """Rows, columns and values of the entries of a SciPy matrix that are not 0, each once.

    Raises:
        InputError: where the entries are no real numbers, or the matrix is inconsistent.
    """
    if np.dtype(matrix.dtype).kind not in "biuf":
        raise InputError(
            f"{name}: an adjacency must hold real numbers. Got values of type {matrix.dtype}."
        )
    with refusing_damage(f"{name}: the adjacency is inconsistent"):
        csr = consistent_csr(matrix)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        coo = csr.tocoo()
    kept = coo.data != 0
    return coo.row[kept], coo.col[kept], coo.data[kept]


def _as_scipy(adjacency: Any, name: str) -> Any:
    if isinstance(adjacency, SparseMatrix):
        return adjacency.to_scipy()
    if isinstance(adjacency, np.ndarray) or (
        isinstance(adjacency, Tensor) and adjacency.layout == torch.strided
    ):
        array = as_array(adjacency, name=name, what="an adjacency")
        if array.dtype.kind not in "biuf":
            raise InputError(f"{name}: an adjacency must hold real numbers. Got {array.dtype}.")
        # SciPy has no float16.
        return sp.coo_array(array.astype(np.float32) if array.dtype == np.float16 else array)
    if not isinstance(adjacency, Tensor):
        return adjacency
    with refusing_damage(f"{name}: the sparse tensor cannot be read"):
        coo: Any = consistent_coo(adjacency)
        values = coo.values()
        # NumPy has no bfloat16, and SciPy no float16.
        values = values.to(torch.float32) if values.is_floating_point() else values
        return sp.coo_matrix((values.numpy(), coo.indices().numpy()), shape=tuple(coo.shape))


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
        shape = tuple(x.shape) if hasattr(x, "shape") else as_array(x, name=name, what="x").shape
        return int(shape[0]) if shape else 0
    ids = as_array(edge_index, name=name, what="edge_index")
    if ids.size == 0:
        raise InputError(
            f"{name} has neither edges nor features, so no nodes. Give at least one edge, or"
            " features."
        )
    # Anything but integers is refused when the edges are checked.
    return int(ids.max()) + 1 if ids.dtype.kind in "iu" else 1
