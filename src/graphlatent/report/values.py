"""Values by which the points of a map are coloured, joined to embeddings by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.graph_labels import level_labels
from graphlatent.data.readers.labels import read_labels
from graphlatent.data.readers.options import options_of_run
from graphlatent.display import listed
from graphlatent.errors import InputError
from graphlatent.io.runfolder import RunFolder
from graphlatent.probes.evaluation import files
from graphlatent.saved import node_table, read_input

Array: TypeAlias = np.ndarray[Any, Any]
# What the labels that came with a graph are called
OF_GRAPH = ("label", "labels", "y", "class")


def values_of(
    embeddings: Path, column: str, *, table: Path | None = None, id_column: str | None = None
) -> Array:
    """The value of every embedded row [M]: numbers, truth values, or objects with None.

    Args:
        embeddings: a run folder or a file of embeddings.
        column: of the table; 'label' for the labels of a graph that has no node table.
        table: with ids and the column; None for the node table of the run, or the labels in it.
        id_column: the column of ids in `table`; None for that of the run or of the embeddings.

    Raises:
        InputError: where there is no such column, or a row has no value in the table.
    """
    keys = files.read_embeddings(embeddings).keys
    run = RunFolder(embeddings)
    options = options_of_run(run)
    if table is None:
        if not run.started:
            raise InputError(
                f"Which table has the column '{column}'? {embeddings} is a file of embeddings, so"
                " name the table by --labels."
            )
        table = node_table(run)
        of_run = options.graph if keys.names == ("graph",) else options.id
        id_column = id_column or of_run
    if table is None:
        return _labels_of_graph(run, column)
    found = read_labels(
        table, label=[column], id_column=id_column, rows=keys, option="color", options=options
    )
    return next(iter(found.joined_to(keys, partial=True).values()))


def _labels_of_graph(run: RunFolder, column: str) -> Array:
    graph = read_input(run)
    # Columns of nodes are no values of graphs.
    columns = (graph.columns or {}) if run.read_config().level == "node" else {}
    if column in columns:
        return columns[column]
    if column not in (*OF_GRAPH, *graph.reading.labels):
        raise InputError(
            f"The graph of {run.path} has no column '{column}'. Columns found:"
            f" {listed(columns)}. Give a table with ids by --labels, or --color label for the"
            " labels of the graph."
        )
    labels = level_labels(graph, run.read_config().level or "node")
    if labels is None or labels.ndim != 1:
        what = "has no labels" if labels is None else "has several labels per row"
        raise InputError(
            f"The graph of {run.path} {what}. Give a table with ids and one column by --labels."
        )
    return labels
