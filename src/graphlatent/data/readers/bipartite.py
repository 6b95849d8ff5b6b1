"""Edges between nodes of two kinds, such as users and items: ids that tell the kinds apart.

In such tables the two columns often use the same ids, so that user 7 and item 7 would be one node.
With the option 'bipartite' a node's id is its column's name and its id, such as 'user:7'. Without
it, columns that look as if they named nodes of two kinds are reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from graphlatent.data.ids import IdColumn, read_ids, shown
from graphlatent.data.readers.arrow import LoadedTable
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]
SIDE = "side"
"""The column of a node table that names the kind of a node by a column of the edge table."""
# Of one kind of nodes, edges in both directions are usual, and edges from a node to itself rare.
_ENOUGH_LOOPS = 2
# Usual names of columns that hold nodes of one kind.
_OF_ONE_KIND = {
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("u", "v"),
    ("i", "j"),
    ("a", "b"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("head", "tail"),
}


def with_side(ids: IdColumn, side: str | Any) -> IdColumn:
    """The ids, each after the name of its kind and a colon.

    Args:
        ids: integers or text.
        side: the name of the kind, or a pyarrow array of names, one for each id.
    """
    values = pc.binary_join_element_wise(side, ids.values.cast(pa.string()), ":")
    return replace(ids, values=values, open_type=False)


def node_ids_of_sides(nodes: LoadedTable, id_column: str, sides: Sequence[str]) -> IdColumn:
    """The ids of a node table as they are in a bipartite graph.

    A column 'side' names the kind of each node; without one, ids are written as 'user:7'.

    Raises:
        InputError: where the kind of a node is neither of the two.
    """
    ids = read_ids(nodes, id_column, option="id")
    allowed = " or ".join(map(repr, sides))
    if SIDE in nodes.columns:
        side = read_ids(nodes, SIDE, option="id").values.cast(pa.string())
        wrong = ~np.isin(side.to_numpy(zero_copy_only=False), sides)
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(
                f"{nodes.name}: column '{SIDE}' must hold names of columns of the edge table,"
                f" {allowed}. Got {shown(side[row])} in {nodes.place(row)}."
            )
        return with_side(ids, side)
    text = ids.values.cast(pa.string())
    of_a_side = [pc.starts_with(text, f"{side}:").to_numpy(zero_copy_only=False) for side in sides]
    wrong = ~(of_a_side[0] | of_a_side[1])
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{nodes.name}: in a bipartite graph, ids say of which kind a node is:"
            f" '{sides[0]}:{text[row]}' or '{sides[1]}:{text[row]}'. Got {shown(ids.values[row])}"
            f" in {nodes.place(row)}. Write ids so, or add a column '{SIDE}' that holds {allowed}."
        )
    return replace(ids, values=text, open_type=False)


def sides_of(node_ids: Array, options: TableOptions) -> Array:
    """Of which kind the nodes of a bipartite graph are, by their ids: 0 source, 1 target [N]."""
    source, target = f"{options.source}:", f"{options.target}:"
    # Where both fit, as 'a' and 'a:b' may, the longer name is meant.
    names = (target, source) if len(target) > len(source) else (source, target)
    of_longer = np.array([str(node).startswith(names[0]) for node in node_ids.tolist()], dtype=bool)
    is_target: Array = (of_longer == (names[0] == target)).astype(np.int64)
    return is_target


def suspected_bipartite(
    end: Array, node_ids: Array, *, columns: tuple[str, str], where: str
) -> dict[str, str]:
    """A note where both columns of an edge table may name nodes of different kinds.

    Args:
        end: source and target of each edge, as numbers of nodes, int64 [2, E].
        node_ids: the nodes' ids [N]; only integers are suspected.
        columns: the names of the two columns.
        where: the edge table, for messages.
    """
    if end.size == 0 or node_ids.dtype.kind != "i":
        return {}
    source, target = node_ids[end]
    # Sorted pairs are a usual way to list undirected edges once.
    if (source <= target).all() or (source >= target).all():
        return {}
    names = (columns[0].lower(), columns[1].lower())
    needed_loops = _ENOUGH_LOOPS if names in _OF_ONE_KIND else 0
    is_end = np.zeros((2, len(node_ids)), dtype=bool)
    is_end[0, end[0]] = is_end[1, end[1]] = True
    num_shared = int(is_end.all(axis=0).sum())
    if num_shared == 0 or not _are_unrelated(end, len(node_ids), needed_loops=needed_loops):
        return {}
    text = (
        f"{where}: columns '{columns[0]}' and '{columns[1]}' share {num_shared:,} ids, but edges go"
        " both ways no more often than by chance. If they name different things, such as users and"
        " items, read them with bipartite=True (on the command line --bipartite): now equal ids are"
        " one node."
    )
    return {"bipartite": text}


def _are_unrelated(end: Array, num_nodes: int, *, needed_loops: int) -> bool:
    """Whether the ids of one column seem to have nothing to do with those of the other.

    Then u -> v is an edge with probability out(u) in(v) / E, for degrees out and in, so that edges
    in both directions, and from a node to itself, are as frequent as these say. A few of the
    latter are asked for where there are some of the former, or the columns' names say nothing.
    """
    num_loops = len(np.unique(end[0][end[0] == end[1]]))
    # Most graphs end here, before anything is sorted.
    if num_loops < needed_loops:
        return False
    key = torch.unique(torch.from_numpy(end[0] * num_nodes + end[1]))
    source, target = key // num_nodes, key % num_nodes
    out, into = (torch.bincount(each, minlength=num_nodes).double() for each in (source, target))
    expected_loops = (out * into / len(key)).clamp(max=1).sum()
    other = source != target
    expected = (out[target] * into[source] / len(key)).clamp(max=1)[other].sum() / 2
    reverse = (target * num_nodes + source)[other]
    place = torch.searchsorted(key, reverse).clamp(max=len(key) - 1)
    found = int((key[place] == reverse).sum()) // 2
    if found and num_loops < _ENOUGH_LOOPS:
        return False
    return _is_like_chance(found, float(expected)) and _is_like_chance(
        num_loops, float(expected_loops)
    )


def _is_like_chance(found: int, expected: float) -> bool:
    """Whether a count is within a factor of 2 of what is expected, or within Poisson noise (1 %).

    Square roots of Poisson counts have a standard deviation of about one half.
    """
    if found and 0.5 * expected <= found <= 2 * expected:
        return True
    return abs(math.sqrt(found + 3 / 8) - math.sqrt(expected + 3 / 8)) <= 1.3
