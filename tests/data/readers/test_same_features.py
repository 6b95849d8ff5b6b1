"""The same graph in several formats gives the same features, so the same embeddings."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.features import encode_features, fit_features
from graphlatent.errors import GraphLatentWarning
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.training.encoding import fit_encoding

FORMATS = ["csv", "txt", "zip", "parquet", "frames", "scipy", "pyg", "networkx"]
# Said, so that no note is needed.
DELIMITER = {"txt": ","}


@pytest.fixture(scope="module")
def bag_of_words():
    """Features and edges like those of Cora: a few of 300 words per node, edges in both
    directions.
    """
    rng = np.random.default_rng(0)
    x = (rng.random((60, 300)) < 0.03).astype(np.float32)
    x[:, 7] = 1  # a word that every document has
    pairs = rng.integers(0, 60, (2, 150))
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    edges = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    return x, edges


def pack(kind, name):
    return {"method": "zip", "archive_name": name} if kind == "zip" else None


def source_of(kind, x, edges, folder):
    edge_table = pd.DataFrame({"source": edges[0], "target": edges[1]})
    whole = bool((x == x.astype(int)).all())
    values = x.astype(int) if whole else x.astype(float)
    node_table = pd.DataFrame(values, columns=[f"word {i}" for i in range(x.shape[1])])
    node_table.insert(0, "id", np.arange(len(x)))
    if kind in ("csv", "parquet"):
        paths = tuple(folder / f"{name}.{kind}" for name in ("edges", "nodes"))
        for table, path in zip((edge_table, node_table), paths, strict=True):
            table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
        return paths
    if kind in ("txt", "zip"):
        paths = tuple(folder / f"{name}.{kind}" for name in ("edges", "nodes"))
        edge_table.to_csv(paths[0], index=False, compression=pack(kind, "edges.csv"))
        node_table.to_csv(paths[1], index=False, compression=pack(kind, "nodes.csv"))
        return paths
    if kind == "scipy":
        ones = np.ones(edges.shape[1])
        return sp.csr_matrix((ones, edges), shape=(len(x), len(x))), sp.csr_matrix(x)
    if kind == "pyg":
        return Data(x=torch.from_numpy(x.astype(np.float32)), edge_index=torch.from_numpy(edges))
    if kind == "networkx":
        graph = nx.Graph()
        graph.add_nodes_from(
            (i, {f"word {j}": v for j, v in enumerate(r)}) for i, r in enumerate(values.tolist())
        )
        graph.add_edges_from(edges.T.tolist())
        return graph
    return edge_table, node_table


@pytest.mark.parametrize("kind", FORMATS)
def test_words_are_taken_as_they_are_from_every_format(bag_of_words, tmp_path, kind):
    x, edges = bag_of_words
    graph = read_graphs(source_of(kind, x, edges, tmp_path), delimiter=DELIMITER.get(kind))
    encoded = encode_features(fit_features(graph, degree_cap=8), graph)
    np.testing.assert_array_equal(to_dense(encoded.x).numpy(), x)
    # Only PyG's own tensor is dense, as it came
    assert isinstance(encoded.x, SparseMatrix) == (kind != "pyg")
    np.testing.assert_array_equal(encoded.edge_index.numpy(), edges)


def test_embeddings_are_the_same(bag_of_words, tmp_path):
    x, edges = bag_of_words
    rows = [
        NodeLaGraph(epochs=3, hidden_dim=8, device="cpu").fit_transform(
            read_graphs(source_of(kind, x, edges, tmp_path), delimiter=DELIMITER.get(kind))
        )
        for kind in FORMATS
    ]
    for other in rows[1:]:
        np.testing.assert_allclose(other, rows[0], rtol=1e-4, atol=1e-5)


def weighted(x):
    """Words weighted by how rare they are, rows of sum 1, as text is often given."""
    rare = x * np.log(len(x) / np.maximum(x.sum(0), 1))
    return rare / np.maximum(rare.sum(1, keepdims=True), 1e-9)


def measured(x):
    """More than 64 columns of any unit, most of them not 0."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(len(x), 70)) * np.logspace(-2, 3, 70) + np.arange(70)
    values[:, 3] = rng.integers(0, 2, len(x))
    values[:, 4] = 7.5
    return values


def mixed(x):
    """Words, and two numbers that are not 0."""
    return np.concatenate([x, measured(x)[:, 5:7]], axis=1)


@pytest.mark.parametrize("change", [weighted, measured, mixed])
def test_real_values_are_encoded_alike_from_every_format(bag_of_words, tmp_path, change):
    x, edges = bag_of_words
    x = np.round(change(x.astype(float)), 4)
    estimator = NodeLaGraph(device="cpu", structure="none")
    encoded = {}
    for kind in FORMATS:
        graph = read_graphs(source_of(kind, x, edges, tmp_path), delimiter=DELIMITER.get(kind))
        with warnings.catch_warnings():
            # What was decided is said; here it is looked at.
            warnings.simplefilter("ignore", GraphLatentWarning)
            spec = fit_encoding(graph, estimator._resolved(graph))
        features = encode_features(spec, graph).x
        encoded[kind] = to_dense(features).numpy()
        # Words stay sparse, whatever their weights are.
        assert change is not weighted or isinstance(features, SparseMatrix) or kind == "pyg"
    for kind, rows in encoded.items():
        np.testing.assert_allclose(rows, encoded["scipy"], rtol=1e-4, atol=1e-5, err_msg=kind)
