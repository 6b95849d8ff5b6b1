"""Encodings fitted block by block are those that are fitted in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.config import Settings
from graphlatent.data.csr import CSRGraph
from graphlatent.data.features import encode_features
from graphlatent.data.graph import GraphData
from graphlatent.data.measurements import moments, streamed_moments
from graphlatent.data.memory_limit import limited_memory
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix, take_rows, to_dense
from graphlatent.training import stored_encoding
from graphlatent.training.encoding import fit_encoding
from graphlatent.training.stored_encoding import encoded_rows, fit_stored_encoding


class InMemoryStore:
    """A graph in memory that is read as one outside of it."""

    def __init__(self, graph: GraphData) -> None:
        self.graph, self.taken = graph, []

    share = None
    num_nodes = property(lambda self: self.graph.num_nodes)
    num_edges = property(lambda self: self.graph.num_edges)

    @property
    def feature_kind(self):
        if self.graph.x is None:
            return "columns" if self.graph.columns else None
        return "sparse" if isinstance(self.graph.x, SparseMatrix) else "dense"

    @property
    def feature_dim(self):
        return len(self.graph.columns or ()) if self.graph.x is None else self.graph.x.shape[1]

    def features(self, index):
        nodes = torch.arange(self.num_nodes)[index]
        self.taken.append(len(nodes))
        x, columns = self.graph.x, self.graph.columns
        return GraphData(
            torch.zeros(2, 0, dtype=torch.int64),
            len(nodes),
            torch.tensor([0, len(nodes)]),
            x=None if x is None else take_rows(x, nodes),
            columns=None if columns is None else {k: v[nodes.numpy()] for k, v in columns.items()},
            reading=self.graph.reading,
        )

    def __getattr__(self, name):
        """Rows and degrees, those of the graph."""
        if name == "degree":
            return self.graph.degree
        plain = replace(self.graph, x=torch.zeros(self.num_nodes, 1), columns=None)
        return getattr(CSRGraph.of(plain), name)

    def to_graph(self):
        return self.graph


def ring(num_nodes: int):
    node = np.arange(num_nodes)
    one_way = np.stack([node, (node + 1) % num_nodes])
    return np.concatenate([one_way, one_way[::-1]], axis=1)


def graphs():
    rng = np.random.default_rng(0)
    n = 50
    sparse = sp.random(n, 200, 0.05, random_state=1, format="csr")
    numbers = pd.DataFrame(
        {
            "id": np.arange(n),
            "size": rng.normal(10, 3, n),
            "flag": rng.integers(0, 2, n),
            "kind": rng.choice(["a", "b", "c"], n),
        }
    )
    edges = pd.DataFrame(ring(n).T, columns=["source", "target"])
    yield "few", read_graphs((ring(n), rng.normal(5, 2, (n, 4)).astype(np.float32)))
    yield "measurements", read_graphs((ring(n), rng.normal(5, 2, (n, 80)).astype(np.float32)))
    yield "words", read_graphs((ring(n), sparse))
    yield "columns", read_graphs(edges, nodes=numbers)
    yield "none", read_graphs((ring(n), None))
    yield "equal", read_graphs((ring(n), np.ones((n, 3), dtype=np.float32)))


CASES = dict(graphs())


def settings_of(**values) -> Settings:
    return cast(Settings, NodeLaGraph(**values)._resolved())


@pytest.mark.parametrize("preset", ["plus", "paper"])
@pytest.mark.parametrize(
    ("name", "row_normalize"),
    [(name, False) for name in CASES] + [(n, True) for n in CASES if n not in ("none", "equal")],
)
def test_encoding_and_rows_equal_those_in_memory(name, preset, row_normalize, monkeypatch):
    monkeypatch.setattr(stored_encoding, "BLOCK", 300)
    graph = CASES[name]
    settings = settings_of(preset=preset, row_normalize=row_normalize)
    # Coordinates beside given features are not used of a stored graph.
    plain = settings if name in ("none", "equal") else replace(settings, structure="none")
    wanted = fit_encoding(graph, plain)
    store = InMemoryStore(graph)
    spec = fit_stored_encoding(store, settings)
    rows = encoded_rows(store, spec, settings)
    assert spec.to_dict().keys() == wanted.to_dict().keys()
    assert spec.scale == pytest.approx(wanted.scale, rel=1e-12)
    assert np.allclose(spec.standard, wanted.standard, rtol=1e-12)
    index = torch.tensor([3, 7, 7, 49])
    x = to_dense(encode_features(wanted, graph, row_normalize=row_normalize).x)
    assert torch.allclose(to_dense(rows.x.take(index)), x[index], rtol=1e-6, atol=1e-7)
    assert rows.x.shape == x.shape


def test_blocks_bound_what_is_read_at_once(monkeypatch):
    monkeypatch.setattr(stored_encoding, "BLOCK", 320)
    store = InMemoryStore(CASES["measurements"])
    fit_stored_encoding(store, settings_of())
    assert max(store.taken) <= 5


@pytest.mark.parametrize("size", [1, 7, 50])
def test_streamed_moments(size):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 6, generator=generator) * 3 + 100
    x[:, 1], x[:, 2] = 4.0, (x[:, 2] > 100).float()
    x[:, 3] = 0.1
    found = streamed_moments(lambda: iter(torch.split(x, size)))
    assert np.allclose(found, moments(x), rtol=1e-12)
    assert found[1] == (4.0, 0.0) and found[2] == (0.0, 1.0) and found[3][1] == 0.0


def test_degrees_need_no_memory_for_edges():
    store = InMemoryStore(CASES["none"])
    store.to_graph = None
    settings = settings_of(structure="none")
    spec = fit_stored_encoding(store, settings)
    assert spec.kind == "degree" and spec.cap == 2
    assert encoded_rows(store, spec, settings).x.take(torch.tensor([5])).tolist() == [[0, 0, 1]]


def test_memory_of_computed_features_is_limited():
    class Huge(InMemoryStore):
        num_edges = property(lambda self: 10**9)

    message = (
        r"Features that are computed from the edges of a stored graph \(give it features, or use"
        r" structure='none'"
    )
    with limited_memory("1GB"), pytest.raises(InputError, match=message):
        fit_stored_encoding(Huge(CASES["none"]), settings_of())
