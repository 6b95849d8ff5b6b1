"""Graphs out of PyTorch Geometric's objects."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.arrays import as_array
from graphlatent.data.cut import cut_graphs
from graphlatent.data.edges import checked_edges
from graphlatent.data.graph import RawGraph
from graphlatent.data.readers.edge_attributes import pyg_edge_columns
from graphlatent.data.readers.messages import shortened
from graphlatent.data.readers.options import unused_edge_columns
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage

Array: TypeAlias = np.ndarray[Any, Any]


def is_pyg(value: object, *names: str) -> bool:
    """Whether a value is an instance of one of these classes of `torch_geometric.data`.

    PyG is imported where it is used, here and in data/downloads.py: the import takes more than a
    second (2 CPU cores, 2026-11-18). Before anybody has imported it, no value can be an instance of
    its classes.
    """
    if "torch_geometric" not in sys.modules:
        return False
    from torch_geometric import data

    return isinstance(value, tuple(getattr(data, name) for name in names))


def read_data(
    data: Any, *, name: str = "graph", edge_features: Sequence[str] = ()
) -> list[RawGraph]:
    """The graph in a PyG `Data`, or the graphs in a `Batch`.

    Read are x, edge_index (or adj_t), edge_weight (else edge_attr where it has one number per
    edge and is no feature), y, num_nodes and batch.

    Args:
        data: the `Data` or `Batch`.
        name: for messages.
        edge_features: attributes of edges to use as their features (edge_attributes.py).

    Raises:
        InputError: where there is neither an edge nor a node to be found, the batch vector is not
            ascending, or attributes of edges cannot be features.
    """
    # PyG's properties raise errors of many types where parts contradict each other.
    with refusing_damage(f"{name}: the parts of the PyG {type(data).__name__} do not fit together"):
        return _read(data, name, edge_features)


def _read(data: Any, name: str, edge_features: Sequence[str]) -> list[RawGraph]:
    x = _checked_x(data, name)
    edge_index, edge_weight = _edges(data, name, edge_features)
    columns = pyg_edge_columns(data, edge_features, name=name)
    joined = RawGraph(
        edge_index=edge_index,
        num_nodes=_num_nodes(data, name),
        x=x,
        edge_weight=edge_weight,
        edge_columns=columns,
        y=data.y,
        name=name,
        notes=_notes_of_edges(data, name, edge_features),
    )
    if data.batch is None:
        return [joined]
    joined, ptr = _checked_pieces(joined, data.batch)
    return cut_graphs(joined, ptr=ptr)


def _checked_x(data: Any, name: str) -> Any:
    """The features, of which the number of rows can be told."""
    if data.x is None:
        return None
    x = data.x if hasattr(data.x, "shape") else as_array(data.x, name=name, what="x")
    if len(x.shape) == 0:
        raise InputError(f"{name}: x must be a matrix, (nodes, features). Got a single number.")
    return x


def _checked_pieces(joined: RawGraph, batch: Any) -> tuple[RawGraph, Array]:
    """The graphs of a batch in one index space, and the first node of each and the end [B + 1].

    Cutting relies on what is checked here.
    """
    name, num_nodes = joined.name, joined.num_nodes
    graph_of_node = as_array(batch, name=name, what="batch")
    if (
        graph_of_node.shape != (num_nodes,)
        or graph_of_node.dtype.kind not in "iu"
        or (num_nodes and graph_of_node.min() < 0)
        or (graph_of_node[1:] < graph_of_node[:-1]).any()
    ):
        raise InputError(
            f"{name}: 'batch' must name the graph of each of the {num_nodes} nodes, in ascending"
            f" order, as integers from 0. Got shape {graph_of_node.shape} of {graph_of_node.dtype}."
        )
    num_graphs = int(graph_of_node.max(initial=0)) + 1
    # Before anything is made for each graph.
    if num_graphs > len(np.unique(graph_of_node)):
        raise InputError(
            f"{name}: 'batch' names {len(np.unique(graph_of_node))} graphs, but numbers them up to"
            f" {num_graphs - 1}, so some graph has no nodes. Leave empty graphs out, and number the"
            " others from 0."
        )
    edges = checked_edges(joined.edge_index, num_nodes=num_nodes, name=name).numpy()
    across = graph_of_node[edges[0]] != graph_of_node[edges[1]]
    if across.any():
        u, v = edges[:, int(across.argmax())]
        raise InputError(
            f"{name}: the edge ({u}, {v}) joins nodes of two graphs of the batch,"
            f" {graph_of_node[u]} and {graph_of_node[v]}. Drop it, or leave 'batch' out for one"
            " graph."
        )
    weight = None
    if joined.edge_weight is not None:
        weight = as_array(joined.edge_weight, name=name, what="edge_weight")
        if weight.shape not in ((edges.shape[1],), (edges.shape[1], 1)):
            raise InputError(
                f"{name}: edge_weight must have one number per edge, {edges.shape[1]}. Got shape"
                f" {weight.shape}."
            )
    ptr = np.searchsorted(graph_of_node, np.arange(num_graphs + 1))
    y = None if joined.y is None else as_array(joined.y, name=name, what="y")
    if y is not None and (y.ndim == 0 or len(y) not in (num_nodes, num_graphs)):
        raise InputError(
            f"{name}: y must hold one label per node, {num_nodes}, or per graph, {num_graphs}. Got"
            f" shape {y.shape}."
        )
    return replace(joined, edge_index=edges, edge_weight=weight, y=y), ptr


def _edges(data: Any, name: str, edge_features: Sequence[str]) -> tuple[Any, Any]:
    """The edges [2, E] and their weights [E] or [E, 1], or None."""
    if data.edge_index is not None:
        if data.edge_weight is not None:
            return data.edge_index, data.edge_weight
        is_weight = "edge_attr" not in edge_features and _is_weight(data.edge_attr)
        return data.edge_index, data.edge_attr if is_weight else None
    if "adj_t" in data:
        from torch_geometric.utils import to_edge_index

        with refusing_damage(f"{name}: adj_t cannot be read as a sparse matrix"):
            adj_t = data.adj_t
            if isinstance(adj_t, Tensor) and adj_t.layout == torch.sparse_coo:
                # Values that are stored in several parts are their sum.
                adj_t = adj_t.coalesce()
            transposed, value = to_edge_index(adj_t)
        return transposed.flip(0), (
            value if value is not None and not bool((value == 1).all()) else None
        )
    if data.x is None and data.to_dict().get("num_nodes") is None:
        raise InputError(
            f"{name} is a PyG Data with neither 'edge_index' nor 'x'. Give it edges, or at least"
            " features."
        )
    return np.zeros((2, 0), dtype=np.int64), None


def _is_weight(edge_attr: object) -> bool:
    """Whether there is one number per edge."""
    return isinstance(edge_attr, Tensor) and (
        edge_attr.ndim == 1 or (edge_attr.ndim == 2 and edge_attr.shape[1] == 1)
    )


def _notes_of_edges(data: Any, name: str, edge_features: Sequence[str]) -> dict[str, str]:
    """What of the edges is not used, or is used as a weight though it may be a code."""
    notes, edge_attr = {}, None if "edge_attr" in edge_features else data.edge_attr
    if edge_attr is not None and (data.edge_weight is not None or not _is_weight(edge_attr)):
        reason = (
            "edge_weight is used instead"
            if data.edge_weight is not None
            else "only one number per edge can be used, as its weight"
        )
        notes["edge_attr"] = (
            f"{name}: edge_attr of shape {tuple(np.shape(edge_attr))} is not used: {reason}."
            " Features of edges are read with read_graphs(..., edge_features=['edge_attr'])."
        )
    elif edge_attr is not None and not edge_attr.is_floating_point():
        notes["edge_attr"] = (
            f"{name}: edge_attr of shape {tuple(edge_attr.shape)} holds {edge_attr.dtype} values"
            " and is read as edge weights. Where they are codes, such as kinds of bonds, read them"
            " as features with read_graphs(..., edge_features=['edge_attr']), or set edge_attr to"
            " None."
        )
    # PyG takes a list of as many entries as edges for an attribute of them.
    known = {"edge_index", "edge_weight", "edge_attr", "adj_t", "batch", "ptr", "x", "y"}
    known |= set(edge_features)
    # PyG warns where it has to count nodes from the edges, which is what we want it to do.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = [key for key in data.edge_attrs() if key not in known]
    unused = unused_edge_columns(
        others, where=name, kind="attributes", way_out="store it as edge_weight"
    )
    return {**notes, **unused}


def _num_nodes(data: Any, name: str) -> int:
    if data.x is not None:
        return int(data.x.shape[0] if hasattr(data.x, "shape") else len(data.x))
    stated = data.to_dict().get("num_nodes")
    if stated is not None and not (
        isinstance(stated, int | np.integer) and not isinstance(stated, bool)
    ):
        raise InputError(f"{name}: num_nodes must be an integer. Got {shortened(stated)}.")
    # PyG warns where it has to count from the edges, which is what we want it to do.
    with (
        warnings.catch_warnings(),
        refusing_damage(f"{name}: PyTorch Geometric cannot count the nodes"),
    ):
        warnings.simplefilter("ignore")
        return int(data.num_nodes)
