"""JSON-lines files that several processes may append to, and that a killed process cannot damage.

A line is written in one call and brought to disk, under a lock on the file. A process that is
killed while writing leaves incomplete JSON without a line end at the end of the file: readers
ignore it, the next writer removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from graphlatent.errors import OutputError
from graphlatent.io.atomic import write_text


def encode_line(value: Any) -> str:
    """The value as one compact line of JSON, without the line end."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def append_line(path: Path, value: Any) -> None:
    """Append a value as one line; creates the file and its folder where they do not exist.

    Raises:
        OutputError: where the file cannot be written.
    """
    line = encode_line(value).encode() + b"\n"
    with _locked(path) as file:
        end = _end_of_lines(file)
        file.seek(end)
        unfinished = file.read()
        if _is_json(unfinished):
            line = b"\n" + line
        else:
            file.truncate(end)
        file.seek(0, os.SEEK_END)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[str]:
    """The complete lines of a file, without a line that a killed process left incomplete.

    The result is empty where the file does not exist.

    Raises:
        UnicodeDecodeError: where a line is not UTF-8.
        OSError: where the file cannot be read.
    """
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    return [line.decode("utf-8") for line in (*lines, *([last] if _is_json(last) else []))]


def rewrite_lines(path: Path, change: Callable[[list[str]], Iterable[str]]) -> None:
    """Replace the lines of a file by `change` of them, atomically.

    Processes that append at the same time wait and then append to the new file.
    """
    with _locked(path):
        lines = change(read_lines(path))
        write_text(path, "".join(f"{line}\n" for line in lines))


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, opened for reading and writing, locked against other processes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Another process may have replaced the file while this one waited for the lock.
                if _is_at(path, file):
                    yield file
                    return
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"Cannot write {path}: {error.strerror or error}. Choose another path, or make room and"
            " rights there."
        ) from error


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _is_json(text: bytes) -> bool:
    """Whether a text is complete: no beginning of a JSON object is valid JSON itself."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _end_of_lines(file: BinaryIO) -> int:
    """The position of the end of the last complete line, in bytes from the start."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 2**16)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
