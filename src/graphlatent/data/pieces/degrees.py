"""Degrees and self-loops of all nodes, in one pass over the edges in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.data.csr import CSRGraph

BLOCK_EDGES = 1 << 22
"""Edges that are read at a time, about."""


@dataclass(frozen=True, eq=False)
class Degrees:
    """Numbers of all nodes that sampling and normalising need.

    Args:
        total: the sum of the absolute incoming weights of each node and of its self-loop, of weight
            1 where it has none, float64 [N]: D of a GCN.
        loop: place of each node's self-loop among its edges, int64 [N], -1 where it has none; None
            where no node has one.
    """

    total: Tensor
    loop: Tensor | None


def row_blocks(indptr: Tensor, *, block_edges: int | None = None) -> Iterator[tuple[int, int]]:
    """First and last row (exclusive) of blocks with about `block_edges` edges, at least one row."""
    block_edges = block_edges or BLOCK_EDGES
    num_rows, start = indptr.numel() - 1, 0
    while start < num_rows:
        wanted = indptr[start] + block_edges
        stop = int(torch.searchsorted(indptr, wanted, right=True)) - 1
        stop = min(max(stop, start + 1), num_rows)
        yield start, stop
        start = stop


def rows_of_block(graph: CSRGraph, start: int, stop: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Row, node at the other end, and weight of the edges of the rows `start` to `stop`."""
    begin, end = int(graph.indptr[start]), int(graph.indptr[stop])
    count = torch.diff(graph.indptr[start : stop + 1])
    row = torch.repeat_interleave(torch.arange(start, stop), count, output_size=end - begin)
    weight = None if graph.weight is None else graph.weight[begin:end]
    return row, graph.indices[begin:end], weight


def find_degrees(graph: CSRGraph) -> Degrees:
    """The degrees and self-loops of all nodes."""
    size = graph.num_nodes
    total = torch.zeros(size, dtype=torch.float64)
    loop = torch.full((size,), -1, dtype=torch.int64)
    for start, stop in row_blocks(graph.indptr):
        row, col, weight = rows_of_block(graph, start, stop)
        if weight is None:
            total[start:stop] = torch.diff(graph.indptr[start : stop + 1]).to(torch.float64)
        else:
            total.index_add_(0, row, weight.to(torch.float64).abs())
        place = torch.nonzero(row == col)[:, 0]
        own = row[place]
        loop[own] = place + int(graph.indptr[start]) - graph.indptr[own]
    without = loop < 0
    total += without
    return Degrees(total, None if bool(without.all()) else loop)
