"""A graph in plain numbers, and what stands in the way of training on it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from graphlatent import read_graphs
from graphlatent.data.describe import (
    describe_features,
    describe_graph,
    find_problems,
)

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_by_hand():
    adjacency = sp.csr_matrix((np.ones(4), EDGES), shape=(4, 4))
    found = describe_graph(read_graphs((adjacency, np.eye(4))))
    assert json.loads(json.dumps(found)) == {
        "graphs": 1,
        "nodes": 4,
        "edges": 2,
        "undirected": True,
        "weighted": False,
        "mean_degree": 1.0,
        "max_degree": 2,
        "isolated_nodes": 1,
        "features": "4 (dense)",
        "labels": False,
        "notes": ["1 node has no neighbour; it is embedded from its own features."],
    }


def test_an_undirected_edge_is_one_edge():
    edges = np.array([[0, 1, 2, 2], [1, 0, 2, 0]])
    assert read_graphs((edges, None), symmetrize=False).num_distinct_edges == 4
    with pytest.warns(match="Edges are read as undirected"):
        assert read_graphs((edges, None)).num_distinct_edges == 3


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (None, "none (they will be computed from the edges)"),
        (sp.eye(3, 4), "4 (sparse, 25.00% filled)"),
        (np.ones((3, 2)), "2 (dense)"),
    ],
)
def test_features_in_words(x, words):
    assert describe_features(read_graphs((EDGES, x))) == words


def test_columns_in_words_and_problems():
    edges = pd.DataFrame({"source": EDGES[0], "target": EDGES[1], "weight": [-1.0, -1, 2, 2]})
    columns = {"c" * i: [1.5, 2.5, 3.5] for i in range(1, 10)}
    graph = read_graphs(edges, nodes=pd.DataFrame({"id": [0, 1, 2], **columns}))
    assert describe_features(graph).startswith("9 columns: c, cc, ")
    assert describe_features(graph).endswith(", cccccccc, ...")
    assert find_problems(graph, features_named=False) == [
        "some edge weights are negative: encoder=gcn refuses them, encoder=gin takes them"
    ]


def test_columns_that_look_like_labels_are_problems_unless_they_were_named():
    edges = pd.DataFrame({"source": EDGES[0], "target": EDGES[1]})
    nodes = pd.DataFrame({"id": [0, 1, 2], "y": [1, 2, None]})
    graph = read_graphs(edges, nodes=nodes, node_attributes=["y"])
    (missing,) = find_problems(graph, features_named=True)
    assert "Column 'y' has 1 missing value" in missing
    assert "column 'y' is read as a feature" in find_problems(graph, features_named=False)[1]


def test_coordinates_are_named_where_they_will_be_used():
    bare, given = read_graphs((EDGES, None)), read_graphs((EDGES, np.eye(3)))
    words = "none (coordinates computed from the edges will be used)"
    assert describe_graph(bare, coordinates=True)["features"] == words
    words = "3 (dense), and coordinates computed from the edges"
    assert describe_features(given, coordinates=True) == words
    ones = read_graphs((EDGES, np.ones((3, 1))))
    words = "1 (dense), the same for every node (coordinates from the edges will be used instead)"
    assert describe_features(ones, coordinates=True) == words
