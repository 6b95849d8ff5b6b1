"""Synthetic graphs whose latent features are known, so that a prediction of them can be measured.

The paper (section 2.2) takes the observed features X to be a noisy view of latent features F on the
same edges, with independent rows and E[X | F] = F. Real data never show F. These generators draw F
first and add the noise themselves, so that a prediction of F can be measured, and so that tests and
demos need no download. They are not modelled on any method: the classes are visible in F, half
hidden in X, and the edges carry information of their own. Legend: N nodes, F features, B graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.assemble import assemble
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.errors import ConfigError, bad_argument

Array: TypeAlias = np.ndarray[Any, Any]
# Width of the code from which the latent features of a node of `latent_graph` are computed.
_CODE_DIM = 8


@dataclass(frozen=True, eq=False)
class LatentGraph:
    """One graph whose latent features are known.

    Args:
        graph: the graph with the observed features, x [N, F], and the communities as labels, y [N].
        latent: the latent features F, float32 [N, F]; the mean square of their entries is 1.
        sigma: standard deviation of the noise in every entry of x.
        labels: community of each node, int64 [N].
    """

    graph: GraphData
    latent: Tensor
    sigma: float
    labels: Array


@dataclass(frozen=True, eq=False)
class LatentGraphSet:
    """Many small graphs whose latent features are known.

    Args:
        graph: the graphs with the observed features, x [N, F], and the families as labels, y [B].
        latent: the latent features F, float32 [N, F]; the mean square of their entries is 1.
        sigma: standard deviation of the noise in every entry of x.
        labels: family of each graph, int64 [B]: its place in `FAMILIES`.
    """

    graph: GraphData
    latent: Tensor
    sigma: float
    labels: Array


def latent_graph(
    *,
    num_nodes: int = 1500,
    num_classes: int = 5,
    feature_dim: int = 64,
    avg_degree: float = 8.0,
    homophily: float = 0.7,
    sigma: float = 1.5,
    seed: int = 0,
) -> LatentGraph:
    """A graph of communities with noisy features, its latent features and its communities.

    - Edges: a stochastic block model with communities of equal size. Of a node's expected
      `avg_degree` neighbours, the share `homophily` is in its own community and the rest anywhere
      else.
    - Latent features: each node has a code of 8 numbers, its community's centre plus a signal of
      its own that varies smoothly along the edges. F is a fixed random network of the codes,
      tanh(code W1 + b) W2, scaled to mean square 1.
    - Observed features: X = F + sigma * noise, the noise standard normal and independent in every
      entry.

    Args:
        num_nodes: N.
        num_classes: number of communities.
        feature_dim: F.
        avg_degree: expected number of neighbours of a node, before repeated edges are merged.
        homophily: share of edges inside a community, from 0 to 1; 1 / num_classes makes the edges
            uninformative.
        sigma: standard deviation of the noise; 0 shows F as it is.
        seed: the same seed gives the same graph.

    Raises:
        ConfigError: where an argument is out of range.
    """
    owner = "latent_graph"
    _check_least("num_classes", num_classes, owner=owner, least=1)
    _check_least("num_nodes", num_nodes, owner=owner, least=num_classes)
    _check_least("feature_dim", feature_dim, owner=owner, least=1)
    _check_float("avg_degree", avg_degree, owner=owner)
    _check_float("sigma", sigma, owner=owner)
    _check_float("homophily", homophily, owner=owner, most=1.0)
    if num_classes == 1 and homophily < 1:
        raise ConfigError(
            "latent_graph with num_classes=1 needs homophily=1.0: there is no other community to"
            " have neighbours in."
        )
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randperm(num_nodes, generator=generator) % num_classes
    edge_index = _block_model(
        labels,
        num_classes=num_classes,
        avg_degree=avg_degree,
        homophily=homophily,
        generator=generator,
    )
    centres = torch.randn(num_classes, _CODE_DIM, generator=generator)
    codes = centres[labels] + _smooth_signal(edge_index, num_nodes, _CODE_DIM, generator=generator)
    latent = _unit_power(_random_network(codes, feature_dim, generator=generator))
    x = latent + sigma * torch.randn(latent.shape, generator=generator)
    graph = assemble([RawGraph(edge_index, num_nodes, x=x, y=labels, name="latent_graph")])
    return LatentGraph(graph=graph, latent=latent, sigma=sigma, labels=labels.numpy())


def _block_model(
    labels: Tensor,
    *,
    num_classes: int,
    avg_degree: float,
    homophily: float,
    generator: torch.Generator,
) -> Tensor:
    """Edges of a stochastic block model in both directions, [2, E], without touching the N^2 pairs.

    In its Poisson form: the number of edges is drawn, then the two ends of each; repetitions and
    self-loops are dropped.
    """
    num_nodes = labels.numel()
    # Sorted by class.
    members = torch.argsort(labels, stable=True)
    size = torch.bincount(labels, minlength=num_classes)
    start = torch.cumsum(size, 0) - size
    num_edges = int(
        torch.poisson(
            torch.tensor(num_nodes * avg_degree / 2, dtype=torch.float64), generator=generator
        )
    )
    source = torch.randint(num_nodes, (num_edges,), generator=generator)
    own_size, own_start = size[labels[source]], start[labels[source]]
    place = torch.rand(num_edges, generator=generator, dtype=torch.float64)
    inside = torch.rand(num_edges, generator=generator) < homophily
    within = own_start + (place * own_size).long()
    # A place among the others: skip the source's own class.
    outside = (place * (num_nodes - own_size)).long()
    outside = outside + torch.where(outside >= own_start, own_size, 0)
    target = members[torch.where(inside, within, outside)]
    return _both_directions(source, target, num_nodes)


def latent_graph_set(
    *,
    num_graphs: int = 300,
    num_classes: int = 3,
    min_nodes: int = 10,
    max_nodes: int = 40,
    feature_dim: int = 16,
    rewire_ratio: float = 0.1,
    sigma: float = 0.5,
    seed: int = 0,
) -> LatentGraphSet:
    """Small graphs of a few families that differ in topology, hardly in their features.

    - Edges: 2 N - 3 in every graph, so that their number says nothing. "ring": nodes on a circle,
      linked to the next and the next but one; "hubs": each node joins two earlier ones with a
      chance proportional to their degree; "blocks": two halves with nine of ten edges inside;
      "random": any pair. The share `rewire_ratio` of the edges is then replaced by random ones.
    - Latent features: each node has a role, its rank by degree within its graph, and a position,
      two signals that vary smoothly along the edges. F is one random network of both for all
      graphs, scaled to mean square 1. Ranks are spread alike in all graphs: the sum of F over a
      graph says little about its family; which node is linked to which says more.
    - Observed features: X = F + sigma * noise, the noise standard normal and independent in every
      entry.

    Args:
        num_graphs: B; the families take turns, so they are equally frequent.
        num_classes: how many of `FAMILIES` to use, the first ones.
        min_nodes: smallest graph; sizes are uniform and independent of the family.
        max_nodes: largest graph.
        feature_dim: F.
        rewire_ratio: share of edges replaced by random ones, from 0 to 1; 1 leaves no difference
            between the families.
        sigma: standard deviation of the noise; 0 shows F as it is.
        seed: the same seed gives the same graphs.

    Raises:
        ConfigError: where an argument is out of range.
    """
    owner = "latent_graph_set"
    _check_least("num_graphs", num_graphs, owner=owner, least=1)
    if not 1 <= num_classes <= len(FAMILIES):
        raise bad_argument(
            "num_classes", owner=owner, allowed=f"an int from 1 to {len(FAMILIES)}", got=num_classes
        )
    _check_least("min_nodes", min_nodes, owner=owner, least=6)
    _check_least("max_nodes", max_nodes, owner=owner, least=min_nodes)
    _check_least("feature_dim", feature_dim, owner=owner, least=1)
    _check_float("rewire_ratio", rewire_ratio, owner=owner, most=1.0)
    _check_float("sigma", sigma, owner=owner)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randperm(num_graphs, generator=generator) % num_classes
    sizes = torch.randint(min_nodes, max_nodes + 1, (num_graphs,), generator=generator)
    families = list(FAMILIES.values())
    edges, codes = [], []
    for label, size in zip(labels.tolist(), sizes.tolist(), strict=True):
        edges.append(
            _rewired(
                families[label](size, generator), size, ratio=rewire_ratio, generator=generator
            )
        )
        position = _smooth_signal(edges[-1], size, 2, generator=generator)
        codes.append(torch.cat([_degree_rank(edges[-1], size)[:, None], position], dim=1))
    latent = _unit_power(_random_network(torch.cat(codes), feature_dim, generator=generator))
    x = latent + sigma * torch.randn(latent.shape, generator=generator)
    parts = zip(edges, torch.split(x, sizes.tolist()), labels, strict=True)
    graph = assemble(
        [
            RawGraph(e, len(part), x=part, y=y, name=f"graph {i}")
            for i, (e, part, y) in enumerate(parts)
        ]
    )
    return LatentGraphSet(graph=graph, latent=latent, sigma=sigma, labels=labels.numpy())


def _ring(num_nodes: int, generator: torch.Generator) -> Tensor:
    """Pairs of nodes, [E, 2]: the next on the circle, and the next but one."""
    node = torch.arange(num_nodes)
    return torch.cat([torch.stack([node, (node + hop) % num_nodes], dim=1) for hop in (1, 2)])


def _hubs(num_nodes: int, generator: torch.Generator) -> Tensor:
    """Edges of a graph grown by preferential attachment.

    A uniform draw from the endpoints of all pairs so far is a draw proportional to degree.
    """
    ends = [0, 1]
    for node in range(2, num_nodes):
        picks = torch.randint(len(ends), (2,), generator=generator).tolist()
        for other in [ends[i] for i in picks]:
            ends += [node, other]
    return torch.tensor(ends).reshape(-1, 2)


def _blocks(num_nodes: int, generator: torch.Generator) -> Tensor:
    """For each node two others: with 9 chances in 10 from its own half."""
    node, half = torch.arange(num_nodes).repeat(2), num_nodes // 2
    in_first = (node < half) == (torch.rand(node.shape, generator=generator) < 0.9)
    place = torch.rand(node.shape, generator=generator)
    return torch.stack(
        [
            node,
            torch.where(
                in_first, (place * half).long(), half + (place * (num_nodes - half)).long()
            ),
        ],
        dim=1,
    )


def _random(num_nodes: int, generator: torch.Generator) -> Tensor:
    """For each node two others, any."""
    node = torch.arange(num_nodes).repeat(2)
    return torch.stack([node, torch.randint(num_nodes, node.shape, generator=generator)], dim=1)


FAMILIES: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "ring": _ring,
    "hubs": _hubs,
    "blocks": _blocks,
    "random": _random,
}


def _rewired(pairs: Tensor, num_nodes: int, *, ratio: float, generator: torch.Generator) -> Tensor:
    """2 N - 3 different edges in both directions, [2, 2 (2 N - 3)].

    A share of the given pairs is kept; random pairs make up the rest.
    """
    num_edges = 2 * num_nodes - 3
    pairs = pairs[torch.randperm(len(pairs), generator=generator)]
    kept = pairs[torch.rand(len(pairs), generator=generator) >= ratio]
    # A dict is a set that keeps its order.
    chosen: dict[tuple[int, int], None] = {}
    while len(chosen) < num_edges:
        for low, high in torch.sort(kept, dim=1).values.tolist():
            if low != high and len(chosen) < num_edges:
                chosen[low, high] = None
        kept = torch.randint(num_nodes, (num_edges, 2), generator=generator)
    source, target = torch.tensor(sorted(chosen)).T
    return _both_directions(source, target, num_nodes)


def _both_directions(source: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Every edge once in each direction, [2, E], without self-loops."""
    key = torch.unique(torch.minimum(source, target) * num_nodes + torch.maximum(source, target))
    key = key[key // num_nodes != key % num_nodes]
    low, high = key // num_nodes, key % num_nodes
    return torch.stack([torch.cat([low, high]), torch.cat([high, low])])


def _smooth_signal(
    edge_index: Tensor, num_nodes: int, dim: int, *, generator: torch.Generator
) -> Tensor:
    """White noise smoothed over the edges and standardised by column, [N, dim].

    It is averaged twice over each node and its neighbours.
    """
    signal = torch.randn(num_nodes, dim, generator=generator)
    source, target = edge_index
    size = 1 + torch.bincount(target, minlength=num_nodes)[:, None]
    for _ in range(2):
        signal = signal.index_add(0, target, signal[source]) / size
    return (signal - signal.mean(0)) / signal.std(0, correction=0).clamp(min=1e-6)


def _degree_rank(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The rank of each node by degree, spread evenly from -1 to 1, [N]; ties by number."""
    order = torch.argsort(torch.bincount(edge_index[0], minlength=num_nodes), stable=True)
    rank = torch.empty(num_nodes)
    rank[order] = torch.linspace(-1, 1, num_nodes)
    return rank


def _random_network(codes: Tensor, feature_dim: int, *, generator: torch.Generator) -> Tensor:
    """tanh(codes W1 + b) W2 with standard normal parameters, [N, F]."""
    hidden_dim = 4 * codes.shape[1]
    first = torch.randn(codes.shape[1], hidden_dim, generator=generator) / codes.shape[1] ** 0.5
    bias = torch.randn(hidden_dim, generator=generator)
    second = torch.randn(hidden_dim, feature_dim, generator=generator)
    return torch.tanh(codes @ first + bias) @ second


def _unit_power(x: Tensor) -> Tensor:
    return x / x.square().mean().sqrt()


def _check_least(name: str, value: int, *, owner: str, least: int) -> None:
    if value < least:
        raise bad_argument(name, owner=owner, allowed=f"an int of at least {least}", got=value)


def _check_float(name: str, value: float, *, owner: str, most: float = float("inf")) -> None:
    if not 0 <= value <= most or value == float("inf"):
        interval = "[0.0, inf)" if most == float("inf") else f"[0.0, {most}]"
        raise bad_argument(name, owner=owner, allowed=f"a float in the range {interval}", got=value)
