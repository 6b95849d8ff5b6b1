"""One graph by rows, in memory or memory-mapped: what training on pieces cuts its steps out of.

Row i lists the nodes that node i receives messages from, in ascending order. In an undirected graph
these are its neighbours. Tensors may be views of memory-mapped files, of which only the pages that
are used are read. Legend: N nodes, E edges, F features, M edges of some rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphlatent.data.batches import EdgeList, ranges
from graphlatent.data.graph import GraphData
from graphlatent.ops.sparse import SparseMatrix, take_rows


class FeatureRows(Protocol):
    """Features of nodes, of which a step takes some rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""

    def take(self, index: Tensor) -> Tensor | SparseMatrix:
        """The encoded features of the nodes `index`, float32 [R, F], dense or sparse."""


@dataclass(frozen=True, eq=False)
class MatrixRows:
    """The rows of a feature matrix that is there as a whole, possibly memory-mapped."""

    x: Tensor | SparseMatrix

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return int(self.x.shape[0]), int(self.x.shape[1])

    def take(self, index: Tensor) -> Tensor | SparseMatrix:
        """The rows `index`."""
        return take_rows(self.x, index)


@dataclass(frozen=True, eq=False)
class CSRGraph:
    """One graph by rows.

    Args:
        indptr: first edge of each row and the end, int64 [N + 1].
        indices: the nodes that each row receives from, int32 or int64 [E], ascending in a row.
        weight: float32 [E], or None.
        x: encoded features.
        undirected: every edge is in both rows, with one weight.
        coordinates: for the embedding, float32 [N, C], or None.
        edge_attr: features of the edges, float32 [E, D], or None.
        graph_id: graph of each node, int64 [N], ascending; None where there is one graph.
        share: names the shards of which this is one, where other processes have the others; None
            for a whole graph.
    """

    indptr: Tensor
    indices: Tensor
    weight: Tensor | None
    x: FeatureRows
    undirected: bool = True
    coordinates: Tensor | None = None
    edge_attr: Tensor | None = None
    graph_id: Tensor | None = None
    share: str | None = None

    @classmethod
    def of(cls, graph: GraphData) -> CSRGraph:
        """A graph in memory, whose features are encoded, by rows."""
        if graph.x is None:
            raise ValueError("encode the features of the graph before cutting pieces out of it")
        source, target = graph.edge_index
        weight, attr = graph.edge_weight, graph.edge_attr
        if graph.undirected and attr is None:
            # Sorted by source; the same edges sorted by target have their ends exchanged.
            row, col = source, target
        else:
            order = torch.argsort(target, stable=True)
            row, col = target[order], source[order]
            weight, attr = _taken(weight, order), _taken(attr, order)
        indptr = torch.zeros(graph.num_nodes + 1, dtype=torch.int64)
        indptr[1:] = torch.cumsum(torch.bincount(row, minlength=graph.num_nodes), 0)
        return cls(
            indptr,
            col,
            weight,
            MatrixRows(graph.x),
            undirected=graph.undirected,
            coordinates=graph.coordinates,
            edge_attr=attr,
            graph_id=graph.graph_of_node if graph.num_graphs > 1 else None,
        )

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.indptr.numel()) - 1

    @property
    def num_edges(self) -> int:
        """E: an undirected edge counts twice."""
        return int(self.indices.numel())

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.num_nodes, self.x.shape[1]

    def degree(self, index: Tensor) -> Tensor:
        """The number of stored edges of the rows `index`, int64 [R]."""
        return self.indptr[index + 1] - self.indptr[index]

    def edges_of(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """All edges of the rows `index` [R], row by row.

        Returns:
            The position in `index` of each edge's row, int64 [M]; the node at its other end, int64
            [M]; its weight, [M] or None.
        """
        position, pick = self.places_of(index)
        return position, self.indices[pick].to(torch.int64), _taken(self.weight, pick)

    def places_of(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Of all edges of the rows `index`: the position in it of the row, the place in `indices`.

        Both are int64 [M].
        """
        begin, end = self.indptr[index], self.indptr[index + 1]
        position = torch.repeat_interleave(torch.arange(index.numel()), end - begin)
        return position, ranges(begin, end)

    def induced(self, index: Tensor) -> EdgeList:
        """The edges between the nodes `index` (ascending), numbered by position in it."""
        row, pick = self.places_of(index)
        node = self.indices[pick].to(torch.int64)
        place = torch.searchsorted(index, node).clamp(max=max(index.numel() - 1, 0))
        kept = index[place] == node if index.numel() else node < 0
        size, undirected = index.numel(), self.undirected
        return self.edge_list(row[kept], place[kept], pick[kept], num_nodes=size, all_of=undirected)

    def edge_list(
        self,
        row: Tensor,
        col: Tensor,
        pick: Tensor,
        *,
        num_nodes: int,
        all_of: bool,
        scale: Tensor | None = None,
        degree: Tensor | None = None,
    ) -> EdgeList:
        """Some edges as encoders take them, sorted by source and then by target.

        Args:
            row: the receiving end of each edge as it is to be numbered, int64 [M], ascending.
            col: the other end, int64 [M], ascending in a row.
            pick: its place in `indices`, int64 [M].
            num_nodes: of the numbering.
            all_of: every edge is there in both directions.
            scale: factor of the weight, float64 [M], or None.
            degree: as of `EdgeList`.
        """
        if not all_of or self.edge_attr is not None:
            order = torch.argsort(col, stable=True)
            row, col, pick, scale = col[order], row[order], pick[order], _taken(scale, order)
        # Otherwise the same edges sorted by source have their ends exchanged.
        weight = _taken(self.weight, pick)
        if scale is not None:
            weight = scale if weight is None else weight * scale
        attr = _taken(self.edge_attr, pick)
        return EdgeList(torch.stack([row, col]), weight, num_nodes, all_of, attr, degree)


def _taken(values: Tensor | None, index: Tensor) -> Tensor | None:
    return None if values is None else values[index]
