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


class Slice:
    """What a matrix has of the nodes `rows`.

    Args:
        matrix: A, with a row for each node (for `take`), a column for each node (for `spread`), or
            both.
        rows: J, int64 [R], each node once.
        num_nodes: N; None is the number of rows of A.
    """

    def __init__(self, matrix: SparseMatrix, rows: Tensor, *, num_nodes: int | None = None) -> None:
        self.matrix, self.rows = matrix, rows
        self.num_nodes = matrix.shape[0] if num_nodes is None else num_nodes

    def take(self, dense: Tensor) -> Tensor:
        """`A[J, :] @ dense`, [R, H], differentiable in `dense`."""
        product: Tensor = _Take.apply(self, dense)  # type: ignore[no-untyped-call]
        return product

    def spread(self, values: Tensor, base: Tensor) -> Tensor:
        """`base + A[:, J] @ values`, [N, H], differentiable in `values` [R, H] and `base` [N,
        H].
        """
        total: Tensor = _Spread.apply(self, values, base)  # type: ignore[no-untyped-call]
        return total

    @cached_property
    def flipped(self) -> Slice:
        """The same nodes of the transpose."""
        if self.matrix.symmetric:
            return self
        other = Slice(self.matrix.transpose, self.rows, num_nodes=self.num_nodes)
        other.flipped = self
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

    def raw_take(self, dense: Tensor) -> Tensor:
        """`take` without a gradient."""
        if usable(dense):
            return self.matrix.kernel(dense, rows=self.rows)
        return (
            self.matrix.multiply(dense).index_select(0, self.rows)
            if self._small(dense)
            else self.cut.multiply(dense)
        )

    def raw_spread(self, values: Tensor, base: Tensor | None) -> Tensor:
        """`spread` without a gradient."""
        if usable(values):
            return self.matrix.kernel(values, base=base, place=self.place)
        if self._small(values):
            padded = values.new_zeros(self.matrix.shape[1], values.shape[1]).index_copy_(
                0, self.rows, values
            )
            return self.matrix.multiply(padded, base=base)
        return self.flipped.cut.transpose.multiply(values, base=base)

    def _small(self, dense: Tensor) -> bool:
        """Whether multiplying with all of A costs less than cutting A (measured on 2 CPU cores)."""
        return self.matrix.nnz * dense.shape[1] < _SMALL


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Slice, dense: Tensor) -> Tensor:
        ctx.part = part
        return part.raw_take(dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, ctx.part.flipped.raw_spread(grads[0], None)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Slice, values: Tensor, base: Tensor) -> Tensor:
        ctx.part = part
        return part.raw_spread(values, base)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        return None, ctx.part.flipped.raw_take(grads[0]), grads[0]
