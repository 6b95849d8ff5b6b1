"""Training on clusters of nodes, several joined for a step
(Cluster-GCN, `Chiang et al. 2019 <https://arxiv.org/abs/1905.07953>`_).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, Prepare, ranges
from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces.source import PieceSource


def num_parts(num_nodes: int, *, nodes_per_step: int, parts_per_step: int) -> int:
    """The number of parts of which `parts_per_step` have about `nodes_per_step` nodes together.

    It is 1 where a step has all nodes.
    """
    if nodes_per_step >= num_nodes:
        return 1
    return min(num_nodes, max(2, round(num_nodes * parts_per_step / nodes_per_step)))


class ClusterPieces(PieceSource):
    """Some random parts of a partition a step, with all edges between their nodes.

    Every part is in one step of an epoch. The adjacency is normalised by the degrees in the piece.

    Args:
        graph: by rows.
        parts: part of each node, int [N], from 0.
        parts_per_step: parts that are joined, about: steps of an epoch have as many as possible
            alike.
        prepare: as of `PieceSource`, like the arguments after it.
        device: where batches go.
        dtype: of the batches.
    """

    def __init__(
        self,
        graph: CSRGraph,
        parts: Tensor,
        *,
        parts_per_step: int,
        prepare: Prepare,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(graph, prepare=prepare, device=device, dtype=dtype)
        # Nodes part by part, ascending in each.
        self.order = torch.argsort(parts, stable=True)
        sizes = torch.bincount(parts)
        # A partition may leave a part empty.
        sizes = sizes[sizes > 0]
        self.ptr = torch.cat([sizes.new_zeros(1), torch.cumsum(sizes, 0)])
        self.num_steps = max(1, math.ceil(sizes.numel() / parts_per_step))

    def fingerprint(self) -> str:
        """A digest of which nodes are in which part."""
        digest = hashlib.blake2b(str(self.num_steps).encode(), digest_size=16)
        for values in (self.ptr, self.order):
            digest.update(values.numpy().data)
        return digest.hexdigest()

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """For each step, its parts."""
        order = torch.randperm(self.ptr.numel() - 1, generator=generator)
        return list(torch.tensor_split(order, self.num_steps))

    def take(self, index: Tensor) -> Batch:
        """The subgraph induced by the nodes of the parts `index`."""
        nodes = torch.sort(self.order[ranges(self.ptr[index], self.ptr[index + 1])]).values
        return self.batch(nodes, self.graph.induced(nodes))
