"""The files of a store, its manifest, and the checks that all of them are there and undamaged.

manifest.json is written last, so that a folder with it is complete, and names every other file with
its size and SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphlatent._version import __version__
from graphlatent.errors import InputError
from graphlatent.io.atomic import LOCK, write_json
from graphlatent.io.regular_files import open_regular, read_regular, regular_file

FORMAT = 1
MANIFEST = "manifest.json"
INDPTR, INDICES, WEIGHT, DEGREE = "indptr.npy", "indices.npy", "weight.npy", "degree.npy"
X, X_PARTS = "x.npy", ("x_indptr.npy", "x_indices.npy", "x_values.npy")
IDS, LABELS, COLUMNS = "ids.parquet", "labels.parquet", "columns"
CACHE = "cache"
"""The folder of what takes long to compute from the graph."""
SHARDS = "shards"
"""The folder of the parts of a store that several processes train on."""
SHARDS_FILE = "shards.json"
COLUMN_FILE = re.compile(r"columns/\d{1,9}\.(npy|values\.parquet)")
_FILES = (INDPTR, INDICES, WEIGHT, DEGREE, X, *X_PARTS, IDS, LABELS)
# Also a temporary one that a killed process left.
_CACHED = re.compile(r"cache/\.?parts-.*")
ROWS_PER_GROUP = 131_072
"""Rows of a row group of ids.parquet: what is read for a few ids."""
WAY_OUT = "Copy the store again, or write it again with 'graphlatent ingest ... --overwrite'."
_BLOCK = 1 << 20


def is_store(folder: Path) -> bool:
    """Whether a folder is a store, by the content of its manifest."""
    try:
        value = json.loads(read_regular(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "store" in value and "files" in value


def files_of_others(folder: Path) -> list[str]:
    """What is in the folder of a store, or of shards, that none of our commands wrote, by name."""
    here = {each.name for each in folder.iterdir()}
    if SHARDS_FILE in here:
        shards = [folder / name for name in here if name.isdecimal()]
        found = here - {SHARDS_FILE, *(shard.name for shard in shards)}
        return sorted(found.union(*map(_inside, shards)))
    found = here - {MANIFEST, CACHE, COLUMNS, SHARDS, f".{SHARDS}.ingest", LOCK, *_FILES}
    for name, expected in ((COLUMNS, COLUMN_FILE), (CACHE, _CACHED)):
        if name in here:
            inside = {f"{name}/{each.name}" for each in (folder / name).iterdir()}
            found |= {each for each in inside if not expected.fullmatch(each)}
    if (folder / SHARDS / SHARDS_FILE).is_file():
        found |= _inside(folder / SHARDS)
    elif SHARDS in here:
        found.add(SHARDS)
    return sorted(found)


def _inside(folder: Path) -> set[str]:
    if not folder.is_dir():
        return {folder.name}
    return {f"{folder.name}/{name}" for name in files_of_others(folder)}


def write_manifest(folder: Path, about: Mapping[str, Any], files: Iterable[str]) -> None:
    """Write the manifest of the files in a folder, after bringing them to disk."""
    stated = {}
    for name in files:
        path = folder / name
        stated[name] = {"bytes": path.stat().st_size, "sha256": checksum(path, sync=True)}
    value = {"store": FORMAT, "written_by": __version__, **about, "files": stated}
    write_json(folder / MANIFEST, {**value, "checksum": manifest_checksum(value)})


def manifest_checksum(about: Mapping[str, Any]) -> str:
    """The SHA-256 of what a manifest says, its own checksum left out."""
    said = {key: value for key, value in about.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a store.

    Raises:
        InputError: where the folder is no store, or one of a later version.
    """
    if not is_store(folder):
        raise InputError(
            f"{folder} is no store: it has no {MANIFEST} of 'graphlatent ingest'. Check the path."
        )
    about: dict[str, Any] = json.loads(read_regular(folder / MANIFEST))
    if about["store"] != FORMAT:
        raise InputError(
            f"{folder} is a store of format {about['store']}, and this version reads format"
            f" {FORMAT}. Write it again with this version, or install the one that wrote it."
        )
    return about


def check_files(folder: Path, files: Mapping[str, Mapping[str, Any]], *, checksums: bool) -> None:
    """Raise an `InputError` where a file is missing, truncated or changed.

    Args:
        folder: the store.
        files: size and SHA-256 by name, as the manifest has them.
        checksums: also read the files and compare their checksums.
    """
    for name, stated in files.items():
        path = folder / name
        size = regular_file(path, role="store")
        if size != stated["bytes"]:
            raise InputError(
                f"store: {path} is damaged: it has {size:,} bytes, and {stated['bytes']:,} were"
                f" written (sha256 {stated['sha256']}). {WAY_OUT}"
            )
        if checksums and (found := checksum(path)) != stated["sha256"]:
            raise InputError(
                f"store: {path} is damaged: its sha256 is {found}, and {stated['sha256']} was"
                f" written. {WAY_OUT}"
            )


def checksum(path: Path, *, sync: bool = False) -> str:
    """The SHA-256 of a file; with `sync` it is brought to disk first."""
    digest = hashlib.sha256()
    with open_regular(path, most=float("inf")) as file:
        if sync:
            os.fsync(file.fileno())
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
