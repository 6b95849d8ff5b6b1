"""Constant sparse matrices with a differentiable product, and feature matrices with some rows replaced.

`SparseMatrix` is a CSR matrix that never needs a gradient itself (an adjacency, or node features that came sparse).
Its product with a dense matrix is differentiable in the dense one; the backward pass multiplies by the transpose,
which is built once and kept. Shapes: M rows, K columns, H columns of the dense factor.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


@dataclass(eq=False)
class SparseMatrix:
    """A constant CSR matrix.

    Args:
        crow: row pointers, int64 [M + 1].
        col: column of each stored value, int64 [nnz], ascending within a row.
        value: stored values, float [nnz].
        shape: (M, K).
        symmetric: promise that the matrix equals its transpose, so that no second copy is kept for the gradient.
    """

    crow: Tensor
    col: Tensor
    value: Tensor
    shape: tuple[int, int]
    symmetric: bool = False
    _transpose: SparseMatrix | None = field(default=None, repr=False)
    _csr: Tensor | None = field(default=None, repr=False)

    @classmethod
    def from_coo(cls, row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int], *, symmetric: bool = False) -> SparseMatrix:
        """The CSR matrix of coordinates in any order; each (row, col) must stand there once."""
        order = torch.argsort(row * shape[1] + col, stable=True)
        crow = torch.zeros(shape[0] + 1, dtype=torch.int64, device=row.device)
        crow[1:] = torch.cumsum(torch.bincount(row, minlength=shape[0]), 0)
        return cls(crow, col[order], value[order], shape, symmetric)

    @classmethod
    def from_scipy(cls, matrix: Any, *, dtype: torch.dtype = torch.float32) -> SparseMatrix:
        """The same matrix out of any SciPy sparse one; duplicates are summed, explicit zeros dropped."""
        csr = sp.csr_matrix(matrix, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        return cls(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(np.ascontiguousarray(csr.data)).to(dtype),
            (int(csr.shape[0]), int(csr.shape[1])),
        )

    def to_scipy(self) -> sp.csr_matrix:
        """The same matrix as SciPy CSR."""
        arrays = (self.value.cpu().numpy(), self.col.cpu().numpy(), self.crow.cpu().numpy())
        return sp.csr_matrix(arrays, shape=self.shape)

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        return int(self.value.numel())

    @property
    def dtype(self) -> torch.dtype:
        """The type of the stored values."""
        return self.value.dtype

    @property
    def device(self) -> torch.device:
        """Where the stored values are."""
        return self.value.device

    @property
    def row(self) -> Tensor:
        """Row of each stored value, int64 [nnz]."""
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.device), torch.diff(self.crow))

    @property
    def transpose(self) -> SparseMatrix:
        """The transposed matrix, built on first use and kept."""
        if self.symmetric:
            return self
        if self._transpose is None:
            flipped = SparseMatrix.from_coo(self.col, self.row, self.value, (self.shape[1], self.shape[0]))
            flipped._transpose = self
            self._transpose = flipped
        return self._transpose

    @property
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor, built on first use and kept."""
        if self._csr is None:
            with warnings.catch_warnings():  # torch announces on first use that its CSR layout is in beta
                warnings.filterwarnings("ignore", message=".*[Ss]parse CSR tensor support is in beta.*")
                warnings.filterwarnings("ignore", message=".*[Ss]parse invariant checks.*")
                self._csr = torch.sparse_csr_tensor(self.crow, self.col, self.value, size=self.shape)
        return self._csr

    def matmul(self, dense: Tensor) -> Tensor:
        """`self @ dense`, [M, H], differentiable in `dense` [K, H]."""
        product: Tensor = _SparseProduct.apply(self, dense)  # type: ignore[no-untyped-call]
        return product

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> SparseMatrix:
        """The same matrix on another device or with another value type (self where nothing changes)."""
        value = self.value.to(device=device, dtype=dtype)
        if value is self.value:
            return self
        return SparseMatrix(self.crow.to(value.device), self.col.to(value.device), value, self.shape, self.symmetric)

    def rows(self, index: Tensor) -> SparseMatrix:
        """The matrix of the rows `index` [R], in that order."""
        start, count = self.crow[index], torch.diff(self.crow)[index]
        crow = torch.zeros(index.numel() + 1, dtype=torch.int64, device=self.device)
        crow[1:] = torch.cumsum(count, 0)
        offset = torch.repeat_interleave(start - crow[:-1], count)
        pick = torch.arange(int(crow[-1]), device=self.device) + offset
        return SparseMatrix(crow, self.col[pick], self.value[pick], (index.numel(), self.shape[1]))

    def to_dense(self) -> Tensor:
        """The dense matrix, [M, K]. For small matrices and blocks of rows only."""
        dense = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        dense[self.row, self.col] = self.value
        return dense


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return _product(matrix, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None]:
        return None, ctx.matrix.transpose.matmul(grads[0]) if ctx.needs_input_grad[1] else None


def _product(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    if 0 in matrix.shape or dense.shape[1] == 0 or matrix.nnz == 0:  # some sparse kernels refuse empty operands
        return dense.new_zeros(matrix.shape[0], dense.shape[1])
    product: Tensor = matrix.csr @ dense.contiguous()
    return product


@dataclass(frozen=True, eq=False)
class PatchedRows:
    """A sparse feature matrix of which some rows are replaced by dense ones: the masked view of sparse features.

    Args:
        base: the untouched features [N, F].
        index: the replaced rows, int64 [R].
        values: what stands there instead, [R, F].
    """

    base: SparseMatrix
    index: Tensor
    values: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.base.shape

    def matmul(self, dense: Tensor) -> Tensor:
        """`self @ dense`, [N, H]; the replaced rows take no part in the product with the base."""
        return self.base.matmul(dense).index_copy(0, self.index, self.values @ dense)

    def to_dense(self) -> Tensor:
        """The dense matrix, [N, F]."""
        return self.base.to_dense().index_copy(0, self.index, self.values)


Features: TypeAlias = Tensor | SparseMatrix | PatchedRows


def matmul(x: Features, weight: Tensor) -> Tensor:
    """`x @ weight` for dense, sparse or patched features, [N, H]."""
    return x @ weight if isinstance(x, Tensor) else x.matmul(weight)


def to_dense(x: Features) -> Tensor:
    """`x` as a dense tensor, [N, F]."""
    return x if isinstance(x, Tensor) else x.to_dense()


def replace_rows(x: Tensor | SparseMatrix, index: Tensor, values: Tensor) -> Tensor | PatchedRows:
    """`x` with the rows `index` [R] replaced by `values` [R, F]; sparse features stay sparse elsewhere."""
    if isinstance(x, Tensor):
        return x.index_copy(0, index, values)
    return PatchedRows(x, index, values)


def take_rows(x: Tensor | SparseMatrix, index: Tensor) -> Tensor | SparseMatrix:
    """The rows `index` of `x`, of the same kind."""
    return x[index] if isinstance(x, Tensor) else x.rows(index)
