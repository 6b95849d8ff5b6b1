"""Features that are the same for every node, and graphs that leave nothing to standardise by."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphlatent import GraphLaGraph, NodeLaGraph, read_graphs
from graphlatent.data.induced import induced_subgraph
from graphlatent.data.synthetic import latent_graph
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.training.encoding import fit_encoding


def estimator(structure="auto"):
    return NodeLaGraph(hidden_dim=8, epochs=3, device="cpu", structure_dim=6, structure=structure)


@pytest.fixture
def bare():
    graph = latent_graph(num_nodes=60, num_classes=3, feature_dim=5, seed=1).graph
    return dataclasses.replace(graph, x=None)


def equal_features(graph, form):
    size = graph.num_nodes
    if form == "columns":
        columns = {"age": np.full(size, 3.0), "kind": np.array(["a"] * size, dtype=object)}
        return dataclasses.replace(graph, x=None, columns=columns)
    x = torch.full((size, 2), 0.0 if form == "zeros" else 2.0)
    if form == "sparse":
        x = SparseMatrix.from_scipy(sp.csr_matrix(np.tile([[0.0, 3.0, 1.0]], (size, 1))))
    return dataclasses.replace(graph, x=x)


FORMS = ["zeros", "twos", "sparse", "columns"]


@pytest.mark.parametrize("form", FORMS)
def test_features_that_are_the_same_for_every_node_are_ignored(bare, form, tmp_path):
    graph = equal_features(bare, form)
    fitted = estimator().fit(graph)
    kind = "columns" if form == "columns" else "given"
    assert (fitted.features_.kind, fitted.features_.ignored) == ("structure", kind)
    rows = fitted.transform(graph)
    np.testing.assert_array_equal(rows, estimator().fit(bare).transform(bare))
    again = NodeLaGraph.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.transform(graph), rows)
    # The preset of the paper takes features as they are.
    assert estimator("none").fit(graph).features_.kind == kind
    message = "fitted on graphs with .*, the same for every node, but this graph has no features"
    with pytest.raises(InputError, match=message):
        fitted.transform(bare)


def test_features_of_which_one_differs_are_kept(bare):
    for form in FORMS[:2]:
        graph = equal_features(bare, form)
        x = graph.x.clone()
        x[7, 1] = 1.0
        assert not dataclasses.replace(graph, x=x).has_equal_features()
    x = to_dense(equal_features(bare, "sparse").x).numpy()
    for place, value in (((5, 0), 1.0), ((5, 1), 0.0), ((5, 1), 4.0)):
        other = x.copy()
        other[place] = value
        assert not dataclasses.replace(
            bare, x=SparseMatrix.from_scipy(sp.csr_matrix(other))
        ).has_equal_features()
    columns = equal_features(bare, "columns").columns
    columns["kind"][3] = "b"
    assert not dataclasses.replace(bare, columns=columns).has_equal_features()
    assert not bare.has_equal_features()


def test_equal_features_without_edges_are_kept():
    with pytest.warns(GraphLatentWarning, match="no edges"):
        graph = read_graphs((sp.csr_matrix((3, 3)), np.ones((3, 2))))
    assert fit_encoding(graph, estimator()).kind == "given"


def test_edges_of_weight_0_give_no_coordinates(bare):
    graph = dataclasses.replace(bare, edge_weight=torch.zeros(bare.num_edges))
    assert fit_encoding(graph, estimator()).kind == "degree"


def test_one_graph_without_features_at_graph_level(bare):
    fitted = GraphLaGraph(hidden_dim=4, epochs=2, device="cpu").fit(bare)
    assert fitted.features_.kind == "degree" and len(fitted.features_.local) == 4
    part = induced_subgraph(bare, torch.arange(60) < 30)
    # One graph has no standard deviation, and yet new graphs differ.
    assert np.abs(fitted.transform(part) - fitted.transform(bare)).max() > 0.01


def test_sets_whose_features_are_all_0_differ_by_their_edges():
    graphs = [(np.stack([np.arange(n), (np.arange(n) + 1) % n]), np.zeros((n, 2))) for n in (3, 5)]
    graph = read_graphs([(np.concatenate([e, e[::-1]], axis=1), x) for e, x in graphs])
    rows = GraphLaGraph(hidden_dim=4, epochs=2, device="cpu").fit_transform(graph)
    assert np.abs(rows[0] - rows[1]).max() > 0.1


def test_later_features_that_are_not_used_are_said(bare):
    fitted = estimator().fit(bare.with_features(torch.ones(bare.num_nodes, 1)))
    other = torch.arange(float(bare.num_nodes))[:, None]
    with pytest.warns(GraphLatentWarning, match="The features of this graph are not used: those"):
        fitted.transform(bare.with_features(other))


def test_columns_of_any_objects_are_compared():
    size = 3
    edges = read_graphs(sp.csr_matrix(np.ones((size, size))))
    for values, equal in (
        ([[1], [1, 2], [1]], False),
        ([[1], [1], [1]], True),
        ([np.ones(2), np.ones(3), 1], False),
        (["a", "a", "a"], True),
        ([1, 1.0, 1], True),
        ([None, None, None], True),
    ):
        column = np.fromiter(values, dtype=object, count=size)
        graph = dataclasses.replace(edges, x=None, columns={"c": column})
        assert graph.has_equal_features() is equal
