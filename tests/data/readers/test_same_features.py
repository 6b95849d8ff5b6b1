"""The same graph in several formats gives the same features, so the same embeddings."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.features import encode_features, fit_features
from graphlatent.ops.sparse import SparseMatrix, to_dense

FORMATS = ["csv", "parquet", "frames", "scipy", "pyg", "networkx"]


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


def source_of(kind, x, edges, folder):
    edge_table = pd.DataFrame({"source": edges[0], "target": edges[1]})
    node_table = pd.DataFrame(x.astype(int), columns=[f"word {i}" for i in range(x.shape[1])])
    node_table.insert(0, "id", np.arange(len(x)))
    if kind in ("csv", "parquet"):
        paths = tuple(folder / f"{name}.{kind}" for name in ("edges", "nodes"))
        for table, path in zip((edge_table, node_table), paths, strict=True):
            table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
        return paths
    if kind == "scipy":
        ones = np.ones(edges.shape[1])
        return sp.csr_matrix((ones, edges), shape=(len(x), len(x))), sp.csr_matrix(x)
    if kind == "pyg":
        return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges))
    if kind == "networkx":
        graph = nx.Graph()
        graph.add_nodes_from(
            (i, {f"word {j}": int(v) for j, v in enumerate(r)}) for i, r in enumerate(x)
        )
        graph.add_edges_from(edges.T.tolist())
        return graph
    return edge_table, node_table


@pytest.mark.parametrize("kind", FORMATS)
def test_words_are_taken_as_they_are_from_every_format(bag_of_words, tmp_path, kind):
    x, edges = bag_of_words
    graph = read_graphs(source_of(kind, x, edges, tmp_path))
    encoded = encode_features(fit_features(graph, degree_cap=8), graph)
    np.testing.assert_array_equal(to_dense(encoded.x).numpy(), x)
    # Only PyG's own tensor is dense, as it came
    assert isinstance(encoded.x, SparseMatrix) == (kind != "pyg")
    np.testing.assert_array_equal(encoded.edge_index.numpy(), edges)


def test_embeddings_are_the_same(bag_of_words, tmp_path):
    x, edges = bag_of_words
    rows = [
        NodeLaGraph(epochs=3, hidden_dim=8, device="cpu").fit_transform(
            source_of(kind, x, edges, tmp_path)
        )
        for kind in FORMATS
    ]
    for other in rows[1:]:
        np.testing.assert_allclose(other, rows[0], rtol=1e-4, atol=1e-5)
