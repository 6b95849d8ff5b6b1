"""Damaged GraphML files, .npz files and TU folders."""

from __future__ import annotations

import io
import random
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.compare import check_edges, embeddings, require
from fuzz.doors import as_graphml, as_npz, write_tu
from fuzz.drawn import draw, merged, numeric_only
from fuzz.harness import Place, command
from fuzz.mutate import damaged
from graphlatent import read_graphs

_XML = (
    *(b'<node id="n1"/>', b"<node/>", b"<graph>", b"</graph>", b"<edge/>", b"<data>1</data>"),
    *(b'<edge source="x" target="y"/>', b'<data key="none">1</data>', b"<key/>", b"<hyperedge/>"),
    *(b'<key id="k" attr.name="f0" attr.type="int" for="node"/>', b"<port/>", b"<!-- -->"),
    *(b'<key id="k" attr.name="z" attr.type="float" for="node"><default>nan</default></key>',),
    *(b'<!DOCTYPE a [<!ENTITY b "c">]>', b"<?xml version='1.1'?>", b"&b;", b"<a>" * 50_000),
    *(b'<edge directed="perhaps" source="n0" target="n0"/>', b"<graph/>", b"</graphml>x"),
)


def graphml(rng: random.Random, place: Place) -> None:
    """Damaged bytes, or elements where none belong; two files of a folder at times."""
    data = as_graphml(draw(rng))
    if rng.random() < 0.4:
        lines = data.split(b"\n")
        for _ in range(rng.randint(1, 3)):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(_XML))
        data = b"\n".join(lines)
    if rng.random() < 0.7:
        data = damaged(data, rng)
    path = place.folder / "graph.graphml"
    path.write_bytes(data)
    if rng.random() < 0.2:
        (place.folder / "other.graphml").write_bytes(as_graphml(draw(rng)))
        read = place.folder
    else:
        read = path
    if rng.random() < 0.15:
        command("info", read, "--json")
        return
    graph = read_graphs(read)
    if rng.random() < 0.5:
        embeddings(graph, where=repr(data))


def _arrays(rng: random.Random) -> dict[str, Any]:
    """The arrays of a file, one of them changed."""
    graph = numeric_only(draw(rng))
    arrays = {name: np.asarray(value) for name, value in as_npz(graph).items()}
    if rng.random() < 0.5 and "attr_matrix" in arrays:
        import scipy.sparse as sp

        x = sp.csr_matrix(arrays.pop("attr_matrix"))
        arrays |= {f"attr_{p}": np.asarray(getattr(x, p)) for p in ("data", "indices", "indptr")}
        arrays["attr_shape"] = np.asarray(x.shape)
    arrays["labels"] = np.zeros(len(graph.ids), dtype=np.int64)
    name = rng.choice(sorted(arrays))
    arrays[name] = _changed(arrays[name], rng)
    if rng.random() < 0.15:
        del arrays[rng.choice(sorted(arrays))]
    return arrays


def _changed(array: Any, rng: random.Random) -> Any:
    how = rng.randrange(9)
    if how == 0:
        return array.astype(
            rng.choice(("f4", "f2", "i1", "u8", "c16", "?", "S4", "U4", "M8[s]", "m8[s]", "f8"))
        )
    if how == 1:
        return rng.choice((array[:-1], array[:0], np.concatenate([array, array]), array[None]))
    if how == 2:
        return np.array(rng.choice((3, -1, 2**62, np.nan, "text", 1e300, True)))
    if how == 3:
        return array.reshape(-1, 1)
    if how == 4:
        # Rows or columns beyond all memory, in a file of a kilobyte.
        return np.array([rng.choice((10**6, 10**9, 2**62)), rng.choice((3, 10**6, 10**9))])
    flat = array.copy().reshape(-1)
    if flat.size:
        values: tuple[Any, ...] = (0, 1, -1, 127, 10**6, 2**31 - 1)
        values += (np.nan, np.inf, -np.inf, 1e30, 1e38) if flat.dtype.kind == "f" else ()
        flat[rng.randrange(flat.size)] = rng.choice(values)
    return flat.reshape(array.shape)


def npz(rng: random.Random, place: Place) -> None:
    """Changed arrays, objects instead of numbers, damaged bytes, or a header that lies."""
    path, how = place.folder / "graph.npz", rng.randrange(10)
    arrays = _arrays(rng)
    if how == 0:
        arrays["labels"] = np.array([{"a": 1}, None], dtype=object)
    np.savez(path, **arrays)
    if how in (1, 2):
        path.write_bytes(damaged(path.read_bytes(), rng))
    elif how in (3, 4):
        _damage_member(path, rng)
    graph = read_graphs(path)
    if rng.random() < 0.5:
        embeddings(graph, where=repr(arrays))


def _damage_member(path: Any, rng: random.Random) -> None:
    """Damage inside an array file, with a right checksum of the archive."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    name, out = rng.choice(sorted(parts)), io.BytesIO()
    head = parts[name][:128].replace(b"(", b"(99999999999," if rng.random() < 0.3 else b"(")
    parts[name] = damaged(head, rng, times=1) + parts[name][128:]
    with zipfile.ZipFile(out, "w", compression=zipfile.ZIP_DEFLATED) as file:
        for each, data in parts.items():
            file.writestr(each, data)
    path.write_bytes(out.getvalue())


def tu(rng: random.Random, place: Place) -> None:
    """A damaged, missing or additional file of a TU folder; edges are compared with its lines."""
    graph = replace(draw(rng), weights=None)
    folder = write_tu(graph, place.folder / "SET", [rng.randint(0, 3) for _ in graph.ids])
    if rng.random() < 0.3:
        (folder / "SET_node_attributes.txt").write_text("0.5, 1\n" * len(graph.ids))
    path = rng.choice(sorted(folder.iterdir()))
    where = f"{path.name} is missing"
    if rng.random() < 0.08:
        path.unlink()
    else:
        path.write_bytes(damaged(path.read_bytes(), rng))
        where = f"{path.name}: {path.read_bytes()!r}"
    data = read_graphs(folder)
    pairs = _numbers(folder / "SET_A.txt")
    graph_of = _numbers(folder / "SET_graph_indicator.txt")
    if pairs is not None and graph_of is not None:
        order = sorted(range(len(graph_of)), key=lambda i: graph_of[i][0])
        position = {int(node) + 1: i for i, node in enumerate(order)}
        ends = [(position[int(s)], position[int(t)]) for s, t in pairs if s != t]
        expected = {edge: merged([1.0]) for e in ends for edge in (e, e[::-1])}
        require(data.num_nodes == len(graph_of), f"{data.num_nodes} nodes of {where}")
        check_edges(data, expected, where=where)
    if rng.random() < 0.3:
        embeddings(data, where=where)


def _numbers(path: Any) -> list[list[float]] | None:
    """The numbers in each line; None where readers may differ in good faith."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return None
    if any(mark in text for mark in ('"', "\r", "\0", "\\", "_")):
        return None
    try:
        return [[float(v) for v in line.split(",")] for line in text.split("\n") if line.strip()]
    except ValueError as error:
        require(False, f"{path.name} was accepted, but {error}: {text!r}")
        return None
