from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent import NodeLaGraph
from graphlatent.data.features import fit_features
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import GraphLatentWarning, InputError


def test_networkx_names_order_and_columns():
    graph = nx.Graph()
    graph.add_node("z", age=3, tag="a", odd=1)
    graph.add_node("b", age=4.5, tag="b")
    graph.add_edge("z", "b")
    with pytest.warns(GraphLatentWarning, match="not every node has are left out: 'odd'"):
        read = read_graphs(graph)
    assert read.node_ids.tolist() == ["z", "b"]
    assert read.edge_index.tolist() == [[0, 1], [1, 0]]
    assert {name: values.tolist() for name, values in read.columns.items()} == {
        "age": [3, 4.5],
        "tag": ["a", "b"],
    }
    assert list(read_graphs(graph, node_attributes=["tag"]).columns) == ["tag"]
    assert read_graphs(graph, node_attributes=[]).columns is None


def test_networkx_labels_may_be_missing():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: "a", 2: "b"}, "club")
    read = read_graphs(graph, label="club")
    assert read.y.tolist() == ["a", None, "b"] and read.columns is None
    with pytest.raises(InputError, match="graph: no node has an attribute 'team'"):
        read_graphs(graph, label="team")


def test_networkx_kinds_of_values():
    graph = nx.path_graph(2)
    values = {
        "truth": [True, np.bool_(False)],
        "number": [np.float32(1.5), torch.tensor(2)],
        "mixed": [1, "a"],
        "huge": [2**70, 1],
    }
    for name, pair in values.items():
        nx.set_node_attributes(graph, dict(enumerate(pair)), name)
    columns = read_graphs(graph).columns
    assert columns["truth"].dtype == bool
    assert columns["number"].tolist() == [1.5, 2]
    assert columns["mixed"].tolist() == [1, "a"]
    assert columns["huge"].tolist() == [2**70, 1]


def test_networkx_names_of_any_kind():
    assert read_graphs(nx.grid_2d_graph(1, 2)).node_ids.tolist() == [(0, 0), (0, 1)]
    graph = nx.Graph([("a", 1)])
    assert read_graphs(graph).node_ids.tolist() == ["a", 1]
    assert read_graphs(nx.path_graph(3)).node_ids.tolist() == [0, 1, 2]


def test_networkx_weights():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=2, cost=5)
    graph.add_edge(1, 2, weight=3)
    with pytest.warns(GraphLatentWarning, match=r"^graph: edge attributes not used: cost\."):
        assert read_graphs(graph).edge_weight.tolist() == [2, 2, 3, 3]
    with pytest.raises(
        InputError,
        match=(
            r"graph: edge attribute 'cost' must be a number everywhere. Edge \(1, 2\) has nothing"
        ),
    ):
        read_graphs(graph, weight="cost")
    del graph[1][2]["weight"]
    with pytest.warns(GraphLatentWarning, match="not used") as caught:
        assert read_graphs(graph).edge_weight is None
    assert [str(each.message).partition(". ")[0] for each in caught] == [
        "graph: edge attributes not used: cost",
        "graph: 1 of 2 edges have no 'weight', so weights are not used",
    ]
    graph[1][2]["cost"] = 7
    del graph[0][1]["weight"]
    assert read_graphs(graph, weight="cost").edge_weight.tolist() == [5, 5, 7, 7]
    options = TableOptions(weight="cost")
    assert read_graphs(graph, options=options).edge_weight.tolist() == [5, 5, 7, 7]
    graph[0][1]["cost"] = "much"
    with pytest.raises(InputError, match=r"Edge \(0, 1\) has 'much'"):
        read_graphs(graph, weight="cost")


def test_networkx_directions_and_parallel_edges():
    directed = nx.DiGraph([(0, 1)])
    assert read_graphs(directed, symmetrize=False).edge_index.tolist() == [[0], [1]]
    with pytest.warns(GraphLatentWarning, match="Edges are read as undirected"):
        assert read_graphs(directed).num_edges == 2
    assert read_graphs(nx.Graph([(0, 1)]), symmetrize=False).num_edges == 2
    multi = nx.MultiGraph([(0, 1), (0, 1), (1, 1)])
    read = read_graphs(multi)
    assert read.edge_index.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert any("1 repeated edge" in note for note in read.notes)


def test_networkx_vectors_become_a_matrix():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: np.array([1.0, 2.0]), 1: torch.tensor([3.0, 4.0])}, "x")
    nx.set_node_attributes(graph, {0: (5,), 1: [6]}, "z")
    assert read_graphs(graph).x.tolist() == [[1, 2, 5], [3, 4, 6]]
    nx.set_node_attributes(graph, 1, "label")
    with pytest.raises(
        InputError,
        match=(
            r"\['x', 'z'\] hold vectors and \['label'\] single values.*node_attributes=\['x', 'z'\]"
        ),
    ):
        read_graphs(graph)
    assert read_graphs(graph, node_attributes=["z"]).x.tolist() == [[5], [6]]


def test_networkx_mistakes():
    graph = nx.path_graph(2)
    graph.nodes[0]["a"] = 1
    with pytest.raises(
        InputError,
        match=r"graph: node 1 has no attribute 'a'. Give it to all nodes, or leave it out",
    ):
        read_graphs(graph, node_attributes=["a"])
    with pytest.raises(
        InputError,
        match=r"node_attributes must be a list of names. Got the text 'a'; write \['a'\]",
    ):
        read_graphs(graph, node_attributes="a")
    nx.set_node_attributes(graph, {0: [1], 1: [1, 2]}, "x")
    with pytest.raises(
        InputError,
        match=(
            r"'x' must be a vector of one length on every node. Node 0 has shape \(1,\), node 1 has"
        ),
    ):
        read_graphs(graph, node_attributes=["x"])
    nx.set_node_attributes(graph, {0: ["p"], 1: ["q"]}, "x")
    with pytest.raises(
        InputError,
        match=r"attribute 'x' must be a vector of numbers on every node. Got values of type <U1",
    ):
        read_graphs(graph, node_attributes=["x"])
    with pytest.raises(InputError, match=r"graph has no nodes"):
        read_graphs(nx.Graph())
    with pytest.raises(InputError, match=r"a NetworkX graph brings its own nodes. Leave it out"):
        read_graphs(graph, nodes=pd.DataFrame({"id": [0, 1]}))


def test_networkx_names_that_no_file_can_hold():
    with pytest.raises(InputError, match=r"'\\ud800' is the name of a node, but no valid Unicode"):
        read_graphs(nx.Graph([("\ud800", "b")]))
    assert read_graphs(nx.Graph([("\U0001f600", "?")])).node_ids.tolist() == ["\U0001f600", "?"]


def test_networkx_missing_values_of_pandas():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 1, 1: pd.NA, 2: 2}, "f")
    read = read_graphs(graph)
    assert not read.has_equal_features()
    with pytest.raises(InputError, match="Column 'f' has 1 missing value"):
        NodeLaGraph(epochs=1).fit(read)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.floats(0, 1), st.booleans(), st.integers(0, 99))
def test_networkx_and_scipy_agree(num_nodes, density, directed, seed):
    graph = nx.gnp_random_graph(num_nodes, density, seed=seed, directed=directed)
    graph.add_edge(0, 0)  # so that there is an edge, and a self-loop
    adjacency = nx.to_scipy_sparse_array(graph)
    for symmetrize in (False, True) if not directed else (False,):
        one, other = (
            read_graphs(graph, symmetrize=symmetrize),
            read_graphs(adjacency, symmetrize=symmetrize),
        )
        assert torch.equal(one.edge_index, other.edge_index)


def test_attributes_that_some_nodes_have_are_filled():
    graph = nx.path_graph(4)
    nx.set_node_attributes(graph, {0: 1.0, 2: 5.0, 3: 6.0}, "a")
    nx.set_node_attributes(graph, {1: "x", 2: "y"}, "t")
    read = read_graphs(graph, impute="mean")
    assert [read.columns[name].tolist() for name in ("a", "t")] == [
        [1.0, None, 5.0, 6.0],
        [None, "x", "y", None],
    ]
    with pytest.warns(GraphLatentWarning) as caught:
        spec = fit_features(read, degree_cap=4)
    assert [str(each.message) for each in caught] == [
        "Missing numbers are filled with the mean: 'a' (1).",
        "Missing text sets no feature: 't' (2).",
    ]
    assert spec.columns[0].fill == 4 and spec.width == 3
    with pytest.raises(InputError, match="node 0 has no attribute 'b'"):
        read_graphs(graph, impute="mean", node_attributes=["b"])
