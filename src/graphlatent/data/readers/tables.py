"""Graphs out of an edge table and, where there is one, a node table.

Ids may be integers or text and are compared as given. With a graph column in the tables there are
several graphs, and a node is known by its graph and its id. No step loops over rows in Python.
Legend: N nodes, E edges, B graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from graphlatent.data.cut import cut_graphs
from graphlatent.data.graph import RawGraph
from graphlatent.data.ids import (
    IdColumn,
    codes,
    id_array,
    of_one_type,
    read_ids,
    shown,
    similar_id,
    sorted_distinct,
)
from graphlatent.data.readers.arrow import LoadedTable, load_table, to_array
from graphlatent.data.readers.bipartite import (
    SIDE,
    node_ids_of_sides,
    suspected_bipartite,
    with_side,
)
from graphlatent.data.readers.messages import shortened
from graphlatent.data.readers.options import (
    TableOptions,
    label_hints,
    stack_labels,
    unused_edge_columns,
)
from graphlatent.data.readers.text_content import STANDARD_INPUT
from graphlatent.data.readers.times import edges_until
from graphlatent.display import counted, listed
from graphlatent.errors import InputError, warn

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class _Numbered:
    """The graphs of the tables in one index space, nodes and edges numbered.

    Args:
        end: source and target of each edge, as positions in 0..N-1, int64 [2, E].
        ptr: first position of each graph's nodes and the end, int64 [B + 1].
        row: row of the node table at each position, int64 [N].
        node_ids: id at each position [N].
        graphs: id of each graph (pyarrow array [B]), or None for a single graph without a name.
    """

    end: Array
    ptr: Array
    row: Array
    node_ids: Array
    graphs: Any


def read_tables(
    edges: Any, nodes: Any = None, *, options: TableOptions | None = None
) -> list[RawGraph]:
    """The graph, or with a graph column the graphs, in the tables.

    Nodes come in the order of the node table; without one, in ascending order of their ids. Graphs
    come in the order in which the node table first names them; without one, in ascending order.

    Args:
        edges: path (.csv, .tsv, .txt, .zip, .parquet, '-' for standard input), pandas DataFrame or
            pyarrow Table with one row per edge.
        nodes: the same with one row per node, or None.
        options: which columns mean what; None for the default names.

    Raises:
        InputError: where a file cannot be read, a column is not there, or an id is missing, unknown
            or double.
    """
    options = options or TableOptions()
    if all(isinstance(t, str | Path) and str(t) == STANDARD_INPUT for t in (edges, nodes)):
        raise InputError(
            "Edges and nodes cannot both come from standard input ('-'). Give one of them as a"
            " file."
        )
    ends = _named(options.source, options.target, options.graph)
    edge_table = load_table(edges, role="edges", text_columns=ends, options=options)
    edge_table, notes = _until(edge_table, options)
    weights = _weights(edge_table, options)
    attributes = {
        name: _edge_feature(edge_table, name, options) for name in options.edge_features or ()
    }
    # A name that was given must be there.
    if options.graph not in (None, TableOptions.graph, *edge_table.columns):
        raise InputError(
            f"{edge_table.name}: there is no column '{options.graph}' (option 'graph'). Columns"
            f" found: {listed(edge_table.columns)}."
        )
    if nodes is None:
        if options.labels or options.features or options.text or options.hash:
            raise InputError(
                "The options 'label', 'features', 'text' and 'hash' name columns of a node table,"
                " and none was given. Give the option 'nodes' as well."
            )
        numbered = _number_edges(edge_table, options)
        notes = {**edge_table.notes, **notes}
        return _cut(numbered, edge_table, weights, options, notes, attributes=attributes)
    as_text = (*_named(options.id, options.graph), *options.text, *options.hash)
    used = _named(options.id, options.graph, *options.labels)
    unread = [name for name in options.drop if name not in used]
    node_table = load_table(
        nodes, role="nodes", text_columns=as_text, unread=unread, options=options
    )
    numbered = _number_nodes_and_edges(edge_table, node_table, options)
    columns = {
        name: to_array(node_table, name, option="features")[numbered.row]
        for name in _feature_columns(node_table, options)
    } or None
    y = stack_labels(
        [to_array(node_table, name, option="label")[numbered.row] for name in options.labels]
    )
    notes = {**edge_table.notes, **node_table.notes, **notes}
    notes |= _misspelt(node_table, options.drop)
    return _cut(
        numbered,
        edge_table,
        weights,
        options,
        notes,
        attributes=attributes,
        columns=columns or None,
        y=y,
    )


def _named(*names: str | None) -> list[str]:
    return [name for name in names if name is not None]


def _feature_columns(nodes: LoadedTable, options: TableOptions) -> Sequence[str]:
    named = (options.id, options.graph, SIDE if options.bipartite else None)
    found = options.feature_names(c for c in nodes.columns if c not in named)
    for hint in label_hints(found) if options.features is None else ():
        warn(f"{nodes.name}: {hint}")
    return found


def _misspelt(nodes: LoadedTable, drop: Sequence[str]) -> dict[str, str]:
    """Notes on columns to leave out that are not there, beside one of almost the same name.

    Others need not be there: labels of the fitted graphs, for one.
    """
    similar = {name: get_close_matches(name, nodes.columns, n=1, cutoff=0.8) for name in drop}
    return {
        f"drop {name}": f"{nodes.name}: there is no column '{name}' to drop. Is '{found[0]}' meant?"
        for name, found in similar.items()
        if found and found[0] != name
    }


def _until(edges: LoadedTable, options: TableOptions) -> tuple[LoadedTable, dict[str, str]]:
    """The edges up to the time that was asked for, and a note on how many they are."""
    if options.until is None or options.time is None:
        return edges, {}
    column = edges.column(options.time, option="time")
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    found = edges_until(
        column.to_pandas(date_as_object=False),
        options.until,
        name=edges.name,
        column=f"column '{options.time}'",
        place=edges.place,
    )
    return edges.only(found.kept), found.notes


def _weights(edges: LoadedTable, options: TableOptions) -> Array | None:
    name = options.weight or "weight"
    if options.weight is None and name not in edges.columns:
        return None
    weights = to_array(edges, name, option="weight")
    if weights.dtype.kind not in "iuf":
        given = next((weight for weight in weights if weight is not None), None)
        if given is not None:
            raise InputError(
                f"{edges.name}: weight column '{name}' must hold numbers. Got values such as"
                f" {shortened(given)}."
            )
    weights = weights.astype(np.float64)
    wrong = ~np.isfinite(weights)
    if wrong.any():
        row = int(wrong.argmax())
        came = "nothing" if np.isnan(weights[row]) else str(weights[row])
        raise InputError(
            f"{edges.name}: weight column '{name}' must hold a finite number in every row. Got"
            f" {came} in {edges.place(row)}, and no finite number in {int(wrong.sum()):,} of"
            f" {len(wrong):,} rows. Fill in their weights, or drop those rows."
        )
    return weights


def _edge_feature(edges: LoadedTable, name: str, options: TableOptions) -> Array:
    """A column of the edge table whose values are features of edges."""
    values = to_array(edges, name, option="edge_features")
    missing = np.asarray(pd.isna(values))
    if missing.any() and options.impute is None:
        raise InputError(
            f"{edges.name}: column '{name}' (option 'edge_features') has"
            f" {counted(int(missing.sum()), 'missing value')}, the first in"
            f" {edges.place(int(missing.argmax()))}. Fill them, drop those rows, or leave the"
            " column out."
        )
    return values


def _ends(edges: LoadedTable, options: TableOptions) -> list[IdColumn]:
    """The ids of the sources and of the targets; of a bipartite graph with their kinds."""
    ends = [
        read_ids(edges, options.source, option="source"),
        read_ids(edges, options.target, option="target"),
    ]
    if not options.bipartite:
        return ends
    return [with_side(ends[0], options.source), with_side(ends[1], options.target)]


def _number_edges(edges: LoadedTable, options: TableOptions) -> _Numbered:
    """Nodes and edges numbered from the edge table alone."""
    source, target = of_one_type(_ends(edges, options))
    if edges.num_rows == 0:
        raise InputError(
            f"{edges.name}: there are no rows, and no node table names the nodes. Give at least one"
            " edge, or a node table by the option 'nodes'."
        )
    graphs, edge_graph = None, np.zeros(edges.num_rows, dtype=np.int64)
    if options.graph is not None and options.graph in edges.columns:
        (graph_ids,) = of_one_type([read_ids(edges, options.graph, option="graph")])
        graphs = sorted_distinct([graph_ids])
        edge_graph = codes(graph_ids, distinct=graphs)
    ids = sorted_distinct([source, target])
    key = edge_graph * len(ids) + np.stack(
        [codes(source, distinct=ids), codes(target, distinct=ids)]
    )
    node_key, end = np.unique(key, return_inverse=True)
    return _Numbered(
        end=end.reshape(2, -1),
        ptr=_ptr(node_key // len(ids), graphs),
        row=np.arange(len(node_key)),
        node_ids=id_array(ids)[node_key % len(ids)],
        graphs=graphs,
    )


def _number_nodes_and_edges(
    edges: LoadedTable, nodes: LoadedTable, options: TableOptions
) -> _Numbered:
    """Number the nodes in the order of the node table, graph by graph.

    The endpoints of edges are looked up there.
    """
    if options.bipartite:
        ids = node_ids_of_sides(nodes, options.id, (options.source, options.target))
    else:
        ids = read_ids(nodes, options.id, option="id")
    node_id, source, target = of_one_type([ids, *_ends(edges, options)])
    if nodes.num_rows == 0:
        raise InputError(f"{nodes.name}: there are no rows. A graph needs at least one node.")
    graphs, node_graph, edge_graph = _graph_codes(edges, nodes, options)
    distinct = node_id.unique()
    row = np.argsort(node_graph, kind="stable")
    node_key = (node_graph * len(distinct) + codes(node_id, distinct=distinct))[row]
    by_key = np.argsort(node_key, kind="stable")
    _check_once(node_key, by_key, row, nodes, node_id)
    end = []
    for name, values in ((options.source, source), (options.target, target)):
        code = codes(values, distinct=distinct)
        key = np.where((code < 0) | (edge_graph < 0), -1, edge_graph * len(distinct) + code)
        found = by_key[np.minimum(np.searchsorted(node_key, key, sorter=by_key), len(by_key) - 1)]
        unknown = node_key[found] != key
        if unknown.any():
            first = int(unknown.argmax())
            graph = "" if graphs is None else " in its graph"
            similar = similar_id(values[first], distinct)
            hint = "" if similar is None else f", only {shown(similar)}: write ids in one way"
            raise InputError(
                f"{edges.name}: {edges.place(first)} has {shown(values[first])} in column '{name}',"
                f" but {nodes.name} has no node of that id{graph}{hint}. Add the node, or drop"
                f" the edge ({counted(int(unknown.sum()), 'such row')})."
            )
        end.append(found)
    return _Numbered(
        np.stack(end), _ptr(node_graph[row], graphs), row, id_array(node_id)[row], graphs
    )


def _graph_codes(
    edges: LoadedTable, nodes: LoadedTable, options: TableOptions
) -> tuple[Any, Array, Array]:
    """The ids of the graphs, and the index of the graph of each node [N] and each edge [E].

    Ids are in the order of the node table; -1 means that there is no such graph.
    """
    there = [options.graph in table.columns for table in (edges, nodes)]
    if options.graph is None or not any(there):
        return (
            None,
            np.zeros(nodes.num_rows, dtype=np.int64),
            np.zeros(edges.num_rows, dtype=np.int64),
        )
    if not all(there):
        has, lacks = (edges, nodes) if there[0] else (nodes, edges)
        raise InputError(
            f"{has.name} has a column '{options.graph}' that names graphs, but {lacks.name} has"
            " not. Add it there for several graphs, or say that there is one graph (graph=None,"
            " --graph-column '' on the command line)."
        )
    edge_graph, node_graph = of_one_type(
        [
            read_ids(edges, options.graph, option="graph"),
            read_ids(nodes, options.graph, option="graph"),
        ]
    )
    graphs = node_graph.unique()
    return graphs, codes(node_graph, distinct=graphs), codes(edge_graph, distinct=graphs)


def _check_once(
    node_key: Array, by_key: Array, row: Array, nodes: LoadedTable, node_id: Any
) -> None:
    again = row[by_key[1:][node_key[by_key][1:] == node_key[by_key][:-1]]]
    if len(again):
        first = int(again.min())
        raise InputError(
            f"{nodes.name}: every node must have one row. Id {shown(node_id[first])} has another in"
            f" {nodes.place(first)} ({counted(len(again), 'such row')}). Drop them; where they"
            " belong to several graphs, name the graph in a column 'graph'."
        )


def _ptr(graph_of: Array, graphs: Any) -> Array:
    counts = np.bincount(graph_of, minlength=1 if graphs is None else len(graphs))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _cut(
    numbered: _Numbered,
    edges: LoadedTable,
    weights: Array | None,
    options: TableOptions,
    notes: Mapping[str, str],
    *,
    attributes: Mapping[str, Array],
    columns: Mapping[str, Array] | None = None,
    y: Array | None = None,
) -> list[RawGraph]:
    columns_of_ends = (options.source, options.target)
    suspected = suspected_bipartite(
        numbered.end, numbered.node_ids, columns=columns_of_ends, where=edges.name
    )
    used = (*columns_of_ends, options.weight or "weight", options.graph, options.time, *attributes)
    joined = RawGraph(
        edge_index=numbered.end,
        num_nodes=len(numbered.row),
        columns=columns,
        edge_weight=weights,
        edge_columns=attributes or None,
        node_ids=numbered.node_ids,
        y=y,
        name=edges.name,
        notes={
            **notes,
            **suspected,
            **unused_edge_columns(
                [c for c in edges.columns if c not in used],
                where=edges.name,
                weighted=options.weight is not None,
            ),
        },
    )
    if numbered.graphs is None:
        return [joined]
    return cut_graphs(joined, ptr=numbered.ptr, graph_ids=numbered.graphs.to_pylist())
