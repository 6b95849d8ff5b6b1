"""Parquet tables and data frames with columns of any type, and damaged Parquet files."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.compare import check_columns, check_edges, embeddings, require
from fuzz.doors import edge_rows, node_rows
from fuzz.drawn import Drawn, draw, expected_edges
from fuzz.harness import Place
from fuzz.mutate import damaged
from graphlatent import read_graphs

_DAY = datetime.date(2024, 1, 1)
# What the values of a column are turned into.
_TYPES: dict[str, Callable[[list[Any]], Any]] = {
    "int8": lambda v: pa.array(_numbers(v, 100), pa.int8()),
    "uint64": lambda v: pa.array([2**63 + n for n in _numbers(v)], pa.uint64()),
    "float16": lambda v: pa.array([float(n) for n in _numbers(v)]).cast(pa.float16()),
    "float32": lambda v: pa.array(_numbers(v), pa.float32()),
    "nan": lambda v: pa.array([float("nan")] * len(v)),
    "infinite": lambda v: pa.array([float("inf"), *_numbers(v)[1:]], pa.float64()),
    "huge": lambda v: pa.array([1e300 * n for n in _numbers(v)], pa.float64()),
    "nulls": lambda v: pa.nulls(len(v)),
    "one null": lambda v: pa.array([None, *v[1:]]),
    "bool": lambda v: pa.array([bool(n % 2) for n in _numbers(v)]),
    "text": lambda v: pa.array([str(x) for x in v]),
    "large text": lambda v: pa.array([str(x) for x in v], pa.large_string()),
    "category": lambda v: pa.array([str(x) for x in v]).dictionary_encode(),
    "coded numbers": lambda v: pa.array(_numbers(v)).dictionary_encode(),
    "bytes": lambda v: pa.array([str(x).encode() + b"\xff" for x in v]),
    "date": lambda v: pa.array([_DAY + datetime.timedelta(n) for n in _numbers(v)]),
    "time": lambda v: pa.array(_numbers(v), pa.timestamp("ns", "UTC")),
    "duration": lambda v: pa.array(_numbers(v), pa.duration("s")),
    "decimal": lambda v: pa.array([decimal.Decimal(n) / 8 for n in _numbers(v)]),
    "list": lambda v: pa.array([[n, n] for n in _numbers(v)]),
    "empty lists": lambda v: pa.array([[] for _ in v], pa.list_(pa.int64())),
    "struct": lambda v: pa.array([{"a": n} for n in _numbers(v)]),
    "map": lambda v: pa.array([[("a", n)] for n in _numbers(v)], pa.map_(pa.string(), pa.int64())),
}


def _numbers(values: list[Any], modulus: int = 1000) -> list[int]:
    distinct = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return [distinct[value] % modulus for value in values]


def parquet(rng: random.Random, place: Place) -> None:
    """Another type, another set of columns or rows, or damaged bytes."""
    how = rng.choice((_other_type, _other_type, _other_type, _other_columns, _bytes, _precise))
    how(draw(rng), rng, place)


def _tables(graph: Drawn) -> dict[str, Any]:
    return {"edges": pa.table(edge_rows(graph)), "nodes": pa.table(node_rows(graph))}


def _read_and_embed(tables: dict[str, Any], rng: random.Random, place: Place, said: str) -> None:
    nodes = tables.get("nodes")
    if rng.random() < 0.3:
        tables = {name: table.to_pandas() for name, table in tables.items()}
        nodes = tables.get("nodes")
        data = read_graphs(tables["edges"], nodes=nodes)
    elif rng.random() < 0.5:
        data = read_graphs(tables["edges"], nodes=nodes)
    else:
        for name, table in tables.items():
            pq.write_table(table, place.folder / f"{name}.parquet")
        data = read_graphs(
            place.folder / "edges.parquet",
            nodes=None if nodes is None else place.folder / "nodes.parquet",
        )
    embeddings(data, where=said)


def _other_type(graph: Drawn, rng: random.Random, place: Place) -> None:
    tables = _tables(graph)
    if rng.random() < 0.3:
        del tables["nodes"]
    name = rng.choice(sorted(tables))
    table = tables[name]
    column, kind = rng.choice(table.column_names), rng.choice(sorted(_TYPES))
    changed = _TYPES[kind](table[column].to_pylist())
    tables[name] = table.set_column(table.column_names.index(column), column, changed)
    _read_and_embed(tables, rng, place, f"{name}.{column} as {kind}, {graph}")


def _other_columns(graph: Drawn, rng: random.Random, place: Place) -> None:
    tables = _tables(graph)
    name = rng.choice(sorted(tables))
    table = tables[name]
    how = rng.choice(("none", "no rows", "double", "rename", "drop", "no name", "wide"))
    if how == "none":
        table = table.select([])
    elif how == "no rows":
        table = table.slice(0, 0)
    elif how == "double":
        column = rng.choice(table.column_names)
        table = table.append_column(column, table[column])
    elif how == "drop":
        table = table.drop([rng.choice(table.column_names)])
    elif how == "wide":
        for i in range(300):
            table = table.append_column(f"w{i}", pa.array([float(i)] * table.num_rows))
    else:
        new = "" if how == "no name" else rng.choice(("graph", "label", "y", "weight", "id", "é\n"))
        names = list(table.column_names)
        names[rng.randrange(len(names))] = new
        table = table.rename_columns(names)
    tables[name] = table
    _read_and_embed(tables, rng, place, f"{name}: {how}, {graph}")


def _bytes(graph: Drawn, rng: random.Random, place: Place) -> None:
    for name, table in _tables(graph).items():
        pq.write_table(table, place.folder / f"{name}.parquet")
    path = place.folder / f"{rng.choice(('edges', 'nodes'))}.parquet"
    data = path.read_bytes()
    # The end of the file says where everything is.
    tail = rng.choice((len(data), 200))
    path.write_bytes(data[:-tail] + damaged(data[-tail:], rng, times=1))
    data = read_graphs(place.folder / "edges.parquet", nodes=place.folder / "nodes.parquet")
    embeddings(data, where=f"damaged {path.name} of {graph}")


def _precise(graph: Drawn, rng: random.Random, place: Place) -> None:
    """Types that hold the same values: the same graph."""
    tables = _tables(graph)
    edges = tables["edges"]
    if isinstance(graph.ids[0], str):
        kind: Any = rng.choice((pa.large_string(), pa.dictionary(pa.int32(), pa.string())))
    else:
        kind = rng.choice((pa.int64(), pa.uint64()))
    for i, name in enumerate(("source", "target")):
        edges = edges.set_column(i, name, edges[name].cast(kind))
    data = read_graphs(edges, nodes=tables["nodes"])
    where = f"ids as {kind}: {graph}"
    require(data.node_ids is not None and data.node_ids.tolist() == list(graph.ids), where)
    check_edges(data, expected_edges(graph, both=True), where=where)
    check_columns(data.columns or {}, graph.columns, where=where)
