"""Edges held out for link prediction, each with a pair of nodes that is no edge.

A pair has two different nodes of the same graph, unordered; it is an edge where there is one in
either direction. Legend: N nodes, B graphs, E edges, P pairs that are edges, Q pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from graphlatent.data.graph import GraphData
from graphlatent.errors import ConfigError, InputError, bad_argument
from graphlatent.probes.pair_index import PairIndex

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class LinkPairs:
    """Pairs of nodes, half of them edges.

    Args:
        nodes: int64 [Q, 2], the smaller number first; the edges come first, then as many others.
        is_edge: bool [Q].
    """

    nodes: Array
    is_edge: Array


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """A graph without the held-out edges, and the held-out pairs.

    Args:
        graph: to train on: all nodes, and the edges that were not held out.
        val: pairs to select on.
        test: pairs to measure on.
    """

    graph: GraphData
    val: LinkPairs
    test: LinkPairs


def hold_out_edges(
    graph: GraphData, *, val_ratio: float = 0.05, test_ratio: float = 0.1, seed: int = 0
) -> LinkSplit:
    """The graph without some of its edges, and those edges with as many pairs that are no edge.

    Each held-out edge is removed in both directions, and is matched with a pair without an edge of
    the same graph: otherwise it would be enough to tell graphs apart. In a graph that was read with
    bipartite=True pairs have a node of each kind. Self-loops stay, and nodes
    may lose all their neighbours. The default ratios are those of Kipf and Welling's "Variational
    Graph Auto-Encoders" (2016).

    The features must not be derived from the edges: degrees and the like must be encoded from
    `split.graph`, or they reveal held-out edges.

    Args:
        graph: one or more graphs.
        val_ratio: fraction of the edges to select on; at least one edge.
        test_ratio: fraction of the edges to measure on; at least one edge.
        seed: the same seed gives the same pairs.

    Raises:
        ConfigError: where a ratio is out of range.
        InputError: where there are too few edges, or too few pairs without one.
    """
    owner = "hold_out_edges"
    for name, value in (("val_ratio", val_ratio), ("test_ratio", test_ratio)):
        if not 0 < value < 1:
            raise bad_argument(
                name, owner=owner, allowed="a float in the range (0.0, 1.0)", got=value
            )
    if val_ratio + test_ratio >= 1:
        raise ConfigError(
            f"The 'val_ratio' and 'test_ratio' parameters of {owner} must sum to less than 1, to"
            f" leave edges to train on. Got {val_ratio} + {test_ratio} instead."
        )
    index = PairIndex.of(graph)
    num_val, num_test = (
        max(1, round(ratio * len(index.edges))) for ratio in (val_ratio, test_ratio)
    )
    if num_val + num_test >= len(index.edges):
        raise InputError(
            f"There are too few edges to hold out: {len(index.edges)} between different nodes, with"
            f" val_ratio={val_ratio} and test_ratio={test_ratio}, leave none to train on. Give more"
            " edges, or smaller ratios."
        )
    edges, others = sample_pairs(index, num_val + num_test, rng=np.random.default_rng(seed))
    if len(edges) < num_val + num_test:
        raise InputError(
            f"There are too few pairs of nodes without an edge: {num_val + num_test} are needed,"
            f" each in the graph of a held-out edge, and {len(edges)} can be found. Hold out fewer"
            " edges, or leave out graphs in which almost all nodes are linked."
        )
    val, test = (
        LinkPairs(
            index.nodes(np.concatenate([edges[part], others[part]])),
            np.repeat([True, False], len(edges[part])),
        )
        for part in (slice(num_val), slice(num_val, None))
    )
    return LinkSplit(_without(graph, index, edges), val, test)


def sample_pairs(index: PairIndex, count: int, *, rng: np.random.Generator) -> tuple[Array, Array]:
    """Random edges and, for each, a distinct pair of the same graph that is no edge.

    At most `count`; fewer where graphs have too few pairs without an edge.
    """
    # Where the edges of each graph begin
    bounds = np.searchsorted(index.edges, index.first_pair)
    num_others = np.diff(index.first_pair) - np.diff(bounds)
    shuffled = rng.permutation(index.edges)
    graph = index.graph_of(shuffled)
    edges = shuffled[_rank_within(graph) < num_others[graph]][:count]
    graph = index.graph_of(edges)
    others = np.empty_like(edges)
    for g in np.unique(graph):
        taken = index.edges[bounds[g] : bounds[g + 1]]
        rank = (
            rng.choice(int(num_others[g]), size=int((graph == g).sum()), replace=False)
            + index.first_pair[g]
        )
        # The r-th pair that is no edge has the number r plus the number of edges before it
        others[graph == g] = rank + np.searchsorted(
            taken - np.arange(len(taken)), rank, side="right"
        )
    return edges, others


def _rank_within(groups: Array) -> Array:
    """The number of earlier entries of the same group, [len(groups)]."""
    order = np.argsort(groups, kind="stable")
    begins = np.searchsorted(groups[order], groups[order])
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - begins
    return rank


def _without(graph: GraphData, index: PairIndex, held_out: Array) -> GraphData:
    """The graph without those pairs, in either direction."""
    kept = torch.from_numpy(~np.isin(index.numbers(graph.edge_index.numpy()), held_out))
    notes = (*graph.notes, f"{len(held_out):,} edges were held out for link prediction.")
    return replace(graph.with_edges(kept), notes=notes)
