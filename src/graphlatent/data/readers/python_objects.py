"""Graphs as plain Python objects: lists of pairs, and dicts of adjacency lists.

They become tables, so that ids, node tables and options mean the same for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from graphlatent.data.readers.arrays import is_adjacency
from graphlatent.data.readers.arrow import is_table, table_suffix
from graphlatent.data.readers.bipartite import SIDE
from graphlatent.data.readers.messages import shortened
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage

_IDS = (str, int, np.integer, float, np.floating)


def is_pairs(value: object) -> bool:
    """Whether the value is a list of edges, (u, v) or (u, v, weight), by its first item."""
    if not isinstance(value, list) or not value or not isinstance(value[0], tuple | list):
        return False
    first = value[0]
    is_edge = len(first) in (2, 3) and all(isinstance(each, _IDS) for each in first[:2])
    # Tuples of paths are graphs in two files.
    in_files = all(isinstance(each, str) and table_suffix(Path(each)) for each in first)
    return is_edge and not in_files


def is_neighbours(value: object) -> bool:
    """Whether the value is a dict, but for SciPy's matrices that are dicts."""
    return isinstance(value, Mapping) and not is_adjacency(value)


def has_ids(source: Any) -> bool:
    """Whether the value holds edges between ids, so that a node table may go with it."""
    return is_table(source) or is_neighbours(source) or is_pairs(source)


def pairs_as_table(pairs: list[Any], options: TableOptions, *, name: str) -> Any:
    """A pyarrow Table with one row per pair, its columns named as `options` expect.

    Raises:
        InputError: where an item is no pair, ids are of several types, or it cannot be told whether
            lists of numbers are edges or the rows of a matrix.
    """
    if isinstance(pairs[0], list) and len(pairs) in (2, len(pairs[0])):
        raise InputError(_ambiguous(pairs, name))
    source, target, weight = _columns(pairs, name)
    columns = {
        options.source: _ids(source, "sources", name),
        options.target: _ids(target, "targets", name),
    }
    if weight is not None:
        columns[options.weight or "weight"] = pa.array(weight)
    return pa.table(columns)


def pairs_as_arrays(pairs: list[Any], *, name: str) -> tuple[Any, Any]:
    """The edges [2, E] and weights [E] (or None) of pairs of row numbers of a feature matrix.

    Raises:
        InputError: where an item is no pair, or two of them may be the two rows of an edge_index.
    """
    if len(pairs) == 2:
        raise InputError(_ambiguous(pairs, name))
    source, target, weight = _columns(pairs, name)
    return np.array([source, target]), weight


def _ambiguous(pairs: list[Any], name: str) -> str:
    return (
        f"{name}: {len(pairs)} items of {len(pairs[0])} values may be edges, or the rows of a"
        " matrix or of edge_index. Give edges as a table with the columns source and target; a"
        " matrix or an edge_index as numpy.array(...), the latter as a tuple (edge_index, x)."
    )


def _columns(pairs: list[Any], name: str) -> tuple[list[Any], list[Any], Any]:
    """Sources, targets and weights (None without a third part)."""
    size = len(pairs[0])
    for i, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != size:
            raise InputError(
                f"{name}: a list of edges must hold tuples of {size}, as its first item is. Got"
                f" {shortened(pair)} at {i} (from 0)."
            )
    source, target, *weight = (list(column) for column in zip(*pairs, strict=True))
    return source, target, _weights(weight[0], pairs, name) if weight else None


def _ids(values: Sequence[Any], what: str, name: str) -> Any:
    plain = [each.item() if isinstance(each, np.generic) else each for each in values]
    with refusing_damage(f"{name}: the {what} must be ids, all integers or all text"):
        return pa.array(plain)


def _weights(values: Sequence[Any], pairs: Sequence[Any], name: str) -> Any:
    for pair, value in zip(pairs, values, strict=True):
        if not isinstance(value, int | float | np.integer | np.floating):
            raise InputError(
                f"{name}: the third part of an edge is its weight, a number. Got"
                f" {shortened(value)} in {shortened(pair)}. For attributes pass a NetworkX graph."
            )
    return np.array(values, dtype=np.float64)


def adjacency_as_tables(
    adjacency: Mapping[Any, Any], options: TableOptions, *, name: str
) -> tuple[Any, Any]:
    """An edge table and a node table of a dict that holds the neighbours of each node.

    Nodes come in the order of the keys, then of the neighbours that are no keys.

    Args:
        adjacency: for each node a list of its neighbours, or a dict of them with weights.
        options: which give columns their names.
        name: for messages.

    Raises:
        InputError: where neighbours are something else, or the dict looks like columns of a table.
    """
    columns = {options.source, options.target}
    if not adjacency or columns <= set(adjacency) or "edge_index" in adjacency:
        found = ", ".join(shortened(key) for key in list(adjacency)[:8]) or "nothing"
        raise InputError(
            f"{name}: a dict must hold the neighbours of each node, {{u: [v, ...]}}. Got the keys"
            f" {found}. Give columns as pandas.DataFrame(...), and arrays as (edge_index, x)."
        )
    first = next(iter(adjacency))
    if isinstance(first, tuple):
        raise InputError(
            f"{name}: the keys of a dict must be nodes. Got {shortened(first)}. Give edges as a"
            " list, list(...)."
        )
    weighted = any(isinstance(each, Mapping) for each in adjacency.values())
    pairs: list[tuple[Any, ...]] = []
    for node, neighbours in adjacency.items():
        usable = Mapping if weighted else (list | tuple | Set | np.ndarray)
        if not isinstance(neighbours, usable):
            kind = "a dict of weights" if weighted else "a list of nodes"
            raise InputError(
                f"{name}: the neighbours of node {shortened(node)} must be {kind}, as in"
                f" {'{u: {v: 2.0}}' if weighted else '{u: [v, ...]}'}. Got {shortened(neighbours)}."
            )
        if isinstance(neighbours, Mapping):
            pairs += [(node, other, weight) for other, weight in neighbours.items()]
        else:
            pairs += [(node, other) for other in neighbours]
    others = dict.fromkeys(pair[1] for pair in pairs)
    if pairs:
        edges = pairs_as_table(pairs, options, name=name)
    else:
        edges = pa.table({options.source: pa.nulls(0), options.target: pa.nulls(0)})
    if options.bipartite:
        sides = [options.source] * len(adjacency) + [options.target] * len(others)
        ids = _ids([*adjacency, *others], "nodes", name)
        return edges, pa.table({options.id: ids, SIDE: pa.array(sides)})
    return edges, pa.table({options.id: _ids([*{**adjacency, **others}], "nodes", name)})
