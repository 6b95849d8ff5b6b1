"""Damaged tables: text as it is and compressed, and Parquet with columns of any type.

A table that is accepted must give what Python's csv module finds in it, wherever that is beyond
doubt; and the same graph, or a message too, when it comes compressed.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.compare import check_edges, embeddings, plain_values, require
from fuzz.doors import as_text, edge_rows, node_rows
from fuzz.drawn import draw, merged
from fuzz.harness import Place, SilentChange, command
from fuzz.mutate import damaged
from graphlatent import GraphData, read_graphs
from graphlatent.errors import GraphLatentError

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


def text_tables(rng: random.Random, place: Place) -> None:
    """Read damaged edges, with or without a node table."""
    graph = draw(rng)
    suffix, delimiter = rng.choice(((".csv", ","), (".csv", ","), (".tsv", "\t")))
    edges = as_text(edge_rows(graph), delimiter)
    nodes = as_text(node_rows(graph), delimiter) if rng.random() < 0.5 else None
    if nodes is None or rng.random() < 0.5:
        edges = damaged(edges, rng)
    else:
        nodes = damaged(nodes, rng)
    paths = [place.folder / f"{name}{suffix}" for name in ("edges", "nodes")]
    for path, data in zip(paths, (edges, nodes), strict=True):
        if data is not None:
            path.write_bytes(data)
            (path.parent / f"{path.name}.gz").write_bytes(gzip.compress(data))
    if rng.random() < 0.15:
        _through_commands(paths[0], paths[1] if nodes is not None else None, place)
        return
    compressed = [path.parent / f"{path.name}.gz" for path in paths]
    try:
        data = _read(paths, nodes is not None)
    except GraphLatentError:
        # Refused compressed, too.
        _read(compressed, nodes is not None)
        raise SilentChange(f"refused, but accepted compressed: {edges!r} {nodes!r}") from None
    other = _read(compressed, nodes is not None)
    require(
        plain_values(data) == plain_values(other), f"another graph compressed: {edges!r} {nodes!r}"
    )
    check_against_csv(data, edges, nodes, delimiter)
    if rng.random() < 0.3:
        embeddings(data, where=f"{edges!r} {nodes!r}")


def _read(paths: list[Path], has_nodes: bool) -> GraphData:
    return read_graphs(paths[0], nodes=paths[1] if has_nodes else None)


def _through_commands(edges: Path, nodes: Path | None, place: Place) -> None:
    table = () if nodes is None else ("--nodes", nodes)
    if random.Random(edges.stat().st_size).random() < 0.5:
        command("info", edges, *table, "--json")
        return
    run, again = place.folder / "run", place.folder / "again.npz"
    small = ("--set", "epochs=1", "--set", "hidden_dim=4", "--set", "device=cpu")
    command("train", edges, *table, "--out", run, *small, "--quiet")
    command("embed", run, edges, *table, "--out", again, "--quiet")
    import pandas as pd

    trained = pd.read_parquet(run / "embeddings.parquet").filter(regex=r"^e\d+$").to_numpy()
    with np.load(again, allow_pickle=False) as file:
        rows = file[max(file.files, key=lambda name: file[name].ndim)]
    require(np.isfinite(trained).all(), f"embeddings are not finite: {edges.read_bytes()!r}")
    require(np.array_equal(trained, rows), f"embed differs from train: {edges.read_bytes()!r}")


def check_against_csv(data: GraphData, edges: bytes, nodes: bytes | None, delimiter: str) -> None:
    """The graph is the one that the csv module finds, where it finds one beyond doubt."""
    table = _rows(edges, delimiter)
    names = None if nodes is None else _rows(nodes, delimiter)
    if table is None or (nodes is not None and names is None):
        return
    if not {"source", "target"} <= table.keys() or "graph" in {*table, *(names or {})}:
        return
    texts = [*table["source"], *table["target"], *((names or {}).get("id", []))]
    where = f"{edges!r} {nodes!r}"
    require(all(texts), f"an empty id was accepted: {where}")
    found = [str(each) for each in (data.node_ids.tolist() if data.node_ids is not None else [])]
    if names is not None:
        require(found == names["id"], f"ids {found} of {where}")
    else:
        require(set(found) == set(texts), f"ids {found} of {where}")
    _check_weights(data, table, found, where)
    for name, column in (names or {}).items():
        if name != "id" and data.columns and name in data.columns:
            _check_column(data.columns[name].tolist(), column, f"column {name!r} of {where}")


def _check_weights(
    data: GraphData, table: dict[str, list[str]], ids: list[str], where: str
) -> None:
    position = {node: i for i, node in enumerate(ids)}
    weights = [_number(text) for text in table.get("weight", ["1"] * len(table["source"]))]
    listed: dict[tuple[int, int], list[float]] = {}
    for source, target, weight in zip(table["source"], table["target"], weights, strict=True):
        if weight is None:
            raise SilentChange(f"a weight that is no number was accepted: {where}")
        pair = position[source], position[target]
        for edge in {pair, pair[::-1]}:
            listed.setdefault(edge, []).append(weight)
    check_edges(data, {edge: merged(w) for edge, w in listed.items()}, where=where)


def _check_column(found: list[Any], texts: list[str], where: str) -> None:
    """Numbers as Python reads them, if the column was taken for numbers; else the texts.

    Whether blanks at the ends of a text belong to it is left open.
    """
    for value, text in zip(found, texts, strict=True):
        if isinstance(value, str):
            require(value.strip() == text, f"{value!r} instead of {text!r} in {where}")
        elif isinstance(value, bool):
            require(text.lower() in ("true", "false", "0", "1"), f"{value!r} of {text!r}: {where}")
        elif value is not None and not np.isnan(value):
            # An integer above 2^53 is exact, and a float is not.
            same = _number(text) == (float(value) if isinstance(value, int) else value)
            exact = not isinstance(value, int) or str(value) == text.strip().lstrip("+")
            require(
                same and (exact or abs(value) <= 2**53),
                f"{value!r} instead of {text!r} in {where}",
            )


def _number(text: str) -> float | None:
    """The number that the text says, hexadecimal ones too; None where it says none."""
    try:
        return int(text, 16) if text.lower().startswith(("0x", "-0x")) else float(text)
    except ValueError:
        return None


def _rows(data: bytes, delimiter: str) -> dict[str, list[str]] | None:
    """Columns by name; None where readers may differ in good faith."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    if any(mark in text for mark in ('"', "\r", "\0", "\\", "\x1a")):
        return None
    header, *rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) or [[]]
    rows = [row for row in rows if row]
    regular = all(len(row) == len(header) for row in rows) and len(set(header)) == len(header)
    if not regular or len(header) < 2:
        return None
    return {name: [row[i].strip() for row in rows] for i, name in enumerate(header)}
