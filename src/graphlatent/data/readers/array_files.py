"""NumPy files (`.npy`, `.npz`) and the arrays of ids in them."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from graphlatent.data.ids import EXACT_INTEGERS, IdColumn
from graphlatent.data.memory_limit import require_memory
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage, regular_file

Array: TypeAlias = np.ndarray[Any, Any]
ARRAY_SUFFIXES = (".npy", ".npz")


class ArrayFile(Mapping[str, Array]):
    """The arrays of a `.npy` or `.npz` file by name, read on demand and within the memory limit.

    The array of a `.npy` has the name ''. Unlike `numpy.load`, sizes are checked before memory is
    allocated: the header of an array of a few bytes can state any size, and a zip archive can be a
    thousandth of its contents.
    """

    def __init__(self, path: Path, *, what: str) -> None:
        self._path = path
        self._what = what
        self._zip: zipfile.ZipFile | None = None
        if path.suffix.lower() != ".npy":
            with self._damage():
                self._zip = zipfile.ZipFile(path)
        self._members = {
            entry.filename.removesuffix(".npy"): entry
            for entry in (self._zip.infolist() if self._zip else ())
        }
        self._read_so_far = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._members if self._zip else ("",))

    def __len__(self) -> int:
        return len(self._members) if self._zip else 1

    def __contains__(self, name: object) -> bool:
        # Not by reading the array, as Mapping does.
        return name in self._members if self._zip else name == ""

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise KeyError(name)
        with self._damage():
            if self._zip is None:
                with self._path.open("rb") as file:
                    return self._array(file, os.fstat(file.fileno()).st_size, str(self._path))
            entry = self._members[name]
            with self._zip.open(entry) as file:
                return self._array(file, entry.file_size, f"{self._path}, array '{name}'")

    def close(self) -> None:
        """Close the file."""
        if self._zip is not None:
            self._zip.close()

    def _damage(self) -> AbstractContextManager[None]:
        return refusing_damage(self._what, way_out="Write the file again.")

    def _array(self, file: Any, size: int, called: str) -> Array:
        """The array in an open file of `size` bytes."""
        shape, dtype = _stated_form(file)
        stated = math.prod(shape) * max(dtype.itemsize, 1)
        if stated > size:
            raise ValueError(
                f"an array of shape {shape} and type {dtype} takes {stated:,} bytes, and the file"
                f" has {size:,}"
            )
        self._read_so_far += size
        require_memory(self._read_so_far, what=f"{called} of shape {shape}")
        file.seek(0)
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
        # What follows is no data, but reading it compares the checksum of an archive's member.
        if file.read(1):
            raise ValueError("there are more bytes than the array has")
        return array


def _stated_form(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type that the header of an array states."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the .npy format is not supported")
    read_header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read_header(file)
    if any(size < 0 for size in shape):
        raise ValueError(f"the shape {shape} has a negative size")
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded, as they are pickled")
    return shape, dtype


@contextmanager
def open_arrays(path: Path, *, role: str = "", what: str = "") -> Iterator[ArrayFile]:
    """The arrays of a file, open as long as the context lasts.

    Args:
        path: the file.
        role: what it holds, such as 'labels', for messages.
        what: how to begin the message about a damaged file.

    Raises:
        InputError: where the file is missing or damaged, or holds Python objects.
    """
    regular_file(path, role=role)
    prefix = f"{role}: " if role else ""
    file = ArrayFile(path, what=what or f"{prefix}{path} cannot be read as NumPy arrays")
    try:
        yield file
    finally:
        file.close()


def load_arrays(path: Path, *, role: str) -> dict[str, Array]:
    """The arrays of a file by name; the array of a `.npy` has the name ''.

    Args:
        path: the file.
        role: what it holds, such as 'labels', for messages.

    Raises:
        InputError: where the file is missing or damaged, or holds Python objects.
    """
    with open_arrays(path, role=role) as file:
        return dict(file)


def row_numbers(num_rows: int, *, where: str) -> IdColumn:
    """Row numbers from 0 as ids, for arrays that come without ids."""
    return IdColumn(pa.array(np.arange(num_rows)), f"{where}, by row number,", open_type=False)


def ids_of_array(ids: Array, *, name: str, where: str) -> IdColumn:
    """An array as ids.

    Args:
        ids: integers, whole floats or text, [M].
        name: of the array.
        where: its file, for messages.

    Raises:
        InputError: where it does not hold one integer of 64 bits or one text per row.
    """
    called = f"{where}, array '{name}',"
    whole = ids.dtype.kind in "iu" or (ids.dtype.kind == "f" and bool((ids == np.floor(ids)).all()))
    if ids.ndim != 1 or not (whole or ids.dtype.kind in "US"):
        raise InputError(
            f"{called} must hold one id per row [M], integers or text. Got shape {ids.shape} of"
            f" {ids.dtype}."
        )
    if (
        ids.dtype.kind == "f"
        and len(ids)
        and np.abs(ids).max() > EXACT_INTEGERS.get(ids.dtype.type, 0)
    ):
        raise InputError(
            f"{called} must hold integers of 64 bits or text. Got floats up to"
            f" {np.abs(ids).max():.0f}, of which different ones may have become one. Write the ids"
            " as integers or text."
        )
    try:
        if whole:
            numbers = pa.array([int(number) for number in ids.tolist()], pa.int64())
            return IdColumn(numbers, called, open_type=False)
        texts = [each.decode("utf-8") if isinstance(each, bytes) else each for each in ids.tolist()]
        return IdColumn(pa.array(texts, pa.string()), called, open_type=False)
    except (UnicodeError, OverflowError, pa.ArrowException) as error:
        raise InputError(
            f"{called} must hold integers of 64 bits or text in UTF-8. The reader says: {error}."
        ) from error
