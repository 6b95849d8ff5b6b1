"""All of a graph by rows as one batch, where it fits into memory."""

from __future__ import annotations

import torch

from graphlatent.data.batches import Batch, Prepare
from graphlatent.data.csr import CSRGraph
from graphlatent.data.memory_limit import require_memory

# Edges as int64, their matrix, and what it is made of.
_EDGE_BYTES = 64


def whole_batch(
    graph: CSRGraph,
    *,
    prepare: Prepare,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Batch:
    """The whole graph as one batch, equal to `full_batch` of a graph in memory.

    Raises:
        InputError: where it would take more memory than reading may; the message has both figures.
    """
    num_nodes, width = graph.shape
    needed = 4 * num_nodes * width + _EDGE_BYTES * (graph.num_edges + num_nodes)
    require_memory(needed, what=f"The whole graph, {num_nodes:,} nodes, as one batch,")
    nodes = torch.arange(num_nodes)
    graph_id = torch.zeros_like(nodes) if graph.graph_id is None else graph.graph_id
    coordinates = graph.coordinates
    return Batch(
        graph.x.take(nodes).to(device=device, dtype=dtype),
        prepare(graph.induced(nodes)).to(device, dtype),
        graph_id.to(device),
        1 if graph.graph_id is None else int(graph_id[-1]) + 1,
        nodes.to(device),
        coordinates=None if coordinates is None else coordinates.to(device, dtype),
    )
