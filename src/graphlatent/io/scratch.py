"""A working folder of arrays that are written by blocks of rows, and continued after a kill.

Every array is a `.npy` file of its own. It is written through a file handle, not through a memory
map, so that a full disk is an error that can be caught, and read through a map whose pages can be
given back. In a folder with a `key`, a journal has one line for each finished block, with the
checksum of its bytes; whoever opens the folder again with the same key skips the finished blocks.
Legend: N rows, W columns.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.errors import OutputError

JOURNAL = "journal.jsonl"
Block: TypeAlias = tuple[int, int]
"""The first row of a block, and the one after its last."""


Progress: TypeAlias = Callable[[str, int, int], object]
"""Is called with what is computed, how many rows that is done for, and of how many."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Tell nobody."""


def in_words(show: Callable[[str], object]) -> Progress:
    """A `Progress` that shows a text."""
    return lambda stage, done, total: show(f"{stage}, {done / max(total, 1):.0%}")


class ScratchArray:
    """A float32 array [N, W] in a file."""

    def __init__(self, path: Path, shape: tuple[int, int]) -> None:
        self.path, self.shape = path, shape
        self.header = _npy_header(shape)
        self._map: mmap.mmap | None = None
        self._whole: Tensor | None = None

    def rows(self, start: int, stop: int) -> Tensor:
        """A copy of the rows from `start` to `stop`."""
        out = np.empty((stop - start, self.shape[1]), dtype=np.float32)
        with self.path.open("rb") as file:
            file.seek(self._place(start))
            if file.readinto(out.data.cast("B") if out.size else b"") != out.nbytes:
                raise OutputError(f"{self.path} was changed while it was in use. Start again.")
        return torch.from_numpy(out)

    def whole(self) -> Tensor:
        """All rows as a view of the memory-mapped file, not to be written to."""
        if self._whole is None:
            if 0 in self.shape:
                return torch.empty(self.shape)
            with self.path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            flat = np.frombuffer(self._map, dtype=np.float32, offset=len(self.header))
            self._whole = torch.from_numpy(flat.reshape(self.shape))
        return self._whole

    def release(self) -> None:
        """Give back the pages of `whole`; those used again are mapped again."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def delete(self) -> None:
        """Delete the file; views of it that are in use stay valid."""
        self._map = self._whole = None
        self.path.unlink(missing_ok=True)

    def _place(self, row: int) -> int:
        return len(self.header) + row * self.shape[1] * 4


class Scratch:
    """The arrays of one computation.

    Args:
        folder: where they are; created where it does not exist.
        num_rows: N, of every array.
        key: names everything that the arrays depend on. What is there of another key is deleted.
            None: nothing is continued, and there is no journal.
        progress: is told of every block.
    """

    def __init__(
        self,
        folder: Path,
        num_rows: int,
        *,
        key: str | None = None,
        progress: Progress = no_progress,
    ) -> None:
        self.folder, self.num_rows, self.progress = folder, num_rows, progress
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._journal = None if key is None else _Journal(folder, num_rows, key)
        except OSError as error:
            raise _unwritable(folder, error) from error

    def fill(
        self,
        name: str,
        width: int,
        blocks: Sequence[Block],
        compute: Callable[[int, int], Tensor],
    ) -> ScratchArray:
        """The array `name` [N, width], whose blocks `compute(start, stop)` returns.

        Blocks are computed in order; those that are finished already are not.
        """
        array = ScratchArray(self.folder / f"{name}.npy", (self.num_rows, width))
        done = 0 if self._journal is None else self._journal.finished(name)
        if done and done == self.num_rows:
            return array
        with self._writing(array, done) as file:
            for start, stop in blocks:
                if stop > done:
                    self._write(file, array, (start, stop), compute(start, stop))
        return array

    def drop(self, *arrays: ScratchArray | None) -> None:
        """Delete arrays that are not needed any more."""
        for array in arrays:
            if array is not None:
                if self._journal is not None:
                    self._journal.drop(array.path.stem)
                array.delete()

    def remove(self) -> None:
        """Delete the folder with everything in it."""
        if self._journal is not None:
            self._journal.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def _writing(self, array: ScratchArray, done: int) -> Iterator[BinaryIO]:
        """The file of an array, open behind its first `done` rows."""
        try:
            with array.path.open("r+b" if done else "wb", buffering=0) as file:
                if not done:
                    _write_all(file, array.header)
                file.seek(array._place(done))
                yield file
        except OutputError:
            raise
        except OSError as error:
            raise _unwritable(array.path, error) from error

    def _write(self, file: BinaryIO, array: ScratchArray, block: Block, rows: Tensor) -> None:
        start, stop = block
        if rows.shape != (stop - start, array.shape[1]):
            raise ValueError(f"{array.path.stem}: a block of shape {tuple(rows.shape)}")
        data = _bytes_of(rows)
        _write_all(file, data)
        if self._journal is not None:
            record = {"array": array.path.stem, "width": array.shape[1], "stop": stop}
            self._journal.append({**record, "crc": zlib.crc32(data)})
        self.progress(array.path.stem, stop, self.num_rows)


class _Journal:
    """Which blocks are finished: one line of JSON for each, with a checksum of the line."""

    def __init__(self, folder: Path, num_rows: int, key: str) -> None:
        self.folder, self.num_rows = folder, num_rows
        self._done: dict[str, int] = {}
        self._dropped: set[str] = set()
        records = self._valid_records(key)
        if not records:
            for each in folder.glob("*.npy"):
                each.unlink()
        path = folder / JOURNAL
        self._file = path.open("wb", buffering=0)
        for record in records or [{"key": key}]:
            self.append(record)

    def finished(self, name: str) -> int:
        """The number of rows of an array that are finished."""
        return self._done.get(name, 0)

    def append(self, record: dict[str, Any]) -> None:
        """Write a record and bring it to disk."""
        text = json.dumps(record).encode()
        try:
            _write_all(self._file, b"%08x %s\n" % (zlib.crc32(text), text))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _unwritable(self.folder / JOURNAL, error) from error
        if "dropped" in record:
            self._dropped.add(record["dropped"])
        if "array" in record:
            self._done[record["array"]] = record["stop"]

    def drop(self, name: str) -> None:
        """Record that an array is deleted, unless an earlier process did."""
        if name not in self._dropped:
            self.append({"dropped": name})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _valid_records(self, key: str) -> list[dict[str, Any]]:
        """The records of an earlier process that hold; none where it had another key."""
        records = _read_records(self.folder / JOURNAL)
        if not records or records[0] != {"key": key}:
            return []
        dropped = {each["dropped"] for each in records if "dropped" in each}
        ends: dict[str, int] = {}
        for i, record in enumerate(records):
            name = record.get("array")
            if name is None:
                continue
            start, ends[name] = ends.get(name, 0), record["stop"]
            if name not in dropped and not self._holds(record, start):
                # Blocks of the array that was being written are computed again; an earlier array
                # that is not whole cannot be.
                last = all(each.get("array", name) == name for each in records[i:])
                return records[:i] if last else []
        return records

    def _holds(self, record: dict[str, Any], start: int) -> bool:
        """Whether a block is as it was written."""
        array = ScratchArray(
            self.folder / f"{record['array']}.npy", (self.num_rows, record["width"])
        )
        try:
            data = _bytes_of(array.rows(start, record["stop"]))
        except OSError:
            return False
        return bool(zlib.crc32(data) == record["crc"])


def _read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a journal up to the first line that is not whole."""
    records = []
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_bytes().split(b"\n"):
            checksum, _, text = line.partition(b" ")
            if checksum != b"%08x" % zlib.crc32(text):
                break
            records.append(json.loads(text))
    return records


def _bytes_of(rows: Tensor) -> memoryview:
    values = np.ascontiguousarray(rows.detach().to(torch.float32).numpy())
    return values.data.cast("B") if values.size else memoryview(b"")


def _write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write to a file without a buffer, which may take a part at a time."""
    view = memoryview(data)
    while len(view):
        view = view[file.write(view) :]


def _npy_header(shape: tuple[int, int]) -> bytes:
    """The beginning of a `.npy` file of float32 in row order."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape[0]}, {shape[1]}), }}"
    # A multiple of 64 bytes with the ten before it.
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1")


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"Cannot write {path}: {error.strerror or error}. Choose another path, or make room and"
        " rights there."
    )
