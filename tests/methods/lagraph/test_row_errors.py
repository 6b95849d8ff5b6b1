"""Reconstruction errors of nodes, from `reconstruct` and the definition of each objective."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import graphlatent.methods.lagraph.row_errors as row_errors
from cases import random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.ops.sparse import SparseMatrix


def fitted(graph, cls=NodeLaGraph, **settings):
    values = {"hidden_dim": 8, "epochs": 3, "device": "cpu"}
    return cls(**{**values, **settings}).fit(graph)


def features(estimator, graph):
    x = estimator._read_batch(graph).x
    return x.to_scipy().toarray() if isinstance(x, SparseMatrix) else x.numpy()


def test_cosine(monkeypatch):
    graph = random_graph([9])
    estimator = fitted(graph)
    found = estimator.reconstruction_error(graph)
    decoded, x = estimator.reconstruct(graph), features(estimator, graph)
    cosine = (decoded * x).sum(1) / np.linalg.norm(decoded, axis=1) / np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(found, 1 - cosine, atol=1e-5)
    # A row at a time
    monkeypatch.setattr(row_errors, "_BLOCK", 1)
    np.testing.assert_allclose(estimator.reconstruction_error(graph), found, atol=1e-6)


@pytest.mark.parametrize(("cls", "decoder"), [(NodeLaGraph, "mlp"), (GraphLaGraph, "gnn")])
def test_squared_error(cls, decoder):
    graph = random_graph([9, 4])
    estimator = fitted(graph, cls, preset="paper", objective="mse-embed", decoder=decoder)
    decoded, x = estimator.reconstruct(graph), features(estimator, graph)
    expected = np.square(decoded - x).sum(1)
    np.testing.assert_allclose(estimator.reconstruction_error(graph), expected, rtol=1e-4)


def test_cross_entropy():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 8, size=(2, 20))
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    graph = (edges, np.eye(4, dtype=np.float32)[np.arange(8) % 4])
    estimator = fitted(graph, preset="paper", objective="ce-embed", standardize=False)
    logits = estimator.reconstruct(graph).astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -log_p[np.arange(8), np.arange(8) % 4]
    np.testing.assert_allclose(estimator.reconstruction_error(graph), expected, rtol=1e-4)


def test_nodes_without_features_have_no_cosine():
    x = np.eye(6, dtype=np.float32)
    x[2] = 0
    edges = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    graph = (np.concatenate([edges, edges[::-1]], axis=1), sp.csr_matrix(x))
    found = fitted(graph, structure="none").reconstruction_error(graph)
    assert np.isnan(found[2]) and np.isfinite(np.delete(found, 2)).all()
