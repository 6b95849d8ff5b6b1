"""Shards of a store: each is a store of some of its nodes, for a machine that has no more.

A shard has the edges between its own nodes; those to other shards are in none. What processes with
different shards need to train one model, such as how the features of the whole store are encoded,
is in shards.json beside them (share.py). Legend: N nodes, K shards.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.store.layout import (
    DEGREE,
    IDS,
    INDICES,
    INDPTR,
    LABELS,
    MANIFEST,
    ROWS_PER_GROUP,
    SHARDS,
    SHARDS_FILE,
    WEIGHT,
    X_PARTS,
    X,
    check_files,
    checksum,
    read_manifest,
    write_manifest,
)
from graphlatent.data.store.npy import NpyWriter, mapped
from graphlatent.data.store.share import (
    SHARDS_FORMAT,
    is_shards,
    read_shards,
    sealed,
    shards_here,
)
from graphlatent.data.store.store import GraphStore
from graphlatent.data.store.workspace import put_in_place, workspace
from graphlatent.errors import InputError
from graphlatent.io.atomic import write_json

Array: TypeAlias = np.ndarray[Any, Any]
Told: TypeAlias = Callable[[str, int], None]
# Rows that are copied at a time.
_BLOCK = 1 << 16
# What a manifest says of its own folder rather than of the graph.
_OWN = ("store", "written_by", "files", "input")


def write_shards(
    store: GraphStore,
    parts: Tensor,
    *,
    count: int,
    about: Mapping[str, Any],
    told: Told = lambda stage, rows: None,
) -> dict[str, Any]:
    """Write the shards of a store into its folder 'shards', in place of those that are there.

    Args:
        store: the whole graph.
        parts: the shard of each node, int64 [N].
        count: K.
        about: what shards.json is to say besides, such as the encodings of features.
        told: is called with the stage and the number of rows that it has done.

    Returns:
        What shards.json says.

    Raises:
        InputError: where a shard would have no node.
        OutputError: where the folder cannot be written.
    """
    if int(torch.bincount(parts, minlength=count).min()) == 0:
        raise InputError(
            f"{store.path}: {count} shards of {store.num_nodes:,} nodes would leave some without"
            " any. Ask for fewer."
        )
    out = folder_of_shards(store)
    with workspace(out) as folder:
        built = folder / SHARDS
        built.mkdir()
        place = torch.empty(store.num_nodes, dtype=torch.int64)
        shards = []
        for number in range(count):
            nodes = torch.nonzero(parts == number)[:, 0]
            place.fill_(-1)
            place[nodes] = torch.arange(nodes.numel())
            told(f"writing shard {number}", nodes.numel())
            shards.append(_write_shard(store, nodes, place, built / str(number)))
        lost = store.num_edges - sum(shard["num_edges"] for shard in shards)
        value = {
            "shards": SHARDS_FORMAT,
            "store": str(store.path.absolute()),
            "count": count,
            "num_nodes": store.num_nodes,
            "num_edges": store.num_edges,
            "num_distinct_edges": store.num_distinct_edges,
            # A loop is in its node's shard, so that each of the others was stored twice.
            "lost_edges": lost // 2 if store.undirected else lost,
            "fingerprints": store.fingerprints(),
            "parts": shards,
            **about,
        }
        write_json(built / SHARDS_FILE, sealed(value))
        put_in_place(built, out)
    return value


def folder_of_shards(store: GraphStore) -> Path:
    """Where the shards of a store are."""
    return store.path / SHARDS


def written_shards(store: GraphStore, *, count: int) -> dict[str, Any] | None:
    """What shards.json says, where K undamaged shards of this store are there; else None."""
    folder = folder_of_shards(store)
    if not is_shards(folder):
        return None
    try:
        about = read_shards(folder)
        if about["fingerprints"] != store.fingerprints() or about["count"] != count:
            return None
        if len(shards_here(folder, about)) < count:
            return None
        for number in range(count):
            shard = folder / str(number)
            check_files(shard, read_manifest(shard)["files"], checksums=False)
    except InputError:
        return None
    return about


def _write_shard(store: GraphStore, nodes: Tensor, place: Tensor, folder: Path) -> dict[str, Any]:
    """Write a shard. Returns what shards.json says of it."""
    folder.mkdir()
    files, num_edges, num_loops = _write_edges(store, nodes, place, folder)
    files += _write_features(store, nodes, folder)
    files += _write_rows_of_tables(store, nodes, folder)
    about = {name: value for name, value in store.about.items() if name not in _OWN}
    counts = {"num_nodes": nodes.numel(), "num_edges": num_edges, "num_self_loops": num_loops}
    write_manifest(folder, {**about, **counts}, files)
    return {**counts, "manifest": checksum(folder / MANIFEST)}


def _blocks(nodes: Tensor) -> Iterator[Tensor]:
    return iter(torch.split(nodes, _BLOCK))


def _write_edges(
    store: GraphStore, nodes: Tensor, place: Tensor, folder: Path
) -> tuple[list[str], int, int]:
    """The edges between these nodes. Returns the files, and the numbers of edges and loops."""
    graph = CSRGraph(store.indptr, store.indices, store.weight, MatrixRows(torch.zeros(0, 0)))
    num_edges = num_loops = 0
    with (
        NpyWriter(folder / INDPTR, np.int64) as indptr,
        NpyWriter(folder / INDICES, store.indices.numpy().dtype) as indices,
        NpyWriter(folder / DEGREE, np.int64) as degree,
    ):
        indptr.append(np.zeros(1, dtype=np.int64))
        for block in _blocks(nodes):
            row, node, _ = graph.edges_of(block)
            kept = place[node] >= 0
            row, col = row[kept], place[node[kept]]
            indices.append(col.numpy())
            ends = num_edges + torch.cumsum(torch.bincount(row, minlength=block.numel()), 0)
            indptr.append(ends.numpy())
            num_edges, num_loops = int(ends[-1]), num_loops + int((col == place[block][row]).sum())
            # Of the whole graph: degrees are features where there are no others.
            degree.append(store.degree[block].numpy())
    if store.weight is None:
        return [INDPTR, INDICES, DEGREE], num_edges, num_loops
    with NpyWriter(folder / WEIGHT, np.float32) as weights:
        for block in _blocks(nodes):
            _, node, weight = graph.edges_of(block)
            assert weight is not None
            weights.append(weight[place[node] >= 0].numpy())
    return [INDPTR, INDICES, DEGREE, WEIGHT], num_edges, num_loops


def _write_features(store: GraphStore, nodes: Tensor, folder: Path) -> list[str]:
    if store.feature_kind == "dense":
        width = store.feature_dim
        with NpyWriter(folder / X, np.float32, width=width) as writer:
            for block in _blocks(nodes):
                writer.append(mapped(store.path / X)[block.numpy()])
        return [X]
    if store.feature_kind == "sparse":
        return _write_sparse(store, nodes, folder)
    files = []
    for column in store.about["features"]["columns"]:
        file, values = column["file"], column["values_file"]
        (folder / file).parent.mkdir(exist_ok=True)
        array = mapped(store.path / file)
        with NpyWriter(folder / file, array.dtype) as writer:
            for block in _blocks(nodes):
                writer.append(array[block.numpy()])
        files.append(file)
        if values:
            # All categories of the whole, whether this shard has them or not.
            shutil.copyfile(store.path / values, folder / values)
            files.append(values)
    return files


def _write_sparse(store: GraphStore, nodes: Tensor, folder: Path) -> list[str]:
    crow, col, value = (torch.from_numpy(mapped(store.path / name)) for name in X_PARTS)
    rows = CSRGraph(crow, col, value, MatrixRows(torch.zeros(0, 0)))
    total = 0
    names = [folder / name for name in X_PARTS]
    with (
        NpyWriter(names[0], np.int64) as indptr,
        NpyWriter(names[1], col.numpy().dtype) as indices,
        NpyWriter(names[2], np.float32) as values,
    ):
        indptr.append(np.zeros(1, dtype=np.int64))
        for block in _blocks(nodes):
            _, entry, weight = rows.edges_of(block)
            assert weight is not None
            indices.append(entry.numpy())
            values.append(weight.numpy())
            indptr.append((total + torch.cumsum(rows.degree(block), 0)).numpy())
            total += int(entry.numel())
    return list(X_PARTS)


def _write_rows_of_tables(store: GraphStore, nodes: Tensor, folder: Path) -> list[str]:
    """The ids and labels of these nodes."""
    names = [IDS, *([LABELS] if store.about["labels"] else [])]
    for name in names:
        with pq.ParquetFile(store.path / name) as file:
            writer: Any = None
            start = 0
            for batch in file.iter_batches(batch_size=ROWS_PER_GROUP):
                table = pa.Table.from_batches([batch])
                first, last = np.searchsorted(nodes.numpy(), [start, start + len(table)])
                chosen = table.take(pa.array(nodes.numpy()[first:last] - start))
                if writer is None:
                    writer = pq.ParquetWriter(folder / name, table.schema)
                if len(chosen):
                    writer.write_table(chosen, row_group_size=ROWS_PER_GROUP)
                start += len(table)
            if writer is not None:
                writer.close()
    return names
