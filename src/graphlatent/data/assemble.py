"""`assemble`: graphs as readers found them, checked, cleaned and joined into one `GraphData`.

The one place where graphs are checked; everything after it relies on that. Legend: N nodes, E
edges, F features, B graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.arrays import as_array, checked_features, stack_features
from graphlatent.data.edge_features import EdgeColumns, rows_of_edges
from graphlatent.data.edge_notes import facts_of, no_edges, notes_of_changes, notes_of_edges
from graphlatent.data.edges import (
    MAX_NODES,
    CleanEdges,
    checked_edges,
    clean_edges,
    is_symmetric,
)
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.ids import exact_ids
from graphlatent.data.memory_limit import require_memory
from graphlatent.data.merging import Merge, checked_merge
from graphlatent.data.weights import joined_weights
from graphlatent.display import counted
from graphlatent.errors import InputError, warn
from graphlatent.ops.sparse import SparseMatrix

# Its degree, its place, its id, and a single feature with its copy: less is never needed.
_BYTES_PER_NODE = 32


def assemble(
    graphs: Sequence[RawGraph], *, symmetrize: bool = True, merge: Merge | None = None
) -> GraphData:
    """The graphs checked, cleaned and joined.

    Args:
        graphs: one or more graphs, all with features of the same width, or all with the same
            columns, or all without.
        symmetrize: read every edge in both directions, with one warning where that changed them.
        merge: the weight of edges that are there more than once: 'max', 'sum', 'mean' or 'count';
            None for 'max', with a warning where that drops weights.

    Raises:
        InputError: where a graph cannot be used; the message names the graph and what to do.
    """
    if not graphs:
        raise InputError(
            "There are no graphs in the input. Give at least one graph with at least one node."
        )
    rule = "max" if merge is None else checked_merge(merge)
    offsets = _offsets(graphs)
    num_nodes = int(offsets[-1])
    edge_parts = [
        checked_edges(g.edge_index, num_nodes=g.num_nodes, name=g.name) + int(offset)
        for g, offset in zip(graphs, offsets, strict=False)
    ]
    edge_index = torch.cat(edge_parts, dim=1)
    edge_weight = joined_weights(graphs, [e.shape[1] for e in edge_parts])
    undirected = _undirected_nodes(graphs)
    clean = clean_edges(
        edge_index,
        edge_weight,
        num_nodes=num_nodes,
        symmetrize=symmetrize,
        merge=rule,
        undirected=undirected,
        ptr=torch.from_numpy(offsets),
    )
    edge_columns = _joined_edge_columns(graphs, edge_index, clean, undirected, symmetrize)
    averaged = ("Features of merged edges are averaged.",) if clean.num_merged else ()
    averaged = () if edge_columns is None else averaged
    facts = facts_of(clean, num_nodes=num_nodes, came_weighted=edge_weight is not None)
    important = (*_notes_of_readers(graphs), *notes_of_changes(facts, merge))
    for note in important:
        warn(note)
    if facts.num_edges == 0:
        warn(no_edges(len(graphs)))
    return GraphData(
        edge_index=clean.edge_index,
        num_nodes=num_nodes,
        ptr=torch.from_numpy(offsets.astype(np.int64)),
        x=_joined_features(graphs),
        columns=_joined_columns(graphs, what="feature columns"),
        edge_weight=clean.edge_weight,
        edge_columns=edge_columns,
        node_ids=_joined_ids(graphs),
        graph_ids=_joined_graph_ids(graphs),
        y=_joined_labels(graphs),
        undirected=symmetrize
        or is_symmetric(clean.edge_index, clean.edge_weight, num_nodes=num_nodes),
        symmetrized=clean.symmetrized,
        notes=(*important, *notes_of_edges(facts, merge), *averaged),
    )


def _offsets(graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any]:
    """The first node of each graph and the end, int64 [B + 1]."""
    # Python's integers: a sum of sizes that do not exist might overflow.
    num_nodes = sum(sizes := [_checked_size(g) for g in graphs])
    what = graphs[0].name if len(graphs) == 1 else f"{graphs[0].name} and the other graphs"
    require_memory(_BYTES_PER_NODE * num_nodes, what=f"{what}, {num_nodes:,} nodes,")
    if num_nodes > MAX_NODES:
        raise InputError(
            f"{what} have {num_nodes:,} nodes, and no more than {MAX_NODES:,} can be read. Number"
            " the nodes from 0 without gaps."
        )
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _checked_size(graph: RawGraph) -> int:
    if graph.num_nodes < 1:
        raise InputError(
            f"{graph.name} has no nodes. Leave empty graphs out; a graph needs at least one node."
        )
    return graph.num_nodes


def _undirected_nodes(graphs: Sequence[RawGraph]) -> Tensor | None:
    """Which nodes are in a graph that is known to be undirected, bool [N]; None where none is."""
    undirected = torch.tensor([g.directed is False for g in graphs])
    if not bool(undirected.any()):
        return None
    return torch.repeat_interleave(undirected, torch.tensor([g.num_nodes for g in graphs]))


def _joined_features(graphs: Sequence[RawGraph]) -> Tensor | SparseMatrix | None:
    given = [g.x is not None for g in graphs]
    if not any(given):
        return None
    if not all(given):
        raise InputError(
            f"{graphs[given.index(False)].name} has no features while other graphs have. Give all"
            " graphs features, or none."
        )
    parts = [checked_features(g) for g in graphs]
    for graph, part in zip(graphs, parts, strict=True):
        if part.shape[1] != parts[0].shape[1]:
            raise InputError(
                f"All graphs must have the same number of features. {graphs[0].name} has"
                f" {parts[0].shape[1]}, {graph.name} has {part.shape[1]}."
            )
    if len(parts) == 1:
        return parts[0]
    return stack_features(parts)


def _joined_columns(
    graphs: Sequence[RawGraph], *, what: str
) -> Mapping[str, np.ndarray[Any, Any]] | None:
    first = graphs[0].columns
    if all(not g.columns for g in graphs):
        return None
    for graph in graphs:
        if set(graph.columns or {}) != set(first or {}):
            raise InputError(
                f"All graphs must have the same {what}. {graphs[0].name} has"
                f" {sorted(first or {})}, {graph.name} has {sorted(graph.columns or {})}."
            )
    return {name: _joined_column(name, graphs) for name in first or {}}


def _joined_column(name: str, graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any]:
    parts = [np.asarray((g.columns or {})[name]) for g in graphs]
    numeric = [part.dtype.kind in "biuf" for part in parts]
    # NumPy would turn the numbers into text.
    if any(numeric) and not all(numeric):
        number, other = graphs[numeric.index(True)].name, graphs[numeric.index(False)].name
        raise InputError(
            f"Column '{name}' holds numbers in {number} but not in {other}. Give it one type in all"
            " graphs."
        )
    return np.concatenate(parts)


def _joined_edge_columns(
    graphs: Sequence[RawGraph],
    edge_index: Tensor,
    clean: CleanEdges,
    undirected: Tensor | None,
    symmetrize: bool,
) -> EdgeColumns | None:
    """The attributes of the clean edges; a graph without edges need not have any."""
    having = [g for g in graphs if np.shape(g.edge_index)[-1] > 0] or list(graphs)
    as_columns = [replace(g, columns=g.edge_columns) for g in having]
    columns = _joined_columns(as_columns, what="edge features")
    if columns is None:
        return None
    both = torch.full_like(edge_index[0], symmetrize, dtype=torch.bool)
    if undirected is not None:
        both |= undirected[edge_index[0]]
    num_nodes = sum(g.num_nodes for g in graphs)
    return rows_of_edges(columns, edge_index, clean.edge_index, both=both, num_nodes=num_nodes)


def _joined_ids(graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any] | None:
    if any(g.node_ids is None for g in graphs):
        return None
    parts = [np.asarray(g.node_ids) for g in graphs]
    # Kept as they are: NumPy would turn integers into text, or into floats.
    mixed = len({part.dtype.kind for part in parts}) > 1
    return np.concatenate([part.astype(object) for part in parts] if mixed else parts)


def _joined_graph_ids(graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any] | None:
    ids = [g.graph_id for g in graphs]
    return None if any(each is None for each in ids) else exact_ids(ids)


def _joined_labels(graphs: Sequence[RawGraph]) -> np.ndarray[Any, Any] | None:
    if any(g.y is None for g in graphs):
        return None
    parts = [np.atleast_1d(as_array(g.y, name=g.name, what="y")) for g in graphs]
    per_node = all(part.shape[0] == g.num_nodes for part, g in zip(parts, graphs, strict=True))
    for graph, part in zip(graphs, parts, strict=True):
        if part.shape[1:] != parts[0].shape[1:] or (part.shape[0] != 1 and not per_node):
            raise InputError(
                f"{graph.name}: y must hold one label per node, or one per graph, the same way in"
                f" all graphs. Got shape {part.shape} for {graph.num_nodes} nodes, while"
                f" {graphs[0].name} has shape {parts[0].shape}."
            )
    return np.concatenate(parts)


def _notes_of_readers(graphs: Sequence[RawGraph]) -> tuple[str, ...]:
    """What readers have to say, each thing once: that of the first graph, and how many others."""
    first = {key: text for graph in reversed(graphs) for key, text in graph.notes.items()}
    count = Counter(key for graph in graphs for key in graph.notes)
    return tuple(
        text
        if count[key] == 1
        else f"{text} The same holds for {counted(count[key] - 1, 'more graph')}."
        for key, text in first.items()
    )
