"""Graphs out of PyTorch Geometric's objects."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from torch import Tensor

from graphlatent.data.cut import cut_graphs
from graphlatent.data.graph import RawGraph
from graphlatent.data.readers.options import unused_edge_columns
from graphlatent.errors import InputError


def is_pyg(value: object, *names: str) -> bool:
    """Whether a value is an instance of one of these classes of `torch_geometric.data`.

    PyG is imported where it is used, here and in data/edges.py and data/induced.py: the import
    takes more than a second (2 CPU cores, 2026-11-18). Before anybody has imported it, no value can
    be an instance of its classes.
    """
    if "torch_geometric" not in sys.modules:
        return False
    from torch_geometric import data

    return isinstance(value, tuple(getattr(data, name) for name in names))


def read_data(data: Any, *, name: str = "graph") -> list[RawGraph]:
    """The graph in a PyG `Data`, or the graphs in a `Batch`.

    Read are x, edge_index (or adj_t), edge_weight (else edge_attr where it has one number per
    edge), y, num_nodes and batch.

    Raises:
        InputError: where there is neither an edge nor a node to be found, or the batch vector is
            not ascending.
    """
    edge_index, edge_weight = _edges(data, name)
    joined = RawGraph(
        edge_index=edge_index,
        num_nodes=_num_nodes(data),
        x=data.x,
        edge_weight=edge_weight,
        y=data.y,
        name=name,
        notes=_notes_of_edges(data, name),
    )
    batch = data.batch
    if batch is None:
        return [joined]
    graph_of_node = batch.detach().cpu().numpy()
    if len(graph_of_node) != joined.num_nodes or (np.diff(graph_of_node) < 0).any():
        raise InputError(
            f"{name}: 'batch' must name the graph of each of the {joined.num_nodes} nodes, in"
            " ascending order."
        )
    num_graphs = max(
        int(getattr(data, "num_graphs", 0) or 0), int(graph_of_node.max(initial=-1)) + 1
    )
    return cut_graphs(joined, ptr=np.searchsorted(graph_of_node, np.arange(num_graphs + 1)))


def _edges(data: Any, name: str) -> tuple[Any, Any]:
    """The edges [2, E] and their weights [E] or [E, 1], or None."""
    if data.edge_index is not None:
        if data.edge_weight is not None:
            return data.edge_index, data.edge_weight
        return data.edge_index, data.edge_attr if _is_weight(data.edge_attr) else None
    if "adj_t" in data:
        from torch_geometric.utils import to_edge_index

        transposed, value = to_edge_index(data.adj_t)
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


def _notes_of_edges(data: Any, name: str) -> dict[str, str]:
    """What of the edges is not used, or is used as a weight though it may be a code."""
    notes, edge_attr = {}, data.edge_attr
    if edge_attr is not None and (data.edge_weight is not None or not _is_weight(edge_attr)):
        reason = (
            "edge_weight is used instead"
            if data.edge_weight is not None
            else "only one number per edge can be used, as its weight"
        )
        notes["edge_attr"] = (
            f"{name}: edge_attr of shape {tuple(np.shape(edge_attr))} is not used: {reason}."
        )
    elif edge_attr is not None and not edge_attr.is_floating_point():
        notes["edge_attr"] = (
            f"{name}: edge_attr of shape {tuple(edge_attr.shape)} holds {edge_attr.dtype} values"
            " and is read as edge weights. Where they are codes, such as kinds of bonds, set"
            " edge_attr to None before reading."
        )
    known = ("edge_index", "edge_weight", "edge_attr", "adj_t")
    # PyG warns where it has to count nodes from the edges, which is what we want it to do.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = [key for key in data.edge_attrs() if key not in known]
    return {**notes, **unused_edge_columns(others, where=name, kind="attributes")}


def _num_nodes(data: Any) -> int:
    if data.x is not None:
        return int(data.x.shape[0])
    # PyG warns where it has to count from the edges, which is what we want it to do.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(data.num_nodes)
