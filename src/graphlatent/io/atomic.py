"""Atomic writing: after a crash a file is complete, in its old or its new version."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphlatent.errors import OutputError, shown

LOCK = ".graphlatent.lock"
"""The name of the file by which a folder is locked."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file through a temporary one in the same folder, flushed to disk and then renamed.

    Args:
        path: the file.
        write: writes the content to the path that it is given.

    Raises:
        OutputError: where the folder cannot be written to.
    """
    _refuse_folder(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Of a killed process; were it a link, the content would go elsewhere.
        temporary.unlink(missing_ok=True)
        write(temporary)
        move_into_place(temporary, path)
    except OutputError:
        # What `write` itself refuses, not the file system.
        raise
    except OSError as error:
        raise OutputError(
            f"Cannot write {path}: {error.strerror or error}. Choose another path, or make room and"
            " rights there."
        ) from error
    finally:
        if temporary.exists():
            temporary.unlink()


def move_into_place(temporary: Path, path: Path) -> None:
    """Rename a file that is complete, once it is on disk; both are on one file system."""
    _sync(temporary)
    os.replace(temporary, path)
    _sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    # A path that is not UTF-8, for example.
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2, allow_nan=False)
    write_text(path, text + "\n")


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise an `OutputError` where `path` exists and may not be replaced."""
    # A lock that a killed process left is no file of the user.
    empty = path.is_dir() and all(each.name == LOCK for each in path.iterdir())
    if path.exists() and not overwrite and not empty:
        raise OutputError(
            f"{path} exists already. Choose another path, or allow replacing it (--overwrite,"
            " overwrite=True)."
        )


def refuse_unwritable(path: Path, *, overwrite: bool) -> None:
    """Raise an `OutputError` where a file cannot be written to `path`.

    For use before a long computation.
    """
    _refuse_other_than_utf8(path)
    _refuse_folder(path)
    refuse_existing(path, overwrite=overwrite)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise OutputError(
            f"Cannot write {path}: {folder} is not a folder that can be written to. Choose another"
            " path."
        )


def refuse_unwritable_folder(path: Path) -> None:
    """Raise an `OutputError` where `path` is no folder that can be written to, or made.

    For use before a long computation.
    """
    _refuse_other_than_utf8(path)
    folder = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise OutputError(
            f"Cannot write into {path}: {folder} is not a folder that can be written to. Choose"
            " another path."
        )


def _refuse_other_than_utf8(path: Path) -> None:
    # PyArrow cannot open such paths.
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise OutputError(
            f"Cannot write {shown(str(path))}: the name is not valid UTF-8. Choose another path."
        ) from error


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise OutputError(f"Cannot write {path}: it is a folder. Give the path of a file.")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
