"""Separation of several graphs that share one index space.

Readers work on whole files, and `assemble` takes one graph at a time.

Legend: N nodes, E edges, B graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.ops.sparse import SparseMatrix


def cut_graphs(
    joined: RawGraph, *, ptr: np.ndarray[Any, Any], graph_ids: Sequence[Any] | None = None
) -> list[RawGraph]:
    """One graph for each piece `ptr[g]:ptr[g + 1]` of the nodes of `joined`.

    Args:
        joined: the graphs in one index space; `y` with N rows is split by nodes, any other (B
            rows) by graphs.
        ptr: first node of each graph and the end, [B + 1].
        graph_ids: the graphs' names [B], or None.
    """
    num_graphs = len(ptr) - 1
    edges, weight = _array(joined.edge_index).reshape(2, -1), _array(joined.edge_weight)
    graph_of_edge = np.searchsorted(ptr, edges[0], side="right") - 1
    order = np.argsort(graph_of_edge, kind="stable")
    edges, weight = edges[:, order], None if weight is None else weight[order]
    attributes = {k: values[order] for k, values in (joined.edge_columns or {}).items()} or None
    edge_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph_of_edge, minlength=num_graphs))])
    x, y = _sliceable(joined.x), _array(joined.y)
    y_ptr = ptr if y is not None and len(y) == joined.num_nodes else np.arange(num_graphs + 1)
    pieces = []
    for g in range(num_graphs):
        nodes, those_edges = slice(ptr[g], ptr[g + 1]), slice(edge_ptr[g], edge_ptr[g + 1])
        pieces.append(
            RawGraph(
                edge_index=edges[:, those_edges] - ptr[g],
                num_nodes=int(ptr[g + 1] - ptr[g]),
                x=None if x is None else x[nodes],
                columns=(
                    None
                    if joined.columns is None
                    else {name: values[nodes] for name, values in joined.columns.items()}
                ),
                edge_weight=None if weight is None else weight[those_edges],
                edge_columns=attributes and {k: v[those_edges] for k, v in attributes.items()},
                node_ids=None if joined.node_ids is None else joined.node_ids[nodes],
                graph_id=None if graph_ids is None else graph_ids[g],
                y=None if y is None else y[y_ptr[g] : y_ptr[g + 1]],
                name=f"{joined.name}, graph "
                + (f"{g} (from 0)" if graph_ids is None else repr(graph_ids[g])),
                directed=joined.directed,
                # They are about the file as a whole.
                notes=joined.notes if g == 0 else {},
            )
        )
    return pieces


def take_apart(graph: GraphData, *, name: str = "graph") -> list[RawGraph]:
    """The graphs of a `GraphData`, as they would come from a reader."""
    edge_index, weight, attributes = graph.edge_index, graph.edge_weight, graph.edge_columns
    if attributes is not None:
        # An edge with several rows of attributes is there several times, to be merged again.
        edge_index = edge_index[:, attributes.edge]
        weight = None if weight is None else weight[attributes.edge]
    joined = RawGraph(
        edge_index=edge_index,
        num_nodes=graph.num_nodes,
        x=graph.x,
        columns=graph.columns,
        edge_weight=weight,
        edge_columns=None if attributes is None else attributes.columns,
        node_ids=graph.node_ids,
        y=graph.y,
        name=name,
    )
    graph_ids = None if graph.graph_ids is None else graph.graph_ids.tolist()
    return cut_graphs(joined, ptr=graph.ptr.numpy(), graph_ids=graph_ids)


def _array(values: Any) -> Any:
    if values is None:
        return None
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _sliceable(x: Any) -> Any:
    """Features of which `x[a:b]` gives rows."""
    if isinstance(x, Tensor) and x.layout != torch.strided:
        coo = x.detach().cpu().to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        x = SparseMatrix.from_coo(
            coo.indices()[0], coo.indices()[1], coo.values(), (x.shape[0], x.shape[1])
        )
    if isinstance(x, SparseMatrix):
        return x.to_scipy()
    return x.tocsr() if hasattr(x, "tocsr") else x
