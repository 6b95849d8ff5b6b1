"""Labels of whole graphs that a table gives once per node.

Legend: n rows, B graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError, shown

Array: TypeAlias = np.ndarray[Any, Any]


def level_labels(graph: GraphData, level: str) -> Array | None:
    """The labels of a graph's nodes or of its graphs, as the level asks; None where it has none.

    Labels that came with the nodes are those of their graph where all its nodes have the same.

    Args:
        graph: with or without labels.
        level: "node" or "graph".

    Raises:
        InputError: where the nodes of a graph have different labels, and graphs are asked for.
    """
    y = graph.y
    if y is None or level == "node" or len(y) != graph.num_nodes:
        return y
    names = graph.reading.labels
    parts = y.reshape(len(y), -1).T
    if len(names) != len(parts):
        names = tuple("label" if y.ndim == 1 else f"label {k}" for k in range(len(parts)))
    ids = np.arange(graph.num_graphs) if graph.graph_ids is None else graph.graph_ids
    graph_of_row = graph.graph_of_node.numpy()
    first = first_rows(
        dict(zip(names, parts, strict=True)),
        graph_of_row,
        graph_name=lambda row: shown(ids.tolist()[graph_of_row[row]]),
        where="labels",
    )
    return y[first]


def first_rows(
    columns: Mapping[str, Array],
    graph_of_row: Array,
    *,
    graph_name: Callable[[int], str],
    where: str,
) -> Array:
    """The first row of every graph, int64 [B], where columns are the same in all of its rows.

    Args:
        columns: values by name, each [n]; a missing value is equal to another missing one.
        graph_of_row: number of each row's graph, by first occurrence, int64 [n].
        graph_name: the graph of a row as a message shows it.
        where: the table, for messages.

    Raises:
        InputError: where a column has several values in one graph; names the first such graph.
    """
    _, first, graph = np.unique(graph_of_row, return_index=True, return_inverse=True)
    for name, values in columns.items():
        codes, _ = pd.factorize(values)
        differs = codes != codes[first][graph]
        if differs.any():
            row = int(differs.argmax())
            one, other = values[[first[graph[row]], row]].tolist()
            raise InputError(
                f"{where}: column '{name}' differs between the nodes of graph {graph_name(row)},"
                f" which have {_said(one)} and {_said(other)}, so it is no label of whole graphs."
                " Give all nodes of a graph the same one, or name another column. What is only to"
                " be kept out of the features is named with the option 'drop'."
            )
    return np.asarray(first, dtype=np.int64)


def _said(value: Any) -> str:
    return "no value" if pd.isna(value) else shown(value)
