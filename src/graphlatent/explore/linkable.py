"""Which pairs of nodes can have a link: of the same graph and, where nodes are of two kinds, one of
each kind. Legend: N nodes, Q pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Linkable:
    """Which pairs of nodes can have a link.

    Args:
        graph: the graph of each node, int64 [N], ascending.
        side: the kind of each node, 0 or 1 [N], where edges join nodes of different kinds only.
    """

    graph: Array
    side: Array | None = None

    def are(self, first: Array, second: Array) -> Array:
        """Whether each node of `first` can have a link with that of `second`, bool."""
        same_graph: Array = self.graph[first] == self.graph[second]
        if self.side is None:
            return same_graph
        linkable: Array = same_graph & (self.side[first] != self.side[second])
        return linkable

    def count(self) -> float:
        """The number of such pairs, with an edge or without."""
        if self.side is None:
            sizes = np.bincount(self.graph).astype(np.float64)
            return float((sizes * (sizes - 1) / 2).sum())
        both = (np.bincount(self.graph, self.side == side) for side in (0, 1))
        return float(np.multiply(*both).sum())

    def random(self, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """At most `count` random pairs [Q, 2], and how many pairs each stands for [Q].

        First nodes are drawn alike, so that those with more partners stand for more pairs. Both
        nodes may be the same.
        """
        block = 2 * self.graph if self.side is None else 2 * self.graph + self.side
        order = np.argsort(block, kind="stable")
        first = rng.integers(0, len(block), count)
        wanted = block[first] if self.side is None else block[first] ^ 1
        low = np.searchsorted(block[order], wanted)
        high = np.searchsorted(block[order], wanted, side="right")
        some = high > low
        first, low, high = first[some], low[some], high[some]
        second = order[rng.integers(low, high)]
        return np.stack([first, second], axis=1), (high - low).astype(np.float64)
