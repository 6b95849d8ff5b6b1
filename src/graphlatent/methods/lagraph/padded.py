"""Mini-batches of small graphs with fixed shapes, so that a step can be captured as a CUDA graph.

The graphs of a mini-batch are concatenated in a fixed number of rows. The remaining rows are
padding: they have no edges and no features, belong to no graph and count nowhere. Batches are
extracted on the GPU. Edges are not extracted at all: the product reads the matrix of the whole
training set and renumbers its rows and columns (`RenumberedMatrix`).
Legend: N rows with padding, B graphs in a mini-batch, R masked rows with padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.precomputed import Padding, Precomputed
from graphlatent.ops.sparse import SparseMatrix, to_dense


@dataclass(eq=False)
class RenumberedMatrix(SparseMatrix):
    """A selection of blocks of a block-diagonal matrix, with rows and columns renumbered.

    Args:
        nodes: row of the stored matrix for each row of this one, int64 [N].
        shift: number added to the stored column indices of each row, int64 [N].
        source: the stored matrix.
    """

    nodes: Tensor = field(kw_only=True)
    shift: Tensor = field(kw_only=True)
    source: SparseMatrix = field(kw_only=True)

    @classmethod
    def of(cls, source: SparseMatrix, nodes: Tensor, shift: Tensor) -> RenumberedMatrix:
        """The rows `nodes` of `source`."""
        csr, shape = (source.crow, source.col, source.value), (nodes.numel(), nodes.numel())
        return cls(*csr, shape, source.symmetric, nodes=nodes, shift=shift, source=source)

    @property
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor, for a CPU."""
        return self.materialized.csr

    @cached_property
    def materialized(self) -> SparseMatrix:
        """The matrix as a copy that does not refer to `source`."""
        rows = self.source.rows(self.nodes)
        count = torch.diff(rows.crow)
        col = (rows.col + torch.repeat_interleave(self.shift, count)).to(rows.crow.dtype)
        return SparseMatrix(rows.crow, col, rows.value, self.shape, self.symmetric)

    def rows(self, index: Tensor) -> SparseMatrix:
        """The rows `index` [R] as a matrix, in that order."""
        return self.materialized.rows(index)

    @property
    def transpose(self) -> SparseMatrix:
        """The transposed matrix."""
        if self.symmetric:
            return self
        return RenumberedMatrix.of(self.source.transpose, self.nodes, self.shift)

    def kernel(
        self,
        dense: Tensor,
        *,
        base: Tensor | None = None,
        alpha: float = 1.0,
        rows: Tensor | None = None,
        position: Tensor | None = None,
    ) -> Tensor:
        """As in `SparseMatrix`."""
        from graphlatent.ops.kernels.spmm import spmm

        nodes = self.nodes if rows is None else self.nodes[rows]
        shift = self.shift if rows is None else self.shift[rows]
        return spmm(
            self.crow,
            self.col,
            self.value,
            dense,
            num_rows=nodes.numel(),
            base=base,
            alpha=alpha,
            rows=nodes,
            shift=shift,
            position=position,
        )


@dataclass(frozen=True, eq=False)
class PaddedBatch(Batch):
    """A batch with padding rows, and its precomputed values.

    `graph_id` of a padding row is B.
    """

    cache: Precomputed = field(kw_only=True)


class PaddedBatches:
    """Mini-batches of whole graphs, each graph once per epoch, in a new random order every epoch.

    Args:
        everything: the training set.
        cache: precomputed values of the training set.
        ptr: first node of each graph and the end, int64 [graphs + 1].
        batch_size: B.
        num_masked: number of masked nodes of each graph, int64 [graphs]; at most
            `mask_ratio` * |V_i| + 1.
        mask_ratio: share of masked nodes.
    """

    def __init__(
        self,
        everything: Batch,
        cache: Precomputed,
        ptr: Tensor,
        *,
        batch_size: int,
        num_masked: Tensor,
        mask_ratio: float,
    ) -> None:
        structure, device = everything.structure, everything.graph_id.device
        assert isinstance(structure, SparseMatrix)
        assert cache.x_sq_norm is not None
        self.everything, self.batch_size, self.device = everything, batch_size, device
        self.num_graphs, self.num_nodes = everything.num_graphs, everything.num_nodes
        self.sizes = torch.diff(ptr).cpu()
        self.mask_ratio = mask_ratio
        # An additional graph without nodes fills the last mini-batch; an additional node without
        # edges is used for padding rows.
        self.ptr = torch.cat([ptr, ptr[-1:]]).to(device)
        self.num_masked = torch.cat([num_masked, num_masked.new_zeros(1)]).to(device)
        self.matrix = _with_empty_row_and_column(structure)
        self.width = everything.x.shape[1]
        x = to_dense(everything.x) if cache.x_aligned is None else cache.x_aligned
        self.x = functional.pad(x, (0, 0, 0, 1))
        self.x_sq_norm = functional.pad(cache.x_sq_norm, (0, 1))
        ax = cache.ax if cache.ax is not None else structure.multiply(x)
        self.ax = functional.pad(ax, (0, 0, 0, 1))

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The graphs of each step, [B]; the last step is filled with the empty graph."""
        order = torch.randperm(self.num_graphs, generator=generator)
        order = functional.pad(order, (0, -len(order) % self.batch_size), value=self.num_graphs)
        return list(torch.split(order, self.batch_size))

    def shape_key(self, index: Tensor) -> int:
        """The number of rows of a step with these graphs, rounded up to one of a few values."""
        needed = int(self.sizes[index[index < self.num_graphs]].sum()) + 1
        return 64 * math.ceil(2 ** (math.ceil(4 * math.log2(needed)) / 4) / 64)

    def take(self, index: Tensor) -> PaddedBatch:
        """The graphs `index` as one batch."""
        return self.cut(index.to(self.device), self.shape_key(index))

    def cut(self, index: Tensor, shape_key: int) -> PaddedBatch:
        """`take` with `index` on the GPU and `shape_key` rows, without a host sync."""
        size = self.ptr[index + 1] - self.ptr[index]
        graph, slot, valid = _assign_slots(size, shape_key)
        end = torch.cumsum(size, 0)
        shift = torch.where(valid, (end - size - self.ptr[index])[graph], 0)
        nodes = torch.where(valid, slot - shift, self.num_nodes)
        masked = self.num_masked[index]
        max_masked = index.numel() + math.ceil(self.mask_ratio * shape_key)
        owner, rank, used = _assign_slots(masked, max_masked)
        # Row of the first node of the owner, plus the rank within the owner.
        mask_slot = (end - size)[owner] + rank - (torch.cumsum(masked, 0) - masked)[owner]
        weight = torch.where(valid, (1.0 / size.clamp(min=1).to(self.x.dtype))[graph], 0.0)
        aligned = self.x.index_select(0, nodes)
        cache = Precomputed(
            x_sq_norm=self.x_sq_norm[nodes],
            ax=self.ax.index_select(0, nodes),
            x_aligned=aligned,
            graph_size=size,
            mask_slots=torch.where(used, mask_slot, shape_key - 1),
            padding=Padding(
                rows=end[-1],
                graphs=(index < self.num_graphs).sum(),
                masked=masked.sum(),
                row_weight=weight,
            ),
        )
        return PaddedBatch(
            aligned[:, : self.width],
            RenumberedMatrix.of(self.matrix, nodes, shift),
            torch.where(valid, graph, index.numel()),
            index.numel(),
            nodes,
            cache=cache,
        )


def _assign_slots(count: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """The owner of each of `total` slots: the first count[0] are 0's, the next count[1] are 1's.

    Returns:
        Owner, slot number and whether the slot is used, [total] each.
    """
    end = torch.cumsum(count, 0)
    slot = torch.arange(total, device=count.device)
    owner = torch.searchsorted(end, slot, right=True).clamp(max=count.numel() - 1)
    return owner, slot, slot < end[-1]


def _with_empty_row_and_column(matrix: SparseMatrix) -> SparseMatrix:
    """The matrix with an empty row and an empty column added at the end."""

    def extended(m: SparseMatrix) -> SparseMatrix:
        crow, shape = torch.cat([m.crow, m.crow[-1:]]), (m.shape[0] + 1, m.shape[1] + 1)
        return SparseMatrix(crow, m.col, m.value, shape, m.symmetric)

    result = extended(matrix)
    if not matrix.symmetric:
        result._transpose = extended(matrix.transpose)
    return result
