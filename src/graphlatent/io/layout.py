"""The files of a run folder by name: which folders are runs, and what may be written or deleted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphlatent.errors import OutputError
from graphlatent.io.atomic import LOCK
from graphlatent.io.regular_files import read_regular
from graphlatent.io.tensors import is_ours

COORDINATES = "coordinates.safetensors"
CLASSIFIER = "classifier.safetensors"
STATE = "state/last.safetensors"
EMBEDDINGS, RESULTS, MAP = "embeddings.parquet", "results.json", "map.png"
MAP_POINTS = "map-{method}.safetensors"
"""The name of the file with the points of a map, laid out by t-SNE or UMAP."""
CHECKED = ("config.toml", "features.json", "model.safetensors")
# Those that not every run has, checked where there are any.
OPTIONAL = (COORDINATES, CLASSIFIER)
# Deleted in this order: the manifest first, since it says that a run is complete, and config.toml,
# which says that there is one, before the state. versions.json is replaced and never deleted: it
# says that the folder is a run's.
_DELETED = (
    "manifest.json",
    RESULTS,
    MAP,
    *(MAP_POINTS.format(method=method) for method in ("tsne", "umap")),
    EMBEDDINGS,
    "history.csv",
    CLASSIFIER,
    "model.safetensors",
    "config.toml",
    COORDINATES,
    STATE,
    "features.json",
)
_FILES = (*_DELETED, "versions.json")
# A temporary file of `write_atomically`.
_TEMPORARY = re.compile(rf"\.({'|'.join(re.escape(Path(n).name) for n in _FILES)})\.\d+\.tmp")


def is_run(folder: Path) -> bool:
    """Whether the files in a folder are those of a run, so that a new run may replace them.

    Not every folder with a config.toml is one: versions.json and manifest.json are recognised by
    their content. So is a run that lacks both, since an earlier version was killed while it began,
    or they were not copied.
    """
    if any(
        _has_keys(folder / n, "format", "graphlatent") for n in ("versions.json", "manifest.json")
    ):
        return True
    try:
        begun = read_regular(folder / "config.toml").startswith(b"# graphlatent ")
    except OSError:
        return False
    first = {"config.toml", "features.json", COORDINATES}
    return begun and (
        _has_keys(folder / "features.json", "kind", "num_features", "cap")
        or any(is_ours(folder / name) for name in ("model.safetensors", STATE))
        or {path.name for path in _without_remains(folder)} <= first
    )


def identity(folder: Path) -> str:
    """A SHA-256 over what says which results a run has: its input, encoding and settings."""
    about = _json_object(folder / "versions.json")
    parts = [json.dumps([about.get("input"), about.get("sha256")]).encode()]
    for name in ("features.json", "config.toml"):
        # Who needs a file that is missing or damaged says so.
        with contextlib.suppress(OSError):
            parts.append(read_regular(folder / name))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_free(folder: Path) -> bool:
    """Whether a folder holds nothing but what a process left that was killed before a run began."""
    found = {path.name for path in _without_remains(folder)}
    if not found:
        return True
    first = {"versions.json", "features.json", COORDINATES, "state"}
    return found <= first and is_run(folder)


def refuse_links(folder: Path) -> None:
    """Raise an `OutputError` where the name of a run's file is that of a link or of a folder.

    Files written or deleted through a link would be those of another folder. The run folder itself
    may be a link.
    """
    for name in (*_FILES, LOCK, "state"):
        path = folder / name
        if path.is_symlink():
            raise OutputError(
                f"Cannot write {path}: it is a link, and links inside a run folder are not"
                " followed. Delete it, or choose another folder."
            )
        if path.exists() and path.is_dir() != (name == "state"):
            kind = "a folder" if path.is_dir() else "not a folder"
            raise OutputError(
                f"Cannot write {path}: it is {kind}. Delete it, or choose another folder."
            )


def clear(folder: Path) -> None:
    """Delete the files of an old run and no others.

    Raises:
        OutputError: where a file has the name of a run's, but the folder is no run.
    """
    found = [folder / name for name in _FILES if (folder / name).exists()]
    if found and not is_run(folder):
        raise OutputError(
            f"{folder} is not a run folder, so its {found[0].name} is not replaced. Choose another"
            " folder."
        )
    for name in _DELETED:
        (folder / name).unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files that a killed process left; only for the holder of the lock."""
    for place in (folder, folder / "state"):
        for path in place.iterdir() if place.is_dir() else ():
            if _TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)


def _without_remains(folder: Path) -> Iterator[Path]:
    """What is in a folder, without lock and temporary files."""
    for path in folder.iterdir():
        if path.name != LOCK and not _TEMPORARY.fullmatch(path.name):
            yield path


def _has_keys(path: Path, *keys: str) -> bool:
    """Whether a file holds a JSON object with these keys."""
    return set(keys) <= set(_json_object(path))


def _json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where it holds none."""
    try:
        value = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
