"""Attributes of edges that come as matrices, of PyG and of TU files, as columns of edge features.

Integers are categories, as in the graphs of `from_smiles`, OGB and ZINC and in the edge labels of
TU sets; floats are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.arrays import as_array
from graphlatent.data.readers.messages import quoted
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
                f" 'edge_features'). Attributes found: {quoted(sorted(data.keys()))}."
            )
        array, num_edges = as_array(values, name=name, what=attribute), data.edge_index.shape[1]
        if array.ndim not in (1, 2) or len(array) != num_edges:
            raise InputError(
                f"{name}: '{attribute}' must have one row for each of the {num_edges} edges (option"
                f" 'edge_features'). Got shape {array.shape}."
            )
        columns |= matrix_columns(attribute, array[:, None] if array.ndim == 1 else array)
    return columns or None


def matrix_columns(name: str, matrix: Array) -> dict[str, Array]:
    """The columns of a matrix [E, columns], numbered where there are several.

    Integers become text, so that they are categories.
    """
    values = matrix.astype(np.str_) if matrix.dtype.kind in "iu" else matrix
    count = values.shape[1]
    return {name if count == 1 else f"{name}[{i}]": values[:, i] for i in range(count)}
