"""The propagation matrices of a graph by rows, computed by blocks of rows and never as a whole.

What is kept of the whole graph are a few numbers of each node. Legend: N nodes, E edges, R rows of
a block, M edges of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from graphlatent.data.csr import CSRGraph
from graphlatent.nn.propagation import gcn_scale, refuse_negative
from graphlatent.ops.row_blocks import BlockPlan
from graphlatent.ops.sparse import SparseMatrix


@dataclass(frozen=True, eq=False)
class RowEntries:
    """The entries of some rows of a matrix off its diagonal, and of its transpose.

    Args:
        row: of each entry, counted from the first row of the block, int64 [M].
        col: of each entry, [M].
        value: a_ij, float64 [M]; 0 where a self-loop is stored.
        back: a_ji, float64 [M].
    """

    row: Tensor
    col: Tensor
    value: Tensor
    back: Tensor


class RowPropagation:
    """The matrix of `gcn_matrix`, `gin_matrix` or, for heads, `as_gcn_matrix`, by blocks of rows.

    Args:
        graph: whose rows are the rows of the matrix.
        kind: 'gcn', 'gin', or 'smoothing': GCN's matrix of a graph whose weights may be negative,
            which count with their absolute values in D.
        plan: the blocks in which the edges are read once, for the degrees.

    Raises:
        InputError: where an edge weight is negative and the kind is 'gcn'.
    """

    def __init__(
        self, graph: CSRGraph, *, kind: Literal["gcn", "gin", "smoothing"], plan: BlockPlan
    ) -> None:
        self.graph, self.kind = graph, kind
        size = graph.num_nodes
        # Sums of the weights of a node's edges to others, and of its self-loops.
        self._scale: Tensor | None = None
        others, loops = torch.zeros(2, size, dtype=torch.float64)
        looped = torch.zeros(size, dtype=torch.bool)
        for start, stop in plan.of_width(1):
            row, col, weight = self._stored(start, stop)
            if kind == "gcn":
                refuse_negative(weight)
            loop = col == row + start
            loops[start:stop].index_add_(0, row[loop], weight[loop])
            looped[start:stop][row[loop]] = True
            weight = torch.where(loop, 0.0, weight.abs())
            others[start:stop].index_add_(0, row, weight)
        if kind == "gin":
            diagonal = 1 + loops
        elif kind == "gcn":
            diagonal = torch.where(looped, loops, 1.0)
        else:
            # As `as_gcn_matrix` finds the loops in the float32 matrix of a GIN layer.
            own = (1 + loops).to(torch.float32).to(torch.float64)
            diagonal = torch.where(own != 1, own - 1, 1.0)
        if kind != "gin":
            self._scale = gcn_scale(others + diagonal.abs())
        # What the stored edges lack of the diagonal.
        self._added = self._scaled(diagonal - loops).to(torch.float32)
        self.diagonal = self._scaled(diagonal).to(torch.float32)

    def multiply(
        self,
        start: int,
        stop: int,
        dense: Tensor,
        *,
        base: Tensor | None = None,
        alpha: float = 1.0,
    ) -> Tensor:
        """`base + alpha * A[start:stop] @ dense`, [R, H].

        Args:
            start: first row.
            stop: the one after the last.
            dense: [N, H], contiguous, possibly memory-mapped; it is not copied.
            base: [R, H] or [H].
            alpha: a factor.
        """
        own = (alpha * self._added[start:stop])[:, None] * dense[start:stop]
        own = own if base is None else own.add_(base)
        return self._rows(start, stop).multiply(dense, base=own, alpha=alpha)

    def entries(self, start: int, stop: int) -> RowEntries:
        """The entries of some rows off the diagonal, rounded to float32 as in products."""
        row, col, weight = self._stored(start, stop)
        other = col != row + start
        value = self._values(row + start, col, weight) * other
        if self.graph.undirected:
            return RowEntries(row, col, value, value)
        place, found = self._find(col.to(torch.int64), row + start)
        back = self._weights(place)
        back = self._values(col.to(torch.int64), row + start, back) * found * other
        return RowEntries(row, col, value, back)

    def _rows(self, start: int, stop: int) -> SparseMatrix:
        """The stored entries of some rows, [R, N]."""
        row, col, weight = self._stored(start, stop)
        value = self._values(row + start, col, weight, dtype=torch.float32)
        crow = self.graph.indptr[start : stop + 1]
        return SparseMatrix(
            (crow - crow[0]).to(col.dtype), col, value, (stop - start, self.graph.num_nodes)
        )

    def _stored(self, start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
        """The stored edges of some rows: row from `start`, column, weight in float64."""
        indptr = self.graph.indptr[start : stop + 1]
        begin, end = int(indptr[0]), int(indptr[-1])
        row = torch.repeat_interleave(
            torch.arange(stop - start), torch.diff(indptr), output_size=end - begin
        )
        col = self.graph.indices[begin:end]
        return row, col, self._weights(slice(begin, end), count=end - begin)

    def _weights(self, which: Tensor | slice, *, count: int = 0) -> Tensor:
        """The weights of some edges in float64; 1 where edges have none."""
        if self.graph.weight is not None:
            return self.graph.weight[which].to(torch.float64)
        count = which.numel() if isinstance(which, Tensor) else count
        return torch.ones(count, dtype=torch.float64)

    def _values(
        self, row: Tensor, col: Tensor, weight: Tensor, *, dtype: torch.dtype = torch.float64
    ) -> Tensor:
        """The entries of edges, rounded to float32; `row` of the whole graph."""
        value = weight
        if self._scale is not None:
            value = self._scale[row].mul_(weight).mul_(self._scale.index_select(0, col))
        return value.to(torch.float32).to(dtype)

    def _scaled(self, diagonal: Tensor) -> Tensor:
        return diagonal if self._scale is None else self._scale * diagonal * self._scale

    def _find(self, row: Tensor, col: Tensor) -> tuple[Tensor, Tensor]:
        """The place of each edge in the stored ones, and whether it is there: bisection by row."""
        indptr, indices = self.graph.indptr, self.graph.indices
        low, end = indptr[row], indptr[row + 1]
        high, last = end, max(indices.numel() - 1, 0)
        while bool((low < high).any()):
            middle = (low + high) // 2
            before = (indices[middle.clamp(max=last)] < col) & (low < high)
            low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
        place = low.clamp(max=last)
        return place, (low < end) & (indices[place] == col)
