"""The Weisfeiler-Lehman subtree kernel of whole graphs (Shervashidze et al. 2011).

Every node starts with a label. An iteration gives two nodes the same new label where their own
labels and the multisets of their neighbours' labels are equal. A graph is represented by how often
it has each label of each iteration; the kernel of two graphs is the inner product of these counts.
Labels are compared exactly, without hashing. Legend: N nodes, B graphs, L labels.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError, bad_argument
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]
ITERATIONS = 5
# Columns with counts in a larger share of the graphs are multiplied as a dense matrix.
_DENSE_SHARE = 0.05


def subtree_features(graph: GraphData, *, iterations: int = ITERATIONS) -> sp.csr_matrix:
    """The counts of all labels of each graph, divided by their norm: the kernel is their product.

    Args:
        graph: one or more graphs. A node's first label is its row of encoded features; its degree
            where the graph has none. Edge weights are not used.
        iterations: the last iteration; 0 counts the first labels alone.

    Returns:
        float64 CSR [B, L over all iterations]; a graph without nodes has a row of zeros. The order
        of columns has no meaning, and is that of this set of graphs: graphs that are to be compared
        must be given together.

    Raises:
        ConfigError: where `iterations` is out of range.
        InputError: where the graph has named columns that are not encoded.
    """
    counts = sp.hstack(subtree_counts(graph, iterations=iterations), format="csr")
    norm = np.sqrt(np.asarray(counts.multiply(counts).sum(1)).ravel())
    return sp.csr_matrix(sp.diags(1 / np.where(norm > 0, norm, 1.0)) @ counts)


def subtree_kernels(graph: GraphData, *, iterations: int = ITERATIONS) -> dict[int, Array]:
    """The normalised kernel matrices of 0 to `iterations` iterations, by number of iterations.

    Args:
        graph: as in `subtree_features`.
        iterations: the last iteration.

    Returns:
        float64 [B, B] each, with ones on the diagonal; zeros for a graph without nodes.

    Raises:
        As `subtree_features` does.
    """
    found = {}
    total = np.zeros((graph.num_graphs, graph.num_graphs))
    for h, counts in enumerate(subtree_counts(graph, iterations=iterations)):
        total += _gram(counts)
        norm = np.sqrt(total.diagonal())
        scale = 1 / np.where(norm > 0, norm, 1.0)
        found[h] = total * scale[:, None] * scale[None, :]
    return found


def subtree_counts(graph: GraphData, *, iterations: int = ITERATIONS) -> list[sp.csr_matrix]:
    """How often each graph has each label: one matrix for every iteration from 0 on.

    Args:
        graph: as in `subtree_features`.
        iterations: the last iteration.

    Returns:
        float64 CSR [B, L of the iteration] each.

    Raises:
        As `subtree_features` does.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
        raise bad_argument(
            "iterations", owner="subtree_counts", allowed="an int of at least 0", got=iterations
        )
    labels = first_labels(graph)
    graph_of_node = graph.graph_of_node.numpy()
    found = []
    for h in range(iterations + 1):
        labels = refined_labels(graph, labels) if h > 0 else labels
        shape = (graph.num_graphs, int(labels.max(initial=-1)) + 1)
        ones = np.ones(graph.num_nodes)
        # Duplicates are summed.
        found.append(sp.coo_matrix((ones, (graph_of_node, labels)), shape=shape).tocsr())
    return found


def first_labels(graph: GraphData) -> Array:
    """An int for each node, equal where rows of features are equal; degrees without features."""
    if graph.x is None:
        if graph.columns is not None:
            raise InputError(
                "The Weisfeiler-Lehman kernel needs a graph with encoded features, and this one has"
                f" columns that are not encoded: {', '.join(graph.columns)}. Encode them with"
                " fit_features and encode_features."
            )
        _, degrees = np.unique(graph.degree.numpy(), return_inverse=True)
        return np.asarray(degrees, dtype=np.int64).reshape(-1)
    x = graph.x.to_scipy() if isinstance(graph.x, SparseMatrix) else graph.x.detach().cpu().numpy()
    rows = sp.csr_matrix(x, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    items = [rows.indices.astype(np.int64), rows.data.view(np.int64)]
    return _sequence_numbers(rows.indptr.astype(np.int64), items)


def refined_labels(graph: GraphData, labels: Array) -> Array:
    """The labels after one more iteration, numbered from 0 on.

    Two nodes have the same one where their labels, and the multisets of the labels of the nodes
    that their edges lead to, are equal.

    Args:
        graph: one or more graphs.
        labels: of the nodes, int64 [N], 0 or more.
    """
    source, target = graph.edge_index.numpy()
    ptr = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=graph.num_nodes), out=ptr[1:])
    # One sort orders the neighbours' labels of every node: by source, then by label.
    num_labels = int(labels.max(initial=0)) + 1
    keys = source * num_labels + labels[target]
    keys.sort()
    return _sequence_numbers(ptr, [keys % num_labels], first=labels)


def _sequence_numbers(ptr: Array, items: list[Array], *, first: Array | None = None) -> Array:
    """Numbers of sequences of ints, equal for equal sequences, from 0 on without gaps.

    Sequences of the same length are the rows of one matrix, and rows are compared as bytes.

    Args:
        ptr: where each sequence begins and ends in `items` [N + 1].
        items: int64 arrays; a sequence is a slice of each.
        first: one more item for each sequence [N], or None.
    """
    lengths = np.diff(ptr)
    numbers = np.empty(len(lengths), dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    ends = np.flatnonzero(np.diff(lengths[order])) + 1
    known = 0
    for members in np.split(order, ends):
        if len(members) == 0:
            continue
        places = ptr[members][:, None] + np.arange(lengths[members[0]])
        parts = [each[places] for each in items]
        # A sequence of nothing is one row of one zero.
        own = np.zeros(len(members), dtype=np.int64) if first is None else first[members]
        rows = np.ascontiguousarray(np.concatenate([own[:, None], *parts], axis=1))
        as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        distinct, inverse = np.unique(as_bytes, return_inverse=True)
        numbers[members] = known + inverse.reshape(-1)
        known += len(distinct)
    return numbers


def _gram(counts: sp.csr_matrix) -> Array:
    """The inner products of all pairs of rows, float64 [B, B].

    Labels that many graphs have are multiplied as a dense matrix, which is faster for them.
    """
    share = np.bincount(counts.indices, minlength=counts.shape[1]) / max(1, counts.shape[0])
    columns = counts.tocsc()
    dense = columns[:, share > _DENSE_SHARE].toarray()
    rest = columns[:, share <= _DENSE_SHARE].tocsr()
    products: Array = dense @ dense.T + (rest @ rest.T).toarray()
    return products
