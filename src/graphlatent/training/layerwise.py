"""A trained encoder on a graph by rows, layer by layer, in bounded memory.

The output of a layer is computed for all nodes, in blocks of rows with their whole neighbourhoods,
before the next layer begins. So every node is computed once per layer, however many layers there
are, where cutting out the neighbourhoods of nodes would compute most of them again and again. What
a layer needs of all nodes is in memory-mapped scratch arrays. Legend: N nodes, R rows of a block, F
features, H width of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.errors import ConfigError
from graphlatent.io.scratch import Block, Scratch, ScratchArray
from graphlatent.methods.base import Method
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.nn.norm import BatchNorm, measure_by_blocks
from graphlatent.nn.propagation import widens
from graphlatent.nn.row_propagation import RowPropagation
from graphlatent.ops.row_blocks import BlockPlan, Rows
from graphlatent.ops.sparse import SparseMatrix, matmul

_IN_MEMORY = (
    "Embed the graph in memory: read it as one graph (`read_graphs`, or `to_graph` of a store) and"
    " call `transform`"
)
# Values of a row of sparse features are taken to be at most so many.
_SPARSE_WIDTH = 2048


def layerwise_refusal(method: Method[Any], model: nn.Module) -> str:
    """Why a model cannot embed a graph layer by layer; empty where it can."""
    encoder = model.encoder
    if method.level != "node":
        return "it embeds whole graphs, not nodes"
    if not isinstance(encoder, GNNEncoder):
        return "it has a custom encoder, whose layers are not known"
    if encoder.edge_dim:
        return "its encoder uses the features of edges, and a graph by rows has none"
    if method.has_own_embedding():
        return "its class computes embeddings in a way of its own"
    return ""


def check_layerwise(method: Method[Any], model: nn.Module) -> None:
    """Raise a `ConfigError` where a model cannot embed a graph layer by layer."""
    reason = layerwise_refusal(method, model)
    if reason:
        raise ConfigError(
            f"The model of {type(method).__name__} cannot embed a graph layer by layer: {reason}."
            f" {_IN_MEMORY}."
        )


@dataclass(eq=False)
class Layerwise:
    """A graph by rows, and where its arrays are.

    Args:
        graph: whose features are encoded.
        kind: of the encoder, 'gcn' or 'gin'.
        plan: the blocks of rows.
        scratch: the arrays of all nodes.
    """

    graph: CSRGraph
    kind: Literal["gcn", "gin"]
    plan: BlockPlan
    scratch: Scratch

    @classmethod
    def of(cls, model: nn.Module, graph: CSRGraph, plan: BlockPlan, scratch: Scratch) -> Layerwise:
        """A graph for the encoder of a model that passed `check_layerwise`."""
        return cls(graph, cast(GNNEncoder, model.encoder).kind, plan, scratch)

    @cached_property
    def matrix(self) -> RowPropagation:
        """The matrix of the encoder."""
        return RowPropagation(self.graph, kind=self.kind, plan=self.plan)

    @cached_property
    def smoothing(self) -> RowPropagation:
        """D^-1/2 (A + I) D^-1/2, the matrix of the head."""
        if self.kind == "gcn":
            return self.matrix
        return RowPropagation(self.graph, kind="smoothing", plan=self.plan)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.graph.num_nodes

    def features(self, start: int, stop: int) -> Tensor | SparseMatrix:
        """The features of some nodes, [R, F]."""
        return self.graph.x.take(torch.arange(start, stop))

    @cached_property
    def has_dense_features(self) -> bool:
        """Whether features come as a dense matrix."""
        return isinstance(self.features(0, min(1, self.num_nodes)), Tensor)

    def feature_width(self, *, dense: bool = False) -> int:
        """About how many values a row of the features has, or F where they are made dense."""
        width = self.graph.x.shape[1]
        return width if dense or self.has_dense_features else min(width, _SPARSE_WIDTH)

    def blocks(self, width: int) -> list[Block]:
        """The blocks of a matrix with `width` columns."""
        return self.plan.of_width(width)

    def store(self, name: str, width: int, rows: Rows, *, inputs: int = 0) -> ScratchArray:
        """A scratch array [N, width] of rows that are computed by blocks.

        Args:
            name: of the array.
            width: its number of columns.
            rows: computes a block.
            inputs: columns of what a block is computed from, beside those.
        """
        return self.scratch.fill(name, width, self.blocks(width + inputs), rows)

    def each(self, width: int, rows: Rows, stage: str) -> Iterator[tuple[Block, Tensor]]:
        """All blocks of rows that are computed or read, with their places."""
        for start, stop in self.blocks(width):
            yield (start, stop), rows(start, stop)
            self.scratch.progress(stage, stop, self.num_nodes)


class Operand:
    """What a propagation matrix is multiplied by: all rows, of which a block uses any.

    Args:
        rows: a scratch array, or a matrix that is there as a whole.
    """

    def __init__(self, rows: ScratchArray | Tensor) -> None:
        self.rows = rows

    @property
    def array(self) -> ScratchArray | None:
        """The scratch array, if it is one."""
        return self.rows if isinstance(self.rows, ScratchArray) else None

    def multiplied(
        self,
        matrix: RowPropagation,
        start: int,
        stop: int,
        *,
        base: Tensor | None = None,
        alpha: float = 1.0,
    ) -> Tensor:
        """`base + alpha * A[start:stop] @ self`; pages that were mapped for it are given back."""
        if isinstance(self.rows, Tensor):
            return matrix.multiply(start, stop, self.rows, base=base, alpha=alpha)
        product = matrix.multiply(start, stop, self.rows.whole(), base=base, alpha=alpha)
        self.rows.release()
        return product


@torch.no_grad()
def encode(run: Layerwise, encoder: GNNEncoder, *, measure: bool = False) -> Rows:
    """The last layer of an encoder, by blocks of rows.

    Args:
        run: the graph.
        encoder: in evaluation mode.
        measure: also measure the statistics of its batch norms, layer after layer.

    Returns:
        A function that returns the rows from one to another, [R, H].
    """
    rows: Any = run.features
    dense, last = run.has_dense_features, None
    for i, conv in enumerate(encoder.convs):
        weight, bias = cast(Tensor, conv.weight), cast(Tensor, conv.bias)
        width = weight.shape[1]
        # The product with fewer columns is the one over all neighbours.
        if dense and widens(weight):
            operand = _operand(run, f"input{i}", weight.shape[0], rows, whole=i == 0)
            linear = partial(_multiplied_then_mapped, operand, run.matrix, weight, bias)
        else:
            product = partial(_mapped, rows, weight)
            inputs = weight.shape[0] if dense else run.feature_width()
            operand = Operand(run.store(f"product{i}", width, product, inputs=inputs))
            linear = partial(operand.multiplied, run.matrix, base=bias)
        before, last = last, run.store(f"layer{i}", width, linear)
        run.scratch.drop(operand.array, before)
        rows, dense = partial(_post_linear, encoder, i, last), True
        if measure and i < len(encoder.norms):
            norm = cast(BatchNorm, encoder.norms[i])
            parts = partial(parts_of, run, width, last.rows, f"statistics of layer{i}")
            measure_by_blocks([norm], parts, partial(encoder.post_linear, i))
    return cast(Rows, rows)


def _operand(run: Layerwise, name: str, width: int, rows: Rows, *, whole: bool) -> Operand:
    """The input of a layer as an operand; features that are one matrix already, as they are."""
    x = run.graph.x
    if whole and isinstance(x, MatrixRows) and isinstance(x.x, Tensor) and x.x.is_contiguous():
        return Operand(x.x)
    return Operand(run.store(name, width, rows))


def _mapped(rows: Any, weight: Tensor, start: int, stop: int) -> Tensor:
    return matmul(rows(start, stop), weight)


def _multiplied_then_mapped(
    operand: Operand, matrix: RowPropagation, weight: Tensor, bias: Tensor, start: int, stop: int
) -> Tensor:
    return torch.addmm(bias, operand.multiplied(matrix, start, stop), weight)


def _post_linear(
    encoder: GNNEncoder, i: int, linear: ScratchArray, start: int, stop: int
) -> Tensor:
    return encoder.post_linear(i, linear.rows(start, stop))


def parts_of(run: Layerwise, width: int, rows: Rows, stage: str) -> Iterator[Tensor]:
    """All blocks of rows, without their places."""
    return (part for _, part in run.each(width, rows, stage))
