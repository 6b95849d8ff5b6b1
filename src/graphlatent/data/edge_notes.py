"""What was done to edges when they were read, in sentences, from numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from graphlatent.data.edges import CleanEdges
from graphlatent.data.merging import MEANING, Merge

KEEP_DIRECTIONS = "symmetrize=False (on the command line --set symmetrize=false)"
"""How directions are kept where graphs are read."""


@dataclass(frozen=True)
class EdgeFacts:
    """Numbers about clean edges.

    Args:
        num_edges: directed edges, so an undirected edge counts twice.
        num_merged: edges that were there more than once, counted without the first.
        num_both_ways: edges that were there in both directions before any were added.
        num_listed_twice: as in `CleanEdges`.
        num_self_loops: self-loops among the edges.
        num_isolated: nodes without a neighbour.
        symmetrized: reverse edges, or their weights, were added.
        weighted: the edges have weights.
        came_weighted: they had before repeated ones were merged.
    """

    num_edges: int
    num_merged: int
    num_both_ways: int
    num_listed_twice: int
    num_self_loops: int
    num_isolated: int
    symmetrized: bool
    weighted: bool
    came_weighted: bool


def facts_of(clean: CleanEdges, *, num_nodes: int, came_weighted: bool) -> EdgeFacts:
    """The facts about edges in memory."""
    edge_index = clean.edge_index
    has_neighbour = torch.zeros(num_nodes, dtype=torch.bool)
    has_neighbour[edge_index[:, edge_index[0] != edge_index[1]].flatten()] = True
    return EdgeFacts(
        num_edges=int(edge_index.shape[1]),
        num_merged=clean.num_merged,
        num_both_ways=clean.num_both_ways,
        num_listed_twice=clean.num_listed_twice,
        num_self_loops=clean.num_self_loops,
        num_isolated=num_nodes - int(has_neighbour.sum()),
        symmetrized=clean.symmetrized,
        weighted=clean.edge_weight is not None,
        came_weighted=came_weighted,
    )


def notes_of_changes(
    facts: EdgeFacts, merge: Merge | None, *, keep_directions: str = KEEP_DIRECTIONS
) -> tuple[str, ...]:
    """What was done to the edges that changes embeddings, and how to have it otherwise.

    `keep_directions` is the option that keeps directions.
    """
    notes = []
    if facts.symmetrized:
        meaning = MEANING[merge or "max"]
        both = facts.num_both_ways and facts.weighted
        which = f"; where both directions are listed, {meaning}" if both else ""
        notes.append(f"Edges are read as undirected{which}. Keep directions: {keep_directions}.")
    if merge in ("sum", "count") and facts.num_listed_twice:
        notes.append(
            "Every edge is listed in both directions with the same weight"
            f" ({facts.num_listed_twice:,} undirected): merge='{merge}' does not add up the two."
        )
    if merge == "count" and facts.came_weighted:
        notes.append("Edge weights are not used: with merge='count' the weight is a number.")
    if merge is None and facts.num_merged and facts.came_weighted:
        notes.append(
            f"{_repeated(facts)}: {MEANING['max']}. To choose: merge='sum' (on the command line"
            " --merge sum), or mean, count, max."
        )
    return tuple(notes)


def notes_of_edges(facts: EdgeFacts, merge: Merge | None) -> tuple[str, ...]:
    """What is unusual about the edges."""
    notes = []
    if facts.num_merged and not facts.weighted:
        notes.append(f"{_repeated(facts)}: each counts once.")
    elif facts.num_merged and merge is not None:
        notes.append(f"{_repeated(facts)}: {MEANING[merge]}.")
    if facts.num_self_loops:
        notes.append(
            "1 node has an edge to itself."
            if facts.num_self_loops == 1
            else f"{facts.num_self_loops:,} nodes have an edge to themselves."
        )
    if facts.num_isolated and facts.num_edges:
        notes.append(
            "1 node has no neighbour; it is embedded from its own features."
            if facts.num_isolated == 1
            else f"{facts.num_isolated:,} nodes have no neighbour; they are embedded from their own"
            " features."
        )
    return tuple(notes)


def no_edges(num_graphs: int) -> str:
    """The warning about graphs without any edge."""
    what = (
        "The input has no edges"
        if num_graphs == 1
        else f"None of the {num_graphs} graphs has an edge"
    )
    return f"{what}: every node is embedded from its own features alone."


def _repeated(facts: EdgeFacts) -> str:
    if facts.num_merged == 1:
        return "1 repeated edge was merged"
    return f"{facts.num_merged:,} repeated edges were merged"
