"""One graph written in every form that can be read.

A door gives the value for `read_graphs` and whether the form has ids, directions and named columns.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from fuzz.drawn import Drawn, expected_edges


@dataclass(frozen=True)
class Door:
    """A form of input.

    Args:
        write: (graph, folder) -> what `read_graphs` is given.
        columns: features are named columns; else a matrix, of the numeric columns only.
        has_ids: the ids come back; else nodes are 0, 1, 2, ...
        tells_direction: an undirected graph is known to be one.
        text_only: ids come back as text.
    """

    write: Callable[[Drawn, Path], Any]
    columns: bool = True
    has_ids: bool = True
    tells_direction: bool = False
    text_only: bool = False


def edge_rows(graph: Drawn) -> dict[str, list[Any]]:
    """The edge table, column by column."""
    rows: dict[str, list[Any]] = {
        "source": [graph.ids[s] for s, _ in graph.edges],
        "target": [graph.ids[t] for _, t in graph.edges],
    }
    return rows if graph.weights is None else {**rows, "weight": list(graph.weights)}


def node_rows(graph: Drawn) -> dict[str, list[Any]]:
    """The node table, column by column."""
    return {"id": list(graph.ids), **{n: list(c) for n, c in graph.columns.items()}}


def as_text(rows: Mapping[str, list[Any]], delimiter: str = ",") -> bytes:
    """A table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(rows)
    writer.writerows(zip(*rows.values(), strict=True))
    return out.getvalue().encode()


def as_graphml(graph: Drawn) -> bytes:
    """The graph as GraphML."""
    default = "directed" if graph.directed else "undirected"
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<graphml>"]
    for name, column in graph.columns.items():
        kind = {str: "string", int: "int"}.get(type(column[0]), "double")
        lines.append(f'<key id="{name}" for="node" attr.name="{name}" attr.type="{kind}"/>')
    if graph.weights is not None:
        lines.append('<key id="w" for="edge" attr.name="weight" attr.type="double"/>')
    lines.append(f'<graph edgedefault="{default}">')
    for i, node in enumerate(graph.ids):
        data = "".join(
            f'<data key="{name}">{escape(str(column[i]))}</data>'
            for name, column in graph.columns.items()
        )
        lines.append(f"<node id={_attribute(node)}>{data}</node>")
    for number, (source, target) in enumerate(graph.edges):
        data = "" if graph.weights is None else f'<data key="w">{graph.weights[number]!r}</data>'
        ends = f"source={_attribute(graph.ids[source])} target={_attribute(graph.ids[target])}"
        lines.append(f"<edge {ends}>{data}</edge>")
    return "\n".join([*lines, "</graph>", "</graphml>"]).encode()


def _attribute(value: object) -> str:
    return quoteattr(str(value), {"\n": "&#10;", "\t": "&#9;"})


def as_npz(graph: Drawn) -> dict[str, Any]:
    """The arrays of a gnn-benchmark file."""
    matrix = adjacency(graph)
    arrays = {
        f"adj_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")
    }
    x = _matrix(graph)
    return arrays if x is None else {**arrays, "attr_matrix": x}


def adjacency(graph: Drawn) -> sp.csr_matrix:
    """The adjacency, where repeated edges are merged already: SciPy would add them up."""
    edges = expected_edges(graph, both=False)
    rows, cols = ([edge[i] for edge in edges] for i in (0, 1))
    size = len(graph.ids)
    return sp.csr_matrix((list(edges.values()), (rows, cols)), shape=(size, size), dtype=float)


def _matrix(graph: Drawn) -> np.ndarray[Any, Any] | None:
    rows = graph.numbers
    return np.array(rows, dtype=np.float64) if rows[0] else None


def _csv(graph: Drawn, folder: Path, suffix: str = ".csv") -> Any:
    delimiter = "\t" if ".tsv" in suffix else ","
    paths = folder / f"edges{suffix}", folder / f"nodes{suffix}"
    for path, rows in zip(paths, (edge_rows(graph), node_rows(graph)), strict=True):
        data = as_text(rows, delimiter)
        path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    return paths


def _parquet(graph: Drawn, folder: Path) -> Any:
    paths = folder / "edges.parquet", folder / "nodes.parquet"
    for path, table in zip(paths, _arrow(graph, folder), strict=True):
        pq.write_table(table, path)
    return paths


def _arrow(graph: Drawn, folder: Path) -> Any:
    return pa.table(edge_rows(graph)), pa.table(node_rows(graph))


def _pandas(graph: Drawn, folder: Path) -> Any:
    return pd.DataFrame(edge_rows(graph)), pd.DataFrame(node_rows(graph))


def _graphml(graph: Drawn, folder: Path) -> Any:
    path = folder / "graph.graphml"
    path.write_bytes(as_graphml(graph))
    return path


def _networkx(graph: Drawn, folder: Path) -> Any:
    import networkx as nx

    made = nx.MultiDiGraph() if graph.directed else nx.MultiGraph()
    for i, node in enumerate(graph.ids):
        made.add_node(node, **{name: column[i] for name, column in graph.columns.items()})
    for number, (source, target) in enumerate(graph.edges):
        weight = {} if graph.weights is None else {"weight": graph.weights[number]}
        made.add_edge(graph.ids[source], graph.ids[target], **weight)
    return made


def _arrays(graph: Drawn, folder: Path) -> Any:
    edges = np.array(graph.edges, dtype=np.int64).reshape(-1, 2).T
    x = _matrix(graph)
    if x is None:
        # Without features the number of nodes must be said.
        return _scipy(graph, folder)
    return (edges, x) if graph.weights is None else (edges, x, np.array(graph.weights))


def _scipy(graph: Drawn, folder: Path) -> Any:
    x = _matrix(graph)
    return adjacency(graph) if x is None else (adjacency(graph), x)


def _pyg(graph: Drawn, folder: Path) -> Any:
    import torch
    from torch_geometric.data import Data

    x = _matrix(graph)
    return Data(
        x=None if x is None else torch.from_numpy(x).float(),
        edge_index=torch.tensor(graph.edges, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        edge_weight=None if graph.weights is None else torch.tensor(graph.weights),
        num_nodes=len(graph.ids),
    )


def _npz(graph: Drawn, folder: Path) -> Any:
    np.savez(folder / "graph.npz", **as_npz(graph))
    return folder / "graph.npz"


DOORS = {
    "csv": Door(_csv),
    "tsv": Door(lambda graph, folder: _csv(graph, folder, ".tsv")),
    "csv.gz": Door(lambda graph, folder: _csv(graph, folder, ".csv.gz")),
    "parquet": Door(_parquet),
    "arrow": Door(_arrow),
    "pandas": Door(_pandas),
    "graphml": Door(_graphml, tells_direction=True, text_only=True),
    "networkx": Door(_networkx, tells_direction=True),
    "arrays": Door(_arrays, columns=False, has_ids=False),
    "scipy": Door(_scipy, columns=False, has_ids=False),
    "pyg": Door(_pyg, columns=False, has_ids=False),
    "npz": Door(_npz, columns=False, has_ids=False),
}


def write_tu(graph: Drawn, folder: Path, labels: list[int]) -> Path:
    """The graph as a TU data set of one graph, with node labels."""
    folder.mkdir(exist_ok=True)
    files = {
        "A": "".join(f"{s + 1}, {t + 1}\n" for s, t in graph.edges),
        "graph_indicator": "1\n" * len(graph.ids),
        "graph_labels": "1\n",
        "node_labels": "".join(f"{label}\n" for label in labels),
    }
    for name, text in files.items():
        (folder / f"{folder.name}_{name}.txt").write_text(text)
    return folder
