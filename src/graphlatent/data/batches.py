"""What one training step sees, and the sources that cut a training set into such steps.

`Batch` is the one contract: a full graph, an induced subgraph, a mini-batch of small graphs; a
method does not know which. A source of batches first makes a *plan* for an epoch (which nodes or
graphs go into which step; all randomness is here) and then cuts one step at a time, so that an
interrupted epoch can be taken up at any step. Legend: N nodes, E edges, F features, B graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.ops.messages import MessageEdges
from graphlatent.ops.sparse import SparseMatrix, take_rows


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges as PyG's layers take them.

    Args:
        edge_index: int64 [2, E], sorted by source.
        edge_weight: float [E], or None.
        num_nodes: N.
        undirected: every edge is listed in both directions with one weight.
        edge_attr: features of the edges, float [E, D], or None.
    """

    edge_index: Tensor
    edge_weight: Tensor | None
    num_nodes: int
    undirected: bool = True
    edge_attr: Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> EdgeList:
        """The same edges on another device."""
        parts = (self.edge_weight, self.edge_attr)
        weight, attr = (None if part is None else part.to(device, dtype) for part in parts)
        index = self.edge_index.to(device)
        return replace(self, edge_index=index, edge_weight=weight, edge_attr=attr)

    def chosen(self, which: Tensor) -> EdgeList:
        """The edges `which`, int64 or bool, with their weights and features."""
        parts = (self.edge_weight, self.edge_attr)
        weight, attr = (None if part is None else part[which] for part in parts)
        index = self.edge_index[:, which]
        return replace(self, edge_index=index, edge_weight=weight, edge_attr=attr)

    @cached_property
    def messages(self) -> MessageEdges:
        """The edges grouped by their ends, for sums of messages; they must have features."""
        if self.edge_attr is None:
            raise TypeError("sums of messages with edge features need edges that have them")
        return MessageEdges(self.edge_index, self.edge_attr, self.edge_weight, self.num_nodes)


Structure: TypeAlias = SparseMatrix | EdgeList
"""What an encoder propagates with: a precomputed matrix (built-in encoders) or plain edges."""

Prepare: TypeAlias = Callable[[EdgeList], Structure]


@dataclass(frozen=True, eq=False)
class Batch:
    """One step's input: what is true of the graph, and nothing that is computed from it.

    Args:
        x: features [N, F], dense or sparse.
        structure: what the encoder propagates with.
        graph_id: graph of each node, int64 [N], ascending.
        num_graphs: B.
        node_id: row of each node in the training set, int64 [N].
        counts: rows that may be masked and counted in a loss, bool [N]; None means all.
        y: labels of nodes or graphs where a method learns from some; None otherwise.
        coordinates: of the nodes, for the embedding [N, C]; None where there are none, and in
            batches of a training step.
    """

    x: Tensor | SparseMatrix
    structure: Structure
    graph_id: Tensor
    num_graphs: int
    node_id: Tensor
    counts: Tensor | None = None
    y: Tensor | None = None
    coordinates: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.graph_id.numel())

    @property
    def graph_size(self) -> Tensor:
        """Counted nodes of each graph, int64 [B]."""
        counted = self.graph_id if self.counts is None else self.graph_id[self.counts]
        return torch.bincount(counted, minlength=self.num_graphs)


class BatchSource(Protocol):
    """A training set cut into steps.

    `everything` is the whole training set as one batch; its structure is plain edges where the
    source cuts subgraphs out of them.
    """

    everything: Batch

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The steps of one epoch: for each, the indices that go into it."""

    def take(self, index: Tensor) -> Batch:
        """The batch of one step of a plan."""

    def shape_key(self, index: Tensor) -> int | None:
        """Steps with the same key have the same shapes; None where shapes vary freely."""

    def cut(self, index: Tensor, shape_key: int) -> Batch:
        """`take` for steps of one shape, with `index` on the device and without a host sync."""


def edge_list(graph: GraphData) -> EdgeList:
    """The edges of a graph as an encoder's `prepare` takes them."""
    parts = (graph.edge_index, graph.edge_weight, graph.num_nodes, graph.undirected)
    return EdgeList(*parts, graph.edge_attr)


def full_batch(
    graph: GraphData, *, prepare: Prepare, device: torch.device, dtype: torch.dtype = torch.float32
) -> Batch:
    """All graphs of `graph` as one batch. Features must be encoded."""
    if graph.x is None:
        raise ValueError("encode the features of the graph before batching it")
    structure = prepare(edge_list(graph)).to(device, dtype)
    return Batch(
        graph.x.to(device=device, dtype=dtype),
        structure,
        graph.graph_of_node.to(device),
        graph.num_graphs,
        torch.arange(graph.num_nodes, device=device),
        coordinates=None if graph.coordinates is None else graph.coordinates.to(device, dtype),
    )


class FullBatches:
    """One step an epoch over everything; `steps_per_epoch` repeats it."""

    def __init__(self, everything: Batch, *, steps_per_epoch: int = 1) -> None:
        self.everything, self.steps_per_epoch = everything, steps_per_epoch

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The same step, `steps_per_epoch` times; nothing is drawn."""
        return [self.everything.node_id[:0]] * self.steps_per_epoch

    def shape_key(self, index: Tensor) -> int:
        """Always the same."""
        return 0

    def cut(self, index: Tensor, shape_key: int) -> Batch:
        """The whole batch."""
        return self.everything

    def take(self, index: Tensor) -> Batch:
        """The whole batch."""
        return self.everything


class VariableShapeSource:
    """Base of sources whose steps may differ in shape."""

    def shape_key(self, index: Tensor) -> None:
        """None: shapes vary freely."""

    def cut(self, index: Tensor, shape_key: int) -> Batch:
        """Never called: there is no shape key."""
        raise TypeError("steps of variable shape are cut by `take`")


class NodeBatches(VariableShapeSource):
    """A random subset of nodes and the subgraph it induces, each step (the paper's Table 3)."""

    # Steps are drawn independently of each other (sharing.py).
    independent = True

    def __init__(
        self,
        graph: GraphData,
        *,
        nodes_per_step: int,
        steps_per_epoch: int,
        prepare: Prepare,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.everything = full_batch(graph, prepare=_plain_edges, device=device, dtype=dtype)
        self.nodes_per_step = min(nodes_per_step, graph.num_nodes)
        self.steps_per_epoch = steps_per_epoch
        self.prepare = prepare
        edges = self.everything.structure
        assert isinstance(edges, EdgeList)
        self.edges = edges
        self.crow = torch.zeros(graph.num_nodes + 1, dtype=torch.int64, device=device)
        count = torch.bincount(edges.edge_index[0], minlength=graph.num_nodes)
        self.crow[1:] = torch.cumsum(count, 0)

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, its nodes, drawn without replacement, in ascending order."""
        num_nodes, device = self.everything.num_nodes, self.crow.device
        draws = (
            torch.randperm(num_nodes, generator=generator)[: self.nodes_per_step]
            for _ in range(self.steps_per_epoch)
        )
        return [torch.sort(d).values.to(device) for d in draws]

    def take(self, index: Tensor) -> Batch:
        """The subgraph induced by the nodes `index` (ascending); its graphs stay apart."""
        edges = self.edges
        position = torch.full((edges.num_nodes,), -1, dtype=torch.int64, device=index.device)
        position[index] = torch.arange(index.numel(), device=index.device)
        # Edges that leave the chosen nodes.
        pick = ranges(self.crow[index], self.crow[index + 1])
        kept = edges.chosen(pick[position[edges.edge_index[1, pick]] >= 0])
        kept = replace(kept, edge_index=position[kept.edge_index], num_nodes=index.numel())
        structure = self.prepare(kept).to(index.device, self.everything.x.dtype)
        present, graph_id = torch.unique(self.everything.graph_id[index], return_inverse=True)
        x = take_rows(self.everything.x, index)
        return Batch(x, structure, graph_id, present.numel(), index)


class GraphBatches(VariableShapeSource):
    """Mini-batches of whole small graphs, each graph once an epoch, in a new order every epoch.

    Args:
        everything: the training set as one batch.
        ptr: first node of each graph and the end, int64 [graphs + 1].
        batch_size: B.
    """

    def __init__(self, everything: Batch, ptr: Tensor, *, batch_size: int) -> None:
        self.everything, self.batch_size = everything, batch_size
        self.ptr = ptr.to(everything.graph_id.device)
        structure = everything.structure
        if isinstance(structure, EdgeList):
            self.edge_ptr = torch.searchsorted(structure.edge_index[0], self.ptr)

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, the graphs in it."""
        order = torch.randperm(self.everything.num_graphs, generator=generator).to(self.ptr.device)
        return list(torch.split(order, self.batch_size))

    def take(self, index: Tensor) -> Batch:
        """The graphs `index` side by side, in that order."""
        size = torch.diff(self.ptr)[index]
        nodes = ranges(self.ptr[index], self.ptr[index + 1])
        number = torch.arange(index.numel(), device=index.device)
        graph_id = torch.repeat_interleave(number, size, output_size=nodes.numel())
        # Added to a node's old number this gives its new one, per graph.
        shift = torch.cumsum(size, 0) - size - self.ptr[index]
        structure = self.everything.structure
        if isinstance(structure, SparseMatrix):
            cut: Structure = _renumbered(
                structure.rows(nodes), shift[graph_id], structure.symmetric
            )
        else:
            cut = self._edges(structure, index, shift, nodes.numel())
        return Batch(take_rows(self.everything.x, nodes), cut, graph_id, index.numel(), nodes)

    def _edges(self, edges: EdgeList, index: Tensor, shift: Tensor, num_nodes: int) -> EdgeList:
        begin, end = self.edge_ptr[index], self.edge_ptr[index + 1]
        chosen = edges.chosen(ranges(begin, end))
        edge_index = chosen.edge_index + torch.repeat_interleave(shift, end - begin)
        return replace(chosen, edge_index=edge_index, num_nodes=num_nodes)


def _plain_edges(edges: EdgeList) -> Structure:
    return edges


def ranges(begin: Tensor, end: Tensor) -> Tensor:
    """The numbers begin[0]..end[0]-1, begin[1]..end[1]-1, ... one after another."""
    count = end - begin
    offset = torch.repeat_interleave(begin - (torch.cumsum(count, 0) - count), count)
    return torch.arange(offset.numel(), device=begin.device) + offset


def _renumbered(rows: SparseMatrix, shift_of_row: Tensor, symmetric: bool) -> SparseMatrix:
    """A slice of a block-diagonal matrix, its columns renumbered to the slice."""
    count = torch.diff(rows.crow)
    col = rows.col + torch.repeat_interleave(shift_of_row, count, output_size=rows.nnz)
    shape = (rows.shape[0], rows.shape[0])
    return SparseMatrix(rows.crow, col.to(rows.crow.dtype), rows.value, shape, symmetric)
