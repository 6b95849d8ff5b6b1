"""A number for each pair of nodes that may be an edge.

A pair has two different nodes of the same graph, unordered; of a bipartite graph, one of each kind.
Legend: N nodes, B graphs, E edges, P pairs that are edges, Q pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.graph import GraphData
from graphlatent.data.readers.bipartite import sides_of

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class PairIndex:
    """A number for each pair of different nodes of the same graph.

    Graph after graph; in a graph, nodes l < h have the number h (h - 1) / 2 + l.

    Args:
        first_node: of each graph and the end, int64 [B + 1].
        first_pair: of each graph and the end, int64 [B + 1].
        edges: numbers of the pairs that are edges, ascending, int64 [P].
    """

    first_node: Array
    first_pair: Array
    edges: Array

    @classmethod
    def of(cls, graph: GraphData) -> PairIndex:
        """The pairs of a graph."""
        ptr: Array = graph.ptr.numpy()
        size = np.diff(ptr)
        none = np.zeros(0, dtype=np.int64)
        index: PairIndex
        if graph.reading.bipartite and graph.node_ids is not None:
            side = sides_of(graph.node_ids, graph.reading)
            index = BipartitePairIndex.of_sides(side, ptr)
        else:
            index = cls(ptr, np.concatenate([[0], np.cumsum(size * (size - 1) // 2)]), none)
        numbers = index.numbers(graph.edge_index.numpy())
        return replace(index, edges=np.unique(numbers[numbers >= 0]))

    def numbers(self, edge_index: Array) -> Array:
        """The pair of each edge [E] from [2, E], whatever its direction; -1 for self-loops."""
        low, high = edge_index.min(0), edge_index.max(0)
        graph = np.searchsorted(self.first_node, low, side="right") - 1
        low, high = low - self.first_node[graph], high - self.first_node[graph]
        start = self.first_pair[graph]
        numbers: Array = np.where(low == high, -1, start + high * (high - 1) // 2 + low)
        return numbers

    def graph_of(self, pairs: Array) -> Array:
        """The graph of each pair."""
        graph: Array = np.searchsorted(self.first_pair, pairs, side="right") - 1
        return graph

    def nodes(self, pairs: Array) -> Array:
        """The nodes of each pair, int64 [Q, 2], the smaller number first."""
        graph = self.graph_of(pairs)
        number = pairs - self.first_pair[graph]
        high = ((1 + np.sqrt(1 + 8 * number.astype(np.float64))) / 2).astype(np.int64)
        # Correct the rounding of the square root
        high += (high * (high + 1) // 2 <= number).astype(np.int64) - (
            high * (high - 1) // 2 > number
        )
        nodes = np.stack([number - high * (high - 1) // 2, high], axis=1)
        return nodes + self.first_node[graph][:, None]


@dataclass(frozen=True, eq=False)
class BipartitePairIndex(PairIndex):
    """A number for each pair of a source and a target of the same graph.

    Graph after graph; in a graph of n targets, the s-th source and the t-th target have the number
    s n + t.

    Args:
        ends: nodes by graph and in it sources before targets, int64 [N].
        rank: of each node among those of its graph and kind, int64 [N].
        side: the kind of each node, 0 source or 1 target [N].
        num_sources: of each graph, int64 [B].
    """

    ends: Array
    rank: Array
    side: Array
    num_sources: Array

    @classmethod
    def of_sides(cls, side: Array, ptr: Array) -> BipartitePairIndex:
        """The pairs of graphs with nodes of these kinds, without edges yet."""
        graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        ends = np.lexsort((np.arange(len(side)), side, graph))
        num_sources = np.bincount(graph, side == 0, minlength=len(ptr) - 1).astype(np.int64)
        rank = np.empty(len(side), dtype=np.int64)
        rank[ends] = np.arange(len(side)) - ptr[graph[ends]]
        rank -= side * num_sources[graph]
        first_pair = np.concatenate([[0], np.cumsum(num_sources * (np.diff(ptr) - num_sources))])
        none = np.zeros(0, dtype=np.int64)
        return cls(ptr, first_pair, none, ends, rank, side, num_sources)

    def numbers(self, edge_index: Array) -> Array:
        """The pair of each edge [E] from [2, E], whatever its direction; -1 within a kind."""
        first, second = edge_index
        forward = self.side[first] < self.side[second]
        source, target = np.where(forward, first, second), np.where(forward, second, first)
        graph = np.searchsorted(self.first_node, source, side="right") - 1
        number = self.rank[source] * self._num_targets[graph] + self.rank[target]
        crosses = self.side[first] != self.side[second]
        numbers: Array = np.where(crosses, self.first_pair[graph] + number, -1)
        return numbers

    def nodes(self, pairs: Array) -> Array:
        """The nodes of each pair, int64 [Q, 2], the smaller number first."""
        graph = self.graph_of(pairs)
        # A graph without targets has no pairs.
        source, target = np.divmod(pairs - self.first_pair[graph], self._num_targets[graph])
        start = self.first_node[graph]
        both = [self.ends[start + source], self.ends[start + self.num_sources[graph] + target]]
        return np.sort(np.stack(both, axis=1), axis=1)

    @property
    def _num_targets(self) -> Array:
        num_targets: Array = np.diff(self.first_node) - self.num_sources
        return num_targets
