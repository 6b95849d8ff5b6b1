"""The subgraph induced by some of the nodes.

In inductive evaluation it is the part that training may see; the other nodes are kept for the test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.errors import InputError
from graphlatent.ops.sparse import take_rows


def induced_subgraph(graph: GraphData, nodes: Tensor) -> GraphData:
    """The chosen nodes and the edges among them; graphs that lose all their nodes are left out.

    Args:
        graph: one or more graphs.
        nodes: bool [N].

    Raises:
        InputError: where `nodes` is not one bool per node, or none is chosen.
    """
    if nodes.dtype != torch.bool or nodes.shape != (graph.num_nodes,):
        raise InputError(
            f"A subgraph needs one bool per node, shape ({graph.num_nodes},). Got {nodes.dtype} of"
            f" shape {tuple(nodes.shape)}."
        )
    if not bool(nodes.any()):
        raise InputError("A subgraph needs at least one node, and none is chosen.")
    kept = nodes.nonzero().squeeze(1)
    graph = graph.with_edges(nodes[graph.edge_index].all(0))
    number = torch.cumsum(nodes, 0) - 1
    sizes = torch.bincount(graph.graph_of_node[kept], minlength=graph.num_graphs)
    graphs = sizes > 0
    per_node = graph.y is not None and len(graph.y) == graph.num_nodes
    return replace(
        graph,
        edge_index=number[graph.edge_index],
        num_nodes=len(kept),
        ptr=torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(sizes[graphs], 0)]),
        x=None if graph.x is None else take_rows(graph.x, kept),
        columns=(
            None
            if graph.columns is None
            else {name: values[kept.numpy()] for name, values in graph.columns.items()}
        ),
        node_ids=_taken(graph.node_ids, kept),
        graph_ids=_taken(graph.graph_ids, graphs.nonzero().squeeze(1)),
        y=_taken(graph.y, kept if per_node else graphs.nonzero().squeeze(1)),
    )


def _taken(values: np.ndarray[Any, Any] | None, index: Tensor) -> np.ndarray[Any, Any] | None:
    return None if values is None else values[index.numpy()]
