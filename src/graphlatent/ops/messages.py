"""Sums of messages along edges that have attributes, without a matrix of E rows in memory.

The message of an edge e from u to v is `w_e ReLU(x_u + a_e W + b)`. Messages are computed for a
block of edges at a time, and again in the backward pass, so that memory does not grow with the
number of edges. Sums are products with CSR matrices, so their bits do not depend on chance on a GPU
either. Legend: N nodes, E edges, D attributes of an edge, H columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphlatent.ops.sparse import SparseMatrix

BLOCK_VALUES = 1 << 22
"""Messages are computed for so many edges at a time that they have about this many values."""


@dataclass(frozen=True, eq=False)
class _Grouped:
    """Edges in the order of one of their ends.

    Args:
        order: the edges, int64 [E].
        ptr: place of each node's first edge in `order` and the end, int64 [N + 1].
    """

    order: Tensor
    ptr: Tensor

    @classmethod
    def by(cls, node: Tensor, num_nodes: int) -> _Grouped:
        """Edges grouped by `node`, the node at one end of each, int64 [E]."""
        ptr = torch.zeros(num_nodes + 1, dtype=torch.int64, device=node.device)
        ptr[1:] = torch.cumsum(torch.bincount(node, minlength=num_nodes), 0)
        return cls(torch.argsort(node, stable=True), ptr)

    def blocks(self, width: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Ranges of nodes, the row pointers of their edges, and the edges."""
        limit = max(1, BLOCK_VALUES // max(width, 1))
        num_nodes, num_edges = self.ptr.numel() - 1, self.order.numel()
        if num_edges <= limit:
            yield slice(0, num_nodes), self.ptr, self.order
            return
        ptr = self.ptr.cpu()
        start = 0
        while start < num_nodes:
            last = int(torch.searchsorted(ptr, ptr[start] + limit, right=True)) - 1
            # A node with more edges than a block has is a block of its own.
            stop = min(max(last, start + 1), num_nodes)
            first, end = int(ptr[start]), int(ptr[stop])
            yield slice(start, stop), self.ptr[start : stop + 1] - first, self.order[first:end]
            start = stop


class MessageEdges:
    """Edges with attributes, grouped for `message_sum`.

    Args:
        edge_index: source and target of each edge, int64 [2, E].
        edge_attr: attributes, float [E, D].
        edge_weight: float [E], or None.
        num_nodes: N.
    """

    def __init__(
        self, edge_index: Tensor, edge_attr: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> None:
        self.source, self.target = edge_index
        self.attr, self.weight, self.num_nodes = edge_attr, edge_weight, num_nodes
        self.incoming = _Grouped.by(self.target, num_nodes)
        self.outgoing = _Grouped.by(self.source, num_nodes)

    def before_relu(self, x: Tensor, weight: Tensor, bias: Tensor, edges: Tensor) -> Tensor:
        """`x_u + a_e W + b` of some edges, [len(edges), H]."""
        transformed = torch.addmm(bias, self.attr[edges].to(x.dtype), weight)
        return transformed.add_(x.index_select(0, self.source[edges]))

    def sums(self, ptr: Tensor, edges: Tensor, rows: Tensor) -> Tensor:
        """The weighted sums of consecutive `rows`, one for each edge, [nodes, H]."""
        count = rows.shape[0]
        value = rows.new_ones(count) if self.weight is None else self.weight[edges].to(rows.dtype)
        index = torch.int32 if rows.is_cuda else torch.int64
        col = torch.arange(count, device=rows.device, dtype=index)
        return SparseMatrix(ptr.to(index), col, value, (ptr.numel() - 1, count)).multiply(rows)


def message_sum(x: Tensor, edges: MessageEdges, weight: Tensor, bias: Tensor) -> Tensor:
    """The sum of the messages that each node receives, [N, H].

    Args:
        x: rows of the nodes, [N, H].
        edges: with attributes of width D.
        weight: of the attributes, W, [D, H].
        bias: b, [H].
    """
    total: Tensor = _MessageSum.apply(x, weight, bias, edges)  # type: ignore[no-untyped-call]
    return total


class _MessageSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, edges: MessageEdges) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.edges = edges
        out = torch.zeros_like(x)
        for nodes, ptr, block in edges.incoming.blocks(x.shape[1]):
            messages = edges.before_relu(x, weight, bias, block).relu_()
            out[nodes] = edges.sums(ptr, block, messages)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, bias = ctx.saved_tensors
        edges: MessageEdges = ctx.edges
        grad = grads[0].contiguous()
        d_x, d_weight, d_bias = (
            torch.zeros_like(x),
            torch.zeros_like(weight),
            torch.zeros_like(bias),
        )
        for nodes, ptr, block in edges.outgoing.blocks(x.shape[1]):
            active = edges.before_relu(x, weight, bias, block) > 0
            d_message = grad.index_select(0, edges.target[block]).mul_(active)
            d_x[nodes] = edges.sums(ptr, block, d_message)
            if edges.weight is not None:
                d_message.mul_(edges.weight[block].to(grad.dtype)[:, None])
            d_weight.addmm_(edges.attr[block].to(grad.dtype).T, d_message)
            d_bias.add_(d_message.sum(0))
        return d_x, d_weight, d_bias, None
