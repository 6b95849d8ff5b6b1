"""Graphs from a folder in the TU format: NAME_A.txt, NAME_graph_indicator.txt and others.

The layout of the TU collection (https://chrsmrrs.github.io/datasets): one line per edge, node or
graph; ids count from 1. Legend: N nodes, E edges, B graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import csv

from graphlatent.data.cut import cut_graphs
from graphlatent.data.graph import RawGraph
from graphlatent.data.memory_limit import readable, require_memory
from graphlatent.data.readers.edge_attributes import matrix_columns
from graphlatent.data.readers.text_files import BYTES_PER_BYTE
from graphlatent.errors import InputError
from graphlatent.io.regular_files import (
    exists,
    files_of,
    is_folder,
    refusing_damage,
    regular_file,
)

Array: TypeAlias = np.ndarray[Any, Any]

EDGE_FILES = ("edge_labels", "edge_attributes")
"""The files NAME_edge_labels.txt and NAME_edge_attributes.txt, with a line for each edge."""
# One-hot node labels wider than this are kept sparse.
_DENSE_LABELS = 256
# Labels spread over more than this are one-hot over the labels that occur, not over their range.
_WIDEST_RANGE = 1024


def find_tu(folder: Path) -> tuple[Path, str] | None:
    """The folder that holds the files (`folder` or its 'raw') and the data set's name.

    None where there are no such files.
    """
    for place in (folder, folder / "raw"):
        files = files_of(place) if is_folder(place) else []
        names = [p.name.removesuffix("_A.txt") for p in files if p.name.endswith("_A.txt")]
        if len(names) > 1 and folder.name not in names:
            raise InputError(
                f"{place} holds several data sets: {', '.join(names)}. Put each in a folder of its"
                " own."
            )
        if names:
            return place, folder.name if folder.name in names else names[0]
    return None


def read_tu(
    folder: Path, *, use_attributes: bool = False, edge_features: Sequence[str] = ()
) -> list[RawGraph]:
    """The graphs in the folder, in its order; graph labels as `y`.

    Features are the one-hot node labels where there are any (over the range from the smallest to
    the largest label, as PyTorch Geometric does), else the node attributes, else none. Self-loops
    are dropped, also as PyTorch Geometric does.

    Args:
        folder: ROOT/NAME, ROOT/NAME/raw, or any folder with the files in it.
        use_attributes: put the node attributes before the labels where there are both.
        edge_features: 'edge_labels', 'edge_attributes' or both, to use as features of edges.

    Raises:
        InputError: where a file is missing or damaged, or the files do not fit each other; the
            message names the file.
    """
    found = find_tu(folder)
    if found is None:
        raise InputError(
            f"{folder} holds no data set in the TU layout: there is no file NAME_A.txt in it or in"
            " its folder 'raw'."
        )
    place, name = found
    graph_of_node = _graph_of_node(place / f"{name}_graph_indicator.txt")
    edges = _edges(place / f"{name}_A.txt", len(graph_of_node))
    _check_inside(place / f"{name}_A.txt", edges, graph_of_node)
    x = _features(place, name, len(graph_of_node), use_attributes=use_attributes)
    num_graphs = int(graph_of_node.max()) + 1
    labels = _graph_labels(place / f"{name}_graph_labels.txt", num_graphs)
    order = np.argsort(graph_of_node, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    kept = edges[0] != edges[1]
    attributes: dict[str, Array] = {}
    for each in edge_features:
        attributes |= _edge_columns(place, name, each, len(kept))
    joined = RawGraph(
        edge_index=position[edges[:, kept]],
        num_nodes=len(order),
        edge_columns={key: values[kept] for key, values in attributes.items()} or None,
        x=None if x is None else x[order],
        y=labels,
        name=name,
    )
    return cut_graphs(
        joined,
        ptr=np.concatenate([[0], np.cumsum(np.bincount(graph_of_node, minlength=num_graphs))]),
    )


def _graph_of_node(path: Path) -> Array:
    indicator = _numbers(path)
    if (
        indicator.shape[0] == 0
        or indicator.shape[1] != 1
        or indicator.dtype.kind != "i"
        or indicator.min() < 1
    ):
        raise InputError(
            f"{path} must have one graph number, from 1, in each line, and at least one line."
        )
    graph_of_node, last = indicator[:, 0] - 1, int(indicator.max())
    # Before anything is made for each graph: a line of ten digits could ask for gigabytes.
    if last > len(indicator):
        raise InputError(
            f"{path} names graph {last}, but has {len(indicator)} lines, so some graph has no node."
            " Number the graphs from 1 without gaps."
        )
    return graph_of_node


def _edges(path: Path, num_nodes: int) -> Array:
    pairs = _numbers(path, if_empty=2)
    if pairs.shape[1] != 2 or pairs.dtype.kind != "i":
        raise InputError(
            f"{path} must have two node numbers in each line, such as '1, 2'. Got {pairs.shape[1]}"
            f" of type {pairs.dtype}."
        )
    if len(pairs) and (pairs.min() < 1 or pairs.max() > num_nodes):
        wrong = int(pairs.min() if pairs.min() < 1 else pairs.max())
        raise InputError(
            f"{path} names node {wrong}, but the graph indicator has the nodes 1 to {num_nodes}. Is"
            " a file cut short?"
        )
    return pairs.T - 1


def _check_inside(path: Path, edges: Array, graph_of_node: Array) -> None:
    across = graph_of_node[edges[0]] != graph_of_node[edges[1]]
    if across.any():
        line = int(across.argmax())
        raise InputError(
            f"{path}, line {line + 1}: nodes {edges[0, line] + 1} and {edges[1, line] + 1} are in"
            " different graphs."
        )


def _features(place: Path, name: str, num_nodes: int, *, use_attributes: bool) -> Any:
    labels, attributes = place / f"{name}_node_labels.txt", place / f"{name}_node_attributes.txt"
    parts: list[Any] = []
    if exists(attributes) and (use_attributes or not exists(labels)):
        parts.append(_per_line(attributes, num_nodes, "nodes").astype(np.float32))
    if exists(labels):
        values = _per_line(labels, num_nodes, "nodes")
        if values.dtype.kind != "i":
            raise InputError(
                f"{labels} must hold integers, the labels' numbers. Got values of type"
                f" {values.dtype}."
            )
        parts += [_one_hot(column) for column in values.T]
    if not parts:
        return None
    if any(sp.issparse(part) for part in parts):
        return sp.hstack(parts, format="csr")
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _one_hot(labels: Array) -> Any:
    # Python's integers: the difference may not fit into 64 bits.
    width = int(labels.max()) - int(labels.min()) + 1
    if width > _WIDEST_RANGE:
        distinct, codes = np.unique(labels, return_inverse=True)
        width = len(distinct)
    else:
        codes = labels - labels.min()
    ones, rows = np.ones(len(labels), dtype=np.float32), np.arange(len(labels))
    matrix = sp.csr_matrix((ones, (rows, codes)), shape=(len(labels), width))
    return matrix if width > _DENSE_LABELS else matrix.toarray()


def _edge_columns(place: Path, name: str, attribute: str, num_edges: int) -> dict[str, Array]:
    """The columns of a file with a line for each edge."""
    paths = {each: place / f"{name}_{each}.txt" for each in EDGE_FILES}
    there = [each for each in EDGE_FILES if exists(paths[each])]
    if attribute not in there:
        allowed = " or ".join(map(repr, there)) or "left out: the folder has no such file"
        raise InputError(
            f"{place}: the option 'edge_features' must be {allowed}. Got {attribute!r}."
        )
    return matrix_columns(attribute, _per_line(paths[attribute], num_edges, "edges"))


def _per_line(path: Path, count: int, what: str) -> Array:
    """The numbers in a file that has a line for each node or edge."""
    values = _numbers(path)
    if len(values) != count:
        raise InputError(
            f"{path} must have one line for each of the {count} {what}. Got {len(values)} lines."
        )
    return values


def _graph_labels(path: Path, num_graphs: int) -> Array | None:
    if not exists(path):
        return None
    labels = _numbers(path)
    if len(labels) != num_graphs:
        raise InputError(
            f"{path} must have one line for each of the {num_graphs} graphs. Got {len(labels)}"
            " lines."
        )
    return labels[:, 0] if labels.shape[1] == 1 else labels


def _numbers(path: Path, *, if_empty: int | None = None) -> Array:
    """The numbers in the file, [lines, values per line].

    With `if_empty`, an empty file gives an array of shape [0, if_empty].
    """
    if not exists(path):
        raise InputError(
            f"There is no file {path}. A TU data set needs NAME_A.txt and NAME_graph_indicator.txt."
        )
    size = regular_file(path)
    require_memory(BYTES_PER_BYTE * size, what=f"{path}, a file of {readable(size)},")
    with refusing_damage(f"{path} cannot be read as lines of numbers"):
        if if_empty is not None and size < 1024 and not path.read_bytes().strip():
            return np.zeros((0, if_empty), dtype=np.int64)
        table = csv.read_csv(path, read_options=csv.ReadOptions(autogenerate_column_names=True))
    for number, column in enumerate(table.columns, 1):
        if (
            not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
            or column.null_count
        ):
            raise InputError(
                f"{path} must hold numbers only. Value {number} of some line is empty or no number."
            )
    return np.stack([column.to_numpy() for column in table.columns], axis=1)
