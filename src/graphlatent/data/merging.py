"""The rules by which repeated edges are merged: the maximum, sum, mean or number of their weights.

The maximum, which is the default, is computed in data/edges.py, the others here.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from graphlatent.errors import InputError, shown

Array: TypeAlias = np.ndarray[Any, Any]
Merge: TypeAlias = Literal["max", "sum", "mean", "count"]
MERGE_RULES: tuple[Merge, ...] = get_args(Merge)
MEANING: dict[Merge, str] = {
    "max": "the largest weight is kept",
    "sum": "weights are added up",
    "mean": "weights are averaged",
    "count": "their number is the weight",
}
"""What becomes of repeated edges, in words."""


def checked_merge(rule: object) -> Merge:
    """The rule. Raises `InputError` where there is no such rule."""
    for known in MERGE_RULES:
        if isinstance(rule, str) and rule == known:
            return known
    allowed = ", ".join(map(repr, MERGE_RULES))
    raise InputError(f"The option 'merge' must be one of {allowed}. Got {shown(rule)}.")


def merge_weights(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    *,
    rule: Merge,
    num_nodes: int,
    without_direction: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Each edge once, sorted by source then target, with its weight by a rule other than 'max'.

    The result does not depend on the order of the rows, down to the last bit.

    Args:
        edge_index: int64 [2, E], in any order.
        edge_weight: float32 [E]; None counts as 1 everywhere.
        rule: 'sum', 'mean' or 'count', which does not look at weights.
        num_nodes: N.
        without_direction: nodes whose edges have no direction, bool [N]: (u, v) and (v, u) are
            merged, and the result is there in both directions.

    Raises:
        InputError: where a sum is too large for float32.
    """
    source, target = edge_index.numpy()
    if without_direction is not None:
        swapped = without_direction.numpy()[source] & (source > target)
        source, target = np.where(swapped, [target, source], [source, target])
    if edge_weight is None or rule == "count":
        weight = np.ones(len(source))
    else:
        weight = edge_weight.numpy().astype(np.float64)
    key, value = reduced_weights(source * num_nodes + target, weight, rule)
    source, target = key // num_nodes, key % num_nodes
    if without_direction is not None:
        reverse = without_direction.numpy()[source] & (source != target)
        value = np.concatenate([value, value[reverse]])
        source, target = np.concatenate([[source, target], [target[reverse], source[reverse]]], 1)
        order = np.argsort(source * num_nodes + target, kind="stable")
        source, target, value = source[order], target[order], value[order]
    weight = checked_float32(value, rule)
    return torch.from_numpy(np.stack([source, target])), torch.from_numpy(weight)


def reduced_weights(key: Array, weight: Array, rule: Merge) -> tuple[Array, Array]:
    """Each key once, ascending, and the sum or mean of its weights, float64.

    Of 'count', weights must be 1.
    """
    # Sorted by weight too, since a sum of floats depends on their order.
    order = np.lexsort((weight, key))
    key, weight = key[order], weight[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    total = np.add.reduceat(weight, first) if len(first) else weight
    if rule == "mean":
        total = total / np.diff(first, append=len(key))
    return key[first], total


def checked_float32(value: Array, rule: Merge) -> Array:
    """Merged weights as float32. Raises `InputError` where one is too large."""
    if np.abs(value).max(initial=0.0) > np.finfo(np.float32).max:
        raise InputError(
            f"The {rule} of the weights of repeated edges is too large for float32 (more than"
            f" {np.finfo(np.float32).max:.2g}). Divide all weights by a constant."
        )
    return value.astype(np.float32)
