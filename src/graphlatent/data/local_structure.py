"""Features of a node that are computed from the edges around it, for graphs without features.

They are comparable between graphs, so they extend to new ones. Legend: N nodes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphlatent.data.graph import GraphData

Array: TypeAlias = np.ndarray[Any, Any]

NAMES = ("log degree", "log triangles", "clustering", "log mean neighbour degree")
"""The columns of `local_structure`."""


def local_structure(graph: GraphData) -> Tensor:
    """Four numbers of each node, float32 [N, 4], in the order of `NAMES`.

    log(1 + degree), log(1 + triangles through the node), the share of pairs of neighbours that are
    neighbours of each other, and log(1 + mean degree of the neighbours). Directions, weights and
    self-loops are ignored.
    """
    size = graph.num_nodes
    source, target = graph.edge_index.numpy()
    kept = source != target
    ones = np.ones(int(kept.sum()), dtype=np.float32)
    directed = sp.csr_matrix((ones, (source[kept], target[kept])), shape=(size, size))
    adjacency = directed.maximum(directed.T).tocsr()
    degree = np.asarray(adjacency.sum(1), dtype=np.float64).ravel()
    triangles = count_triangles(adjacency)
    pairs = degree * (degree - 1) / 2
    clustering = triangles / np.maximum(pairs, 1)
    neighbour_degree = (adjacency @ degree) / np.maximum(degree, 1)
    columns = (np.log1p(degree), np.log1p(triangles), clustering, np.log1p(neighbour_degree))
    return torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))


def count_triangles(adjacency: sp.csr_matrix) -> Array:
    """The number of triangles through each node, float64 [N].

    Every edge is directed from the node of lower degree to that of higher degree, so that a hub has
    few outgoing edges and no product has a row for each pair of its neighbours: time and memory are
    O(E^1.5) at most.

    Args:
        adjacency: symmetric 0/1 matrix without self-loops, [N, N].
    """
    edges = adjacency.tocoo()
    degree = np.diff(adjacency.indptr)
    low, high = degree[edges.row], degree[edges.col]
    kept = (low < high) | ((low == high) & (edges.row < edges.col))
    shape, ones = adjacency.shape, np.ones(int(kept.sum()))
    directed = sp.csr_matrix((ones, (edges.row[kept], edges.col[kept])), shape=shape)
    # A triangle i -> j -> k, i -> k: `first` has it at (i, k), `second` at (j, k).
    first = (directed @ directed).multiply(directed)
    second = (directed.T @ directed).multiply(directed)
    sums = (first.sum(1), second.sum(1), second.sum(0))
    counts: Array = np.sum([np.asarray(each, dtype=np.float64).ravel() for each in sums], axis=0)
    return counts
