"""Edge lists made regular: checked, merged, symmetrised. One place decides what an edge is.

Decisions (METHOD): duplicate and reciprocal edges are merged, weights by maximum; one self-loop a
node is kept where the input has it; with `symmetrize` every edge stands in both directions
afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class CleanEdges:
    """Edges sorted by source, then target, each once; and what was done to get there.

    Args:
        edge_index: int64 [2, E].
        edge_weight: float [E], or None where the input had none.
        num_merged: edges that stood there more than once.
        num_added: reverse edges that were missing and were added.
        num_self_loops: self-loops among the edges.
    """

    edge_index: Tensor
    edge_weight: Tensor | None
    num_merged: int
    num_added: int
    num_self_loops: int


def clean_edges(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    *,
    num_nodes: int,
    symmetrize: bool,
    undirected: Tensor | None = None,
) -> CleanEdges:
    """The edges sorted, merged and, with `symmetrize`, in both directions. Ids must be in [0,
    num_nodes).

    Args:
        edge_index: int64 [2, E], in any order.
        edge_weight: float [E], or None.
        num_nodes: N.
        symmetrize: give every edge its reverse.
        undirected: nodes whose edges have no direction in the source, so that one entry means both,
            bool [N]; their reverse edges are always there afterwards and are not counted in
            `num_added`.
    """
    merged, weight = _merge(edge_index, edge_weight, num_nodes)
    num_merged = edge_index.shape[1] - merged.shape[1]
    if undirected is not None:
        merged, weight = _with_reverse(merged, weight, undirected[merged[0]], num_nodes)
    num_added = 0
    if symmetrize:
        before = merged.shape[1]
        merged, weight = _with_reverse(merged, weight, None, num_nodes)
        num_added = merged.shape[1] - before
    num_self_loops = int((merged[0] == merged[1]).sum())
    return CleanEdges(merged, weight, num_merged, num_added, num_self_loops)


def is_symmetric(edge_index: Tensor, edge_weight: Tensor | None, *, num_nodes: int) -> bool:
    """Whether every edge has its reverse with the same weight. Edges must be clean."""
    reverse, order = torch.sort(_key(edge_index.flip(0), num_nodes))
    if not torch.equal(reverse, _key(edge_index, num_nodes)):
        return False
    return edge_weight is None or torch.equal(edge_weight[order], edge_weight)


def _key(edge_index: Tensor, num_nodes: int) -> Tensor:
    """One number for each edge, ascending by source, then target."""
    return edge_index[0] * num_nodes + edge_index[1]


def _with_reverse(
    edge_index: Tensor, edge_weight: Tensor | None, which: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """The clean edges together with the reverse of those in `which`, bool [E] (None: of all)."""
    chosen = edge_index if which is None else edge_index[:, which]
    chosen_weight = edge_weight if which is None or edge_weight is None else edge_weight[which]
    # Half the work, and the frequent case
    if is_symmetric(chosen, chosen_weight, num_nodes=num_nodes):
        return edge_index, edge_weight
    both = torch.cat([edge_index, chosen.flip(0)], dim=1)
    return _merge(
        both,
        (
            None
            if edge_weight is None or chosen_weight is None
            else torch.cat([edge_weight, chosen_weight])
        ),
        num_nodes,
    )


def _merge(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    key = _key(edge_index, num_nodes)
    if bool((key[1:] > key[:-1]).all()):  # clean already
        return edge_index, edge_weight
    if edge_weight is None:
        return _edges(torch.unique_consecutive(torch.sort(key).values), num_nodes), None
    key, inverse = torch.unique(key, return_inverse=True)
    weight = edge_weight.new_full((key.numel(),), -torch.inf)
    return _edges(key, num_nodes), weight.scatter_reduce(0, inverse, edge_weight, reduce="amax")


def _edges(key: Tensor, num_nodes: int) -> Tensor:
    return torch.stack([key // num_nodes, key % num_nodes])
