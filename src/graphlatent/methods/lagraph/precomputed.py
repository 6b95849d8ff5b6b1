"""What LaGraph's fast way computes once from the training set and every step uses.

Nobody else reads it. Legend: N rows, F features, B graphs, R masked rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.data.batches import Batch
from graphlatent.ops.sparse import SparseMatrix

_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Padding:
    """How much of a padded batch is real.

    Args:
        rows: number of real rows, which come first, int64 [].
        graphs: number of real graphs, int64 [].
        masked: number of real rows that are masked, int64 [].
        row_weight: 1 / |V_i| of each real row, 0 of the others, [N].
    """

    rows: Tensor
    graphs: Tensor
    masked: Tensor
    row_weight: Tensor


@dataclass(frozen=True, eq=False)
class Precomputed:
    """Precomputed parts of a batch; None where a part is not available and must be computed.

    Args:
        x_sq_norm: ||x_v||^2 of each row, [N].
        ax: structure @ x, [N, F], on a GPU with columns of zeros up to a multiple of 8.
        x_aligned: x with such columns.
        x_sum: sum of all rows of x, [F].
        graph_size: counted nodes of each graph, int64 [B].
        mask_slots: places in a random order of the nodes, graph by graph, whose nodes are masked,
            int64 [R] (masking.mask_slots).
        padding: what is real, where rows were added to make shapes equal (padded.py).
    """

    x_sq_norm: Tensor | None = None
    ax: Tensor | None = None
    x_aligned: Tensor | None = None
    x_sum: Tensor | None = None
    graph_size: Tensor | None = None
    mask_slots: Tensor | None = None
    padding: Padding | None = None

    @property
    def limit(self) -> Tensor | None:
        """The number of rows that are not padding, int64 []; None means that all are real."""
        return None if self.padding is None else self.padding.rows

    def rows(self, index: Tensor, *, whole_graphs: bool) -> Precomputed:
        """The part of the rows `index`.

        Args:
            index: int64 [R].
            whole_graphs: the rows are whole graphs, so that their products with A stay what they
                are.
        """
        return Precomputed(
            x_sq_norm=None if self.x_sq_norm is None else self.x_sq_norm[index],
            ax=self.ax.index_select(0, index) if whole_graphs and self.ax is not None else None,
        )


NOTHING = Precomputed()
"""Everything is computed when it is needed."""


def precompute(batch: Batch, *, dtype: torch.dtype | None = None) -> Precomputed:
    """What no step over the whole `batch` changes.

    The product with A is kept as `dtype` and, on a GPU, with columns of zeros up to a multiple of
    8, which fast products ask for.
    """
    x, structure = batch.x, batch.structure
    known = Precomputed(x_sq_norm=x_sq_norm(x), graph_size=batch.graph_size)
    if isinstance(x, SparseMatrix):
        total = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
        return replace(known, x_sum=total.index_add(0, x.col, x.value))
    aligned = functional.pad(x, (0, -x.shape[1] % 8)) if x.is_cuda else None
    ax = None
    if isinstance(structure, SparseMatrix):
        ax = structure.multiply(x if aligned is None else aligned).to(dtype or x.dtype)
    return replace(known, x_sum=x.sum(0), x_aligned=aligned, ax=ax)


def x_sq_norm(x: Tensor | SparseMatrix) -> Tensor:
    """||x_v||^2 of each row, [N]; no second copy of x is made."""
    if isinstance(x, SparseMatrix):
        zeros = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device)
        return zeros.index_add(0, x.row, x.value.square())
    return torch.cat([part.square().sum(1) for part in torch.split(x, _ROWS_AT_ONCE)])
