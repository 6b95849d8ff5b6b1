"""Values that LaGraph's fast path computes once from the training set, for use in every step.

No other module uses them. Legend: N rows, F features, B graphs, R masked rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.data.batches import Batch
from graphlatent.ops.sparse import SparseMatrix

# Rows per block of x_sq_norm.
_BLOCK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Padding:
    """The numbers of rows, graphs and masked rows of a padded batch that are not padding.

    Args:
        rows: number of rows that are not padding, which come first, int64 [].
        graphs: number of graphs that are not padding, int64 [].
        masked: number of masked rows that are not padding, int64 [].
        row_weight: 1 / |V_i| for each row, 0 for padding, [N].
    """

    rows: Tensor
    graphs: Tensor
    masked: Tensor
    row_weight: Tensor


@dataclass(frozen=True, eq=False)
class Precomputed:
    """Precomputed values of a batch; None where a value must be computed when it is needed.

    Args:
        x_sq_norm: ||x_v||^2 of each row, [N].
        ax: structure @ x, [N, F], on a GPU padded with columns of zeros to a multiple of 8.
        x_aligned: x, padded in the same way.
        x_sum: sum of all rows of x, [F].
        graph_size: counted nodes of each graph, int64 [B].
        mask_slots: positions of the masked nodes in a random order of the nodes, int64 [R] (see
            masking.mask_slots).
        padding: of a padded batch (padded.py).
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
        """The number of rows that are not padding, int64 []; None means all."""
        return None if self.padding is None else self.padding.rows

    def rows(self, index: Tensor, *, whole_graphs: bool) -> Precomputed:
        """The precomputed values of the rows `index`.

        Args:
            index: int64 [R].
            whole_graphs: the rows are those of whole graphs, so that their rows of `ax` are valid.
        """
        return Precomputed(
            x_sq_norm=None if self.x_sq_norm is None else self.x_sq_norm[index],
            ax=self.ax.index_select(0, index) if whole_graphs and self.ax is not None else None,
        )


EMPTY_CACHE = Precomputed()
"""No precomputed values."""


def precompute(batch: Batch, *, dtype: torch.dtype | None = None) -> Precomputed:
    """The precomputed values of a batch that is used in every step.

    The product with A is stored as `dtype`. On a GPU it is padded with columns of zeros to a
    multiple of 8, as fast matrix products require.
    """
    x, structure = batch.x, batch.structure
    cache = Precomputed(x_sq_norm=x_sq_norm(x), graph_size=batch.graph_size)
    if isinstance(x, SparseMatrix):
        total = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
        return replace(cache, x_sum=total.index_add(0, x.col, x.value))
    aligned = functional.pad(x, (0, -x.shape[1] % 8)) if x.is_cuda else None
    ax = None
    if isinstance(structure, SparseMatrix):
        ax = structure.multiply(x if aligned is None else aligned).to(dtype or x.dtype)
    return replace(cache, x_sum=x.sum(0), x_aligned=aligned, ax=ax)


def x_sq_norm(x: Tensor | SparseMatrix) -> Tensor:
    """||x_v||^2 of each row, [N], computed in blocks of rows to save memory."""
    if isinstance(x, SparseMatrix):
        zeros = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device)
        return zeros.index_add(0, x.row, x.value.square())
    return torch.cat([part.square().sum(1) for part in torch.split(x, _BLOCK_ROWS)])
