"""Lists of pairs, dicts of neighbours, square arrays and polars tables as graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch

from graphlatent import GraphLaGraph, NodeLaGraph, read_graphs
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import InputError

PAIRS = [(0, 1), (1, 2), (2, 0), (2, 3)]


def read(source, **options):
    return read_graphs(source, symmetrize=False, **options)


def ids_of_edges(graph):
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    return [tuple(ids[edge].tolist()) for edge in graph.edge_index.T.tolist()]


# Pairs


def test_pairs_with_ids_of_any_kind():
    graph = read(PAIRS)
    assert ids_of_edges(graph) == sorted(PAIRS) and graph.edge_weight is None
    assert ids_of_edges(read([list(pair) for pair in PAIRS])) == sorted(PAIRS)
    names = read([("ann", "bob"), ("bob", "carl")])
    assert names.node_ids.tolist() == ["ann", "bob", "carl"]
    assert ids_of_edges(names) == [("ann", "bob"), ("bob", "carl")]
    assert ids_of_edges(read([(np.int64(70), np.int64(7))])) == [(70, 7)]
    assert ids_of_edges(read(list(nx.path_graph(3).edges))) == [(0, 1), (1, 2)]


def test_pairs_with_weights_and_options():
    weighted = [("a", "b", 2), ("b", "c", 0.5), ("a", "b", np.float32(3))]
    assert read(weighted, merge="sum").edge_weight.tolist() == [5, 0.5]
    assert read(weighted, merge="sum", weight="cost").edge_weight.tolist() == [5, 0.5]
    graph = read([(1, 1), (2, 1)], bipartite=True)
    assert ids_of_edges(graph) == [("source:1", "target:1"), ("source:2", "target:1")]


def test_pairs_with_nodes_and_with_features():
    nodes = pd.DataFrame({"id": [3, 2, 1, 0, 9], "age": range(5), "kind": list("ababa")})
    for graph in (
        read(PAIRS, nodes=nodes, label="kind"),
        read((PAIRS, nodes), label="kind"),
        read((PAIRS, pl.from_pandas(nodes)), label="kind"),
    ):
        assert graph.node_ids.tolist() == [3, 2, 1, 0, 9] and sorted(graph.columns) == ["age"]
        assert sorted(ids_of_edges(graph)) == sorted(PAIRS) and graph.y.tolist() == list("ababa")
    x = np.eye(5)
    graph = read((PAIRS, x))
    assert ids_of_edges(graph) == sorted(PAIRS) and graph.num_nodes == 5
    assert read(([(*pair, 2.5) for pair in PAIRS], x)).edge_weight.tolist() == [2.5] * 4
    # An edge_index as nested lists stays one.
    assert ids_of_edges(read(([[0, 1], [4, 2]], x))) == [(0, 4), (1, 2)]


def test_lists_of_pairs_are_several_graphs():
    graphs = [PAIRS, [("x", "y", 2.0)], {"k": ["l"]}, np.ones((3, 3))]
    with pytest.warns(match="undirected"):
        rows = GraphLaGraph(epochs=1, hidden_dim=4, device="cpu", progress=False).fit_transform(
            graphs * 2
        )
    assert len(rows) == 8 and np.allclose(rows[:4], rows[4:], rtol=1e-4, atol=1e-5)
    assert read(graphs).num_graphs == 4


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(0, 1), (1, 2, 3)], r"must hold tuples of 2, as its first item is. Got \(1, 2, 3\) at 1"),
        ([(0, 1), 5], r"Got 5 at 1 \(from 0\)"),
        ([(0, 1), ("a", "b")], "the sources must be ids, all integers or all text"),
        ([(0, "a"), (1, "b")], "holds integers, but edges, column 'target' holds text"),
        ([(0, 1.5), (1, 2)], "ids must be integers of 64 bits or text"),
        ([(0, 1, {"weight": 3})], r"third part of an edge is its weight.* pass a NetworkX graph"),
        ([(0, 1, None)], r"Got None in \(0, 1, None\)"),
        ([(0, 1, np.nan)], "must hold a finite number in every row"),
        ([[0, 1], [1, 0]], "2 items of 2 values may be edges, or the rows of a matrix"),
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "3 items of 3 values may be edges, or the rows of a"),
        (([(0, 1), (1, 2)], np.eye(3)), "2 items of 2 values may be edges"),
        ((PAIRS, np.eye(3)), "must hold ids from 0 to 2"),
    ],
)
def test_pairs_that_cannot_be_read(pairs, message):
    with pytest.raises(InputError, match=message):
        read(pairs)


# Neighbours


def test_dicts_of_neighbours():
    graph = read({"c": ["a", "b"], "a": [], "d": ("c",), "e": {"a"}, "f": np.array(["d"])})
    assert graph.node_ids.tolist() == ["c", "a", "d", "e", "f", "b"]
    assert sorted(ids_of_edges(graph)) == [
        *[("c", "a"), ("c", "b"), ("d", "c"), ("e", "a"), ("f", "d")]
    ]
    karate = nx.karate_club_graph()
    found = read(nx.to_dict_of_lists(karate))
    assert found.undirected and found.num_edges == 2 * karate.number_of_edges()
    weighted = read({1: {2: 0.5, 3: 2}, 2: {}})
    assert weighted.edge_weight.tolist() == [0.5, 2] and weighted.node_ids.tolist() == [1, 2, 3]
    with pytest.warns(match="no edges"):
        assert read({1: [], 2: []}).num_nodes == 2
    sides = read({7: [7, 8]}, bipartite=True, options=TableOptions(source="user", target="item"))
    assert sides.node_ids.tolist() == ["user:7", "item:7", "item:8"]
    nodes = pd.DataFrame({"id": [2, 1], "age": [30, 40]})
    assert read({1: [2]}, nodes=nodes).node_ids.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        ({}, "Got the keys nothing"),
        ({"source": ["a"], "target": ["b"]}, r"'source', 'target'. .* pandas.DataFrame"),
        ({"edge_index": [[0], [1]], "x": None}, r"arrays as \(edge_index, x\)"),
        ({"a": "bc"}, r"neighbours of node 'a' must be a list of nodes, .* Got 'bc'"),
        ({1: {2: 1.0}, 2: [1]}, r"node 2 must be a dict of weights, as in {u: {v: 2.0}}"),
        ({1: {2: {"weight": 1}}}, "third part of an edge is its weight"),
        (
            nx.path_graph(3).edges,
            r"keys of a dict must be nodes. Got \(0, 1\). Give edges as a list",
        ),
        ({(0, 1), (1, 2)}, r"several graphs, or edges, pass list\(...\) of it"),
        ({1: ["a"]}, "the nodes must be ids, all integers or all text"),
    ],
)
def test_dicts_that_cannot_be_read(adjacency, message):
    with pytest.raises(InputError, match=message):
        read(adjacency)


# Square arrays

DENSE = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 3]])


@pytest.mark.parametrize(
    "matrix",
    [
        *[DENSE.astype(kind) for kind in (np.int64, np.float64, np.float16, np.uint8)],
        torch.tensor(DENSE),
        torch.tensor(DENSE, dtype=torch.bfloat16),
        np.asfortranarray(DENSE),
    ],
)
def test_a_square_array_is_the_matrix_that_scipy_would_hold(matrix):
    for source in (matrix, (matrix, np.eye(3))):
        expected = (sp.csr_matrix(DENSE), np.eye(3)) if isinstance(source, tuple) else DENSE
        graph, same = read(source), read(expected)
        assert torch.equal(graph.edge_index, same.edge_index)
        assert torch.equal(graph.edge_weight, same.edge_weight)
        assert (graph.x is None) == (same.x is None) and graph.num_nodes == 3


def test_square_arrays_of_zeros_and_ones_and_wrong_ones():
    graph = read(DENSE > 0)
    assert graph.edge_weight is None and graph.num_edges == 5
    assert read(np.array([[1]])).num_nodes == 1
    with pytest.raises(InputError, match="must hold real numbers"):
        read(DENSE.astype(complex))
    with pytest.raises(InputError, match="must hold real numbers"):
        read(DENSE.astype(str))
    with pytest.raises(InputError, match="NaN"):
        read(np.where(DENSE == 1, np.nan, DENSE))
    with pytest.raises(InputError, match=r"has none\. Leave it out"):
        read(DENSE, weight="cost")


# polars


def test_polars_tables_are_those_of_pandas():
    edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "weight": [1.5, 2]})
    nodes = pd.DataFrame({"id": list("abc"), "age": [1, 2, 3], "city": ["x", "y", "x"]})
    expected = read((edges, nodes)).fingerprints()
    ours = pl.from_pandas(edges), pl.from_pandas(nodes)
    assert read(ours).fingerprints() == expected
    assert read(ours[0], nodes=ours[1]).fingerprints() == expected
    by_category = ours[1].with_columns(pl.col("id", "city").cast(pl.Categorical))
    assert read((ours[0], by_category)).fingerprints() == expected
    assert read(ours, label="city").y.tolist() == ["x", "y", "x"]
    with pytest.warns(match="undirected"):
        rows = NodeLaGraph(epochs=1, hidden_dim=4, device="cpu", progress=False).fit_transform(ours)
    assert len(rows) == 3
    with pytest.raises(InputError, match="must be a path, a pandas or polars DataFrame"):
        read(ours[0], nodes=ours[1].lazy())
