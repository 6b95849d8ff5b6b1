"""Stores that are damaged or hostile, read as a whole and trained on in pieces.

Damage is refused, or changes nothing. Changes that come with right checksums may be accepted, but
give no traceback and no embedding that is not finite.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import hostile
from fuzz.compare import SMALL, require
from fuzz.harness import Place, command
from fuzz.mutate import damaged
from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.ingest import IngestOptions, ingest
from graphlatent.data.store.layout import manifest_checksum

_NUMBERS = (-1, 0, 1, 2, 7, 19, 20, 21, 127, 10**6, 2**31 - 1, -(2**31), 2**62, -(2**63))
_FLOATS = (float("nan"), float("inf"), -1.0, 0.0, 1e30, 3e38)
_TYPES = ("int8", "int32", "int64", "uint64", "float32", "float64", "bool", "U3", ">i4", "M8[s]")


def prepare(folder: Path) -> None:
    """Stores with columns and labels, with a dense and a sparse matrix, and with edges alone."""
    import scipy.sparse as sp

    rng = random.Random(0)
    pairs = [(rng.randrange(20), rng.randrange(20)) for _ in range(50)]
    edges = ["source,target,weight", *(f"{s},{t},{rng.randrange(1, 9) / 4}" for s, t in pairs)]
    (folder / "weighted.csv").write_text("\n".join(edges) + "\n")
    edges = ["source,target", *(f"n{s},n{t}" for s, t in pairs)]
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")
    rows = [f"n{i},{i / 4},{'ab'[i % 2]},{i % 3}" for i in range(20)]
    (folder / "nodes.csv").write_text("\n".join(["id,size,kind,y", *rows]) + "\n")
    dense = np.random.default_rng(0).random((20, 3), dtype=np.float32)
    np.save(folder / "x.npy", dense)
    sp.save_npz(folder / "x.npz", sp.csr_matrix(dense * (dense > 0.5)))
    limits: dict[str, Any] = {"memory": "3GB", "threads": 1}
    labelled = IngestOptions(TableOptions(label="y"))
    ingest(
        *(folder / "edges.csv", folder / "columns"),
        nodes=folder / "nodes.csv",
        options=labelled,
        **limits,
    )
    ingest(folder / "edges.csv", folder / "plain", **limits)
    weighted = folder / "weighted.csv"
    directed = IngestOptions(directed=True)
    ingest(weighted, folder / "dense", features=folder / "x.npy", options=directed, **limits)
    ingest(weighted, folder / "sparse", features=folder / "x.npz", **limits)


def stores(rng: random.Random, place: Place) -> None:
    """Change a copy of a store, with its old checksums or with right ones, and use it."""
    name = rng.choice(("columns", "columns", "dense", "sparse", "plain"))
    original, store = place.prepared / name, place.folder / "store"
    shutil.copytree(original, store)
    trusted = rng.random() < 0.6
    said = f"{name}: {rng.choice(_HOSTILE if trusted else _DAMAGE)(store, rng)}"
    if trusted:
        write_checksums(store)
    if rng.random() < 0.1:
        command("info", store, *rng.choice(((), ("--json",))))
        return
    if rng.random() < 0.6:
        graph = read_graphs(store)
        if not trusted:
            before = read_graphs(original)
            same = graph.fingerprints() == before.fingerprints()
            same = same and np.array_equal(graph.y, before.y) and graph.notes == before.notes
            require(same, f"a damaged store gives another graph; {said}")
        return
    batching = rng.choice(("neighbors", "full"))
    estimator = NodeLaGraph(
        **SMALL,
        symmetrize=name != "dense",
        structure="none",
        batching=batching,
        nodes_per_step=8,
    )
    rows = estimator.fit_transform(str(store))
    require(np.isfinite(np.asarray(rows)).all(), f"embeddings are not finite; {said}")


def write_checksums(store: Path) -> None:
    """Make size and checksum of every file that the manifest names, and its own, right."""
    path = store / "manifest.json"
    if not path.is_file():
        return
    try:
        about = json.loads(path.read_text())
        for name, stated in about["files"].items():
            if not (store / name).is_file():
                # A pipe, or nothing.
                continue
            content = (store / name).read_bytes()
            stated["bytes"], stated["sha256"] = len(content), hashlib.sha256(content).hexdigest()
    except (ValueError, OSError, RecursionError, KeyError, TypeError, AttributeError):
        # The change left no manifest of a store, or no such files.
        return
    path.write_text(json.dumps({**about, "checksum": manifest_checksum(about)}))


def _files(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def _damage_bytes(store: Path, rng: random.Random) -> str:
    manifest = store / "manifest.json"
    path = manifest if rng.random() < 0.3 else rng.choice(_files(store))
    path.write_bytes(damaged(path.read_bytes(), rng))
    return f"damaged {path.name}: {path.read_bytes()[:3000]!r}"


def _remove(store: Path, rng: random.Random) -> str:
    path = rng.choice(_files(store))
    if rng.random() < 0.5:
        path.unlink()
        return f"without {path.name}"
    path.write_bytes(b"")
    return f"empty {path.name}"


def _exchange(store: Path, rng: random.Random) -> str:
    """Another file of the store in the place of one."""
    one, other = rng.sample(_files(store), 2)
    shutil.copy(other, one)
    return f"{one.name} is {other.name}"


def _odd_file(store: Path, rng: random.Random) -> str:
    """A link, a folder, a pipe or a device in the place of a file."""
    path = rng.choice(_files(store))
    path.unlink()
    how = rng.choice(("folder", "pipe", "/dev/zero", "/dev/null", path, "nowhere"))
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(how)
    return f"{path.name} is {how}"


def _other_array(store: Path, rng: random.Random) -> str:
    """An array of other values, type or shape."""
    path = rng.choice(sorted(store.rglob("*.npy")))
    array = np.load(path)
    how = rng.choice(("value", "value", "value", "type", "shape", "order", "objects"))
    if how == "value":
        is_float = array.dtype.kind == "f"
        for _ in range(rng.choice((1, 1, 3))):
            value = rng.choice(_FLOATS if is_float else _NUMBERS)
            wrapped = value if is_float else np.array(value).astype(array.dtype)
            array.reshape(-1)[rng.randrange(array.size)] = wrapped
    elif how == "type":
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(_TYPES))
    elif how == "shape":
        flat = array.reshape(-1)
        array = rng.choice((flat[:-1], flat[:0], flat[:1], flat[None], np.repeat(flat, 2)))
    elif how == "order":
        array = array[::-1] if rng.random() < 0.5 else np.sort(array, axis=0)
    else:
        array = array.astype(object)
    np.save(path, array, allow_pickle=how == "objects")
    return f"{path.name}: {how} {array.reshape(-1)[:80].tolist()}"


def _other_table(store: Path, rng: random.Random) -> str:
    """Ids, labels or values of text of other number, type or name, missing or repeated."""
    path = rng.choice(sorted(store.rglob("*.parquet")))
    table = pq.read_table(path)
    name = table.column_names[0]
    values = table.column(0).to_pylist()
    how = rng.choice(("drop", "twice", "missing", "type", "name", "column", "list"))
    if how == "drop":
        values = values[: rng.randrange(len(values))]
    elif how == "twice":
        values[rng.randrange(len(values))] = values[0]
    elif how == "missing":
        values[rng.randrange(len(values))] = None
    elif how == "type":
        values = rng.choice(([1.5] * len(values), [True] * len(values), [b"a"] * len(values)))
    elif how == "list":
        values = [[each] for each in values]
    columns = {"other" if how == "name" else name: values}
    pq.write_table(pa.table({**columns, "added": values} if how == "column" else columns), path)
    return f"{path.name}: {how} {values[:30]}"


def _other_manifest(store: Path, rng: random.Random) -> str:
    return hostile.other_json(store, rng)


_DAMAGE: tuple[Callable[[Path, random.Random], str], ...] = (
    *(_damage_bytes, _damage_bytes, _damage_bytes, _remove, _exchange, _odd_file, _other_array),
)
_HOSTILE: tuple[Callable[[Path, random.Random], str], ...] = (
    *(_other_array, _other_array, _other_array, _other_table, _other_manifest, _other_manifest),
    *(_damage_bytes, _exchange, _odd_file),
)
