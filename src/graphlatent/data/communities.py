"""Whether the edges of a graph say where other edges are, tested on edges that are held out.

Coordinates computed from edges are worth having only if they do: those of a random graph are noise.
Legend: N nodes, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from weakref import WeakKeyDictionary

import torch
from scipy.stats import rankdata
from torch import Tensor

from graphlatent.data.graph import GraphData
from graphlatent.data.structure import structure_coordinates

LEAST_AUC = 0.52
"""A smaller area under the curve counts as that of a random graph."""
_TEST_DIM = 32
# Edges that are held out in all, in up to this many parts, each with coordinates of its own.
_WANTED_EDGES, _PARTS = 50_000, 5
# Edges per node, and share of all pairs that are edges, between which a low area is conclusive.
_LEAST_EDGES, _LARGEST_DENSITY = 1.5, 0.1


@dataclass(frozen=True)
class EdgePrediction:
    """How well edges that are held out are told from other pairs of nodes.

    Args:
        auc: area under the curve, 1/2 for a random graph.
        deviation: its standard deviation for a random graph; infinite without edges to test.
        conclusive: whether a low area says that the edges are random. It does not where removing
            an edge disconnects its ends, as in trees and rings, in dense graphs, and where weights
            may say what edges do not.
    """

    auc: float
    deviation: float
    conclusive: bool = True

    @property
    def succeeds(self) -> bool:
        """Whether edges are predictable, with three standard deviations."""
        return self.auc > max(LEAST_AUC, 0.5 + 3 * self.deviation)

    @property
    def fails(self) -> bool:
        """Whether edges are known not to be predictable, with two standard deviations."""
        return self.conclusive and self.auc + 2 * self.deviation < LEAST_AUC


# The test is a property of the graph, and asked for more than once.
_TESTED: WeakKeyDictionary[GraphData, EdgePrediction] = WeakKeyDictionary()


def edge_prediction(graph: GraphData) -> EdgePrediction:
    """How well the edges of a graph are predictable from each other.

    The edges are divided into five parts. Coordinates of the rest are to tell the edges of a part
    from pairs of their endpoints drawn anew, so that degrees alone say nothing. Where there are
    many edges, one part is enough.

    Args:
        graph: its edges are taken as undirected, and without weights.
    """
    if graph not in _TESTED:
        _TESTED[graph] = _test(graph)
    return _TESTED[graph]


def _test(graph: GraphData) -> EdgePrediction:
    generator = torch.Generator().manual_seed(0)
    source, target = graph.edge_index
    kept, conclusive = source != target, True
    if graph.edge_weight is not None:
        kept &= graph.edge_weight != 0
        values_of = graph.edge_weight[kept]
        conclusive = bool((values_of == values_of[:1]).all())
    source, target, size = source[kept], target[kept], graph.num_nodes
    # As one number each: unique columns take many times the memory and time.
    key = torch.unique(torch.minimum(source, target) * size + torch.maximum(source, target))
    pairs = torch.stack([key // size, key % size])
    num_edges = pairs.shape[1]
    per_node = num_edges / graph.num_nodes
    conclusive &= _LEAST_EDGES <= per_node <= _LARGEST_DENSITY * graph.num_nodes / 2
    if num_edges < _PARTS:
        return EdgePrediction(0.5, inf)
    parts = torch.tensor_split(torch.randperm(num_edges, generator=generator), _PARTS)
    values: list[tuple[float, int]] = []
    count = 0
    for held in parts:
        if count < _WANTED_EDGES:
            values.append((_held_out_auc(graph, pairs, held, generator), len(held)))
            count += len(held)
    auc = sum(value * size for value, size in values) / count
    # Of the rank sum with as many edges as pairs, where both have the same distribution.
    return EdgePrediction(auc, (1 / (6 * count)) ** 0.5, conclusive)


def _held_out_auc(
    graph: GraphData, pairs: Tensor, held: Tensor, generator: torch.Generator
) -> float:
    """The area under the curve of the cosine for edges that coordinates were computed without."""
    kept = torch.ones(pairs.shape[1], dtype=torch.bool)
    kept[held] = False
    both = torch.cat([pairs[:, kept], pairs[:, kept].flip(0)], dim=1)
    order = torch.argsort(both[0] * graph.num_nodes + both[1])
    rest = replace(
        graph.without_features().without_edge_features(),
        edge_index=both[:, order],
        edge_weight=None,
        undirected=True,
    )
    rows = structure_coordinates(rest, dim=_TEST_DIM, generator=generator)
    first, second = pairs[:, held]
    other = second[torch.randperm(len(held), generator=generator)]
    # Pairs drawn anew may be edges, or a node and itself: they are no pairs without an edge.
    drawn = torch.minimum(first, other) * graph.num_nodes + torch.maximum(first, other)
    apart = (first != other) & ~torch.isin(drawn, pairs[0] * graph.num_nodes + pairs[1])
    size, num_apart = len(held), int(apart.sum())
    if not num_apart:
        return 0.5
    scores = [(rows[first] * rows[second]).sum(1), (rows[first] * rows[other]).sum(1)[apart]]
    ranks = rankdata(torch.cat(scores).numpy())[:size]
    return float((ranks.sum() - size * (size + 1) / 2) / (size * num_apart))
