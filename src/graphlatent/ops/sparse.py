"""Constant sparse matrices with a differentiable product, and features in several forms.

`SparseMatrix` is a CSR matrix that needs no gradient itself: an adjacency matrix, or sparse node
features. Its product with a dense matrix is differentiable in the dense factor; the backward pass
multiplies by the transpose, which is computed once and cached. The product is torch's on a CPU
(MKL where available), and a Triton kernel on a GPU (kernels/spmm.py).
Shapes: M rows, K columns, H columns of the dense factor.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphlatent.ops.kernels import usable

# Matrices with a row of more stored values than this are processed longest row first on a GPU.
_LONG_ROW = 2048


@dataclass(eq=False)
class SparseMatrix:
    """A constant CSR matrix.

    Args:
        crow: row pointers, int64 [M + 1]; int32 on a GPU, where they fit.
        col: column of each stored value, [nnz], ascending within a row, of the same type.
        value: stored values, float [nnz].
        shape: (M, K).
        symmetric: the matrix equals its transpose, so no second copy is needed for the gradient;
            not checked.
    """

    crow: Tensor
    col: Tensor
    value: Tensor
    shape: tuple[int, int]
    symmetric: bool = False
    _transpose: SparseMatrix | None = field(default=None, repr=False)
    _csr: Tensor | None = field(default=None, repr=False)
    _order: Tensor | None = field(default=None, repr=False)
    _crow_list: list[int] | None = field(default=None, repr=False)
    _transpose_order: Tensor | None = field(default=None, repr=False)

    @classmethod
    def from_coo(
        cls,
        row: Tensor,
        col: Tensor,
        value: Tensor,
        shape: tuple[int, int],
        *,
        symmetric: bool = False,
    ) -> SparseMatrix:
        """The CSR matrix of coordinates in any order; no (row, col) may occur twice."""
        order = torch.argsort(row.to(torch.int64) * shape[1] + col, stable=True)
        crow = torch.zeros(shape[0] + 1, dtype=col.dtype, device=row.device)
        crow[1:] = torch.cumsum(torch.bincount(row, minlength=shape[0]), 0)
        return cls(crow, col[order], value[order], shape, symmetric)

    @classmethod
    def from_scipy(cls, matrix: Any, *, dtype: torch.dtype = torch.float32) -> SparseMatrix:
        """A copy of any SciPy sparse matrix, with duplicates summed and explicit zeros dropped."""
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
        """The number of stored values."""
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
        number = torch.arange(self.shape[0], device=self.device)
        return torch.repeat_interleave(number, torch.diff(self.crow), output_size=self.nnz)

    @property
    def transpose(self) -> SparseMatrix:
        """The transposed matrix, computed on first use and cached."""
        if self.symmetric:
            return self
        if self._transpose is None:
            flipped = SparseMatrix.from_coo(
                self.col, self.row, self.value, (self.shape[1], self.shape[0])
            )
            flipped._transpose = self
            self._transpose = flipped
        return self._transpose

    @property
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor, computed on first use and cached."""
        if self._csr is None:
            # torch warns on first use that its CSR layout is in beta.
            with warnings.catch_warnings():
                warnings.filterwarnings(
                    "ignore", message=".*[Ss]parse CSR tensor support is in beta.*"
                )
                warnings.filterwarnings("ignore", message=".*[Ss]parse invariant checks.*")
                self._csr = torch.sparse_csr_tensor(
                    self.crow, self.col, self.value, size=self.shape
                )
        return self._csr

    @property
    def order(self) -> Tensor | None:
        """Rows by descending length where some are long, else None; cached.

        Starting with the longest rows keeps all of a GPU busy to the end.
        """
        if self._order is None:
            length = torch.diff(self.crow)
            uneven = self.shape[0] > 0 and int(length.max()) > _LONG_ROW
            order = torch.argsort(length, descending=True, stable=True) if uneven else length[:0]
            self._order = order.to(torch.int32)
        return self._order if self._order.numel() else None

    def matmul(self, dense: Tensor, bias: Tensor | None = None) -> Tensor:
        """`self @ dense + bias`, [M, H], differentiable in `dense` [K, H] and `bias` [H]."""
        product: Tensor = _SparseProduct.apply(self, dense, bias)  # type: ignore[no-untyped-call]
        return product

    def multiply(self, dense: Tensor, *, base: Tensor | None = None, alpha: float = 1.0) -> Tensor:
        """`base + alpha * self @ dense`, [M, H], without a gradient; `base` is [M, H] or [H]."""
        # Some sparse kernels reject empty operands.
        if 0 in self.shape or dense.shape[1] == 0 or self.nnz == 0:
            zeros = dense.new_zeros(self.shape[0], dense.shape[1])
            return zeros if base is None else zeros + base
        if usable(dense):
            return self.kernel(dense, base=base, alpha=alpha)
        product: Tensor
        if base is None:
            product = self.csr @ dense.contiguous()
        else:
            base = base.expand(self.shape[0], dense.shape[1])
            product = torch.addmm(base, self.csr, dense.contiguous(), alpha=alpha)
        return product

    def kernel(
        self,
        dense: Tensor,
        *,
        base: Tensor | None = None,
        alpha: float = 1.0,
        rows: Tensor | None = None,
        position: Tensor | None = None,
    ) -> Tensor:
        """`multiply` on a GPU, optionally for some rows or columns only.

        `rows` and `position` are those of `kernels.spmm.spmm`.
        """
        from graphlatent.ops.kernels.spmm import spmm

        num_rows, order = (self.shape[0], self.order) if rows is None else (rows.numel(), None)
        return spmm(
            self.crow,
            self.col,
            self.value,
            dense,
            num_rows=num_rows,
            base=base,
            alpha=alpha,
            order=order,
            rows=rows,
            position=position,
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> SparseMatrix:
        """The matrix on another device or with another dtype; self where nothing changes."""
        value = self.value.to(device=device, dtype=dtype)
        if value is self.value:
            return self
        small = value.is_cuda and max(self.nnz, *self.shape) < 2**31
        index = torch.int32 if small else torch.int64
        return SparseMatrix(
            self.crow.to(value.device, index),
            self.col.to(value.device, index),
            value,
            self.shape,
            self.symmetric,
        )

    def rows(self, index: Tensor) -> SparseMatrix:
        """The rows `index` [R] as a matrix, in that order."""
        start, count = self.crow[index], torch.diff(self.crow)[index]
        crow = torch.zeros(index.numel() + 1, dtype=self.crow.dtype, device=self.device)
        crow[1:] = torch.cumsum(count, 0)
        offset = torch.repeat_interleave(start - crow[:-1], count)
        pick = torch.arange(int(crow[-1]), device=self.device) + offset
        return SparseMatrix(crow, self.col[pick], self.value[pick], (index.numel(), self.shape[1]))

    def dense_rows(self, start: int, stop: int) -> Tensor:
        """The rows from `start` to `stop` as a dense matrix."""
        if self._crow_list is None:
            # Copied to the host once, since each copy waits for the GPU.
            self._crow_list = self.crow.tolist()
        begin, end = self._crow_list[start], self._crow_list[stop]
        count = torch.diff(self.crow[start : stop + 1])
        row = torch.repeat_interleave(
            torch.arange(stop - start, device=self.device), count, output_size=end - begin
        )
        dense = torch.zeros(stop - start, self.shape[1], dtype=self.dtype, device=self.device)
        return dense.index_put_((row, self.col[begin:end]), self.value[begin:end])

    def with_values(self, value: Tensor) -> SparseMatrix:
        """A matrix with the same sparsity pattern and other values [nnz]."""
        if self._transpose_order is None:
            self._transpose_order = torch.argsort(
                self.col.to(torch.int64) * self.shape[0] + self.row, stable=True
            )
        if value.is_cuda:
            # Computed once, since it makes the host wait for the GPU.
            _ = (self.order, self.transpose.order)
        flipped = self.transpose
        new = SparseMatrix(self.crow, self.col, value, self.shape, _order=self._order)
        new._transpose = SparseMatrix(
            flipped.crow,
            flipped.col,
            value[self._transpose_order],
            flipped.shape,
            _transpose=new,
            _order=flipped._order,
        )
        return new

    def to_dense(self) -> Tensor:
        """The dense matrix, [M, K]. For small matrices only."""
        return self.dense_rows(0, self.shape[0])


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor, bias: Tensor | None) -> Tensor:
        ctx.matrix = matrix
        return matrix.multiply(dense, base=bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        d_dense = ctx.matrix.transpose.multiply(grads[0]) if ctx.needs_input_grad[1] else None
        return None, d_dense, grads[0].sum(0) if ctx.needs_input_grad[2] else None


class FeatureView(Protocol):
    """A modified feature matrix that is multiplied without being formed (feature_views.py)."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""

    def matmul(self, dense: Tensor) -> Tensor:
        """`self @ dense`, [N, H], differentiable in `dense` [F, H]."""

    def to_dense(self) -> Tensor:
        """The dense matrix, [N, F]."""


Features: TypeAlias = Tensor | SparseMatrix | FeatureView


def matmul(x: Features, weight: Tensor) -> Tensor:
    """`x @ weight` for features in any form, [N, H]."""
    return x @ weight if isinstance(x, Tensor) else x.matmul(weight)


def multiply(
    x: Tensor | SparseMatrix, dense: Tensor, *, base: Tensor | None = None, alpha: float = 1.0
) -> Tensor:
    """`base + alpha * x @ dense` for dense or sparse x, [N, H], without a gradient."""
    if isinstance(x, SparseMatrix):
        return x.multiply(dense, base=base, alpha=alpha)
    return x @ dense if base is None else torch.addmm(base, x, dense, alpha=alpha)


def to_dense(x: Features) -> Tensor:
    """`x` as a dense tensor, [N, F]."""
    return x if isinstance(x, Tensor) else x.to_dense()


def take_rows(x: Tensor | SparseMatrix, index: Tensor) -> Tensor | SparseMatrix:
    """The rows `index` of `x`, dense or sparse as `x` is."""
    return x.index_select(0, index) if isinstance(x, Tensor) else x.rows(index)


def dense_rows(x: Tensor | SparseMatrix, start: int, stop: int) -> Tensor:
    """The rows from `start` to `stop` of `x`, dense, [stop - start, F]."""
    return x[start:stop] if isinstance(x, Tensor) else x.dense_rows(start, stop)


def row_normalized(x: Tensor | SparseMatrix) -> Tensor | SparseMatrix:
    """`x` with each row divided by the sum of its absolute values; rows of zeros stay zero."""
    if isinstance(x, Tensor):
        return x / _one_for_zero(x.abs().sum(1, keepdim=True))
    row = x.row
    total = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device)
    total = _one_for_zero(total.index_add(0, row, x.value.abs()))
    return SparseMatrix(x.crow, x.col, x.value / total[row], x.shape)


@overload
def unit_rows(x: Tensor) -> Tensor: ...
@overload
def unit_rows(x: Tensor | SparseMatrix) -> Tensor | SparseMatrix: ...
def unit_rows(x: Tensor | SparseMatrix) -> Tensor | SparseMatrix:
    """`x` with each row divided by its Euclidean norm; rows of zeros stay zero."""
    # Squares of large values overflow in float32.
    if isinstance(x, Tensor):
        norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float64)
        return x / _one_for_zero(norm).to(x.dtype)
    square = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
    norm = square.index_add(0, x.row, x.value.to(torch.float64).square()).sqrt()
    return SparseMatrix(x.crow, x.col, x.value / _one_for_zero(norm).to(x.dtype)[x.row], x.shape)


def _one_for_zero(total: Tensor) -> Tensor:
    return torch.where(total > 0, total, torch.ones_like(total))
