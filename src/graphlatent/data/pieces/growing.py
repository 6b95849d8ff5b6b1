"""Parts of a graph by label propagation with a limit on their size, in blocks of edges.

Random nodes begin a part each. In every round a node takes the part that most of its neighbours are
in, if that has room. Only numbers of nodes and one block of edges are in memory.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces.degrees import row_blocks, rows_of_block

_ROUNDS = 20
# Nodes of a part, at most, against the mean.
_ROOM = 1.1


def grown_parts(graph: CSRGraph, num_parts: int, *, rounds: int = _ROUNDS) -> Tensor:
    """The part of each node, int64 [N]; the same each time.

    Args:
        graph: by rows.
        num_parts: at least 1.
        rounds: passes over the edges, at most.
    """
    size = graph.num_nodes
    num_parts = min(num_parts, size)
    limit = math.ceil(_ROOM * size / max(num_parts, 1))
    parts = torch.full((size,), -1, dtype=torch.int64)
    first = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:num_parts]
    parts[first] = torch.arange(num_parts)
    sizes = torch.ones(num_parts, dtype=torch.int64)
    for _ in range(rounds):
        moved = 0
        for start, stop in row_blocks(graph.indptr):
            moved += _move(graph, start, stop, parts, sizes, limit)
        if moved <= size // 1000:
            break
    rest = torch.nonzero(parts < 0)[:, 0]
    # Nodes that nothing reached fill the parts that have room.
    room = torch.repeat_interleave(torch.arange(num_parts), (limit - sizes).clamp(min=0))
    parts[rest] = room[: rest.numel()]
    return parts


def _move(graph: CSRGraph, start: int, stop: int, parts: Tensor, sizes: Tensor, limit: int) -> int:
    """Move the nodes of a block of rows to better parts; their number.

    Changes `parts` [N] and `sizes` [parts] in place.
    """
    row, col, _ = rows_of_block(graph, start, stop)
    node, around = row - start, parts[col.to(torch.int64)]
    known = (around >= 0) & (row != col)
    num_parts = sizes.numel()
    key, count = torch.unique(node[known] * num_parts + around[known], return_counts=True)
    node, part = key // num_parts, key % num_parts
    own = parts[start:stop]
    # Neighbours in a node's own part.
    stay = torch.zeros(stop - start, dtype=torch.int64)
    same = own[node] == part
    stay[node[same]] = count[same]
    # The part with most neighbours comes last of each node's, and of equal ones the first.
    order = torch.argsort(count, stable=True, descending=True)
    order = order[torch.argsort(node[order], stable=True)]
    node, part, count = node[order], part[order], count[order]
    best = torch.ones_like(node, dtype=torch.bool)
    best[1:] = node[1:] != node[:-1]
    wanted = best & (count > stay[node]) & (part != own[node])
    node, part, gain = node[wanted], part[wanted], (count - stay[node])[wanted]
    # Where a part has room for some only, those that gain most.
    order = torch.argsort(gain, stable=True, descending=True)
    order = order[torch.argsort(part[order], stable=True)]
    node, part = node[order], part[order]
    rank = torch.arange(part.numel()) - torch.searchsorted(part, part)
    fits = rank < (limit - sizes)[part]
    node, part = node[fits], part[fits]
    before = own[node]
    sizes -= torch.bincount(before[before >= 0], minlength=num_parts)
    sizes += torch.bincount(part, minlength=num_parts)
    own[node] = part
    return int(node.numel())
