"""Sparse matrices of users, checked before they are converted.

SciPy and torch convert between their formats without looking at the positions: one that is outside
the matrix is written to other memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def consistent_csr(matrix: Any) -> Any:
    """A SciPy sparse matrix or array as CSR; the same object where it is CSR already.

    Raises:
        ValueError: where a position is outside the matrix, or its parts do not fit together.
    """
    if matrix.format in ("csr", "csc", "bsr"):
        matrix.check_format(full_check=True)
        return matrix.tocsr()
    coo = matrix.tocoo()
    for name, positions, size in zip(("row", "column"), (coo.row, coo.col), coo.shape, strict=True):
        outside = (positions < 0) | (positions >= size)
        if outside.any():
            raise ValueError(f"{name} {int(positions[outside][0])} is not one of the {size:,}")
    return coo.tocsr()


def consistent_coo(tensor: Tensor) -> Tensor:
    """A sparse torch tensor as COO on the CPU, each position once.

    Raises:
        RuntimeError: where a position is outside the tensor, or its parts do not fit together.
    """
    sparse = tensor.detach().cpu()
    with torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
        if sparse.layout == torch.sparse_coo:
            checked = torch.sparse_coo_tensor(sparse._indices(), sparse._values(), sparse.shape)
        else:
            by_row = sparse.layout in (torch.sparse_csr, torch.sparse_bsr)
            parts = (
                (sparse.crow_indices(), sparse.col_indices())
                if by_row
                else (sparse.ccol_indices(), sparse.row_indices())
            )
            checked = torch.sparse_compressed_tensor(
                *parts, sparse.values(), sparse.shape, layout=sparse.layout
            )
        coo: Tensor = checked.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
    return coo
