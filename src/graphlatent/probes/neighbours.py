"""Representations as rows of float64, in which nearest rows are found and clusters made."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from graphlatent.ops.nearest import Array, RowMatrix
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.design import checked_matrix


def float64_rows(representation: Any) -> RowMatrix:
    """The representation as float64 [M, D]: an array, or SciPy CSR where it was given sparse.

    Raises:
        InputError: where it is no 2-D matrix of finite numbers.
    """
    matrix = checked_matrix(representation)
    if isinstance(matrix, SparseMatrix):
        return matrix.to_scipy().astype(np.float64)
    rows: Array = matrix.to(device="cpu", dtype=torch.float64).numpy()
    return rows
