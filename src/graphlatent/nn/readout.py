"""Pooling of node rows to one row per graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphlatent.ops.sparse import SparseMatrix

ROOT = "root-sum+mean+max"
_PREFIX = "root-"
# Dense features that are converted to double precision at once.
_VALUES_AT_ONCE = 2**22


def readout(
    layers: Sequence[Tensor], graph_id: Tensor, *, num_graphs: int, pooling: str = "sum"
) -> Tensor:
    """Each layer's rows [N, H] pooled per graph and the layers concatenated, [B, layers * P * H].

    The P poolings of a layer are side by side, layer after layer. A graph without nodes has zeros.

    Args:
        layers: outputs of the encoder's layers.
        graph_id: graph of each row, int64 [N].
        num_graphs: B.
        pooling: 'sum' (the paper's), 'mean', 'max', or several, such as 'sum+max'; with the prefix
            'root-', each entry z becomes sign(z) sqrt(|z|); 'root' is 'root-sum+mean+max'.
    """
    exact = torch.promote_types(layers[0].dtype, torch.float32)
    names, root = _parsed(pooling)
    pooled = torch.cat(
        [
            _POOLINGS[name](rows.to(exact), graph_id, num_graphs)
            for rows in layers
            for name in names
        ],
        dim=1,
    )
    return _signed_root(pooled) if root else pooled


def num_poolings(pooling: str) -> int:
    """The number of poolings that `readout` puts side by side for each layer."""
    return len(_parsed(pooling)[0])


def pooled_features(x: Tensor | SparseMatrix, graph_id: Tensor, *, num_graphs: int) -> Tensor:
    """The sums and the means of features over the nodes of each graph, side by side, [B, 2 F].

    Sums are in double precision, so that a constant has the same mean in graphs of any size, and in
    a fixed order on the CPU.

    Args:
        x: features [N, F]; sparse ones are never made dense, only their sums are.
        graph_id: graph of each row, int64 [N].
        num_graphs: B.
    """
    num_nodes, width = x.shape
    value = x.value if isinstance(x, SparseMatrix) else x
    sums = torch.zeros(num_graphs, width, dtype=torch.float64, device=value.device)
    if isinstance(x, SparseMatrix):
        of_value = graph_id.repeat_interleave(torch.diff(x.crow).to(torch.int64))
        places = of_value * width + x.col.to(torch.int64)
        sums.view(-1).index_add_(0, places, x.value.to(torch.float64))
    else:
        step = max(1, _VALUES_AT_ONCE // max(1, width))
        for start in range(0, num_nodes, step):
            rows = slice(start, start + step)
            sums.index_add_(0, graph_id[rows], x[rows].to(torch.float64))
    size = torch.bincount(graph_id, minlength=num_graphs).clamp(min=1)
    pooled = torch.cat([sums, sums / size[:, None]], dim=1)
    return pooled.to(torch.promote_types(value.dtype, torch.float32))


def pooled_magnitude(x: Tensor | SparseMatrix, graph_id: Tensor, *, num_graphs: int) -> Tensor:
    """The largest sum and mean of absolute values of a feature over the nodes of a graph, [2 F].

    Arguments are those of `pooled_features`.
    """
    size: Tensor | SparseMatrix
    if isinstance(x, SparseMatrix):
        size = SparseMatrix(x.crow, x.col, x.value.abs(), x.shape)
    else:
        size = x.abs()
    return pooled_features(size, graph_id, num_graphs=num_graphs).amax(0)


def _parsed(pooling: str) -> tuple[tuple[str, ...], bool]:
    """The poolings, and whether roots are taken."""
    full = ROOT if pooling == "root" else pooling
    return tuple(full.removeprefix(_PREFIX).split("+")), full.startswith(_PREFIX)


def _signed_root(z: Tensor) -> Tensor:
    """sign(z) sqrt(|z|), with gradient 0 at 0."""
    zero = z == 0
    size = torch.where(zero, torch.ones_like(z), z.abs())
    return torch.where(zero, torch.zeros_like(z), z.sign() * size.sqrt())


def _sum(rows: Tensor, graph_id: Tensor, num_graphs: int) -> Tensor:
    return rows.new_zeros(num_graphs, rows.shape[1]).index_add(0, graph_id, rows)


def _mean(rows: Tensor, graph_id: Tensor, num_graphs: int) -> Tensor:
    size = _sum(rows.new_ones(graph_id.numel(), 1), graph_id, num_graphs)
    return _sum(rows, graph_id, num_graphs) / size.clamp(min=1)


def _max(rows: Tensor, graph_id: Tensor, num_graphs: int) -> Tensor:
    zeros = rows.new_zeros(num_graphs, rows.shape[1])
    index = graph_id[:, None].expand_as(rows)
    return zeros.scatter_reduce(0, index, rows, "amax", include_self=False)


_POOLINGS = {"sum": _sum, "mean": _mean, "max": _max}
