"""Modified feature matrices that are multiplied exactly without being formed.

Each is a `FeatureView` (ops/sparse.py), so any built-in encoder accepts it in place of features.
Legend: N rows, F features, R replaced rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphlatent.ops.sparse import Features, SparseMatrix, matmul, to_dense


@dataclass(frozen=True, eq=False)
class PatchedRows:
    """Sparse features with some rows replaced.

    Args:
        base: the unchanged features [N, F].
        index: the replaced rows, int64 [R].
        values: their new values, [R, F], or [1, F] where all have the same.
    """

    base: SparseMatrix
    index: Tensor
    values: Tensor | SparseMatrix

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.base.shape

    def matmul(self, dense: Tensor) -> Tensor:
        """`self @ dense`, [N, H]: two products, one with the base and one with the new rows."""
        new = _for_each_row(matmul(self.values, dense), self.index)
        return self.base.matmul(dense).index_copy(0, self.index, new)

    def to_dense(self) -> Tensor:
        """The dense matrix, [N, F]."""
        new = _for_each_row(to_dense(self.values), self.index)
        return self.base.to_dense().index_copy(0, self.index, new)


@dataclass(frozen=True, eq=False)
class PermutedRows:
    """Features whose rows are permuted: row i is row `order[i]` of the base.

    Args:
        base: the unchanged features [N, F].
        order: a permutation, int64 [N].
    """

    base: Tensor | SparseMatrix
    order: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return (self.base.shape[0], self.base.shape[1])

    def matmul(self, dense: Tensor) -> Tensor:
        """`self @ dense`, [N, H]: rows are permuted after the product."""
        return matmul(self.base, dense).index_select(0, self.order)

    def to_dense(self) -> Tensor:
        """The dense matrix, [N, F]."""
        return to_dense(self.base).index_select(0, self.order)


@dataclass(frozen=True, eq=False)
class MaskedColumns:
    """Features with some columns set to 0.

    Args:
        base: the unchanged features [N, F].
        keep: 1 for a kept column, 0 for a masked one, float [F].
    """

    base: Features
    keep: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return (self.base.shape[0], self.base.shape[1])

    def matmul(self, dense: Tensor) -> Tensor:
        """`self @ dense`, [N, H]: the mask is applied to the rows of `dense`."""
        return matmul(self.base, dense * self.keep[:, None])

    def to_dense(self) -> Tensor:
        """The dense matrix, [N, F]."""
        return to_dense(self.base) * self.keep


def replace_rows(
    x: Tensor | SparseMatrix, index: Tensor, values: Tensor | SparseMatrix
) -> Tensor | PatchedRows:
    """`x` with the rows `index` [R] replaced by `values` [R, F] or [1, F].

    Of sparse features, all other rows stay sparse.
    """
    if isinstance(x, Tensor):
        return x.index_copy(0, index, _for_each_row(to_dense(values), index))
    return PatchedRows(x, index, values)


def _for_each_row(rows: Tensor, index: Tensor) -> Tensor:
    """One row for each of the R indices, [R, H], from as many or from one for all."""
    return rows.expand(index.numel(), rows.shape[1])
