"""How messages say where a value is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class EdgePlaces:
    """The edges that rows of values belong to, in the place of the ids of nodes.

    Args:
        edge_index: source and target of the edge of each row, [2, R].
        node_ids: ids of the nodes [N], or None for 0..N-1.
    """

    edge_index: np.ndarray[Any, Any]
    node_ids: np.ndarray[Any, Any] | None

    def of(self, row: int) -> str:
        """The edge of a row."""
        ends = self.edge_index[:, row]
        ids = ends if self.node_ids is None else self.node_ids[ends]
        return f"on the edge from {ids[0]!s} to {ids[1]!s}"


def place_of(row: int, node_ids: np.ndarray[Any, Any] | EdgePlaces | None) -> str:
    """The row of a node, with its id where the nodes have ids of their own, or the edge."""
    if isinstance(node_ids, EdgePlaces):
        return node_ids.of(row)
    return f"in row {row} (from 0)" + ("" if node_ids is None else f", node {node_ids[row]!s}")
