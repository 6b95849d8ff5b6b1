"""What was read, compared with what had been drawn; embeddings, checked and compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fuzz.doors import Door
from fuzz.drawn import Drawn, expected_edges
from fuzz.harness import SilentChange
from graphlatent import GraphData, NodeLaGraph

# Small and fast; every part of the default still runs.
SMALL = {"epochs": 1, "hidden_dim": 4, "device": "cpu"}


def require(holds: object, text: str) -> None:
    """Raise `SilentChange` where something does not hold."""
    if not holds:
        raise SilentChange(text)


def check_read(graph: Drawn, data: GraphData, door: Door, *, symmetrize: bool, where: str) -> None:
    """Nodes, ids, edges, weights and features are those that were written."""
    require(data.num_nodes == len(graph.ids), f"{where}: {data.num_nodes} nodes, {graph.ids}")
    found = [None] * len(graph.ids) if data.node_ids is None else data.node_ids.tolist()
    if door.has_ids:
        ids = [str(each) for each in graph.ids] if door.text_only else list(graph.ids)
        require(found == ids, f"{where}: ids {found} instead of {ids}")
    undirected = door.tells_direction and not graph.directed
    check_edges(data, expected_edges(graph, both=symmetrize or undirected), where=where)
    if door.columns:
        check_columns(data.columns or {}, graph.columns, where=where)
    else:
        check_matrix(data, graph.numbers, where=where)


def check_edges(data: GraphData, expected: Mapping[tuple[int, int], float], *, where: str) -> None:
    """The directed edges and their weights (1 where there are none)."""
    pairs = [(int(s), int(t)) for s, t in data.edge_index.T.tolist()]
    require(len(set(pairs)) == len(pairs), f"{where}: an edge is there twice: {pairs}")
    weights = [1.0] * len(pairs) if data.edge_weight is None else data.edge_weight.tolist()
    found = dict(zip(pairs, weights, strict=True))
    require(
        found.keys() == expected.keys(),
        f"{where}: edges {sorted(found)} instead of {sorted(expected)}",
    )
    wrong = {e: (found[e], w) for e, w in expected.items() if found[e] != np.float32(w)}
    require(not wrong, f"{where}: weights (found, expected) {wrong}")


def check_columns(
    found: Mapping[str, Any], expected: Mapping[str, Sequence[Any]], *, where: str
) -> None:
    """Named columns of numbers or text."""
    require(list(found) == list(expected), f"{where}: columns {list(found)}, not {list(expected)}")
    for name, column in expected.items():
        same = len(found[name]) == len(column) and all(map(_same, found[name], column))
        require(same, f"{where}: column {name!r} is {list(found[name])} instead of {list(column)}")


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, str):
        return isinstance(found, str) and found == expected
    if isinstance(found, str) or found is None:
        return False
    return math.isclose(float(found), float(expected), rel_tol=1e-12)


def check_matrix(data: GraphData, rows: list[list[float]], *, where: str) -> None:
    """A feature matrix; none where there are no numeric columns."""
    found = dense(data.x)
    if found is None:
        require(not rows[0], f"{where}: no features instead of {rows}")
        return
    require(np.array_equal(found, np.array(rows, dtype=np.float32)), f"{where}: features {found}")


def dense(x: Any) -> Any:
    """A feature matrix as a dense array."""
    if x is None or isinstance(x, Tensor):
        return None if x is None else x.numpy()
    matrix = np.zeros(x.shape, dtype=np.float32)
    row = np.repeat(np.arange(x.shape[0]), np.diff(x.crow.numpy()))
    np.add.at(matrix, (row, x.col.numpy()), x.value.numpy())
    return matrix


def embeddings(data: GraphData, *, where: str, **settings: Any) -> Any:
    """Embeddings of a small model fitted on the graph; finite, and one row for each node."""
    rows = NodeLaGraph(**{**SMALL, **settings}).fit(data).transform(data)
    require(len(rows) == data.num_nodes, f"{where}: {len(rows)} rows for {data.num_nodes} nodes")
    require(np.isfinite(rows).all(), f"{where}: embeddings are not finite: {rows}")
    return rows


def plain_values(data: GraphData) -> str:
    """Edges, weights, ids, columns, features and graphs as text; equal for equal graphs."""
    weights = None if data.edge_weight is None else data.edge_weight.tolist()
    ids = None if data.node_ids is None else data.node_ids.tolist()
    columns = {name: column.tolist() for name, column in (data.columns or {}).items()}
    x = dense(data.x)
    x = None if x is None else x.tolist()
    return repr((data.edge_index.tolist(), weights, ids, columns, x, data.ptr.tolist()))
