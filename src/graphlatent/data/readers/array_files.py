"""NumPy files (`.npy`, `.npz`) and the arrays of ids in them."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from graphlatent.data.ids import IdColumn
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]
ARRAY_SUFFIXES = (".npy", ".npz")


def load_arrays(path: Path, *, role: str) -> dict[str, Array]:
    """The arrays of a file by name; the array of a `.npy` has the name ''.

    Args:
        path: the file.
        role: what it holds, such as 'labels', for messages.

    Raises:
        InputError: where the file is missing or damaged, or holds Python objects.
    """
    if not path.is_file():
        raise InputError(f"{role}: there is no file {path}. Check the path.")
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError) as error:
        raise InputError(
            f"{role}: {path} cannot be read as NumPy arrays. The reader says: {error}. Write the"
            " file again."
        ) from error


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
