"""Whether edges are predictable: with and without communities, degrees alone, few edges."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pytest
import torch

from cases import graph_of, partitioned
from graphlatent.data import communities
from graphlatent.data.assemble import assemble
from graphlatent.data.communities import EdgePrediction, edge_prediction
from graphlatent.data.graph import RawGraph


@pytest.mark.parametrize("seed", range(4))
def test_communities_are_found_and_random_edges_are_not(seed):
    assert edge_prediction(partitioned(0.8, seed=seed)).succeeds
    random = edge_prediction(partitioned(0.0, seed=seed))
    assert not random.succeeds
    assert random.auc == pytest.approx(0.5, abs=4 * random.deviation)


def test_unequal_degrees_alone_predict_nothing():
    rng = np.random.default_rng(0)
    weight = rng.pareto(2.0, 400) + 0.5
    edges = rng.choice(400, (2, 1600), p=weight / weight.sum())
    found = edge_prediction(graph_of(edges, 400))
    assert not found.succeeds
    assert found.auc == pytest.approx(0.5, abs=4 * found.deviation)


def test_a_ring_of_cliques_is_predictable():
    cliques = [(6 * c + i, 6 * c + j) for c in range(20) for i in range(6) for j in range(i)] + [
        (6 * c, (6 * c + 7) % 120) for c in range(20)
    ]
    assert edge_prediction(graph_of(np.array(cliques).T, 120)).succeeds


@pytest.mark.filterwarnings("ignore:The input has no edges")
@pytest.mark.parametrize("num_edges", [0, 1, 4])
def test_a_few_edges_say_nothing(num_edges):
    path = np.stack([np.arange(num_edges), np.arange(num_edges) + 1])
    found = edge_prediction(graph_of(path, 6))
    assert found == EdgePrediction(0.5, np.inf)
    assert not found.succeeds and not found.fails


def test_edges_are_held_out(monkeypatch):
    """Coordinates are never computed from an edge that they are to predict."""
    graph, seen = partitioned(0.8), []
    compute = communities.structure_coordinates

    def spy(rest, **options):
        seen.append({tuple(edge) for edge in rest.edge_index.T.tolist()})
        return compute(rest, **options)

    monkeypatch.setattr(communities, "structure_coordinates", spy)
    edge_prediction(graph)
    every = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    every = {(a, b) for a, b in every if a != b}
    assert len(seen) == 5
    held = [every - rest for rest in seen]
    # The parts are disjoint, and together all edges.
    assert set.union(*held) == every and sum(map(len, held)) == len(every)
    assert all((b, a) in part for part in held for a, b in part)


def test_one_part_is_enough_for_many_edges(monkeypatch):
    monkeypatch.setattr(communities, "_WANTED_EDGES", 100)
    calls = []
    compute = communities.structure_coordinates

    def counted(rest, **options):
        calls.append(1)
        return compute(rest, **options)

    monkeypatch.setattr(communities, "structure_coordinates", counted)
    graph = partitioned(0.8)
    assert edge_prediction(graph) == edge_prediction(graph)
    # The second time it is known.
    assert len(calls) == 1


def test_the_input_and_the_result_do_not_change():
    graph = partitioned(0.5)
    before = graph.fingerprint()
    results = {edge_prediction(partitioned(0.5)) for _ in range(3)}
    assert len(results) == 1 and edge_prediction(graph) in results
    assert graph.fingerprint() == before


SHAPES = {
    "tree": nx.balanced_tree(3, 6),
    "ring": nx.cycle_graph(400),
    "complete": nx.complete_graph(60),
    "parts": nx.complete_multipartite_graph(20, 20, 20),
    "dense": nx.gnm_random_graph(60, 900, seed=0),
}


@pytest.mark.parametrize("name", SHAPES)
def test_edges_that_cannot_be_predicted_need_not_be_random(name):
    shape = SHAPES[name]
    found = edge_prediction(graph_of(np.array(shape.edges).T, shape.number_of_nodes()))
    assert not found.conclusive and not found.fails


def test_random_graphs_are_known_to_be_random():
    for shape in (nx.barabasi_albert_graph(3000, 5, seed=1), nx.random_regular_graph(4, 2000, 0)):
        found = edge_prediction(graph_of(np.array(shape.edges).T, shape.number_of_nodes()))
        assert found.fails and not found.succeeds


def test_edges_of_weight_0_are_none_and_different_weights_may_say_more():
    graph = partitioned(0.8)
    size = graph.num_nodes
    pairs = np.array([(i, j) for i in range(size) for j in range(i)]).T
    known = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    weight = np.array([float(tuple(pair) in known) for pair in pairs.T.tolist()], dtype=np.float32)
    raw = RawGraph(pairs, size, edge_weight=weight, directed=False)
    assert edge_prediction(assemble([raw])) == edge_prediction(graph)
    varied = dataclasses.replace(graph, edge_weight=torch.arange(graph.num_edges) + 1.0)
    assert not edge_prediction(varied).conclusive


def test_by_hand():
    assert EdgePrediction(0.6, 0.03).succeeds
    assert not EdgePrediction(0.6, 0.04).succeeds
    assert not EdgePrediction(0.515, 0.001).succeeds
    assert EdgePrediction(0.515, 0.001).fails
    assert not EdgePrediction(0.5, 0.02).fails
