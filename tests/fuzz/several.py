"""Several graphs at once: a graph column, a list, a folder; read as drawn, embedded alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.compare import SMALL, check_columns, check_edges, require
from fuzz.doors import as_graphml, as_text, edge_rows, node_rows
from fuzz.drawn import Drawn, draw, expected_edges
from fuzz.harness import Place
from graphlatent import GraphLaGraph, read_graphs


def _same_columns(rng: random.Random) -> list[Drawn]:
    """Two to four graphs with the same columns, and all with weights or all without."""
    number, kind = rng.randint(2, 4), rng.random() < 0.5
    graphs: list[Drawn] = []
    while len(graphs) < number:
        graph = draw(rng, text_ids=kind)
        first = graphs[0] if graphs else graph
        alike = list(graph.columns) == list(first.columns)
        if alike and (graph.weights is None) == (first.weights is None):
            graphs.append(graph)
    return graphs


def _tables(graphs: Sequence[Drawn]) -> list[dict[str, list[Any]]]:
    """The edge and the node table, with a column `graph`."""
    joined: list[dict[str, list[Any]]] = []
    for rows in (edge_rows, node_rows):
        table: dict[str, list[Any]] = {}
        for i, graph in enumerate(graphs):
            part = rows(graph)
            part["graph"] = [f"g{i}"] * len(next(iter(part.values())))
            for name, column in part.items():
                table.setdefault(name, []).extend(column)
        joined.append(table)
    return joined


def _as_csv(graphs: Sequence[Drawn], place: Place) -> Any:
    paths = place.folder / "edges.csv", place.folder / "nodes.csv"
    for path, rows in zip(paths, _tables(graphs), strict=True):
        path.write_bytes(as_text(rows))
    return paths


def _as_parquet(graphs: Sequence[Drawn], place: Place) -> Any:
    paths = place.folder / "edges.parquet", place.folder / "nodes.parquet"
    for path, rows in zip(paths, _tables(graphs), strict=True):
        pq.write_table(pa.table(rows), path)
    return paths


def _as_frames(graphs: Sequence[Drawn], place: Place) -> Any:
    edges, nodes = (pd.DataFrame(rows) for rows in _tables(graphs))
    return edges, nodes


def _as_list(graphs: Sequence[Drawn], place: Place) -> Any:
    return [(pd.DataFrame(edge_rows(g)), pd.DataFrame(node_rows(g))) for g in graphs]


def _as_folder(graphs: Sequence[Drawn], place: Place) -> Any:
    folder = place.folder / "graphs"
    folder.mkdir()
    for i, graph in enumerate(graphs):
        (folder / f"g{i}.graphml").write_bytes(as_graphml(graph))
    return folder


_FORMS = (_as_csv, _as_parquet, _as_frames, _as_list, _as_folder)


def several(rng: random.Random, place: Place) -> None:
    """Two forms of the same graphs."""
    graphs = _same_columns(rng)
    rows = []
    for form in rng.sample(_FORMS, 2):
        where = f"{form.__name__} of {graphs}"
        data = read_graphs(form(graphs, place))
        ends = np.cumsum([0, *(len(graph.ids) for graph in graphs)]).tolist()
        require(data.ptr.tolist() == ends, f"graphs end at {data.ptr.tolist()}: {where}")
        if form is not _as_list:
            ids = [] if data.graph_ids is None else data.graph_ids.tolist()
            require(ids == [f"g{i}" for i in range(len(graphs))], f"graph ids {ids}: {where}")
        expected: dict[tuple[int, int], float] = {}
        for graph, offset in zip(graphs, ends, strict=False):
            for (source, target), weight in expected_edges(graph, both=True).items():
                expected[source + offset, target + offset] = weight
        check_edges(data, expected, where=where)
        columns = {n: [v for g in graphs for v in g.columns[n]] for n in graphs[0].columns}
        check_columns(data.columns or {}, columns, where=where)
        if rng.random() < 0.5:
            found = GraphLaGraph(**SMALL).fit(data).transform(data)
            finite = found.shape[0] == len(graphs) and np.isfinite(found).all()
            require(finite, f"embeddings of {where}: {found}")
            rows.append(found)
    require(len({each.tobytes() for each in rows}) < 2, f"forms are embedded differently: {graphs}")
