"""A matrix A seen from some nodes J: products with its rows A[J, :] and with its columns A[:, J].

Products with rows of A and with columns of its transpose are each other's gradients. On a CPU the
few rows are cut out, unless A is small; on a GPU the kernel walks over A itself, so that no shape
depends on which nodes were drawn. Shapes: N nodes, R nodes in J, H columns of the dense factor.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphlatent.ops.kernels import usable
from graphlatent.ops.sparse import SparseMatrix

_SMALL = 2_000_000  # multiplications


class MaskedOperator:
    """Products with the rows A[J, :] and the columns A[:, J] of a matrix A.

    Args:
        matrix: A, with a row for each node (for `gather`), a column for each node (for
            `scatter`), or both.
        rows: J, int64 [R], each node once.
        num_nodes: N; None is the number of rows of A.
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
        """The same nodes of the transpose."""
        if self.matrix.symmetric:
            return self
        other = MaskedOperator(self.matrix.transpose, self.rows, num_nodes=self.num_nodes)
        other.transposed = self
        return other

    @cached_property
    def cut(self) -> SparseMatrix:
        """A[J, :] cut out."""
        return self.matrix.rows(self.rows)

    @cached_property
    def place(self) -> Tensor:
        """Where each node stands in J, int32 [N]; -1 where it does not."""
        place = torch.full((self.num_nodes,), -1, dtype=torch.int32, device=self.rows.device)
        return place.index_copy_(
            0,
            self.rows,
            torch.arange(self.rows.numel(), dtype=torch.int32, device=self.rows.device),
        )

    def gather_raw(self, dense: Tensor) -> Tensor:
        """`gather` without a gradient."""
        if usable(dense):
            return self.matrix.kernel(dense, rows=self.rows)
        return (
            self.matrix.multiply(dense).index_select(0, self.rows)
            if self._small(dense)
            else self.cut.multiply(dense)
        )

    def scatter_raw(self, values: Tensor, base: Tensor | None) -> Tensor:
        """`scatter` without a gradient."""
        if usable(values):
            return self.matrix.kernel(values, base=base, place=self.place)
        if self._small(values):
            padded = values.new_zeros(self.matrix.shape[1], values.shape[1]).index_copy_(
                0, self.rows, values
            )
            return self.matrix.multiply(padded, base=base)
        return self.transposed.cut.transpose.multiply(values, base=base)

    def _small(self, dense: Tensor) -> bool:
        """Whether multiplying with all of A costs less than cutting A (measured on 2 CPU cores)."""
        return self.matrix.nnz * dense.shape[1] < _SMALL


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
