"""Edge weights as users give them, checked and converted to float32.

A weight is a real number that float32 can hold: NaN, infinite and larger ones are refused. Negative
ones are read; encoder='gcn', which divides by their sum, refuses them. An edge of weight 0 stays an
edge, without influence. A weight that float32 rounds to 0 counts as 0, unless all of them are so
small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.arrays import numeric_array
from graphlatent.data.graph import RawGraph
from graphlatent.errors import InputError, warn

SMALLEST = float(np.finfo(np.float32).tiny)
LARGEST = float(np.finfo(np.float32).max)


def joined_weights(graphs: Sequence[RawGraph], num_edges: Sequence[int]) -> Tensor | None:
    """The weights of the edges of all graphs, float32 [E]; None where no graph has any.

    Args:
        graphs: as they were read; the edges of one without weights have weight 1.
        num_edges: of each graph.

    Raises:
        InputError: where weights are not one real number per edge, or out of the range of float32.
    """
    if all(g.edge_weight is None for g in graphs):
        return None
    parts = [_checked(g, count) for g, count in zip(graphs, num_edges, strict=True)]
    weight = torch.cat(parts)
    if weight.numel() and not bool(weight.any()):
        warn("All edge weights are 0: every node is embedded from its own features alone.")
    return weight


def _checked(graph: RawGraph, count: int) -> Tensor:
    if graph.edge_weight is None:
        return torch.ones(count, dtype=torch.float32)
    weight = torch.from_numpy(numeric_array(graph.edge_weight, name=graph.name, what="edge_weight"))
    if weight.ndim == 2 and weight.shape[1] == 1:
        weight = weight[:, 0]
    if weight.shape != (count,):
        raise InputError(
            f"{graph.name}: edge_weight must have one number per edge, {count}. Got shape"
            f" {tuple(weight.shape)}."
        )
    given = _as_given(graph.edge_weight)
    bad = ~torch.isfinite(weight)
    if bool(bad.any()):
        edge = int(bad.nonzero()[0])
        raise InputError(
            f"{graph.name}: edge_weight holds NaN or infinite values, or numbers too large for"
            f" float32 (more than {LARGEST:.2g}): {int(bad.sum())}, the first ({given[edge]:g}) at"
            f" edge {edge} (from 0). Drop those edges or give them a number."
        )
    largest = float(np.abs(given).max(initial=0))
    if 0 < largest < SMALLEST:
        raise InputError(
            f"{graph.name}: edge_weight holds no value that float32 can hold exactly: the largest"
            f" is {largest:g}, and values below {SMALLEST:.2g} lose digits or become 0. Multiply"
            " all weights by a constant."
        )
    return weight


def _as_given(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The weights in double precision, [E]."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().to(torch.float64)
    return np.asarray(values, dtype=np.float64).reshape(-1)
