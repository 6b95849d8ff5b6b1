"""What sources of pieces have in common: from nodes and their edges to the batch of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, EdgeList, Prepare, VariableShapeSource
from graphlatent.data.csr import CSRGraph


class PieceSource(VariableShapeSource, ABC):
    """A source that cuts the batch of every step out of one graph.

    A batch depends on the plan alone, which holds all randomness, so that steps can be cut ahead of
    time, in another thread.

    Args:
        graph: by rows, on the CPU, in memory or memory-mapped.
        prepare: makes the structure that the encoder propagates with.
        device: where batches go.
        dtype: of the batches' features and weights.
    """

    num_steps: int
    """Steps in an epoch."""
    steps_of_shares: int = 0
    """Where processes have shards: the steps in an epoch of the process with the most."""

    def __init__(
        self,
        graph: CSRGraph,
        *,
        prepare: Prepare,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.graph, self.prepare, self.device, self.dtype = graph, prepare, device, dtype

    def fingerprint(self) -> str:
        """What the steps of a plan depend on beside its generator and the graph."""
        return str(self.num_steps)

    @abstractmethod
    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The steps of one epoch; for each, what `take` cuts."""

    @abstractmethod
    def take(self, index: Tensor) -> Batch:
        """The batch of one step of a plan."""

    def batch(self, nodes: Tensor, edges: EdgeList, *, counts: Tensor | None = None) -> Batch:
        """The batch of some nodes and edges.

        Args:
            nodes: int64 [n], ascending.
            edges: numbered by position in `nodes`.
            counts: rows that count, bool [n]; None means all.
        """
        device, graph_id = self.device, self.graph.graph_id
        if graph_id is None:
            number, num_graphs = torch.zeros_like(nodes), 1
        else:
            present, number = torch.unique(graph_id[nodes], return_inverse=True)
            num_graphs = present.numel()
        return Batch(
            self.graph.x.take(nodes).to(device=device, dtype=self.dtype),
            self.prepare(edges).to(device, self.dtype),
            number.to(device),
            num_graphs,
            nodes.to(device),
            None if counts is None else counts.to(device),
        )
