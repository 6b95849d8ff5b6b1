"""What needs no training: the raw features, and the features averaged over neighbourhoods.

Both are rows in every table: an embedding that does not beat them has learnt nothing.
Legend: N nodes, F features, B graphs.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from graphlatent.data.batches import EdgeList
from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError, bad_argument
from graphlatent.nn.propagation import gcn_matrix
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]
Level: TypeAlias = Literal["node", "graph"]
LEVELS = ("node", "graph")
_BLOCK = 2**25  # values of sparse features made dense at a time


def raw_features(graph: GraphData, *, level: Level) -> Array | sp.csr_matrix:
    """The features as they are: x [N, F] at node level, the sum over each graph's nodes [B, F] at
    graph level.

    Args:
        graph: one or more graphs with encoded features.
        level: "node" or "graph".

    Returns:
        A float32 array; SciPy CSR at node level where the features are sparse.

    Raises:
        ConfigError: where `level` is neither.
        InputError: where the graph has no encoded features.
    """
    _check_level(level, owner="raw_features")
    x = _features(graph, owner="raw_features")
    return x if level == "node" else _as_array(_pooling(graph) @ x)


def propagated_features(
    graph: GraphData, *, level: Level, hops: int = 2, concat: bool = False
) -> Array:
    """Features averaged over the neighbourhood: Â^hops x, or [x, Â x, ..., Â^hops x] side by side.

    Â = D^-1/2 (A + I) D^-1/2 with D the row sums of A + I: the matrix of a GCN layer, one self-loop
    a node.

    Args:
        graph: one or more graphs with encoded features; edge weights count where there are any.
        level: "node" for one row per node, "graph" for the sums over each graph's nodes.
        hops: how often to average; 0 gives the raw features.
        concat: keep every hop from 0 on, not only the last.

    Returns:
        float32 [N or B, F], or [N or B, (hops + 1) F] with `concat`.

    Raises:
        ConfigError: where an argument is out of range.
        InputError: where the graph has no encoded features, or negative edge weights.
    """
    _check_level(level, owner="propagated_features")
    if hops < 0:
        raise bad_argument(
            "hops", owner="propagated_features", allowed="an int of at least 0", got=hops
        )
    x = _features(graph, owner="propagated_features")
    adjacency = _adjacency(graph)
    if level == "graph":
        return _pooled_hops(_pooling(graph), adjacency, x, hops=hops, concat=concat)
    return _node_hops(adjacency, x, hops=hops, concat=concat)


def _adjacency(graph: GraphData) -> sp.csr_matrix:
    """Â as float32 CSR [N, N], row = target of an edge."""
    if graph.edge_weight is not None and bool((graph.edge_weight < 0).any()):
        raise InputError(
            "propagated_features needs edge weights of 0 or more, since it divides by their sums."
            f" Got {float(graph.edge_weight.min()):g}. Shift them, or leave them out."
        )
    edges = EdgeList(graph.edge_index, graph.edge_weight, graph.num_nodes, undirected=False)
    return gcn_matrix(edges).to_scipy().astype(np.float32)


def _pooled_hops(
    pooling: sp.csr_matrix,
    adjacency: sp.csr_matrix,
    x: Array | sp.csr_matrix,
    *,
    hops: int,
    concat: bool,
) -> Array:
    """The sums of every hop. (pooling Â^k) x needs no N x F matrix where x is sparse; pooling Â^k
    has N values at most.
    """
    parts = []
    for hop in range(hops + 1):
        if concat or hop == hops:
            parts.append(_as_array(pooling @ x))
        pooling = pooling @ adjacency
    return np.concatenate(parts, axis=1)


def _node_hops(
    adjacency: sp.csr_matrix, x: Array | sp.csr_matrix, *, hops: int, concat: bool
) -> Array:
    """Every hop for every node; sparse features are made dense a block of columns at a time."""
    num_nodes, num_features = x.shape
    kept = hops + 1 if concat else 1
    out = np.empty((num_nodes, kept, num_features), dtype=np.float32)
    width = max(1, _BLOCK // max(num_nodes, 1))
    columns = x.tocsc() if sp.issparse(x) else x
    for start in range(0, num_features, width):
        block = slice(start, start + width)
        values = _as_array(columns[:, block])
        for hop in range(hops + 1):
            if concat or hop == hops:
                out[:, hop if concat else 0, block] = values
            values = adjacency @ values if hop < hops else values
    return out.reshape(num_nodes, kept * num_features)


def _pooling(graph: GraphData) -> sp.csr_matrix:
    """The matrix that sums the rows of each graph, float32 [B, N]."""
    ones = np.ones(graph.num_nodes, dtype=np.float32)
    return sp.csr_matrix(
        (ones, np.arange(graph.num_nodes), graph.ptr.numpy()),
        shape=(graph.num_graphs, graph.num_nodes),
    )


def _features(graph: GraphData, *, owner: str) -> Array | sp.csr_matrix:
    if graph.x is None:
        raise InputError(
            f"{owner} needs a graph with encoded features, and this one has none. Set them with"
            " graph.with_features(x)."
        )
    if isinstance(graph.x, SparseMatrix):
        return graph.x.to_scipy().astype(np.float32)
    return graph.x.detach().cpu().numpy().astype(np.float32)


def _as_array(matrix: Any) -> Array:
    dense: Array = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
    return dense.astype(np.float32, copy=False)


def _check_level(level: str, *, owner: str) -> None:
    if level not in LEVELS:
        raise bad_argument("level", owner=owner, allowed=f"one of {LEVELS}", got=level)
