"""Products with the rows A[J, :] and the columns A[:, J] of a matrix A, for a set of nodes J.

A product with rows of A has as its gradient a product with columns of the transpose, and vice
versa. On a CPU the rows J are copied into a smaller matrix, unless A itself is small. On a GPU the
kernel reads A itself, so that no shape depends on which nodes were drawn.
Shapes: N nodes, R nodes in J, H columns of the dense factor.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphlatent.ops.kernels import usable
from graphlatent.ops.sparse import SparseMatrix

# Products with fewer multiplications than this use the whole matrix on a CPU.
_SMALL_PRODUCT = 2_000_000


class MaskedOperator:
    """Products with the rows A[J, :] and the columns A[:, J] of a matrix A.

    Args:
        matrix: A, with one row per node (for `gather`), one column per node (for `scatter`), or
            both.
        rows: J, int64 [R], each node once.
        num_nodes: N; None means the number of rows of A.
    """

    def __init__(self, matrix: SparseMatrix, rows: Tensor, *, num_nodes: int | None = None) -> None:
        self.matrix, self.rows = matrix, rows
        self.num_nodes = matrix.shape[0] if num_nodes is None else num_nodes

    def gather(self, dense: Tensor) -> Tensor:
        """`A[J, :] @ dense`, [R, H], differentiable in `dense`."""
        product: Tensor = _Gather.apply(self, dense)  # type: ignore[no-untyped-call]
        return product

    def scatter(self, values: Tensor, base: Tensor) -> Tensor:
        """`base + A[:, J] @ values`, [N, H], differentiable in `values` [R, H] and `base`."""
        total: Tensor = _Scatter.apply(self, values, base)  # type: ignore[no-untyped-call]
        return total

    @cached_property
    def transposed(self) -> MaskedOperator:
        """The operator of the transpose of A and the same nodes."""
        if self.matrix.symmetric:
            return self
        other = MaskedOperator(self.matrix.transpose, self.rows, num_nodes=self.num_nodes)
        other.transposed = self
        return other

    @cached_property
    def selected_rows(self) -> SparseMatrix:
        """A[J, :] as a matrix of its own."""
        return self.matrix.rows(self.rows)

    @cached_property
    def position(self) -> Tensor:
        """The position of each node in J, int32 [N]; -1 for nodes that are not in J."""
        device = self.rows.device
        absent = torch.full((self.num_nodes,), -1, dtype=torch.int32, device=device)
        number = torch.arange(self.rows.numel(), dtype=torch.int32, device=device)
        return absent.index_copy_(0, self.rows, number)

    def gather_raw(self, dense: Tensor) -> Tensor:
        """`gather` without a gradient."""
        if usable(dense):
            return self.matrix.kernel(dense, rows=self.rows)
        if self._small(dense):
            return self.matrix.multiply(dense).index_select(0, self.rows)
        return self.selected_rows.multiply(dense)

    def scatter_raw(self, values: Tensor, base: Tensor | None) -> Tensor:
        """`scatter` without a gradient."""
        if usable(values):
            return self.matrix.kernel(values, base=base, position=self.position)
        if self._small(values):
            padded = values.new_zeros(self.matrix.shape[1], values.shape[1])
            padded.index_copy_(0, self.rows, values)
            return self.matrix.multiply(padded, base=base)
        return self.transposed.selected_rows.transpose.multiply(values, base=base)

    def _small(self, dense: Tensor) -> bool:
        """Whether a product with all of A is faster than selecting rows (measured on 2 cores)."""
        return self.matrix.nnz * dense.shape[1] < _SMALL_PRODUCT


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: MaskedOperator, dense: Tensor) -> Tensor:
        ctx.operator = operator
        return operator.gather_raw(dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, ctx.operator.transposed.scatter_raw(grads[0], None)


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: MaskedOperator, values: Tensor, base: Tensor) -> Tensor:
        ctx.operator = operator
        return operator.scatter_raw(values, base)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        return None, ctx.operator.transposed.gather_raw(grads[0]), grads[0]
