"""Features of edges: attributes as they were read, and their encoding as numbers.

Attributes are encoded as columns of nodes are (columns.py): numbers standardised, categories
one-hot, decided at fit time. An edge may have several rows of attributes, since repeated edges are
merged, and an edge is read in both directions; its features are then the mean of theirs, so that it
does not matter in which direction an edge is listed, nor whether in one or in both. Legend: E
edges, R rows, D features of an edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.columns import ColumnSpec, encode_columns, fit_column
from graphlatent.data.memory_limit import require_memory
from graphlatent.data.places import EdgePlaces
from graphlatent.errors import InputError
from graphlatent.ops.sparse import to_dense

if TYPE_CHECKING:
    from graphlatent.data.graph import GraphData

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class EdgeColumns:
    """Named attributes of edges, not yet encoded.

    Args:
        columns: values by name, each [R].
        edge: the edge of each row, int64 [R], ascending; every edge has a row.
    """

    columns: Mapping[str, Array]
    edge: Tensor

    @property
    def num_edges(self) -> int:
        """E."""
        return int(self.edge[-1]) + 1 if self.edge.numel() else 0

    def chosen(self, kept: Tensor) -> EdgeColumns:
        """The attributes of the edges that are kept, bool [E], numbered anew."""
        rows = kept[self.edge]
        number = torch.cumsum(kept, 0) - 1
        columns = {name: values[rows.numpy()] for name, values in self.columns.items()}
        return EdgeColumns(columns, number[self.edge[rows]])


def rows_of_edges(
    columns: Mapping[str, Array],
    given: Tensor,
    edges: Tensor,
    *,
    both: Tensor,
    num_nodes: int,
) -> EdgeColumns:
    """The attributes of clean edges.

    Args:
        columns: values by name, one for each edge as it was read.
        given: the edges as they were read, int64 [2, R].
        edges: the clean edges, int64 [2, E], sorted, each once.
        both: which of the edges that were read stand for both directions, bool [R].
        num_nodes: N.
    """
    key = edges[0] * num_nodes + edges[1]
    reverse = (both & (given[0] != given[1])).nonzero()[:, 0]
    row = torch.cat([torch.arange(given.shape[1]), reverse])
    ends = torch.cat([given, given[:, reverse].flip(0)], dim=1)
    edge = torch.searchsorted(key, ends[0] * num_nodes + ends[1])
    order = torch.argsort(edge, stable=True)
    row = row[order]
    return EdgeColumns({k: v[row.numpy()] for k, v in columns.items()}, edge[order])


def fit_edge_features(graph: GraphData, *, standardize: bool = True) -> tuple[ColumnSpec, ...]:
    """How the attributes of edges are to be encoded; () where the graph has none.

    Raises:
        InputError: as `columns.fit_column`, with the edge in the message.
    """
    if graph.edge_columns is None:
        return ()
    places: Any = _places(graph)
    return tuple(
        fit_column(name, values, standardize=standardize, node_ids=places)
        for name, values in graph.edge_columns.columns.items()
    )


def encode_edge_features(specs: Sequence[ColumnSpec], graph: GraphData) -> GraphData:
    """The graph with `edge_attr` [E, D], encoded as `fit_edge_features` decided.

    Raises:
        InputError: where the graph has no edge features and the fitted graphs had, or the other way
            round, or as `columns.encode_columns` does.
    """
    given = graph.edge_columns
    if not specs:
        if given is not None:
            raise InputError(
                "The model was fitted on graphs without edge features, but this graph has"
                f" {', '.join(given.columns)}. Read it without them (edge_features=[]), or fit a"
                " new model."
            )
        return graph
    names = [spec.name for spec in specs]
    if given is None:
        raise InputError(
            f"The model was fitted on graphs with the edge features {names}, but this graph has"
            f" none. Name them when it is read: read_graphs(..., edge_features={names})."
        )
    if set(given.columns) != set(names):
        raise InputError(
            f"The model was fitted on graphs with the edge features {names}, but this graph has"
            f" {list(given.columns)}. Give the same ones."
        )
    num_edges, width = graph.num_edges, sum(spec.width for spec in specs)
    require_memory(
        4 * width * (num_edges + len(given.edge)), what=f"{width:,} features of {num_edges:,} edges"
    )
    places: Any = _places(graph)
    rows = to_dense(encode_columns(specs, given.columns, node_ids=places))
    if not bool(torch.isfinite(rows).all()):
        row, column = (~torch.isfinite(rows)).nonzero()[0].tolist()
        feature = [name for spec in specs for name in spec.names][column]
        raise InputError(
            f"The edge feature '{feature}' is too far from the fitted values {places.of(row)}."
            " Check its units, or fit a new model."
        )
    if len(given.edge) == num_edges:
        return replace(graph, edge_attr=rows, edge_columns=None)
    total = torch.zeros(num_edges, width).index_add_(0, given.edge, rows)
    count = torch.bincount(given.edge, minlength=num_edges)
    return replace(graph, edge_attr=total / count[:, None], edge_columns=None)


def _places(graph: GraphData) -> EdgePlaces:
    assert graph.edge_columns is not None
    return EdgePlaces(graph.edge_index[:, graph.edge_columns.edge].numpy(), graph.node_ids)
