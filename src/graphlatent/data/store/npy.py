"""`.npy` files written piece by piece, so that no array is in memory as a whole."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
# Enough for any shape of a matrix; NumPy's own headers are multiples of 64 too.
_HEADER = 192


class NpyWriter:
    """A `.npy` file to which rows are appended; a context that writes the header at its end.

    Args:
        path: the file.
        dtype: of the values.
        width: columns of a matrix; None for a vector.
    """

    def __init__(self, path: Path, dtype: Any, *, width: int | None = None) -> None:
        self.path, self.dtype, self.width = path, np.dtype(dtype), width
        self.num_rows = 0
        self._file = path.open("wb")
        self._file.write(b" " * _HEADER)

    def append(self, rows: Array) -> None:
        """Write rows, [R] or [R, width], converted to the file's type."""
        # As bytes: dates have no buffers of their own.
        flat = np.ascontiguousarray(rows, dtype=self.dtype).reshape(-1)
        self._file.write(flat.view(np.uint8).data)
        self.num_rows += len(rows)

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._file.write(self._header())

    def _header(self) -> bytes:
        shape = (self.num_rows,) if self.width is None else (self.num_rows, self.width)
        about = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": shape,
        }
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, about)
        magic = np.lib.format.magic(1, 0)
        text = stream.getvalue()[len(magic) + 2 :].rstrip()
        size = _HEADER - len(magic) - 2
        return magic + size.to_bytes(2, "little") + text.ljust(size - 1) + b"\n"


def mapped(path: Path) -> Array:
    """The array of a `.npy` file, memory-mapped; changes stay in memory (copy on write)."""
    array: Array = np.load(path, mmap_mode="c", allow_pickle=False)
    # An empty view of a file keeps it open for nothing.
    return np.empty(array.shape, array.dtype) if array.size == 0 else array
