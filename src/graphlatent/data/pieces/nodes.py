"""Training on random subsets of the nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, Prepare
from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces.source import PieceSource


class NodePieces(PieceSource):
    """A random subset of nodes and the subgraph it induces, each step (the paper's Table 3).

    The adjacency is normalised by the degrees in the subgraph.

    Args:
        graph: by rows.
        nodes_per_step: nodes drawn for a step.
        steps_per_epoch: steps that make an epoch.
        prepare: as of `PieceSource`, like the arguments after it.
        device: where batches go.
        dtype: of the batches.
    """

    # Steps are drawn independently of each other (sharing.py).
    independent = True

    def __init__(
        self,
        graph: CSRGraph,
        *,
        nodes_per_step: int,
        steps_per_epoch: int,
        prepare: Prepare,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(graph, prepare=prepare, device=device, dtype=dtype)
        self.nodes_per_step = min(nodes_per_step, graph.num_nodes)
        self.num_steps = steps_per_epoch

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, its nodes, drawn without replacement, in ascending order."""
        num_nodes = self.graph.num_nodes
        draws = (
            torch.randperm(num_nodes, generator=generator)[: self.nodes_per_step]
            for _ in range(self.num_steps)
        )
        return [torch.sort(d).values for d in draws]

    def take(self, index: Tensor) -> Batch:
        """The subgraph induced by the nodes `index` (ascending); its graphs stay apart."""
        return self.batch(index, self.graph.induced(index))
