"""The options by which a command learns how to read its input, and the reading itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from graphlatent.data.graph import GraphData
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.read import read_graphs

Input: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help=(
            "Edge table (.csv .tsv .parquet, or .csv.gz), .graphml, .npz, TU folder, or a data"
            " set's name."
        ),
    ),
]
Nodes: TypeAlias = Annotated[
    Path | None, typer.Option("--nodes", help="Node table with ids and feature columns.")
]
Source: TypeAlias = Annotated[
    str | None, typer.Option("--source", help="Edge table: column of the edge's start ('source').")
]
Target: TypeAlias = Annotated[
    str | None, typer.Option("--target", help="Edge table: column of the edge's end ('target').")
]
Weight: TypeAlias = Annotated[
    str | None, typer.Option("--weight", help="Edge table: column of weights ('weight', if there).")
]
Id: TypeAlias = Annotated[
    str | None, typer.Option("--id", help="Node table: column of ids ('id').")
]
GraphColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--graph-column",
        help="Both tables: column that says which graph a row is of ('graph', if there).",
    ),
]
Label: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--label", help="Node table: column of labels, kept out of the features; repeat for more."
    ),
]
FeatureNames: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="Node table: feature columns, separated by commas (all but ids and labels).",
    ),
]


def table_options(
    source: str | None,
    target: str | None,
    weight: str | None,
    node_id: str | None,
    graph: str | None,
    label: list[str] | None,
    features: str | None,
    *,
    before: TableOptions | None = None,
) -> TableOptions:
    """The column names given on the command line; what was not given is as `before`, or else the
    default.
    """
    names = (
        None
        if features is None
        else tuple(name.strip() for name in features.split(",") if name.strip())
    )
    given = {
        "source": source,
        "target": target,
        "weight": weight,
        "id": node_id,
        "graph": graph,
        "label": label or None,
        "features": names,
    }
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(before or TableOptions(), **chosen)


def read_input(
    source: str, nodes: Path | None, options: TableOptions, *, symmetrize: bool
) -> GraphData:
    """The graphs of a command's input."""
    return read_graphs(source, nodes=nodes, symmetrize=symmetrize, options=options)


def about_graph(graph: GraphData) -> dict[str, Any]:
    """What is in a graph, in plain numbers."""
    degree = graph.degree
    described: dict[str, Any] = {
        "graphs": graph.num_graphs,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "undirected": graph.undirected,
        "weighted": graph.edge_weight is not None,
        "mean_degree": round(float(degree.float().mean()), 3),
        "max_degree": int(degree.max()),
        "isolated_nodes": int((degree == 0).sum()),
        "features": describe_features(graph),
        "labels": graph.y is not None,
        "notes": list(graph.notes),
    }
    return described


def describe_features(graph: GraphData) -> str:
    """The features of a graph in words."""
    if graph.columns is not None:
        names = list(graph.columns)
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return f"{len(names)} columns: {listed}"
    if graph.x is None:
        return "none (node degrees will be used)"
    kind = (
        "dense"
        if not hasattr(graph.x, "nnz")
        else f"sparse, {graph.x.nnz / max(graph.x.shape[0] * graph.x.shape[1], 1):.2%} filled"
    )
    return f"{graph.x.shape[1]} ({kind})"
