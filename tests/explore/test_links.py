"""Predicted links: numbers of a pair by their definition, the best of all pairs, planted graphs."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import graphlatent.explore.links as links
from graphlatent import Embeddings, read_graphs
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import InputError
from graphlatent.explore.linkable import Linkable
from graphlatent.explore.links import PairScorer, predict_links


def random_graph(num_nodes=30, ratio=0.15, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(num_nodes, 4)).astype(np.float32)
    dense = np.triu(rng.random((num_nodes, num_nodes)) < ratio, 1)
    return values, np.stack(np.nonzero(dense))


def communities(num_nodes=120, inside=0.3, outside=0.005):
    """Four communities that the embeddings know, with some edges held out."""
    rng = np.random.default_rng(0)
    of_node = np.arange(num_nodes) % 4
    same = of_node[:, None] == of_node
    dense = np.triu(rng.random((num_nodes, num_nodes)) < np.where(same, inside, outside), 1)
    values = np.eye(8)[of_node] + 0.1 * rng.normal(size=(num_nodes, 8))
    edges = rng.permutation(np.stack(np.nonzero(dense)).T)
    return of_node, values.astype(np.float32), edges[40:].T, {tuple(e) for e in edges[:40].tolist()}


def by_definition(values, edge_index, i, j):
    """Similarity, fit and shared of one pair, from the formulas in words."""
    values = values.astype(np.float64)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    near = [set() for _ in values]
    for a, b in edge_index.T.tolist():
        near[a].add(b)
        near[b].add(a)

    def cosine_to_sum(node, others):
        total = sum((unit[v] for v in others), np.zeros(values.shape[1]))
        length = np.linalg.norm(total)
        return unit[node] @ total / length if length else 0.0

    fit = cosine_to_sum(i, near[j] - {i}) + cosine_to_sum(j, near[i] - {j})
    shared = math.log1p(sum(1 / math.log(len(near[v])) for v in near[i] & near[j]))
    return [unit[i] @ unit[j], fit, shared]


def test_the_numbers_of_a_pair_by_definition():
    values, edges = random_graph()
    scorer = PairScorer.untrained(values, edges)
    pairs = np.array([[i, j] for i in range(30) for j in range(i + 1, 30)])
    expected = [by_definition(values, edges, i, j) for i, j in pairs]
    np.testing.assert_allclose(scorer.features(pairs), expected, atol=1e-5)


def test_the_best_are_those_of_all_pairs(monkeypatch):
    values, edges = random_graph()
    graph = np.zeros(30, dtype=np.int64)
    found = predict_links(values, edges, graph, k=25)
    scorer = links._fitted(PairScorer.untrained(values, edges), Linkable(graph), seed=0)
    linked = {tuple(sorted(e)) for e in edges.T.tolist()}
    pairs = [(i, j) for i in range(30) for j in range(i + 1, 30) if (i, j) not in linked]
    expected = scorer.logits(np.array([by_definition(values, edges, i, j) for i, j in pairs]))
    order = np.argsort(-expected, kind="stable")[:25]
    assert found.num_scored == len(pairs) and found.exact
    assert [tuple(p) for p in found.pairs.tolist()] == [pairs[o] for o in order]
    np.testing.assert_allclose(found.score, 1 / (1 + np.exp(-expected[order])), rtol=1e-3)
    # A few rows at a time, the same
    monkeypatch.setattr(links, "_BLOCK", 70)
    np.testing.assert_array_equal(predict_links(values, edges, graph, k=25).pairs, found.pairs)


def test_held_out_edges_come_first():
    of_node, values, edges, held_out = communities()
    found = predict_links(values, edges, np.zeros(120, dtype=np.int64), k=100)
    assert np.mean(of_node[found.pairs[:, 0]] == of_node[found.pairs[:, 1]]) == 1
    hits = sum(tuple(pair) in held_out for pair in found.pairs.tolist())
    # 40 of 7,140 pairs by chance
    assert hits >= 3
    # Inside a community 0.3 of the pairs have an edge, a few of them held out
    assert 0.15 < found.score.mean() < 0.5
    assert (found.shared >= 0).all() and (np.diff(found.score) <= 0).all()


def test_a_large_graph_gives_almost_the_same(monkeypatch):
    _, values, edges, _ = communities()
    graph = np.zeros(120, dtype=np.int64)
    exact = predict_links(values, edges, graph, k=50)
    monkeypatch.setattr(links, "EXACT", 10)
    found = predict_links(values, edges, graph, k=50)
    assert not found.exact and found.num_scored < exact.num_scored
    common = {tuple(p) for p in exact.pairs.tolist()} & {tuple(p) for p in found.pairs.tolist()}
    assert len(common) >= 45
    linked = {tuple(sorted(e)) for e in edges.T.tolist()}
    assert not linked & {tuple(p) for p in found.pairs.tolist()}


def users_and_items():
    rng = np.random.default_rng(0)
    taste = np.arange(100) % 4
    bought = rng.random((50, 50)) < np.where(taste[:50, None] == taste[50:], 0.4, 0.01)
    user, item = np.nonzero(bought)
    values = np.concatenate([np.eye(8)[taste[:50]], np.eye(8)[taste[50:] + 4]])
    values = (values + 0.1 * rng.normal(size=(100, 8))).astype(np.float32)
    return taste, values, np.stack([user, item + 50])


@pytest.mark.parametrize("exact", [10_000, 10])
def test_users_are_linked_to_items_only(monkeypatch, exact):
    monkeypatch.setattr(links, "EXACT", exact)
    taste, values, edges = users_and_items()
    found = predict_links(values, edges, np.zeros(100, dtype=np.int64), k=60)
    assert (found.pairs[:, 0] < 50).all() and (found.pairs[:, 1] >= 50).all()
    assert (taste[found.pairs[:, 0]] == taste[found.pairs[:, 1]]).all()


def test_pairs_that_can_have_a_link_are_counted_and_drawn():
    graph, side = np.repeat([0, 1, 2], [5, 4, 2]), np.array([0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0])
    for linkable in (Linkable(graph), Linkable(graph, side)):
        pairs = [
            (i, j)
            for i in range(11)
            for j in range(11)
            if graph[i] == graph[j] and (linkable.side is None or side[i] != side[j])
        ]
        assert linkable.count() == sum(i < j for i, j in pairs)
        drawn, weight = linkable.random(4000, np.random.default_rng(0))
        assert {tuple(pair) for pair in drawn.tolist()} == set(pairs)
        partners = np.bincount([i for i, _ in pairs], minlength=11)
        np.testing.assert_array_equal(weight, partners[drawn[:, 0]])


@pytest.mark.parametrize("exact", [10_000, 10])
def test_users_without_a_shared_item_are_not_linked_either(monkeypatch, exact):
    monkeypatch.setattr(links, "EXACT", exact)
    # Users are alike, and so are items; each item has two users.
    values = np.repeat([[1.0, 0.1], [1.0, -0.1]], 20, axis=0).astype(np.float32)
    user, item = np.arange(40) % 20, 20 + np.repeat(np.arange(20), 2)
    frame = {"user": user, "item": item - 20}
    with pytest.warns(UserWarning, match="Edges are read as undirected"):
        graph = read_graphs(
            pd.DataFrame(frame), options=TableOptions("user", "item"), bipartite=True
        )
    rows = [0 if name.startswith("user:") else -1 for name in graph.node_ids]
    found = Embeddings(values[rows], graph.node_ids).predict_links(graph, 10_000)
    kinds = [found[end].str.split(":").str[0] for end in ("source", "target")]
    # Sources are of the kind that the edge table has as sources.
    assert len(found) and (kinds[0] == "user").all() and (kinds[1] == "item").all()
    if exact > 40:
        assert len(found) == 20 * 20 - 40


def test_pairs_are_of_one_graph():
    values, edges = random_graph()
    both = np.concatenate([edges, edges + 30], axis=1)
    graph = np.repeat([0, 1], 30)
    found = predict_links(np.concatenate([values, values]), both, graph, k=10_000)
    assert (graph[found.pairs[:, 0]] == graph[found.pairs[:, 1]]).all()
    assert found.num_scored == len(found.pairs) == 2 * (30 * 29 // 2 - edges.shape[1])


def test_nothing_to_predict():
    values = np.eye(4, dtype=np.float32)
    graph = np.zeros(4, dtype=np.int64)
    with pytest.raises(InputError, match="The graph has no edges"):
        predict_links(values, np.zeros((2, 0), dtype=np.int64), graph, k=3)
    every = np.stack(np.nonzero(1 - np.eye(4, dtype=np.int64)))
    with pytest.raises(InputError, match="All pairs of nodes have an edge"):
        predict_links(values, every, graph, k=3)
    # A path, one edge, isolated nodes, a self-loop
    for edges in ([[0, 1], [1, 2]], [[0], [1]], [[0, 0], [0, 1]]):
        found = predict_links(values, np.array(edges), graph, k=99)
        assert np.isfinite(found.score).all() and len(found.pairs) == found.num_scored


class TestEmbeddings:
    def test_ids_and_directions(self):
        values, edges = random_graph()
        names = np.array([f"n{i}" for i in range(30)], dtype=object)
        with pytest.warns(UserWarning, match="Edges are read as undirected"):
            graph = read_graphs((edges, values))
        plain = Embeddings(values, np.arange(30)).predict_links(graph, 5)
        assert list(plain.columns) == [
            "source",
            "target",
            "score",
            "similarity",
            "shared_neighbours",
        ]
        with pytest.raises(InputError, match="There is no embedding of the id 0"):
            Embeddings(values, names).predict_links(graph, 5)
        # In another order, and with rows that the graph does not have
        order = np.random.default_rng(1).permutation(30)
        more = Embeddings(
            np.concatenate([values[order], values[:1]]), np.append(np.arange(30)[order], 99)
        )
        assert more.predict_links(graph, 5).equals(plain)
        with pytest.raises(InputError, match="embeddings of whole graphs"):
            Embeddings(values, names, id_name="graph").predict_links(graph, 5)
