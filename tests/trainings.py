"""Small training runs on a CPU."""

from __future__ import annotations

import torch

from cases import make_method, random_graph
from graphlatent.data.batches import FullBatches, GraphBatches, full_batch
from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces import NodePieces
from graphlatent.training.loop import Training, seeded

CPU = torch.device("cpu")


def make_training(
    level="graph", batching="graphs", *, sizes=(4, 3, 5, 2, 6, 3, 4), graph=None, **values
):
    graph = graph or random_graph(list(sizes), seed=1)
    method = make_method(level, **{"epochs": 4, "lr": 0.01, "mask_ratio": 0.3, **values})
    seed = method.settings.random_state
    model = method.build(graph.x.shape[1], generator=seeded(seed, 0))
    if batching == "nodes":
        batches = NodePieces(
            CSRGraph.of(graph),
            nodes_per_step=10,
            steps_per_epoch=3,
            prepare=model.prepare,
            device=CPU,
            dtype=torch.float32,
        )
    else:
        batches = FullBatches(full_batch(graph, prepare=model.prepare, device=CPU))
        if batching == "graphs":
            batches = GraphBatches(batches.everything, graph.ptr, batch_size=3)
    return Training(method, model, method.begin(model, batches), device=CPU)
