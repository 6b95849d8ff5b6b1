"""Feature matrices, dense or sparse: multiplied, put side by side, and checked to be finite."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.data.places import place_of
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix


def one_hot_degrees(degree: Tensor, cap: int, *, dense: bool) -> Tensor | SparseMatrix:
    """The degrees [N] as one-hot rows [N, cap + 1]; those above `cap` share the last column."""
    row, col = torch.arange(degree.numel()), degree.clamp(max=cap)
    ones = torch.ones(degree.numel(), dtype=torch.float32)
    one_hot = SparseMatrix.from_coo(row, col, ones, (degree.numel(), cap + 1))
    return one_hot.to_dense() if dense else one_hot


def sum_of_squares(x: Tensor | SparseMatrix) -> float:
    """The sum of the squares of a feature matrix, in float64."""
    values = (x.value if isinstance(x, SparseMatrix) else x).to(torch.float64)
    return float(values.square().sum())


def scaled(x: Tensor | SparseMatrix, factor: float) -> Tensor | SparseMatrix:
    """`x` times a number."""
    if isinstance(x, Tensor):
        return x * factor
    return SparseMatrix(x.crow, x.col, x.value * factor, x.shape)


def first_not_finite(x: Tensor | SparseMatrix) -> tuple[int, int] | None:
    """Row and column of the first value that is NaN or infinite; None where all are finite."""
    values = x if isinstance(x, Tensor) else x.value
    # The extremes are NaN where a value is; no matrix of truth values is made.
    if not values.numel() or all(bool(torch.isfinite(end)) for end in torch.aminmax(values)):
        return None
    bad = ~torch.isfinite(values)
    if isinstance(x, Tensor):
        row, col = torch.nonzero(bad)[0].tolist()
        return row, col
    return int(x.row[bad][0]), int(x.col[bad][0])


def too_far(graph: GraphData, row: int, col: int, *, feature: str) -> InputError:
    """The error about a feature that float32 cannot hold once it is encoded.

    Args:
        graph: with features as they were given.
        row: the node.
        col: the column of the encoded features.
        feature: the name of that column.
    """
    value, x = "", graph.x
    if graph.columns and feature in graph.columns:
        given = graph.columns[feature][row]
        value = f" is {given:g}" if isinstance(given, float | np.number) else f" is {given}"
    elif x is not None and col < x.shape[1]:
        given = x[row, col] if isinstance(x, Tensor) else x.value[(x.row == row) & (x.col == col)]
        value = f" is {float(given.sum()):g}"
    return InputError(
        f"The feature '{feature}'{value} {place_of(row, graph.node_ids)}, too far from the values"
        " that the model was fitted on: encoded as they were, it overflows float32. Check its unit,"
        " or fit a new model."
    )


def beside(x: Tensor | SparseMatrix, rows: Tensor) -> Tensor | SparseMatrix:
    """The matrix [x, rows] of features and coordinates, dense or sparse as `x` is."""
    if isinstance(x, Tensor):
        return torch.cat([x, rows], dim=1)
    row, col = torch.nonzero(rows, as_tuple=True)
    return SparseMatrix.from_coo(
        torch.cat([x.row, row]),
        torch.cat([x.col, col + x.shape[1]]),
        torch.cat([x.value, rows[row, col]]),
        (x.shape[0], x.shape[1] + rows.shape[1]),
    )
