"""Feature matrices, dense or sparse, multiplied by a number and put side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from graphlatent.ops.sparse import SparseMatrix


def scaled(x: Tensor | SparseMatrix, factor: float) -> Tensor | SparseMatrix:
    """`x` times a number."""
    if isinstance(x, Tensor):
        return x * factor
    return SparseMatrix(x.crow, x.col, x.value * factor, x.shape)


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
