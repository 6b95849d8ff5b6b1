"""An external sort: sorted runs in one file, read back as ranges of keys.

Keys are unsigned integers that order the entries of the adjacency. A range of keys is a piece of
every run, so that all entries of a row are in one range or in neighbouring ones, and a range is as
large as memory allows, whatever the degrees of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
# One key of so many is kept in memory.
_STEP = 1024


@dataclass(frozen=True, eq=False)
class _Run:
    """Where a run is, and its first key of every `_STEP`."""

    start: int
    size: int
    index: Array


class SortedRuns:
    """Entries, each a key and maybe a weight, written in sorted runs.

    Args:
        folder: where the files are written.
        weighted: entries have weights.
    """

    def __init__(self, folder: Path, *, weighted: bool) -> None:
        self._paths = (folder / "keys.run", folder / "weights.run")[: 1 + weighted]
        self._files = [path.open("w+b") for path in self._paths]
        self._runs: list[_Run] = []
        self.num_entries = 0

    def append(self, key: Array, weight: Array | None) -> None:
        """Write a run.

        Args:
            key: uint64 [R], ascending.
            weight: float32 [R], or None.
        """
        for file, values in zip(self._files, (key, weight), strict=False):
            if values is not None:
                file.write(values.data)
        self._runs.append(_Run(self.num_entries, len(key), key[::_STEP].copy()))
        self.num_entries += len(key)

    def ranges(self, size: int) -> Iterator[tuple[Array, Array | None]]:
        """The entries in ranges of about `size`, ascending; equal keys // 2 are in one range.

        Yields:
            Keys, ascending, and their weights.
        """
        if not self.num_entries:
            return
        for file in self._files:
            file.flush()
        bounds = self._bounds(size)
        begin = [0] * len(self._runs)
        for bound in bounds:
            pieces = [self._piece(run, begin[i], bound) for i, run in enumerate(self._runs)]
            begin = [b + len(piece[0]) for b, piece in zip(begin, pieces, strict=True)]
            key = np.concatenate([piece[0] for piece in pieces])
            weights = [piece[1] for piece in pieces if piece[1] is not None]
            del pieces
            if not weights:
                key.sort()
                yield key, None
                continue
            order = np.argsort(key)
            weight = np.concatenate(weights)
            del weights
            yield key[order], weight[order]

    def _bounds(self, size: int) -> list[int | None]:
        """The keys at which ranges end, exclusive; None at last."""
        if self.num_entries <= size:
            return [None]
        index = np.sort(np.concatenate([run.index for run in self._runs]))
        # Both directions of an edge have keys that differ in the last bit.
        chosen = np.unique(index[max(size // _STEP, 1) :: max(size // _STEP, 1)] & ~np.uint64(1))
        return [*chosen.tolist(), None]

    def _piece(self, run: _Run, begin: int, bound: int | None) -> tuple[Array, Array | None]:
        """The entries of a run from position `begin` up to the key `bound`."""
        end = run.size
        if bound is not None:
            # The end is within the last step whose first key is below the bound.
            step = int(np.searchsorted(run.index, np.uint64(bound)))
            end = min(step * _STEP, run.size)
        if end <= begin:
            return self._read(0, run.start + begin, 0), self._weights(run.start + begin, 0)
        key = self._read(0, run.start + begin, end - begin)
        if bound is not None:
            key = key[: int(np.searchsorted(key, np.uint64(bound)))]
        return key, self._weights(run.start + begin, len(key))

    def _weights(self, start: int, size: int) -> Array | None:
        return self._read(1, start, size) if len(self._files) > 1 else None

    def _read(self, which: int, start: int, size: int) -> Array:
        dtype = np.dtype((np.uint64, np.float32)[which])
        file = self._files[which]
        file.seek(start * dtype.itemsize)
        return np.fromfile(file, dtype, size)

    def close(self) -> None:
        """Close and delete the files."""
        for file, path in zip(self._files, self._paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)
