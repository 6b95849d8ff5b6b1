"""The link prediction probe: its scores, its choice, and that neither depends on the test pairs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import graphlatent.probes.links as links
from graphlatent.data.assemble import assemble
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.edge_splits import PairIndex, sample_pairs
from graphlatent.probes.links import LinkPairs, LinkSplit, hold_out_edges, link_probe
from graphlatent.representations import propagated_features


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


# --- the probe ---


def test_scores_of_a_pair_by_hand():
    rows, nodes = np.array([[1.0, 2.0], [3.0, -4.0], [0.0, 0.0]]), np.array([[0, 1], [0, 2]])
    for form in (rows, sp.csr_matrix(rows)):
        assert links._PairScorer().score(form, nodes).tolist() == [3 - 8, 0]
        assert links._PairScorer(cosine=True).score(form, nodes).tolist() == pytest.approx(
            [-5 / (5**0.5 * 5), 0]
        )
        weight = np.array([2.0, 0.5])
        assert links._PairScorer(weight).score(form, nodes).tolist() == [6 - 4, 0]


def test_logistic_regression_is_scikit_learns(communities):
    rows = np.random.default_rng(0).normal(size=(300, 5))
    rows = rows + (np.asarray(communities.graph.y)[:, None] == np.arange(5))
    index = PairIndex.of(communities.graph)
    edges, others = sample_pairs(index, 400, rng=np.random.default_rng(3))
    train = index.nodes(np.concatenate([edges, others]))
    assert as_pairs(communities.graph) >= set(map(tuple, train[:400].tolist()))
    assert not as_pairs(communities.graph) & set(map(tuple, train[400:].tolist()))
    grid = (1e-1, 1e-3)
    found = links._hadamard_weights(rows, communities.graph, grid, train_pairs=400, seed=3)
    products = rows[train[:, 0]] * rows[train[:, 1]]
    scaler = StandardScaler().fit(products)
    # Mean squared norm 1
    x = scaler.transform(products) / 5**0.5
    for l2, weight in zip(grid, found, strict=True):
        theirs = (
            LogisticRegression(C=1 / (800 * l2), tol=1e-9).fit(x, np.repeat([1, 0], 400)).coef_[0]
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
    weighed = link_probe(mixed, communities, l2=[1e-2, 1e-3])
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
            {"l2": [0.0]},
            ConfigError,
            (
                "The 'l2' parameter of link_probe must be one or more floats in the range (0.0,"
                " inf). Got [0.0] instead."
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
