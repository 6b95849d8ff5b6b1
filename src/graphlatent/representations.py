"""What a probe can be given: raw, propagated, random-initialised and trained representations.

`REPRESENTATIONS` has one entry each. All are computed from a graph and an estimator, so that the
baselines see the same encoded features as the method they are compared with: an embedding that does
not beat them has learnt nothing. Legend: N nodes, F features, B graphs, M rows (nodes or graphs), D
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from graphlatent.config import Level, Settings
from graphlatent.data.batches import EdgeList
from graphlatent.data.features import encode_features
from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError, bad_argument
from graphlatent.estimator import Estimator
from graphlatent.nn.propagation import gcn_matrix
from graphlatent.ops.nearest import RowMatrix
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.training.encoding import fit_encoding

Array: TypeAlias = np.ndarray[Any, Any]
LEVELS: tuple[Level, ...] = ("node", "graph")
# Number of values of sparse features converted to dense at a time.
_BLOCK = 2**25


@dataclass(frozen=True)
class Representation:
    """One way to represent the nodes or graphs of a data set by rows of numbers.

    Args:
        name: key in `REPRESENTATIONS`.
        title: for tables.
        seeded: whether the rows depend on the estimator's `random_state`.
        compute: the rows of a graph, from (graph, estimator, graph to train on).
    """

    name: str
    title: str
    seeded: bool
    compute: Callable[[GraphData, Estimator, GraphData], RowMatrix]

    def rows(
        self, graph: GraphData, estimator: Estimator, *, train_graph: GraphData | None = None
    ) -> RowMatrix:
        """One row per node or graph, by the estimator's level.

        Args:
            graph: to represent.
            estimator: gives level, feature encoding and settings; it is not changed. "trained"
                uses it as it is where it is fitted.
            train_graph: what training and the feature encoding may see; by default `graph`.

        Returns:
            float32 [M, D]; SciPy CSR for raw node features that are sparse.
        """
        return self.compute(graph, estimator, graph if train_graph is None else train_graph)


def raw_features(graph: GraphData, *, level: Level) -> Array | sp.csr_matrix:
    """The encoded features: x [N, F] at node level, sums over each graph's nodes [B, F] else.

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
    """Features averaged over neighbourhoods: Â^hops x, or [x, Â x, ..., Â^hops x] concatenated.

    Â = D^-1/2 (A + I) D^-1/2 with D the row sums of A + I: the matrix of a GCN layer.

    Args:
        graph: one or more graphs with encoded features; edge weights are used where given.
        level: "node" for one row per node, "graph" for the sums over each graph's nodes.
        hops: number of averaging steps; 0 gives the raw features.
        concat: return every hop from 0 on, not only the last.

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


def encoder_input(graph: GraphData, estimator: Estimator, train_graph: GraphData) -> GraphData:
    """The graph with the features that the estimator's encoder is given.

    Args:
        graph: with features, columns or neither; nodes without features get their degrees, or
            coordinates where the estimator's `structure` says so.
        estimator: fitted, or not; then its encoding is fitted on `train_graph`.
        train_graph: what the encoding may see.
    """
    settings: Settings
    if hasattr(estimator, "features_"):
        settings, spec = estimator.settings_, estimator.features_
    else:
        # Settings that are None take their values from the preset.
        settings = estimator._resolved()
        spec = fit_encoding(train_graph, settings)
    return encode_features(spec, graph, row_normalize=settings.row_normalize)


def _raw(graph: GraphData, estimator: Estimator, train_graph: GraphData) -> RowMatrix:
    return raw_features(encoder_input(graph, estimator, train_graph), level=estimator.level)


def _propagated(graph: GraphData, estimator: Estimator, train_graph: GraphData) -> RowMatrix:
    encoded = encoder_input(graph, estimator, train_graph)
    return propagated_features(encoded, level=estimator.level)


def _random_init(graph: GraphData, estimator: Estimator, train_graph: GraphData) -> RowMatrix:
    untrained: Estimator = clone(estimator).set_params(epochs=0, progress=False)
    return untrained.fit(train_graph).transform(graph)


def _trained(graph: GraphData, estimator: Estimator, train_graph: GraphData) -> RowMatrix:
    fitted: Estimator = (
        estimator if hasattr(estimator, "model_") else clone(estimator).fit(train_graph)
    )
    return fitted.transform(graph)


REPRESENTATIONS: Mapping[str, Representation] = {
    each.name: each
    for each in (
        Representation("raw", "raw features", False, _raw),
        Representation("propagated", "propagated features", False, _propagated),
        Representation("random", "random-initialised encoder", True, _random_init),
        Representation("trained", "trained encoder", True, _trained),
    )
}


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
    """Sums of every hop over each graph's nodes, as (pooling Â^k) x.

    This needs no N x F matrix where x is sparse: pooling Â^k has at most N values.
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
    """Every hop of every node; sparse features are converted a block of columns at a time."""
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
