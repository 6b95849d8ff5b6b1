"""Training on sampled neighbourhoods
(GraphSAGE, `Hamilton et al. 2017 <https://arxiv.org/abs/1706.02216>`_).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, Prepare
from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces.degrees import find_degrees
from graphlatent.data.pieces.sampling import sample_neighbourhood
from graphlatent.data.pieces.source import PieceSource

# Seeds of a step's generator are below this.
_SEEDS = 2**62


class NeighborPieces(PieceSource):
    """Some seed nodes a step, with sampled neighbourhoods; every node is a seed once an epoch.

    Only seeds count: are masked, are part of the loss, and of the statistics of batch norm.

    Args:
        graph: by rows.
        nodes_per_step: seeds of a step, about: all steps have as many as possible alike.
        num_neighbors: neighbours that are sampled for a node; None takes all.
        num_layers: layers of the encoder, and so hops of the neighbourhood.
        prepare: as of `PieceSource`, like the arguments after it.
        device: where batches go.
        dtype: of the batches.
    """

    def __init__(
        self,
        graph: CSRGraph,
        *,
        nodes_per_step: int,
        num_neighbors: int | None,
        num_layers: int,
        prepare: Prepare,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(graph, prepare=prepare, device=device, dtype=dtype)
        self.num_neighbors, self.num_layers = num_neighbors, num_layers
        self.num_steps = max(1, math.ceil(graph.num_nodes / nodes_per_step))
        self.degrees = find_degrees(graph)

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, the seed of its sampling, and then its seed nodes in ascending order."""
        order = torch.randperm(self.graph.num_nodes, generator=generator)
        steps = torch.tensor_split(order, self.num_steps)
        numbers = torch.randint(_SEEDS, (len(steps),), generator=generator)
        return [
            torch.cat([number[None], torch.sort(nodes).values])
            for number, nodes in zip(numbers, steps, strict=True)
        ]

    def take(self, index: Tensor) -> Batch:
        """The sampled neighbourhood of the nodes `index[1:]`, drawn from the seed `index[0]`."""
        around = sample_neighbourhood(
            self.graph,
            index[1:],
            num_neighbors=self.num_neighbors,
            num_layers=self.num_layers,
            degrees=self.degrees,
            generator=torch.Generator().manual_seed(int(index[0])),
        )
        counts = None if bool(around.seed.all()) else around.seed
        return self.batch(around.nodes, around.edges, counts=counts)
