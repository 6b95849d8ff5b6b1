"""Graphs out of an edge table and, where there is one, a node table.

Ids may be integers or text and are compared as given. With a graph column in the tables there are several graphs, and a
node is known by its graph and its id. No step loops over rows in Python.
Legend: N nodes, E edges, B graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.arrow import Table, load_table, to_array
from graphlatent.data.graph import RawGraph
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TableOptions:
    """Which columns mean what.

    Args:
        source: column of the edge table with the id of the node an edge starts from.
        target: column of the edge table with the id of the node an edge goes to.
        weight: column of the edge table with edge weights; None takes a column named 'weight' where there is one.
        id: column of the node table with the nodes' ids.
        graph: column, in both tables, that names the graph of an edge or a node; where it is in neither, there is one graph.
            None: never look for it.
        label: column of the node table to keep as labels (`y`); never a feature.
        features: columns of the node table to use as features; None takes all but id, graph and label.
    """

    source: str = "source"
    target: str = "target"
    weight: str | None = None
    id: str = "id"
    graph: str | None = "graph"
    label: str | None = None
    features: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise InputError(f"TableOptions: features must be a tuple of column names. Got the text {self.features!r}; write ({self.features!r},).")
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))
        if self.source == self.target:
            raise InputError(f"TableOptions: source and target must be two columns. Got {self.source!r} for both.")
        if self.label is not None and self.label in (self.features or ()):
            raise InputError(f"TableOptions: column {self.label!r} is the label and cannot be a feature as well. Take it out of one of them.")


@dataclass(frozen=True, eq=False)
class _Ids:
    """A column of ids as a pyarrow array of int64 or string, and where it stands."""

    values: Any
    where: str
    from_text: bool


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where each graph's nodes are: `order` [N] lists the rows of the node table graph by graph, `ptr` [B + 1] cuts it."""

    order: Array
    ptr: Array


def read_tables(edges: Any, nodes: Any = None, *, options: TableOptions | None = None) -> list[RawGraph]:
    """The graph, or with a graph column the graphs, in the tables.

    Nodes come in the order of the node table; without one, in ascending order of their ids. Graphs come in the order in
    which the node table first names them; without one, in ascending order.

    Args:
        edges: path (.csv, .tsv, .parquet), pandas DataFrame or pyarrow Table with one row per edge.
        nodes: the same with one row per node, or None.
        options: which columns mean what; None for the default names.

    Raises:
        InputError: where a file cannot be read, a column is not there, or an id is missing, unknown or double.
    """
    options = options or TableOptions()
    edge_table = load_table(edges, role="edges", text_columns=_named(options.source, options.target, options.graph))
    if nodes is None:
        return _read_edges_alone(edge_table, options)
    return _read_both(edge_table, load_table(nodes, role="nodes", text_columns=_named(options.id, options.graph)), options)


def _named(*names: str | None) -> list[str]:
    return [name for name in names if name is not None]


def _read_edges_alone(edges: Table, options: TableOptions) -> list[RawGraph]:
    if options.label is not None or options.features:
        raise InputError("The options 'label' and 'features' name columns of a node table, and none was given. Give 'nodes' as well.")
    ends = [_read_ids(edges, options.source, "source"), _read_ids(edges, options.target, "target")]
    source, target = _of_one_type(ends)
    if edges.num_rows == 0:
        raise InputError(f"{edges.name}: there are no rows, and no node table names the nodes. Give at least one edge, or 'nodes'.")
    ids = _sorted_distinct([source, target])
    graphs, edge_graph = None, np.zeros(edges.num_rows, dtype=np.int64)
    if options.graph in edges.columns:
        (graph_ids,) = _of_one_type([_read_ids(edges, options.graph or "", "graph")])
        graphs = _sorted_distinct([graph_ids])
        edge_graph = _codes(graph_ids, graphs)
    pair = np.stack([_codes(source, ids), _codes(target, ids)])
    key, end = np.unique(edge_graph * len(ids) + pair, return_inverse=True)
    ptr = np.searchsorted(key // len(ids), np.arange((1 if graphs is None else len(graphs)) + 1))
    layout = _Layout(np.arange(len(key)), ptr)
    return _cut(layout, edges, end.reshape(2, -1), edge_graph, graphs, _to_numpy(ids)[key % len(ids)], {}, None, options)


def _read_both(edges: Table, nodes: Table, options: TableOptions) -> list[RawGraph]:
    columns = [_read_ids(edges, options.source, "source"), _read_ids(edges, options.target, "target"), _read_ids(nodes, options.id, "id")]
    source, target, node_id = _of_one_type(columns)
    if nodes.num_rows == 0:
        raise InputError(f"{nodes.name}: there are no rows. A graph needs at least one node.")
    ids = node_id.unique()
    graphs, node_graph, edge_graph = _graph_codes(edges, nodes, options)
    node_key = node_graph * len(ids) + _codes(node_id, ids)
    order = np.argsort(node_key, kind="stable")
    _check_unique(node_key[order], order, nodes, node_id, graphs, node_graph)
    end = []
    for name, values in ((options.source, source), (options.target, target)):
        code = _codes(values, ids)
        key = np.where((code >= 0) & (edge_graph >= 0), edge_graph * len(ids) + code, -1)
        position = np.minimum(np.searchsorted(node_key[order], key), len(order) - 1)
        unknown = node_key[order][position] != key
        if unknown.any():
            row = int(unknown.argmax())
            graph = "" if graphs is None else f" of graph {_shown(edges.column(options.graph or '', option='graph')[row])}"
            raise InputError(
                f"{edges.name}: column '{name}' names node {_shown(values[row])}{graph} in {edges.place(row)}, which is not in {nodes.name}. "
                "Add the node, or drop the edge."
            )
        end.append(order[position])
    layout = _layout(node_graph, 1 if graphs is None else len(graphs))
    row_of = np.empty_like(layout.order)
    row_of[layout.order] = np.arange(len(layout.order))
    features = {name: to_array(nodes, name, option="features") for name in _feature_columns(nodes, options)}
    label = None if options.label is None else to_array(nodes, options.label, option="label")
    return _cut(layout, edges, row_of[np.stack(end)], edge_graph, graphs, _to_numpy(node_id), features, label, options)


def _read_ids(table: Table, name: str, option: str) -> _Ids:
    import pyarrow as pa
    import pyarrow.compute as pc

    values, where = table.column(name, option=option), f"{table.name}, column '{name}'"
    kind = values.type
    if table.from_text and (pa.types.is_string(kind)):
        values = pc.utf8_trim_whitespace(values)
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{where}: {values.null_count} id(s) are missing, the first in {table.place(row)}. Fill them or drop the rows.")
    if pa.types.is_null(kind):  # an empty table does not say what its ids are
        return _Ids(values.cast(pa.string()), where, from_text=True)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _Ids(values.cast(pa.string()), where, from_text=table.from_text or len(values) == 0)
    try:
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return _Ids(values.cast(pa.int64()), where, from_text=len(values) == 0)
    except pa.ArrowInvalid as error:
        raise InputError(f"{where}: ids must be integers (of 64 bits) or text. Got values of type {kind} that are neither.") from error
    raise InputError(f"{where}: ids must be integers or text. Got values of type {kind}.")


def _of_one_type(columns: Sequence[_Ids]) -> list[Any]:
    """The columns all as int64, or all as string. Ids out of text files are integers where every one is written like one."""
    import pyarrow as pa

    as_integers = [_integers(c.values) for c in columns]
    fixed_integer = [c for c in columns if not c.from_text and not pa.types.is_string(c.values.type)]
    fixed_text = [c for c in columns if not c.from_text and pa.types.is_string(c.values.type)]
    not_integer = [c for c, integers in zip(columns, as_integers, strict=True) if integers is None]
    other = (fixed_text or not_integer)[:1]
    if fixed_integer and other:
        raise InputError(
            f"{fixed_integer[0].where} holds integers, but {other[0].where} holds text such as {_shown(other[0].values[0])}. "
            "Ids must be of one type in all tables: turn one of the columns into the other's type."
        )
    if fixed_text or not_integer:
        return [c.values.cast(pa.string()) for c in columns]
    return as_integers


def _integers(values: Any) -> Any:
    """The ids as int64, or None where one is not written as an integer is (such as '007')."""
    import pyarrow as pa

    if not pa.types.is_string(values.type):
        return values
    try:
        integers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return integers if integers.cast(pa.string()).equals(values) else None


def _sorted_distinct(columns: Sequence[Any]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    distinct = pa.concat_arrays(list(columns)).unique()
    return distinct.take(pc.array_sort_indices(distinct))


def _codes(values: Any, distinct: Any) -> Array:
    """The position of each value in `distinct`, int64; -1 where it is not there."""
    import pyarrow.compute as pc

    codes: Array = pc.fill_null(pc.index_in(values, value_set=distinct), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _to_numpy(values: Any) -> Array:
    array: Array = values.to_numpy(zero_copy_only=False)
    return array


def _shown(scalar: Any) -> str:
    return repr(scalar.as_py())


def _graph_codes(edges: Table, nodes: Table, options: TableOptions) -> tuple[Any, Array, Array]:
    there = [options.graph in table.columns for table in (edges, nodes)]
    if not any(there):
        return None, np.zeros(nodes.num_rows, dtype=np.int64), np.zeros(edges.num_rows, dtype=np.int64)
    if not all(there):
        has, lacks = (edges, nodes) if there[0] else (nodes, edges)
        raise InputError(
            f"{has.name} has a column '{options.graph}' that names graphs, but {lacks.name} has not. Add it there for several graphs, "
            "or set the option 'graph' to None for one graph."
        )
    name = options.graph or ""
    edge_graph, node_graph = _of_one_type([_read_ids(edges, name, "graph"), _read_ids(nodes, name, "graph")])
    graphs = node_graph.unique()
    return graphs, _codes(node_graph, graphs), _codes(edge_graph, graphs)


def _check_unique(sorted_key: Array, order: Array, nodes: Table, node_id: Any, graphs: Any, node_graph: Array) -> None:
    twice = sorted_key[1:] == sorted_key[:-1]
    if twice.any():
        first = int(order[1:][twice].min())
        graph = "" if graphs is None else f" of graph {_shown(graphs[int(node_graph[first])])}"
        raise InputError(
            f"{nodes.name}: every node must stand there once. Node {_shown(node_id[first])}{graph} stands there again in "
            f"{nodes.place(first)}; {int(twice.sum())} row(s) repeat an id. Drop them."
        )


def _layout(graph_of_row: Array, num_graphs: int) -> _Layout:
    ptr = np.concatenate([[0], np.cumsum(np.bincount(graph_of_row, minlength=num_graphs))])
    return _Layout(np.argsort(graph_of_row, kind="stable"), ptr)


def _feature_columns(nodes: Table, options: TableOptions) -> Sequence[str]:
    if options.features is not None:
        return options.features
    return [name for name in nodes.columns if name not in (options.id, options.graph, options.label)]


def _weights(edges: Table, options: TableOptions) -> Array | None:
    import pyarrow as pa

    name = options.weight or "weight"
    if options.weight is None and name not in edges.columns:
        return None
    column = edges.column(name, option="weight")
    kind = column.type
    if edges.num_rows and not any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)):
        raise InputError(f"{edges.name}: weight column '{name}' must hold numbers. Got values of type {kind}.")
    weights = _to_numpy(column.cast(pa.float64()))
    wrong = ~np.isfinite(weights)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{edges.name}: weight column '{name}' must hold finite numbers. Got {weights[row]} (or nothing) in {edges.place(row)}.")
    return weights


def _cut(
    layout: _Layout,
    edges: Table,
    end: Array,
    edge_graph: Array,
    graphs: Any,
    node_ids: Array,
    features: dict[str, Array],
    label: Array | None,
    options: TableOptions,
) -> list[RawGraph]:
    """One `RawGraph` per graph; `end` [2, E] counts nodes in the order of `layout`."""
    weights = _weights(edges, options)
    edge_layout = _layout(edge_graph, len(layout.ptr) - 1)
    made = []
    for graph in range(len(layout.ptr) - 1):
        start, stop = int(layout.ptr[graph]), int(layout.ptr[graph + 1])
        rows, of_graph = layout.order[start:stop], edge_layout.order[edge_layout.ptr[graph] : edge_layout.ptr[graph + 1]]
        graph_id = None if graphs is None else graphs[graph].as_py()
        made.append(
            RawGraph(
                edge_index=end[:, of_graph] - start,
                num_nodes=stop - start,
                columns={name: values[rows] for name, values in features.items()} or None,
                edge_weight=None if weights is None else weights[of_graph],
                node_ids=node_ids[rows],
                graph_id=graph_id,
                y=None if label is None else label[rows],
                name=edges.name if graphs is None else f"graph {graph_id!r} of {edges.name}",
            )
        )
    return made
