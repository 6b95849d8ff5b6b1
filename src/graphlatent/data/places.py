"""How messages say where a value is."""

from __future__ import annotations

from typing import Any

import numpy as np


def place_of(row: int, node_ids: np.ndarray[Any, Any] | None) -> str:
    """The row of a node, with its id where the nodes have ids of their own."""
    return f"in row {row} (from 0)" + ("" if node_ids is None else f", node {node_ids[row]!s}")
