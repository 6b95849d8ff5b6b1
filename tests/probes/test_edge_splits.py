"""Edges held out for link prediction: they are removed before training, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import random_graph
from graphlatent.data.assemble import assemble
from graphlatent.data.edges import is_symmetric
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.edge_splits import LinkPairs, hold_out_edges, sample_pairs
from graphlatent.probes.pair_index import BipartitePairIndex, PairIndex


def complete_but(size: int, *missing: tuple[int, int]) -> GraphData:
    """All pairs of nodes linked, but for some."""
    pairs = [p for p in combinations(range(size), 2) if p not in missing]
    return assemble([RawGraph(np.array(pairs).T, size, directed=False)])


def as_pairs(graph: GraphData) -> set[tuple[int, int]]:
    return {(min(s, t), max(s, t)) for s, t in graph.edge_index.T.tolist() if s != t}


def parts(pairs: LinkPairs) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    edges, others = (
        list(map(tuple, pairs.nodes[pairs.is_edge == kind].tolist())) for kind in (True, False)
    )
    return edges, others


def test_the_only_pairs_without_an_edge_are_found():
    split = hold_out_edges(complete_but(5, (0, 3), (2, 4)))
    (val_edge,), (val_other,) = parts(split.val)
    (test_edge,), (test_other,) = parts(split.test)
    assert {val_other, test_other} == {(0, 3), (2, 4)}
    assert as_pairs(split.graph) == set(combinations(range(5), 2)) - {
        (0, 3),
        (2, 4),
        val_edge,
        test_edge,
    }
    assert split.graph.num_edges == 2 * 6
    assert split.graph.notes[-1] == "2 edges were held out for link prediction."


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.integers(0, 500),
    st.booleans(),
    st.booleans(),
)
def test_nothing_held_out_is_left_and_nothing_else_is_gone(sizes, seed, weighted, directed):
    graph = random_graph([9, *sizes], seed=seed, weighted=weighted, density=0.3)
    if directed:  # some edges in one direction only
        kept = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed)) < 0.6
        weight = graph.edge_weight[kept] if weighted else None
        graph = replace(
            graph, edge_index=graph.edge_index[:, kept], edge_weight=weight, undirected=False
        )
    if len(as_pairs(graph)) < 3:
        return
    split = hold_out_edges(graph, val_ratio=0.1, test_ratio=0.2, seed=seed)
    (val, val_others), (test, test_others) = parts(split.val), parts(split.test)
    whole, left = as_pairs(graph), as_pairs(split.graph)
    held_out, others = val + test, val_others + test_others
    assert (len(val), len(test)) == (
        max(1, round(0.1 * len(whole))),
        max(1, round(0.2 * len(whole))),
    )
    assert len(val) == len(val_others) and len(test) == len(test_others)
    assert len(set(held_out)) == len(held_out) and len(set(others)) == len(others)
    assert left == whole - set(held_out) and set(held_out) <= whole
    assert not set(others) & whole and all(low < high for low, high in held_out + others)
    owner = graph.graph_of_node.numpy()
    # One for one, in the same graph
    assert [(owner[a], owner[a]) for a, _ in held_out] == [(owner[a], owner[b]) for a, b in others]
    gone = {tuple(p) for p in held_out} | {(b, a) for a, b in held_out}
    remains = [
        (tuple(e), i) for i, e in enumerate(graph.edge_index.T.tolist()) if tuple(e) not in gone
    ]
    # Self-loops too, in the same order
    assert split.graph.edge_index.T.tolist() == [list(e) for e, _ in remains]
    if weighted:
        assert split.graph.edge_weight.tolist() == [float(graph.edge_weight[i]) for _, i in remains]
    if not directed:
        assert is_symmetric(
            split.graph.edge_index, split.graph.edge_weight, num_nodes=graph.num_nodes
        )


def test_pairs_without_an_edge_are_drawn_evenly():
    graph = complete_but(5, (0, 1), (0, 2), (1, 4), (3, 4))
    drawn = [
        pair
        for seed in range(200)
        for part in ("val", "test")
        for pair in parts(getattr(hold_out_edges(graph, seed=seed), part))[1]
    ]
    counts = [drawn.count(pair) for pair in [(0, 1), (0, 2), (1, 4), (3, 4)]]
    assert sum(counts) == 400
    # 100 each, with a standard deviation of 9
    assert min(counts) > 60 and max(counts) < 140


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=4), st.integers(0, 1000))
def test_pairs_have_one_number_each(sizes, seed):
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    index = PairIndex.of(
        GraphData(torch.zeros(2, 0, dtype=torch.int64), int(ptr[-1]), torch.from_numpy(ptr))
    )
    numbers = (
        rng.integers(0, max(int(index.first_pair[-1]), 1), size=20)
        if index.first_pair[-1]
        else np.zeros(0, dtype=np.int64)
    )
    nodes = index.nodes(numbers)
    np.testing.assert_array_equal(index.numbers(nodes.T), numbers)
    np.testing.assert_array_equal(index.numbers(nodes[:, ::-1].T), numbers)
    assert (nodes[:, 0] < nodes[:, 1]).all()
    np.testing.assert_array_equal(
        np.searchsorted(ptr, nodes[:, 0], "right"), np.searchsorted(ptr, nodes[:, 1], "right")
    )


def test_numbers_of_pairs_survive_rounding():
    size = 3_000_000_000  # 4.5e18 pairs: as float64 they are rounded
    index = PairIndex(
        np.array([0, size]), np.array([0, size * (size - 1) // 2]), np.zeros(0, dtype=np.int64)
    )
    high = size - np.arange(1, 2000)
    first = high * (high - 1) // 2
    np.testing.assert_array_equal(index.nodes(first), np.stack([np.zeros_like(high), high], axis=1))
    np.testing.assert_array_equal(index.nodes(first - 1), np.stack([high - 2, high - 1], axis=1))


def test_a_graph_gives_up_no_more_edges_than_it_has_other_pairs():
    dense = RawGraph(
        np.array([p for p in combinations(range(6), 2) if p != (1, 4)]).T, 6, directed=False
    )
    path = RawGraph(np.array([np.arange(9), np.arange(1, 10)]), 10, directed=False)
    # 5 + 5 of 23 edges
    split = hold_out_edges(assemble([dense, path]), val_ratio=0.2, test_ratio=0.2)
    held_out = parts(split.val)[0] + parts(split.test)[0]
    assert sorted(low >= 6 for low, _ in held_out) == [False] + [True] * 9  # all that is possible
    assert (1, 4) in parts(split.val)[1] + parts(split.test)[1]


def test_seeds_and_the_input():
    graph = random_graph([30], density=0.2)
    before = graph.fingerprint()
    first, again, other = (hold_out_edges(graph, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.test.nodes, again.test.nodes)
    assert first.graph.fingerprint() == again.graph.fingerprint() != other.graph.fingerprint()
    assert graph.fingerprint() == before
    assert first.graph.x is graph.x


@pytest.mark.parametrize(
    ("graph", "arguments", "kind", "message"),
    [
        (
            complete_but(5),
            {},
            InputError,
            (
                "There are too few pairs of nodes without an edge: 2 are needed, each in the graph"
                " of a held-out edge, and 0 can be found. Hold out fewer edges, or leave out graphs"
                " in which almost all nodes are linked."
            ),
        ),
        (
            complete_but(3, (0, 1)),
            {},
            InputError,
            (
                "There are too few edges to hold out: 2 between different nodes, with"
                " val_ratio=0.05 and test_ratio=0.1, leave none to train on. Give more edges, or"
                " smaller ratios."
            ),
        ),
        (
            complete_but(3),
            {"val_ratio": 0.0},
            ConfigError,
            (
                "The 'val_ratio' parameter of hold_out_edges must be a float in the range (0.0,"
                " 1.0). Got 0.0 instead."
            ),
        ),
        (
            complete_but(3),
            {"val_ratio": 0.5, "test_ratio": 0.5},
            ConfigError,
            (
                "The 'val_ratio' and 'test_ratio' parameters of hold_out_edges must sum to less"
                " than 1, to leave edges to train on. Got 0.5 + 0.5 instead."
            ),
        ),
    ],
)
def test_failures_of_holding_out(graph, arguments, kind, message):
    with pytest.raises(kind) as caught:
        hold_out_edges(graph, **arguments)
    assert str(caught.value) == message


def purchases(*missing: tuple[int, int]) -> GraphData:
    """Three users with ids 0 to 2 who bought all of four items with ids 0 to 3, but for some."""
    pairs = [p for p in product(range(3), range(4)) if p not in missing]
    return read_graphs(
        pd.DataFrame(pairs, columns=["user", "item"]), source="user", target="item", bipartite=True
    )


@pytest.mark.filterwarnings("ignore:Edges are read as undirected")
def test_pairs_of_a_bipartite_graph_have_a_node_of_each_kind():
    graph = purchases((0, 3), (2, 1))
    assert graph.node_ids is not None
    split = hold_out_edges(graph)
    others = {
        frozenset(str(node) for node in graph.node_ids[list(pair)])
        for pairs in (split.val, split.test)
        for pair in parts(pairs)[1]
    }
    # The only pairs of a user and an item without an edge; of 9 pairs within a kind none is taken.
    assert others == {frozenset({"user:0", "item:3"}), frozenset({"user:2", "item:1"})}
    held_out = {edge for pairs in (split.val, split.test) for edge in parts(pairs)[0]}
    assert as_pairs(split.graph) == as_pairs(graph) - held_out and len(held_out) == 2
    # Nor among those that the logistic regression is fitted on.
    _, drawn = sample_pairs(PairIndex.of(split.graph), 100, rng=np.random.default_rng(0))
    nodes = PairIndex.of(split.graph).nodes(drawn)
    kinds = np.vectorize(lambda node: str(graph.node_ids[node])[:4])(nodes)
    assert len(nodes) == 4 and (kinds[:, 0] != kinds[:, 1]).all()
    with pytest.raises(InputError, match="too few pairs of nodes without an edge: 2 are needed"):
        hold_out_edges(purchases((0, 3)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=7), min_size=1, max_size=4))
def test_pairs_of_both_kinds_have_one_number_each(graphs):
    side = np.array([kind for graph in graphs for kind in graph])
    ptr = np.concatenate([[0], np.cumsum([len(graph) for graph in graphs])])
    index = BipartitePairIndex.of_sides(side, ptr)
    pairs = [
        pair
        for first, last in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)
        for pair in combinations(range(first, last), 2)
    ]
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    crosses = side[pairs[:, 0]] != side[pairs[:, 1]]
    joined = pairs[crosses]
    assert index.first_pair[-1] == len(joined)
    for ends in (joined, joined[:, ::-1]):
        assert sorted(index.numbers(ends.T).tolist()) == list(range(len(joined)))
    np.testing.assert_array_equal(index.nodes(index.numbers(joined.T)), joined)
    assert (index.numbers(pairs[~crosses].T) == -1).all()
