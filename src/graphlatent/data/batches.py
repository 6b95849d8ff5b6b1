"""What one training step sees, and the three ways to cut a training set into such steps.

`Batch` is the one contract: a full graph, an induced subgraph, a pile of small graphs. A source of
batches first makes a *plan* for an epoch (which nodes or graphs go into which step; all randomness
is here) and then cuts one step at a time, so that an interrupted epoch can be taken up at any step.
Legend: N nodes, E edges, F features, B graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.data.graph import GraphData
from graphlatent.ops.sparse import SparseMatrix, take_rows

_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges as PyG's layers take them.

    Args:
        edge_index: int64 [2, E], sorted by source.
        edge_weight: float [E], or None.
        num_nodes: N.
        undirected: every edge stands in both directions with one weight.
    """

    edge_index: Tensor
    edge_weight: Tensor | None
    num_nodes: int
    undirected: bool = True

    def to(self, device: torch.device, dtype: torch.dtype) -> EdgeList:
        """The same edges on another device."""
        weight = None if self.edge_weight is None else self.edge_weight.to(device, dtype)
        return replace(self, edge_index=self.edge_index.to(device), edge_weight=weight)


Structure: TypeAlias = SparseMatrix | EdgeList
"""What an encoder multiplies with: a prepared matrix (built-in encoders) or plain edges (the user's
own).
"""

Prepare: TypeAlias = Callable[[EdgeList], Structure]


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
class Batch:
    """One step's input.

    Args:
        x: features [N, F], dense or sparse.
        structure: what the encoder propagates with.
        graph_id: graph of each node, int64 [N], ascending.
        num_graphs: B.
        node_id: row of each node in the training set, int64 [N].
        counts: rows that may be masked and counted, bool [N]; None means all.
        row_energy: ||x_v||^2 of each row, [N], where it was made ahead (`with_constants`).
        propagated: structure @ x, [N, F], where it was made ahead; on a GPU with columns of zeros
            up to a multiple of 8.
        aligned: x with such columns, where x is a view of it.
        column_sum: sum of all rows of x, [F], where it was made ahead.
        sizes: counted nodes of each graph, int64 [B], where they were counted ahead.
        masked_places: which places of a random order of the nodes, graph by graph, are masked,
            int64 [R] (masking.with_places).
        padding: what is real, where rows were added to make shapes equal (data/padded.py); their
            graph is B, which is none.
    """

    x: Tensor | SparseMatrix
    structure: Structure
    graph_id: Tensor
    num_graphs: int
    node_id: Tensor
    counts: Tensor | None = None
    row_energy: Tensor | None = None
    propagated: Tensor | None = None
    aligned: Tensor | None = None
    column_sum: Tensor | None = None
    sizes: Tensor | None = None
    masked_places: Tensor | None = None
    padding: Padding | None = None

    @property
    def limit(self) -> Tensor | None:
        """The number of rows that are not padding, int64 []; None means that all are real."""
        return None if self.padding is None else self.padding.rows

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.graph_id.numel())

    @property
    def graph_size(self) -> Tensor:
        """Counted nodes of each graph, int64 [B]."""
        if self.sizes is not None:
            return self.sizes
        counted = self.graph_id if self.counts is None else self.graph_id[self.counts]
        return torch.bincount(counted, minlength=self.num_graphs)


class BatchSource(Protocol):
    """A training set cut into steps."""

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The steps of one epoch: for each, the indices that go into it."""

    def take(self, index: Tensor) -> Batch:
        """The batch of one step of a plan."""

    def kind(self, index: Tensor) -> int | None:
        """What a step must share with another so that both have the same shapes; None where shapes
        are free.
        """

    def cut(self, index: Tensor, kind: int) -> Batch:
        """`take` for steps of one kind, with `index` on the device and without waiting for it."""


def edge_list(graph: GraphData) -> EdgeList:
    """The edges of a graph as an encoder's `prepare` takes them."""
    return EdgeList(graph.edge_index, graph.edge_weight, graph.num_nodes, graph.undirected)


def full_batch(
    graph: GraphData, *, prepare: Prepare, device: torch.device, dtype: torch.dtype = torch.float32
) -> Batch:
    """All graphs of `graph` as one batch. Features must be encoded."""
    if graph.x is None:
        raise ValueError("encode the features of the graph before batching it")
    structure = prepare(edge_list(graph)).to(device, dtype)
    x = graph.x.to(device=device, dtype=dtype)
    return Batch(
        x,
        structure,
        graph.graph_of_node.to(device),
        graph.num_graphs,
        torch.arange(graph.num_nodes, device=device),
    )


def with_constants(batch: Batch, *, dtype: torch.dtype | None = None) -> Batch:
    """The batch with what no step changes: sums over rows and columns of x and, for dense features,
    their first propagation.

    The propagation is kept as `dtype` and, on a GPU, with columns of zeros up to a multiple of 8,
    which its fast products ask for.
    """
    x, structure, energy = batch.x, batch.structure, _row_energy(batch.x)
    if isinstance(x, SparseMatrix):
        total = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device).index_add(0, x.col, x.value)
    else:
        total = x.sum(0)
    aligned = (
        functional.pad(x, (0, -x.shape[1] % 8)) if isinstance(x, Tensor) and x.is_cuda else None
    )
    x = x if aligned is None else aligned[:, : x.shape[1]]
    propagated = None
    if isinstance(structure, SparseMatrix) and isinstance(x, Tensor):
        propagated = structure.multiply(x if aligned is None else aligned).to(dtype or x.dtype)
    return replace(
        batch,
        x=x,
        aligned=aligned,
        row_energy=energy,
        column_sum=total,
        propagated=propagated,
        sizes=batch.graph_size,
    )


def _row_energy(x: Tensor | SparseMatrix) -> Tensor:
    """||x_v||^2 of each row, [N]; no second copy of x is made."""
    if isinstance(x, SparseMatrix):
        return torch.zeros(x.shape[0], dtype=x.dtype, device=x.device).index_add(
            0, x.row, x.value.square()
        )
    return torch.cat([part.square().sum(1) for part in torch.split(x, _ROWS_AT_ONCE)])


class FullBatches:
    """One step an epoch over everything; `steps_per_epoch` repeats it (each with its own mask)."""

    def __init__(self, batch: Batch, *, steps_per_epoch: int = 1) -> None:
        self.batch, self.steps_per_epoch = batch, steps_per_epoch

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The same step, `steps_per_epoch` times."""
        return [self.batch.node_id[:0]] * self.steps_per_epoch

    def kind(self, index: Tensor) -> int:
        """Always the same."""
        return 0

    def cut(self, index: Tensor, kind: int) -> Batch:
        """The whole batch."""
        return self.batch

    def take(self, index: Tensor) -> Batch:
        """The whole batch."""
        return self.batch


class FreeShapes:
    """Steps of which no two need have the same shapes."""

    def kind(self, index: Tensor) -> None:
        """None: shapes are free."""

    def cut(self, index: Tensor, kind: int) -> Batch:
        """Never asked for: there is no kind."""
        raise TypeError("steps whose shapes are free are taken one by one")


class NodeBatches(FreeShapes):
    """A random subset of nodes and the subgraph it induces, each step (the paper's Table 3)."""

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
        whole = full_batch(graph, prepare=_plain_edges, device=device, dtype=dtype)
        self.everything = replace(whole, row_energy=_row_energy(whole.x))
        self.nodes_per_step = min(nodes_per_step, graph.num_nodes)
        self.steps_per_epoch = steps_per_epoch
        self.prepare = prepare
        edges = self.everything.structure
        assert isinstance(edges, EdgeList)
        self.edges = edges
        self.crow = torch.zeros(graph.num_nodes + 1, dtype=torch.int64, device=device)
        self.crow[1:] = torch.cumsum(
            torch.bincount(edges.edge_index[0], minlength=graph.num_nodes), 0
        )

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, its nodes, drawn without replacement, in ascending order."""
        num_nodes, device = self.everything.num_nodes, self.crow.device
        draws = (
            torch.randperm(num_nodes, generator=generator)[: self.nodes_per_step]
            for _ in range(self.steps_per_epoch)
        )
        return [torch.sort(d).values.to(device) for d in draws]

    def take(self, index: Tensor) -> Batch:
        """The subgraph induced by the nodes `index` (ascending); the graphs it cuts through stay
        apart.
        """
        edges = self.edges
        position = torch.full((edges.num_nodes,), -1, dtype=torch.int64, device=index.device)
        position[index] = torch.arange(index.numel(), device=index.device)
        pick = ranges(self.crow[index], self.crow[index + 1])  # edges that leave the chosen nodes
        source, target = edges.edge_index[:, pick]
        inside = position[target] >= 0
        edge_index = torch.stack([position[source[inside]], position[target[inside]]])
        weight = None if edges.edge_weight is None else edges.edge_weight[pick[inside]]
        structure = self.prepare(EdgeList(edge_index, weight, index.numel(), edges.undirected)).to(
            index.device, self.everything.x.dtype
        )
        present, graph_id = torch.unique(self.everything.graph_id[index], return_inverse=True)
        energy = self.everything.row_energy
        assert energy is not None
        return Batch(
            take_rows(self.everything.x, index),
            structure,
            graph_id,
            present.numel(),
            index,
            row_energy=energy[index],
        )


class GraphBatches(FreeShapes):
    """Mini-batches of whole small graphs, each graph once an epoch, in a new order every epoch."""

    def __init__(self, batch: Batch, ptr: Tensor, *, batch_size: int) -> None:
        self.everything, self.batch_size = batch, batch_size
        self.ptr = ptr.to(batch.graph_id.device)
        structure = batch.structure
        if isinstance(structure, EdgeList):
            source = structure.edge_index[0]
            self.edge_ptr = torch.searchsorted(source, self.ptr)

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, the graphs in it."""
        order = torch.randperm(self.everything.num_graphs, generator=generator).to(self.ptr.device)
        return list(torch.split(order, self.batch_size))

    def take(self, index: Tensor) -> Batch:
        """The graphs `index` side by side, in that order."""
        size = torch.diff(self.ptr)[index]
        nodes = ranges(self.ptr[index], self.ptr[index + 1])
        graph_id = torch.repeat_interleave(
            torch.arange(index.numel(), device=index.device), size, output_size=nodes.numel()
        )
        start = torch.cumsum(size, 0) - size
        # What turns a node's old number into its new one, per graph
        shift = start - self.ptr[index]
        structure = self.everything.structure
        if isinstance(structure, SparseMatrix):
            cut: Structure = _moved(structure.rows(nodes), shift[graph_id], structure.symmetric)
        else:
            cut = self._edges(structure, index, shift, nodes.numel())
        energy, propagated = self.everything.row_energy, self.everything.propagated
        return Batch(
            take_rows(self.everything.x, nodes),
            cut,
            graph_id,
            index.numel(),
            nodes,
            sizes=size,
            row_energy=None if energy is None else energy[nodes],
            # Graphs are whole, so rows stay what they are
            propagated=None if propagated is None else propagated.index_select(0, nodes),
        )

    def _edges(self, edges: EdgeList, index: Tensor, shift: Tensor, num_nodes: int) -> EdgeList:
        begin, end = self.edge_ptr[index], self.edge_ptr[index + 1]
        pick = ranges(begin, end)
        edge_index = edges.edge_index[:, pick] + torch.repeat_interleave(shift, end - begin)
        weight = None if edges.edge_weight is None else edges.edge_weight[pick]
        return EdgeList(edge_index, weight, num_nodes, edges.undirected)


def _plain_edges(edges: EdgeList) -> Structure:
    return edges


def ranges(begin: Tensor, end: Tensor) -> Tensor:
    """begin[0]..end[0]-1, begin[1]..end[1]-1, ... one after another."""
    count = end - begin
    offset = torch.repeat_interleave(begin - (torch.cumsum(count, 0) - count), count)
    return torch.arange(offset.numel(), device=begin.device) + offset


def _moved(rows: SparseMatrix, shift_of_row: Tensor, symmetric: bool) -> SparseMatrix:
    """A slice of a block-diagonal matrix, its columns renumbered to the slice."""
    col = rows.col + torch.repeat_interleave(
        shift_of_row, torch.diff(rows.crow), output_size=rows.nnz
    )
    return SparseMatrix(
        rows.crow, col.to(rows.crow.dtype), rows.value, (rows.shape[0], rows.shape[0]), symmetric
    )
