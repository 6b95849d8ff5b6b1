"""Synthetic graphs whose communities overlap, with known members, to check community detection on.

The edges are those of the community-affiliation model (Yang and Leskovec, "Community-affiliation
graph model for overlapping network community detection", ICDM 2012): every community links its own
members, so nodes that share more communities are linked more densely. Legend: N nodes, K
communities, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.assemble import assemble
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.errors import bad_argument

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class OverlappingGraph:
    """One graph whose overlapping communities are known.

    Args:
        graph: the graph with features x [N, F] and the memberships as labels, y [N, K].
        members: which node is in which community, bool [N, K]; every node is in one or more.
    """

    graph: GraphData
    members: Array


def overlapping_graph(
    *,
    num_nodes: int = 600,
    num_communities: int = 6,
    overlap_ratio: float = 0.2,
    memberships: int = 2,
    feature_dim: int = 32,
    avg_degree: float = 12.0,
    mixing: float = 0.1,
    sigma: float = 1.0,
    seed: int = 0,
) -> OverlappingGraph:
    """A graph of communities that share nodes.

    - Members: communities have equal shares of the nodes. The share `overlap_ratio` of the nodes is
      in `memberships` communities, the further ones drawn at random, the other nodes in one.
    - Edges: of the expected N * avg_degree / 2, the share `mixing` is between any two nodes. The
      rest is inside communities, in each in proportion to its size, between random members: a node
      in two communities has about twice the neighbours inside.
    - Features: x = mean of its communities' centres + sigma * noise, both standard normal and
      independent in every entry.

    Args:
        num_nodes: N.
        num_communities: K.
        overlap_ratio: share of nodes in several communities, from 0 to 1.
        memberships: how many communities those nodes are in.
        feature_dim: F.
        avg_degree: expected number of neighbours of a node, before repeated edges are merged.
        mixing: share of edges that say nothing about communities, from 0 to 1.
        sigma: standard deviation of the noise in every entry of x.
        seed: the same seed gives the same graph.

    Raises:
        ConfigError: where an argument is out of range.
    """
    owner = "overlapping_graph"
    for name, value, least in (
        ("num_communities", num_communities, 1),
        ("num_nodes", num_nodes, num_communities),
        ("feature_dim", feature_dim, 1),
    ):
        if value < least:
            raise bad_argument(name, owner=owner, allowed=f"an int of at least {least}", got=value)
    if not 1 <= memberships <= num_communities:
        raise bad_argument(
            "memberships",
            owner=owner,
            allowed=f"an int from 1 to num_communities={num_communities}",
            got=memberships,
        )
    for name, ratio in (("overlap_ratio", overlap_ratio), ("mixing", mixing)):
        if not 0 <= ratio <= 1:
            raise bad_argument(
                name, owner=owner, allowed="a float in the range [0.0, 1.0]", got=ratio
            )
    for name, size in (("avg_degree", avg_degree), ("sigma", sigma)):
        if not 0 <= size < float("inf"):
            raise bad_argument(
                name, owner=owner, allowed="a float in the range [0.0, inf)", got=size
            )
    generator = torch.Generator().manual_seed(seed)
    members = _members(
        num_nodes,
        num_communities,
        round(overlap_ratio * num_nodes),
        memberships,
        generator=generator,
    )
    edges = _edges(members, avg_degree=avg_degree, mixing=mixing, generator=generator)
    centres = torch.randn(num_communities, feature_dim, generator=generator)
    share = members.float() / members.sum(1, keepdim=True)
    x = share @ centres + sigma * torch.randn(num_nodes, feature_dim, generator=generator)
    graph = assemble(
        [RawGraph(edges, num_nodes, x=x, y=members.long(), name=owner, directed=False)]
    )
    return OverlappingGraph(graph=graph, members=members.numpy())


def _members(
    num_nodes: int,
    num_communities: int,
    num_shared: int,
    memberships: int,
    *,
    generator: torch.Generator,
) -> Tensor:
    """Memberships of nodes in communities, bool [N, K].

    Every node has a first community, and random nodes have further ones in random order.
    """
    first = torch.randperm(num_nodes, generator=generator) % num_communities
    order = torch.rand(num_nodes, num_communities, generator=generator)
    # The first community is always kept.
    order[torch.arange(num_nodes), first] = -1.0
    rank = order.argsort(1).argsort(1)
    count = torch.ones(num_nodes, dtype=torch.int64)
    count[torch.randperm(num_nodes, generator=generator)[:num_shared]] = memberships
    return rank < count[:, None]


def _edges(
    members: Tensor, *, avg_degree: float, mixing: float, generator: torch.Generator
) -> Tensor:
    """Edges in one direction [2, E], without self-loops; some may be there twice."""
    num_nodes, num_communities = members.shape
    expected = (
        torch.tensor([(1 - mixing), mixing], dtype=torch.float64) * num_nodes * avg_degree / 2
    )
    num_inside, num_anywhere = torch.poisson(expected, generator=generator).long().tolist()
    # Sorted by community.
    community, node = members.T.nonzero(as_tuple=True)
    size = torch.bincount(community, minlength=num_communities)
    start = torch.cumsum(size, 0) - size
    # A membership: large communities are picked more often.
    pick = torch.randint(len(node), (num_inside,), generator=generator)
    of = community[pick]
    partner = (
        start[of]
        + (torch.rand(num_inside, generator=generator, dtype=torch.float64) * size[of]).long()
    )
    inside = torch.stack([node[pick], node[partner]])
    edges = torch.cat(
        [inside, torch.randint(num_nodes, (2, num_anywhere), generator=generator)], dim=1
    )
    return edges[:, edges[0] != edges[1]]
