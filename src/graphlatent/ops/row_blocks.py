"""Blocks of rows: how many fit into a memory budget, and exact moments of rows seen in blocks.

Legend: N rows, R rows of a block, W columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from graphlatent.ops.collective import barrier, current, gathered_rows

Rows: TypeAlias = Callable[[int, int], Tensor]
"""The rows from `start` to `stop` of a matrix that is computed, or read, by blocks."""
MEMORY = 256_000_000
"""Bytes that the values of a block take, where the caller does not say."""
# Bytes of a block for each value of its rows: its input, its output and copies of both; and for
# each stored edge: its weight in float64 and float32, and the factors of its ends.
_PER_VALUE, _PER_EDGE = 32, 48


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """How the rows of a graph are cut into blocks.

    Half of the memory is for the values of a block, half for its edges. A row of more edges than
    that is a block by itself.

    Args:
        indptr: first edge of each row and the end, int64 [N + 1].
        memory: bytes that a block may take.
        block_rows: rows of every block instead; None for as many as fit.
    """

    indptr: Tensor
    memory: int = MEMORY
    block_rows: int | None = None

    def of_width(self, width: int) -> list[tuple[int, int]]:
        """Start and end of the blocks of a matrix with `width` columns."""
        num_rows = self.indptr.numel() - 1
        if self.block_rows is not None:
            rows, edges = self.block_rows, None
        else:
            rows = max(1, self.memory // 2 // (_PER_VALUE * max(width, 1)))
            edges = self.memory // 2 // _PER_EDGE
        blocks, start = [], 0
        while start < num_rows:
            stop = min(start + rows, num_rows)
            if edges is not None:
                limit = self.indptr[start] + edges
                fits = int(torch.searchsorted(self.indptr, limit, right=True)) - 1
                stop = max(start + 1, min(stop, fits))
            blocks.append((start, stop))
            start = stop
        return blocks


class RowMoments:
    """Mean and variance of the columns of rows that come in blocks, in float64.

    Blocks are merged by the formula of Chan, Golub and LeVeque (1979), which is as exact as two
    passes: means that are large beside deviations cancel within blocks only.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = torch.zeros(())

    def add(self, rows: Tensor) -> None:
        """Add the rows of a block, [R, W]."""
        if not len(rows):
            return
        exact = rows.to(torch.float64)
        mean = exact.mean(0)
        self._merge(len(rows), mean, (exact - mean).square_().sum(0))

    def over_processes(self) -> RowMoments:
        """The moments of the rows of all processes, each of which has some."""
        if current() is None:
            return self
        barrier()
        merged = RowMoments()
        count = torch.tensor([float(self.count)], dtype=torch.float64)
        for part in gathered_rows(torch.cat([count, self.mean, self.squares])[None]):
            mean, squares = part[0, 1:].chunk(2)
            merged._merge(int(part[0, 0]), mean, squares)
        return merged

    def _merge(self, count: int, mean: Tensor, squares: Tensor) -> None:
        if not self.count:
            self.count, self.mean, self.squares = count, mean, squares
            return
        total, change = self.count + count, mean - self.mean
        self.mean = self.mean + change * (count / total)
        self.squares = self.squares + squares + change.square() * (self.count * count / total)
        self.count = total

    @property
    def variance(self) -> Tensor:
        """The mean squared difference from the mean, [W]."""
        return self.squares / max(self.count, 1)
