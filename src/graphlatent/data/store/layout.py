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
    """What is in the folder of a store that no ingest and no training wrote, by name."""
    names = {MANIFEST, CACHE, COLUMNS, LOCK, *_FILES}
    found = {each.name for each in folder.iterdir()} - names
    if (folder / COLUMNS).is_dir():
        inside = {f"{COLUMNS}/{each.name}" for each in (folder / COLUMNS).iterdir()}
        found |= {name for name in inside if not COLUMN_FILE.fullmatch(name)}
    if (folder / CACHE).is_dir():
        inside = {f"{CACHE}/{each.name}" for each in (folder / CACHE).iterdir()}
        found |= {name for name in inside if not _CACHED.fullmatch(name)}
    return sorted(found)


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
