"""Link prediction: what is held out is gone before training, and what is chosen does not depend on
the test pairs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import graphlatent.probes.links as links
from cases import random_graph
from graphlatent.data.assemble import assemble
from graphlatent.data.edges import is_symmetric
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.links import (
    LinkPairs,
    LinkSplit,
    average_precision,
    hold_out_edges,
    link_probe,
    roc_auc,
)
from graphlatent.representations import propagated_features


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


@pytest.fixture(scope="module")
def communities() -> LinkSplit:
    return hold_out_edges(
        latent_graph(num_nodes=300, num_classes=3, feature_dim=12, sigma=0.5, seed=1).graph
    )


# --- holding out ---


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


@settings(max_examples=60, deadline=None)
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
        for seed in range(400)
        for part in ("val", "test")
        for pair in parts(getattr(hold_out_edges(graph, seed=seed), part))[1]
    ]
    counts = [drawn.count(pair) for pair in [(0, 1), (0, 2), (1, 4), (3, 4)]]
    assert sum(counts) == 800
    assert min(counts) > 150 and max(counts) < 250  # 200 each, spread 12


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=4), st.integers(0, 1000))
def test_pairs_have_one_number_each(sizes, seed):
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    space = links._PairSpace.of(
        GraphData(torch.zeros(2, 0, dtype=torch.int64), int(ptr[-1]), torch.from_numpy(ptr))
    )
    numbers = (
        rng.integers(0, max(int(space.first_pair[-1]), 1), size=20)
        if space.first_pair[-1]
        else np.zeros(0, dtype=np.int64)
    )
    nodes = space.nodes(numbers)
    np.testing.assert_array_equal(space.numbers(nodes.T), numbers)
    np.testing.assert_array_equal(space.numbers(nodes[:, ::-1].T), numbers)
    assert (nodes[:, 0] < nodes[:, 1]).all()
    np.testing.assert_array_equal(
        np.searchsorted(ptr, nodes[:, 0], "right"), np.searchsorted(ptr, nodes[:, 1], "right")
    )


def test_numbers_of_pairs_survive_rounding():
    size = 3_000_000_000  # 4.5e18 pairs: as float64 they are rounded
    space = links._PairSpace(
        np.array([0, size]), np.array([0, size * (size - 1) // 2]), np.zeros(0, dtype=np.int64)
    )
    high = size - np.arange(1, 2000)
    first = high * (high - 1) // 2
    np.testing.assert_array_equal(space.nodes(first), np.stack([np.zeros_like(high), high], axis=1))
    np.testing.assert_array_equal(space.nodes(first - 1), np.stack([high - 2, high - 1], axis=1))


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


# --- the measures ---


def test_measures_by_hand():
    is_edge, scores = np.array([True, True, False, False]), np.array([3.0, 1.0, 2.0, 0.0])
    assert roc_auc(is_edge, scores) == pytest.approx(3 / 4)  # 3 > 2, 3 > 0, 1 > 0, but 1 < 2
    assert average_precision(is_edge, scores) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert roc_auc(is_edge, np.zeros(4)) == average_precision(is_edge, np.zeros(4)) == 0.5


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30))
def test_measures_are_scikit_learns_with_ties_too(pairs):
    is_edge, scores = (np.array(each) for each in zip(*pairs, strict=True))
    if is_edge.all() or not is_edge.any():
        return
    assert roc_auc(is_edge, scores) == pytest.approx(roc_auc_score(is_edge, scores))
    assert average_precision(is_edge, scores) == pytest.approx(
        average_precision_score(is_edge, scores)
    )
    assert roc_auc(is_edge, -scores) == pytest.approx(1 - roc_auc(is_edge, scores))


# --- the probe ---


def test_scores_of_a_pair_by_hand():
    rows, nodes = (
        torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.0, 0.0]], dtype=torch.float64),
        np.array([[0, 1], [0, 2]]),
    )
    for form in (rows, sp.csr_matrix(rows.numpy())):
        assert links._PairScorer().score(form, nodes).tolist() == [3 - 8, 0]
        assert links._PairScorer(by_length=True).score(form, nodes).tolist() == pytest.approx(
            [-5 / (5**0.5 * 5), 0]
        )
        weight = torch.tensor([2.0, 0.5], dtype=torch.float64)
        assert links._PairScorer(weight).score(form, nodes).tolist() == [6 - 4, 0]


def test_logistic_regression_is_scikit_learns(communities):
    rows = torch.randn(300, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = rows + torch.from_numpy(communities.graph.y[:, None] == np.arange(5))
    space = links._PairSpace.of(communities.graph)
    edges, others = links._matched(space, 400, rng=np.random.default_rng(3))
    train = space.nodes(np.concatenate([edges, others]))
    assert as_pairs(communities.graph) >= set(map(tuple, train[:400].tolist()))
    assert not as_pairs(communities.graph) & set(map(tuple, train[400:].tolist()))
    strengths = (1e-1, 1e-3)
    found = links._fitted(rows, communities.graph, strengths, train_pairs=400, seed=3).numpy()
    scaler = StandardScaler().fit((rows[train[:, 0]] * rows[train[:, 1]]).numpy())
    # Mean squared norm 1
    x = scaler.transform((rows[train[:, 0]] * rows[train[:, 1]]).numpy()) / 5**0.5
    for strength, weight in zip(strengths, found, strict=True):
        theirs = (
            LogisticRegression(C=1 / (800 * strength), tol=1e-9)
            .fit(x, np.repeat([1, 0], 400))
            .coef_[0]
            / 5**0.5
            / scaler.scale_
        )
        np.testing.assert_allclose(weight, theirs, atol=2e-3)


def test_what_tells_pairs_apart_is_chosen(communities):
    rng = np.random.default_rng(0)
    community = np.eye(3)[communities.graph.y] + 0.01 * rng.normal(size=(300, 3))
    plain = link_probe(community, communities)
    # Seven edges of ten are inside a community, of other pairs one of three
    assert plain.auc > 0.65 and plain.ap > 0.6
    loud = link_probe(
        community * np.exp(2 * rng.normal(size=(300, 1))), communities, scorers=["dot", "cosine"]
    )
    assert loud.choice.settings == {"scorer": "cosine"}
    # Columns that say nothing drown the others
    mixed = np.concatenate([community, 5 * rng.normal(size=(300, 2))], axis=1)
    weighed = link_probe(mixed, communities, strengths=[1e-2, 1e-3])
    assert weighed.choice.settings["scorer"] == "hadamard" and weighed.choice.settings[
        "strength"
    ] in (1e-2, 1e-3)
    assert weighed.auc > link_probe(mixed, communities, scorers=["dot"]).auc + 0.1
    assert link_probe(rng.normal(size=(300, 3)), communities).auc == pytest.approx(0.5, abs=0.1)


def test_numbers_are_those_of_the_chosen_score(communities):
    rows = propagated_features(communities.graph, level="node").astype(np.float64)
    result = link_probe(rows, communities, scorers=["dot"])
    scores = (rows[communities.test.nodes[:, 0]] * rows[communities.test.nodes[:, 1]]).sum(1)
    assert result.auc == pytest.approx(roc_auc_score(communities.test.is_edge, scores))
    assert result.ap == pytest.approx(average_precision_score(communities.test.is_edge, scores))
    val = (rows[communities.val.nodes[:, 0]] * rows[communities.val.nodes[:, 1]]).sum(1)
    assert result.choice.val_score == pytest.approx(roc_auc_score(communities.val.is_edge, val))
    assert result.num_edges == communities.test.is_edge.sum()
    assert json.loads(json.dumps(result.to_dict()))["choice"]["settings"] == {"scorer": "dot"}


def test_equals_go_to_the_first_named(communities):
    rows = np.repeat([[0.6, 0.8]], 300, axis=0)
    for scorers in (["dot", "cosine"], ["cosine", "dot"]):
        result = link_probe(rows, communities, scorers=scorers)
        assert result.choice.settings == {"scorer": scorers[0]}
        assert result.auc == result.ap == 0.5


def test_blocks_and_sparse_rows_change_nothing(communities, monkeypatch):
    rows = np.random.default_rng(0).poisson(0.3, size=(300, 6)).astype(np.float64)
    whole = link_probe(rows, communities, seed=4)
    monkeypatch.setattr(links, "_BLOCK", 60)
    for form in (rows, sp.csr_matrix(rows), torch.from_numpy(rows)):
        again = link_probe(form, communities, seed=4)
        assert (again.auc, again.ap, again.choice.settings) == (
            pytest.approx(whole.auc),
            pytest.approx(whole.ap),
            whole.choice.settings,
        )


# --- no cheating ---


def test_a_function_gets_the_graph_without_the_held_out_pairs(communities):
    seen = []

    def embed(graph):
        seen.append(graph)
        return propagated_features(graph, level="node")

    result = link_probe(embed, communities)
    assert len(seen) == 1 and seen[0] is communities.graph
    assert result == link_probe(propagated_features(communities.graph, level="node"), communities)
    held_out = set(parts(communities.val)[0] + parts(communities.test)[0])
    assert held_out and not held_out & as_pairs(seen[0])


def test_the_choice_does_not_depend_on_the_test_pairs(communities):
    rows = propagated_features(communities.graph, level="node")
    honest = link_probe(rows, communities)
    rng = np.random.default_rng(0)
    shuffled = replace(communities.test, is_edge=rng.permutation(communities.test.is_edge))
    others = LinkPairs(np.array([[0, 1], [2, 3]]), np.array([True, False]))
    for test in (shuffled, others):
        result = link_probe(rows, replace(communities, test=test))
        assert result.choice == honest.choice
        assert result.auc != honest.auc
    assert (
        link_probe(
            rows,
            replace(communities, val=replace(communities.val, is_edge=~communities.val.is_edge)),
        ).choice
        != honest.choice
    )


# --- tiny cases and failures ---


def test_tiny_cases():
    path = assemble([RawGraph(np.array([[0, 1, 2], [1, 2, 3]]), 4, directed=False)])
    split = hold_out_edges(path)
    assert (len(split.val.nodes), len(split.test.nodes), split.graph.num_edges) == (2, 2, 2)
    assert 0 <= link_probe(np.eye(4), split).auc <= 1
    lonely = assemble(
        [
            RawGraph(np.zeros((2, 0), dtype=int), 1),
            RawGraph(np.array([[0, 1, 2], [1, 2, 3]]), 4, directed=False),
        ]
    )
    assert hold_out_edges(lonely).test.nodes.min() >= 1


def test_no_edge_left_to_fit_on():
    graph = assemble(
        [
            RawGraph(np.array([[0, 1], [1, 2]]), 3, directed=False),
            RawGraph(np.array([[0], [1]]), 2, directed=False),
        ]
    )
    edges = LinkPairs(np.array([[0, 1], [0, 2]]), np.array([True, False]))
    split = LinkSplit(replace(graph, edge_index=graph.edge_index[:, -2:]), edges, edges)
    with pytest.raises(InputError) as caught:
        link_probe(np.eye(5), split)
    assert (
        str(caught.value)
        == "There is no edge left to fit 'hadamard' on: every graph of the split has lost all its"
        " edges, or links all its nodes. Hold out fewer edges, or (in Python) leave 'hadamard'"
        " out of 'scorers'."
    )
    assert link_probe(np.eye(5), split, scorers=["dot"]).auc == 0.5


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


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"scorers": ["distance"]},
            ConfigError,
            (
                "The 'scorers' parameter of link_probe must be one or more of ('dot', 'cosine',"
                " 'hadamard'). Got ['distance'] instead."
            ),
        ),
        (
            {"strengths": [0.0]},
            ConfigError,
            (
                "The 'strengths' parameter of link_probe must be one or more floats in the range"
                " (0.0, inf). Got [0.0] instead."
            ),
        ),
        (
            {"train_pairs": 0},
            ConfigError,
            (
                "The 'train_pairs' parameter of link_probe must be an int of at least 1. Got 0"
                " instead."
            ),
        ),
        (
            {"embedding": np.eye(4)},
            InputError,
            "The embedding must have one row per node of the split's graph, 300. Got 4.",
        ),
    ],
)
def test_failures_of_the_probe(arguments, kind, message, communities):
    with pytest.raises(kind) as caught:
        link_probe(arguments.pop("embedding", np.ones((300, 2))), communities, **arguments)
    assert str(caught.value) == message
