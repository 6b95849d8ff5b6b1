"""Samples of a graph's rows, from which numbers about all of it are estimated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.data.batches import EdgeList
from graphlatent.data.csr import CSRGraph
from graphlatent.data.pieces.degrees import Degrees, find_degrees
from graphlatent.data.pieces.sampling import sample_neighbourhood
from graphlatent.ops.sparse import SparseMatrix

WHOLE_NODES, WHOLE_EDGES = 50_000, 4_000_000
"""A graph of at most so many nodes and edges is its own sample."""
_SEEDS, _NEIGHBORS = 4_000, 20
# Features of the sampled nodes, at most about this many numbers.
_FEATURES = 1 << 26
_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class SimilaritySample:
    """Some nodes with some of their neighbours.

    Args:
        x: features of both [n, F].
        edges: from the neighbours to those nodes.
        degree: mean number of neighbours in the whole graph; None where that is all here.
    """

    x: Tensor | SparseMatrix
    edges: EdgeList
    degree: float | None = None


def similarity_sample(
    graph: CSRGraph, *, generator: torch.Generator, degrees: Degrees | None = None
) -> SimilaritySample:
    """The sample from which the similarity of neighbours is estimated; all of a small graph.

    Args:
        graph: by rows.
        generator: of the sample, on the CPU; nothing is drawn for a small graph.
        degrees: of the graph, where they are known.
    """
    size, width = graph.shape
    if size <= WHOLE_NODES and graph.num_edges <= WHOLE_EDGES:
        nodes = torch.arange(size)
        return SimilaritySample(graph.x.take(nodes), graph.induced(nodes))
    degrees = degrees or find_degrees(graph)
    num_loops = 0 if degrees.loop is None else int((degrees.loop >= 0).sum())
    count = min(_SEEDS, size, max(200, _FEATURES // max(width * (_NEIGHBORS + 1), 1)))
    seeds = torch.unique(torch.randint(size, (count,), generator=generator))
    around = sample_neighbourhood(
        graph,
        seeds,
        num_neighbors=_NEIGHBORS,
        num_layers=1,
        degrees=degrees,
        generator=generator,
    )
    return SimilaritySample(
        graph.x.take(around.nodes), around.edges, (graph.num_edges - num_loops) / size
    )


def sampled_rows(graph: CSRGraph) -> Tensor | SparseMatrix:
    """The features of evenly spaced nodes, or of all of a small graph."""
    size, width = graph.shape
    count = min(size, _ROWS, max(1000, _FEATURES // max(width, 1)))
    return graph.x.take(torch.linspace(0, size - 1, count, dtype=torch.float64).to(torch.int64))
