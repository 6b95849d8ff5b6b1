"""Attributes of the edges of Python objects as columns of edge features.

Integers in a PyG attribute are categories, as in the graphs of `from_smiles`, OGB and ZINC; floats
are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.arrays import as_array
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]


def pyg_edge_columns(data: Any, attributes: Sequence[str], *, name: str) -> dict[str, Array] | None:
    """The attributes of the edges of a PyG `Data`, a column for each of their columns.

    Args:
        data: with `edge_index`.
        attributes: such as 'edge_attr'; [E] or [E, columns].
        name: for messages.

    Raises:
        InputError: where there is no such attribute, or it does not have a row for each edge.
    """
    columns: dict[str, Array] = {}
    for attribute in attributes:
        values = data.edge_index is not None and data.get(attribute)
        if values is None or values is False:
            raise InputError(
                f"{name}: there is no attribute '{attribute}' beside edge_index (option"
                f" 'edge_features'). Attributes found: {', '.join(map(repr, sorted(data.keys())))}."
            )
        array, num_edges = as_array(values, name=name, what=attribute), data.edge_index.shape[1]
        if array.ndim not in (1, 2) or len(array) != num_edges:
            raise InputError(
                f"{name}: '{attribute}' must have one row for each of the {num_edges} edges (option"
                f" 'edge_features'). Got shape {array.shape}."
            )
        matrix = array[:, None] if array.ndim == 1 else array
        for i in range(matrix.shape[1]):
            column = attribute if matrix.shape[1] == 1 else f"{attribute}[{i}]"
            columns[column] = _codes_as_text(matrix[:, i])
    return columns or None


def _codes_as_text(values: Array) -> Array:
    return values.astype(np.str_) if values.dtype.kind in "iu" else values
