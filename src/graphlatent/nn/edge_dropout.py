"""Propagation with some edges dropped, normalised as if they had never been there.

The places of the matrix stay and the values of dropped edges are 0, so that no shape depends on
which edges are dropped. Legend: N nodes, E edges, nnz stored values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from graphlatent.data.batches import EdgeList, Structure
from graphlatent.ops.sparse import SparseMatrix


@dataclass(eq=False)
class DroppableMatrix(SparseMatrix):
    """The propagation matrix of a GCN or GIN layer that can be made again without some edges.

    Args:
        kind: 'gcn' or 'gin'.
        weight: the edge weight behind each value, [nnz]; 0 where there is no edge.
        loop: whether a value is on the diagonal, bool [nnz].
        edge: whether there is an edge behind a value, bool [nnz]: not so for added self-loops.
    """

    kind: str = field(kw_only=True)
    weight: Tensor = field(kw_only=True)
    loop: Tensor = field(kw_only=True)
    edge: Tensor = field(kw_only=True)

    @classmethod
    def of(cls, edges: EdgeList, *, kind: str) -> DroppableMatrix:
        """The matrix of all edges, equal to `gcn_matrix` or `gin_matrix`."""
        source, target = edges.edge_index
        size = edges.num_nodes
        weight = torch.ones(source.numel(), dtype=torch.float64, device=source.device)
        if edges.edge_weight is not None:
            weight = edges.edge_weight.to(torch.float64)
        no_loop = torch.ones(size, dtype=torch.bool, device=source.device)
        no_loop[source[source == target]] = False
        added = torch.nonzero(no_loop)[:, 0]
        row, col = torch.cat([target, added]), torch.cat([source, added])
        order = torch.argsort(row * size + col)
        crow = torch.zeros(size + 1, dtype=torch.int64, device=source.device)
        crow[1:] = torch.cumsum(torch.bincount(row, minlength=size), 0)
        weight = torch.cat([weight, weight.new_zeros(added.numel())])[order]
        matrix = cls(
            crow,
            col[order],
            weight,
            (size, size),
            edges.undirected,
            kind=kind,
            weight=weight,
            loop=(row == col)[order],
            edge=(torch.arange(row.numel(), device=source.device) < source.numel())[order],
        )
        every = torch.ones_like(matrix.edge)
        return replace(matrix, value=matrix.values_of(every))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> DroppableMatrix:
        """The same matrix on another device or with another value type."""
        moved = super().to(device, dtype)
        where = moved.value.device
        return DroppableMatrix(
            moved.crow,
            moved.col,
            moved.value,
            self.shape,
            self.symmetric,
            kind=self.kind,
            weight=self.weight.to(where, moved.value.dtype),
            loop=self.loop.to(where),
            edge=self.edge.to(where),
        )

    @cached_property
    def _row(self) -> Tensor:
        return self.row

    def values_of(self, keep: Tensor) -> Tensor:
        """The values of the matrix of the kept edges, [nnz]; `keep` is bool [nnz]."""
        kept = self.edge & keep
        weight = self.weight * kept
        if self.kind == "gin":
            return weight + self.loop.to(weight.dtype)
        # A node without a self-loop of its own gets one of weight 1.
        weight = torch.where(self.loop & ~kept, torch.ones_like(weight), weight)
        row = self._row
        degree = weight.new_zeros(self.shape[0]).index_add(0, row, weight)
        scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
        return scale[row] * weight * scale[self.col]


def drop_edges(structure: Structure, ratio: float, *, generator: torch.Generator) -> Structure:
    """The structure without a random share of the edges; each direction is drawn by itself.

    Args:
        structure: of a built-in encoder a `DroppableMatrix`, of a user's own plain edges.
        ratio: the chance of an edge to be dropped.
        generator: on the structure's device.
    """
    if isinstance(structure, EdgeList):
        edge_index, weight = structure.edge_index, structure.edge_weight
        draw = torch.rand(edge_index.shape[1], generator=generator, device=edge_index.device)
        kept = draw >= ratio
        weight = None if weight is None else weight[kept]
        return EdgeList(edge_index[:, kept], weight, structure.num_nodes, undirected=False)
    assert isinstance(structure, DroppableMatrix)
    draw = torch.rand(structure.nnz, generator=generator, device=structure.device)
    return structure.with_values(structure.values_of(draw >= ratio))
