"""Mini-batches of small graphs that a GPU cuts out by itself, all with the same shapes, so that a
step can be captured.

Graphs of a mini-batch stand one below the other in a fixed number of rows; what is left over is
padding: rows without edges and features, in no graph, that count nowhere. Edges are not cut out at
all: the product walks over the matrix of the whole training set and renumbers on its way
(`RenumberedMatrix`). Legend: N rows with padding, B graphs in a mini-batch, R masked rows with
padding.
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
    """Rows of a block-diagonal matrix in another place, columns renumbered with them.

    Args:
        nodes: which row of the stored matrix stands in each row, int64 [N].
        shift: what turns a stored column into its new number, int64 [N].
    """

    nodes: Tensor = field(kw_only=True)
    shift: Tensor = field(kw_only=True)
    source: SparseMatrix = field(kw_only=True)

    @classmethod
    def of(cls, source: SparseMatrix, nodes: Tensor, shift: Tensor) -> RenumberedMatrix:
        """The rows `nodes` of `source`."""
        size = nodes.numel()
        return cls(
            source.crow,
            source.col,
            source.value,
            (size, size),
            source.symmetric,
            nodes=nodes,
            shift=shift,
            source=source,
        )

    @property
    def csr(self) -> Tensor:
        """The matrix cut out after all, for a CPU."""
        return self.solid.csr

    @cached_property
    def solid(self) -> SparseMatrix:
        """The same matrix, cut out."""
        cut = self.source.rows(self.nodes)
        count = torch.diff(cut.crow)
        col = (cut.col + torch.repeat_interleave(self.shift, count)).to(cut.crow.dtype)
        return SparseMatrix(cut.crow, col, cut.value, self.shape, self.symmetric)

    def rows(self, index: Tensor) -> SparseMatrix:
        """The matrix of the rows `index` [R], in that order."""
        return self.solid.rows(index)

    @property
    def transpose(self) -> SparseMatrix:
        """The transposed matrix."""
        return (
            self
            if self.symmetric
            else RenumberedMatrix.of(self.source.transpose, self.nodes, self.shift)
        )

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

        nodes, shift = (
            (self.nodes, self.shift) if rows is None else (self.nodes[rows], self.shift[rows])
        )
        arrays, size = (self.crow, self.col, self.value), nodes.numel()
        return spmm(
            *arrays,
            dense,
            num_rows=size,
            base=base,
            alpha=alpha,
            rows=nodes,
            shift=shift,
            position=position,
        )


@dataclass(frozen=True, eq=False)
class PaddedBatch(Batch):
    """A batch with rows of padding, and what is precomputed of it.

    The graph of a padding row is B, which is none.
    """

    known: Precomputed = field(kw_only=True)


class PaddedBatches:
    """Mini-batches of whole small graphs, each graph once an epoch, in a new order every epoch.

    Args:
        everything: the training set.
        known: what is precomputed of it.
        ptr: first node of each graph and the end, int64 [graphs + 1].
        batch_size: B.
        num_masked: number of masked nodes of each graph, int64 [graphs]: at most `mask_ratio` of
            them and one more.
        mask_ratio: share of masked nodes.
    """

    def __init__(
        self,
        everything: Batch,
        known: Precomputed,
        ptr: Tensor,
        *,
        batch_size: int,
        num_masked: Tensor,
        mask_ratio: float,
    ) -> None:
        structure, device = everything.structure, everything.graph_id.device
        assert isinstance(structure, SparseMatrix)
        assert known.x_sq_norm is not None
        self.everything, self.batch_size, self.device = everything, batch_size, device
        self.num_graphs, self.num_nodes = everything.num_graphs, everything.num_nodes
        self.sizes = torch.diff(ptr).cpu()
        self.mask_ratio = mask_ratio
        # One more graph, without nodes, fills up the last mini-batch; one more node, without edges,
        # is what padding is made of.
        self.ptr = torch.cat([ptr, ptr[-1:]]).to(device)
        self.num_masked = torch.cat([num_masked, num_masked.new_zeros(1)]).to(device)
        self.matrix = _with_empty_row(structure)
        self.width = everything.x.shape[1]
        x = to_dense(everything.x) if known.x_aligned is None else known.x_aligned
        self.x = functional.pad(x, (0, 0, 0, 1))
        self.x_sq_norm = functional.pad(known.x_sq_norm, (0, 1))
        ax = known.ax if known.ax is not None else structure.multiply(x)
        self.ax = functional.pad(ax, (0, 0, 0, 1))

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, the graphs in it, [B]; the last one is filled up with the empty graph."""
        order = torch.randperm(self.num_graphs, generator=generator)
        order = functional.pad(order, (0, -len(order) % self.batch_size), value=self.num_graphs)
        return list(torch.split(order, self.batch_size))

    def shape_key(self, index: Tensor) -> int:
        """The number of rows of a step with these graphs: one of a few, more than it needs."""
        needed = int(self.sizes[index[index < self.num_graphs]].sum()) + 1
        return 64 * math.ceil(2 ** (math.ceil(4 * math.log2(needed)) / 4) / 64)

    def take(self, index: Tensor) -> PaddedBatch:
        """The graphs `index` side by side."""
        return self.cut(index.to(self.device), self.shape_key(index))

    def cut(self, index: Tensor, shape_key: int) -> PaddedBatch:
        """The same with `index` on the GPU and `shape_key` rows; without a host sync."""
        size = self.ptr[index + 1] - self.ptr[index]
        graph, slot, real = _assign_slots(size, shape_key)
        end = torch.cumsum(size, 0)
        shift = torch.where(real, (end - size - self.ptr[index])[graph], 0)
        nodes = torch.where(real, slot - shift, self.num_nodes)
        masked = self.num_masked[index]
        most = index.numel() + math.ceil(self.mask_ratio * shape_key)
        of_graph, place, used = _assign_slots(masked, most)
        place = (end - size)[of_graph] + place - (torch.cumsum(masked, 0) - masked)[of_graph]
        weight = torch.where(real, (1.0 / size.clamp(min=1).to(self.x.dtype))[graph], 0.0)
        aligned = self.x.index_select(0, nodes)
        known = Precomputed(
            x_sq_norm=self.x_sq_norm[nodes],
            ax=self.ax.index_select(0, nodes),
            x_aligned=aligned,
            graph_size=size,
            mask_slots=torch.where(used, place, shape_key - 1),
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
            torch.where(real, graph, index.numel()),
            index.numel(),
            nodes,
            known=known,
        )


def _assign_slots(count: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """The owner of each of `total` slots: the first count[0] belong to 0, the next count[1] to 1.

    Returns:
        Owner, slot number and whether the slot is used, [total] each.
    """
    end = torch.cumsum(count, 0)
    slot = torch.arange(total, device=count.device)
    owner = torch.searchsorted(end, slot, right=True).clamp(max=count.numel() - 1)
    return owner, slot, slot < end[-1]


def _with_empty_row(matrix: SparseMatrix) -> SparseMatrix:
    """The matrix with one more row, and its transpose with one more row, where nothing is
    stored.
    """

    def longer(m: SparseMatrix) -> SparseMatrix:
        return SparseMatrix(
            torch.cat([m.crow, m.crow[-1:]]),
            m.col,
            m.value,
            (m.shape[0] + 1, m.shape[1] + 1),
            m.symmetric,
        )

    whole = longer(matrix)
    if not matrix.symmetric:
        whole._transpose = longer(matrix.transpose)
    return whole
