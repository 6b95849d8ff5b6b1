"""Propagation without some of the edges, normalised for the edges that remain.

The sparsity pattern of the matrix is fixed and the values of dropped edges are 0, so that no shape
depends on which edges are dropped. Legend: N nodes, E edges, nnz stored values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphlatent.data.batches import EdgeList, Structure
from graphlatent.nn.propagation import edge_weights, refuse_negative
from graphlatent.ops.sparse import SparseMatrix


@dataclass(eq=False)
class DroppableMatrix(SparseMatrix):
    """The propagation matrix of a GCN or GIN layer, recomputable without some of the edges.

    Args:
        kind: 'gcn' or 'gin'.
        weight: edge weight of each stored value, [nnz]; 0 where there is no edge.
        loop: whether a stored value is on the diagonal, bool [nnz].
        edge: whether a stored value belongs to an edge of the graph, bool [nnz]; False for added
            self-loops.
        degree: as of `EdgeList`, [N]: without the dropped edges it is their share smaller.
    """

    kind: str = field(kw_only=True)
    weight: Tensor = field(kw_only=True)
    loop: Tensor = field(kw_only=True)
    edge: Tensor = field(kw_only=True)
    degree: Tensor | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, edges: EdgeList, *, kind: str) -> DroppableMatrix:
        """The matrix of all edges, equal to `gcn_matrix` or `gin_matrix`."""
        source, target = edges.edge_index
        size = edges.num_nodes
        weight = edge_weights(edges)
        if kind == "gcn":
            refuse_negative(weight)
        without_loop = torch.ones(size, dtype=torch.bool, device=source.device)
        without_loop[source[source == target]] = False
        added = torch.nonzero(without_loop)[:, 0]
        row, col = torch.cat([target, added]), torch.cat([source, added])
        order = torch.argsort(row * size + col)
        crow = torch.zeros(size + 1, dtype=torch.int64, device=source.device)
        crow[1:] = torch.cumsum(torch.bincount(row, minlength=size), 0)
        weight = torch.cat([weight, weight.new_zeros(added.numel())])[order]
        loop = (row == col)[order]
        edge = (torch.arange(row.numel(), device=source.device) < source.numel())[order]
        parts: dict[str, Any] = {"kind": kind, "weight": weight, "loop": loop, "edge": edge}
        parts["degree"] = edges.degree
        matrix = cls(crow, col[order], weight, (size, size), edges.undirected, **parts)
        return replace(matrix, value=matrix.values_of(torch.ones_like(edge)))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> DroppableMatrix:
        """The matrix on another device or with another dtype."""
        moved = super().to(device, dtype)
        csr = (moved.crow, moved.col, moved.value)
        weight = self.weight.to(moved.device, moved.dtype)
        loop, edge = self.loop.to(moved.device), self.edge.to(moved.device)
        parts: dict[str, Any] = {"kind": self.kind, "weight": weight, "loop": loop, "edge": edge}
        if self.degree is not None:
            parts["degree"] = self.degree.to(moved.device, moved.dtype)
        return DroppableMatrix(*csr, self.shape, self.symmetric, **parts)

    @cached_property
    def _row(self) -> Tensor:
        return self.row

    def values_of(self, keep: Tensor) -> Tensor:
        """The stored values of the matrix without the edges where `keep`, bool [nnz], is False."""
        kept = self.edge & keep
        weight = self.weight * kept
        if self.kind == "gin":
            return weight + self.loop.to(weight.dtype)
        # A node without a self-loop gets one of weight 1.
        weight = torch.where(self.loop & ~kept, torch.ones_like(weight), weight)
        row = self._row
        degree = weight.new_zeros(self.shape[0]).index_add(0, row, weight)
        if self.degree is not None:
            degree = self._remaining(self.degree, weight)
        scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
        return scale[row] * weight * scale[self.col]

    def _remaining(self, degree: Tensor, weight: Tensor) -> Tensor:
        """D of each node without the dropped edges, [N], where its stored edges are a sample.

        Of the edges of a node the same share is kept as of the sampled ones; where it has none of
        those, as of all sampled ones.

        Args:
            degree: D with all edges, [N].
            weight: of the stored values, 0 where dropped, [nnz].
        """
        row, zeros = self._row, weight.new_zeros(self.shape[0])
        own = zeros.index_add(0, row, weight * self.loop)
        # A self-loop that is dropped is replaced by one of weight 1.
        before = zeros.index_add(0, row, torch.where(self.edge, self.weight, 1.0) * self.loop)
        sampled = zeros.index_add(0, row, self.weight * ~self.loop)
        kept = zeros.index_add(0, row, weight * ~self.loop)
        overall = kept.sum() / sampled.sum().clamp(min=torch.finfo(weight.dtype).tiny)
        share = torch.where(sampled > 0, kept / torch.where(sampled > 0, sampled, 1.0), overall)
        return own + (degree - before) * share


def drop_edges(structure: Structure, ratio: float, *, generator: torch.Generator) -> Structure:
    """The structure without a random share of its edges, each direction drawn independently.

    Args:
        structure: a `DroppableMatrix` for a built-in encoder, an `EdgeList` for a custom one or
            where edges have features. Of another matrix, which must be that of GIN, the diagonal
            is kept.
        ratio: probability of dropping an edge.
        generator: on the structure's device.
    """
    if isinstance(structure, EdgeList):
        index = structure.edge_index
        uniform = torch.rand(index.shape[1], generator=generator, device=index.device)
        return replace(structure.chosen(uniform >= ratio), undirected=False)
    uniform = torch.rand(structure.nnz, generator=generator, device=structure.device)
    if isinstance(structure, DroppableMatrix):
        return structure.with_values(structure.values_of(uniform >= ratio))
    kept = (uniform >= ratio) | (structure.row == structure.col)
    return structure.with_values(structure.value * kept)
