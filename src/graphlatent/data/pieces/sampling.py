"""A sample of the edges around some nodes, without a loop over nodes.

Legend: R rows, k sampled edges of a row, M edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.data.batches import EdgeList, ranges
from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces.degrees import Degrees


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Some nodes and sampled edges around them.

    Args:
        nodes: all nodes, int64 [n], ascending.
        seed: the nodes that the sample is for, bool [n].
        edges: sampled edges, numbered by position in `nodes`, with `degree` of the whole graph.
    """

    nodes: Tensor
    seed: Tensor
    edges: EdgeList


def random_subsets(sizes: Tensor, count: int, *, generator: torch.Generator) -> Tensor:
    """`count` different numbers below each of `sizes`, drawn uniformly, int64 [R, count].

    Floyd's algorithm for all rows at once: the j-th number is drawn below size - count + j + 1, and
    replaced by the largest of those where it is there already.

    Args:
        sizes: int64 [R], at least `count`.
        count: numbers of a row.
        generator: on the CPU.
    """
    chosen = torch.empty(sizes.numel(), count, dtype=torch.int64)
    for j in range(count):
        last = sizes - count + j
        uniform = torch.rand(sizes.numel(), generator=generator, dtype=torch.float64)
        drawn = torch.minimum((uniform * (last + 1)).to(torch.int64), last)
        repeated = (chosen[:, :j] == drawn[:, None]).any(1)
        chosen[:, j] = torch.where(repeated, last, drawn)
    return chosen


def sample_edges(
    graph: CSRGraph,
    rows: Tensor,
    num_neighbors: int | None,
    *,
    loop: Tensor | None,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    """Up to `num_neighbors` edges of each row without replacement, and its self-loop.

    Args:
        graph: by rows.
        rows: int64 [R], ascending.
        num_neighbors: k; None takes all edges.
        loop: `Degrees.loop`.
        generator: on the CPU; rows with at most k edges draw nothing.

    Returns:
        The position in `rows` of each edge's row, int64 [M], ascending; its place in
        `graph.indices`, int64 [M], ascending; by what its weight is multiplied so that sums over
        the sampled edges are those over all edges in expectation, float64 [M].
    """
    begin, end = graph.indptr[rows], graph.indptr[rows + 1]
    own = None if loop is None else loop[rows]
    # A self-loop is always taken.
    others = end - begin if own is None else end - begin - (own >= 0).to(torch.int64)
    many = torch.zeros_like(others, dtype=torch.bool)
    if num_neighbors is not None:
        many = others > num_neighbors
    few = torch.nonzero(~many)[:, 0]
    picks = [ranges(begin[few], end[few])]
    positions = [torch.repeat_interleave(few, (end - begin)[few])]
    scales = [torch.ones(picks[0].numel(), dtype=torch.float64)]
    sampled = torch.nonzero(many)[:, 0]
    if num_neighbors is not None and sampled.numel():
        offset = random_subsets(others[sampled], num_neighbors, generator=generator)
        if own is not None:
            place = own[sampled][:, None]
            offset = offset + ((place >= 0) & (offset >= place)).to(torch.int64)
            looped = sampled[own[sampled] >= 0]
            picks.append(begin[looped] + own[looped])
            positions.append(looped)
            scales.append(torch.ones(looped.numel(), dtype=torch.float64))
        picks.append((begin[sampled][:, None] + offset).flatten())
        positions.append(sampled.repeat_interleave(num_neighbors))
        scales.append((others[sampled] / num_neighbors).repeat_interleave(num_neighbors))
    # Rows ascend, so the order of places is that of rows, and of the nodes in each.
    pick, order = torch.sort(torch.cat(picks))
    return torch.cat(positions)[order], pick, torch.cat(scales).to(torch.float64)[order]


def sample_neighbourhood(
    graph: CSRGraph,
    seeds: Tensor,
    *,
    num_neighbors: int | None,
    num_layers: int,
    degrees: Degrees,
    generator: torch.Generator,
) -> Neighbourhood:
    """The nodes that `num_layers` layers need for the embeddings of `seeds`, and their edges.

    Every node whose neighbours a layer needs has up to `num_neighbors` sampled ones, the same in
    all layers. Those that are reached in the last hop have no edges. Weights are multiplied by
    (edges of the row) / (sampled ones), and degrees are those of the whole graph, so that the sum
    of a layer over the neighbours of a node is that of the whole graph in expectation.

    Args:
        graph: by rows.
        seeds: int64 [R], ascending.
        num_neighbors: None takes all.
        num_layers: hops.
        degrees: of the graph.
        generator: on the CPU.
    """
    nodes = frontier = seeds
    rows, cols, picks, scales = [], [], [], []
    for _ in range(num_layers):
        position, pick, scale = sample_edges(
            graph, frontier, num_neighbors, loop=degrees.loop, generator=generator
        )
        col = graph.indices[pick].to(torch.int64)
        rows.append(frontier[position])
        cols.append(col)
        picks.append(pick)
        scales.append(scale)
        reached = torch.unique(torch.cat([nodes, col]))
        frontier = reached[~_contains(nodes, reached)]
        nodes = reached
        if not frontier.numel():
            break
    row, col, pick, scale = (torch.cat(parts) for parts in (rows, cols, picks, scales))
    pick, order = torch.sort(pick)
    scale, sampled = scale[order], bool((scale != 1).any())
    # Where every node has all its edges, both directions of an edge are there.
    edges = graph.edge_list(
        torch.searchsorted(nodes, row[order]),
        torch.searchsorted(nodes, col[order]),
        pick,
        num_nodes=nodes.numel(),
        all_of=graph.undirected and not sampled and not frontier.numel(),
        scale=scale if sampled else None,
        degree=degrees.total[nodes],
    )
    return Neighbourhood(nodes, _contains(seeds, nodes), edges)


def _contains(ascending: Tensor, values: Tensor) -> Tensor:
    """Which of `values` are in `ascending`, bool."""
    if not ascending.numel():
        return torch.zeros_like(values, dtype=torch.bool)
    place = torch.searchsorted(ascending, values).clamp(max=ascending.numel() - 1)
    return ascending[place] == values
