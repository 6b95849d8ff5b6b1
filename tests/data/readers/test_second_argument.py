"""What comes as the second argument of `fit`: features, a node table, or labels."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch_geometric.data import Data

from graphlatent import NodeLaGraph
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix

EDGES = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
ADJACENCY = sp.csr_matrix((np.ones(6), EDGES), shape=(4, 4))
X = np.array([[0.5, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
ZERO_ONE = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
TABLES = (
    pd.DataFrame(EDGES.T, columns=["source", "target"]),
    pd.DataFrame({"id": range(4), "size": [1.0, 2.0, 5.0, 3.0]}),
)


def node():
    return NodeLaGraph(epochs=1, hidden_dim=4, device="cpu", progress=False)


def same(first, second):
    assert np.array_equal(first.transform((ADJACENCY, X)), second.transform((ADJACENCY, X)))


@pytest.mark.parametrize("graph", [ADJACENCY, ADJACENCY.toarray(), EDGES, torch.tensor(EDGES)])
def test_features_beside_a_graph_without_any(graph):
    expected = node().fit((ADJACENCY, X))
    for x in (X, X.tolist(), torch.tensor(X), sp.csr_matrix(X), X.astype(np.float32)):
        same(node().fit(graph, x), expected)
    same(node().fit(graph, SparseMatrix.from_scipy(sp.csr_matrix(X))), expected)


def test_identities_and_zeros_and_ones_are_features_with_a_warning():
    for x in (np.eye(4), ZERO_ONE, sp.csr_matrix(ZERO_ONE), torch.tensor(ZERO_ONE)):
        with pytest.warns(GraphLatentWarning, match="of zeros and ones, is read as the features"):
            fitted = node().fit(ADJACENCY, x)
        assert fitted.n_features_in_ == x.shape[1]


def test_node_tables_beside_edge_tables(tmp_path):
    edges, nodes = TABLES
    expected = node().fit(TABLES).transform(TABLES)
    edges.to_csv(tmp_path / "e.csv", index=False)
    nodes.to_csv(tmp_path / "n.csv", index=False)
    pairs = [tuple(pair) for pair in EDGES.T.tolist()]
    for graph, table in (
        (edges, nodes),
        (pl.from_pandas(edges), pl.from_pandas(nodes)),
        (tmp_path / "e.csv", str(tmp_path / "n.csv")),
        (pairs, nodes),
    ):
        assert np.array_equal(node().fit(graph, table).transform(TABLES), expected)


@pytest.mark.parametrize(
    ("graph", "y", "reason"),
    [
        (ADJACENCY, [[0], [1], [0], [1]], r"shape \(4, 1\) .* it looks like labels"),
        (EDGES, np.eye(2)[[0, 1, 0, 1]], r"shape \(4, 2\) .* it looks like labels"),
        (ADJACENCY, sp.csr_matrix(np.eye(2)[[0, 1, 0, 1]]), "it looks like labels"),
        (ADJACENCY, TABLES[1], r"node tables go with edge tables only; .* table.to_numpy\(\)"),
        (TABLES[0], X, "it is not known which row is of which node"),
        (nx.path_graph(4), X, "it is not known which row is of which node"),
        (Data(edge_index=torch.tensor(EDGES)), X, "it is not known which row is of which node"),
        ({0: [1, 2, 3]}, X, "it is not known which row is of which node"),
    ],
)
def test_what_may_be_labels_or_cannot_be_matched_is_refused(graph, y, reason):
    with pytest.raises(InputError, match=rf"NodeLaGraph.fit got .*{reason}.*fit\(\(graph, x\)\)"):
        node().fit(graph, y)


def test_labels_are_ignored():
    expected = node().fit((ADJACENCY, X))
    labels = [0, 1, 0, 1]
    for y in (labels, np.array(labels), pd.Series(labels), TABLES[1], np.eye(4), X[:, :1]):
        same(node().fit((ADJACENCY, X), y), expected)
    own = nx.path_graph(4)
    nx.set_node_attributes(own, 1.0, "size")
    for graph in ((ADJACENCY, X), own, TABLES):
        with pytest.warns(GraphLatentWarning, match=r"shape \(4, 2\), is not used: the graph brin"):
            node().fit(graph, X)
    alone = node().fit_transform(ADJACENCY)
    for y in (labels, np.array(labels), pd.Series(labels), ["a", "b", "a", "b"]):
        assert np.array_equal(node().fit(ADJACENCY, y).transform(ADJACENCY), alone)
    assert np.array_equal(node().fit((ADJACENCY, None), X).transform(ADJACENCY), alone)


def test_in_pipelines_a_second_argument_is_never_features():
    classifier = make_pipeline(node(), LogisticRegression())
    assert classifier.fit((ADJACENCY, X), [0, 1, 0, 1]).predict((ADJACENCY, X)).shape == (4,)
    assert classifier.fit(ADJACENCY, [0, 1, 0, 1]).predict(ADJACENCY).shape == (4,)
    for y in (X, X.tolist(), sp.csr_matrix(X), np.eye(4)):
        with pytest.raises(
            InputError, match=r"fit_transform got a matrix .* in its place, pipelines"
        ):
            node().fit_transform(ADJACENCY, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(node().fit_transform((ADJACENCY, None), ZERO_ONE)) == 4
