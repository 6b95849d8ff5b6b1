"""Estimators on a graph in a store: the same numbers as in memory, without reading it whole."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from commands import typed
from graphlatent import NodeBGRL, NodeDGI, NodeLaGraph, read_embeddings, read_graphs
from graphlatent.data.memory_limit import limited_memory
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.ingest import IngestOptions, ingest
from graphlatent.data.store.store import GraphStore
from graphlatent.errors import ConfigError, GraphLatentError, InputError

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore:Edges are read as undirected")
SMALL = {"hidden_dim": 16, "epochs": 2, "device": "cpu", "nodes_per_step": 60}


def tables(folder, *, num_nodes=200, seed=0, features=True, weighted=False):
    """Edges in two communities, and a table of nodes with numbers and categories."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, num_nodes)
    pairs = rng.integers(0, num_nodes, (4 * num_nodes, 2))
    kept = (group[pairs[:, 0]] == group[pairs[:, 1]]) | (rng.random(len(pairs)) < 0.1)
    edges = pd.DataFrame(pairs[kept], columns=["source", "target"])
    edges = edges[edges["source"] != edges["target"]].drop_duplicates()
    if weighted:
        edges["weight"] = rng.uniform(0.5, 2, len(edges)).round(3)
    ids = np.array([f"n{i}" for i in range(num_nodes)])
    edges["source"], edges["target"] = ids[edges["source"]], ids[edges["target"]]
    edges.to_csv(folder / "edges.csv", index=False)
    nodes = pd.DataFrame({"id": ids, "group": group})
    if features:
        nodes["size"] = rng.normal(5 + group, 1).round(3)
        nodes["kind"] = rng.choice(["a", "b"], num_nodes)
    nodes.to_csv(folder / "nodes.csv", index=False)
    return folder / "edges.csv", folder / "nodes.csv"


@pytest.fixture
def store(tmp_path):
    """The tables as a store, with labels."""
    edges, nodes = tables(tmp_path)
    options = IngestOptions(reading=TableOptions(label="group"))
    return ingest(edges, tmp_path / "store", nodes=nodes, options=options)[0]


def in_memory(store: GraphStore):
    return read_graphs(store.path)


@pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")
@pytest.mark.parametrize("batching", ["nodes", "clusters", "neighbors"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **s: NodeLaGraph(structure="none", **s),
        lambda **s: NodeLaGraph(preset="paper", **s),
        lambda **s: NodeLaGraph(structure="none", encoder="gin", **s),
        lambda **s: NodeBGRL(**s),
        lambda **s: NodeDGI(**s),
    ],
    ids=["plus", "paper", "gin", "bgrl", "dgi"],
)
def test_a_store_gives_the_numbers_of_the_graph_in_memory(store, batching, make):
    graph = in_memory(store)
    expected = make(batching=batching, **SMALL).fit(graph)
    found = make(batching=batching, **SMALL).fit(store)
    assert found.history_.loss == pytest.approx(expected.history_.loss, rel=1e-6)
    wanted = expected.embed(graph)
    rows = found.embed(store.path)
    assert rows.ids.tolist() == wanted.ids.tolist()
    assert np.allclose(_products(rows.values), _products(wanted.values), atol=1e-3)
    # The same model embeds the store and the graph in memory alike.
    assert np.allclose(rows.values, found.embed(graph).values, atol=1e-5)
    assert found.transform(store).shape == rows.values.shape


def _products(rows):
    """Inner products of the rows in parts of the largest; the signs of columns do not matter."""
    centred = rows - rows.mean(0)
    products = centred @ centred.T
    return products / np.abs(products).max()


def test_full_batches_read_the_store_into_memory(store):
    graph = in_memory(store)
    expected = NodeLaGraph(batching="full", **SMALL).fit(graph)
    found = NodeLaGraph(batching="full", **SMALL).fit(store)
    assert found.history_.loss == expected.history_.loss
    assert np.array_equal(found.embed(graph).values, expected.embed(graph).values)


def test_batching_auto_reads_what_fits(store):
    assert NodeLaGraph(**SMALL).fit(store).settings_.batching == "full"


def test_what_auto_chooses_is_said_once(store, tmp_path):
    pytest.importorskip("pymetis")
    words = ["train", store.path, "--out", tmp_path / "run", "--epochs", "1", "--max-memory"]
    code, said = typed(*map(str, words), "300kB", "--set", "nodes_per_step=20")
    assert code == 0, said
    assert said.count("--set batching=clusters was chosen") == 1
    assert NodeLaGraph.load(tmp_path / "run").settings_.batching == "clusters"


def test_a_run_of_a_store_is_complete_with_its_embeddings(store, tmp_path):
    settings = {"structure": "none", "batching": "clusters", **SMALL}
    model = NodeLaGraph(**settings).fit(store, run=tmp_path / "run")
    saved = read_embeddings(tmp_path / "run")
    assert saved.ids.tolist() == store.ids().tolist()
    assert np.allclose(saved.values, model.embed(store).values, atol=1e-6)
    loaded = NodeLaGraph.load(tmp_path / "run")
    assert np.array_equal(loaded.embed(store).values, model.embed(store).values)
    # A second fit takes the model of the complete run.
    again = NodeLaGraph(**settings).fit(store, run=tmp_path / "run")
    assert np.array_equal(again.embed(store).values, model.embed(store).values)
    # Clusters are kept in the store, whose checksums do not depend on them.
    assert list(store.cache.iterdir())
    GraphStore.open(store.path)


def test_another_store_is_not_resumed(store, tmp_path):
    settings = {"structure": "none", "batching": "nodes", **SMALL}
    NodeLaGraph(**settings).fit(store, run=tmp_path / "run")
    other = tmp_path / "other"
    other.mkdir()
    edges, nodes = tables(other, seed=1)
    changed = ingest(edges, other / "store", nodes=nodes)[0]
    with pytest.raises(GraphLatentError, match=r"Cannot resume .*edges"):
        NodeLaGraph(**settings).fit(changed, run=tmp_path / "run")


def test_embed_to_a_file(store, tmp_path):
    model = NodeLaGraph(structure="none", batching="nodes", **SMALL).fit(store)
    path = model.embed_to(store, tmp_path / "rows.npy")
    assert np.array_equal(np.load(path), model.embed(store).values)
    # Of a graph in memory, it is what `save` writes.
    graph = in_memory(store)
    saved = read_embeddings(model.embed_to(graph, tmp_path / "rows.parquet"))
    assert np.array_equal(saved.values, model.embed(graph).values)
    bare = ingest(tmp_path / "edges.csv", tmp_path / "bare")[0]
    with pytest.raises(InputError, match="this graph has no features"):
        model.embed(bare)


@pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")
def test_a_store_without_features(tmp_path):
    edges, _ = tables(tmp_path, weighted=True)
    store = ingest(edges, tmp_path / "store")[0]
    for structure in ("none", "auto"):
        model = NodeLaGraph(batching="neighbors", structure=structure, **SMALL).fit(store)
        values = model.embed(store).values
        assert np.allclose(values, model.embed(in_memory(store)).values, atol=1e-5)


def test_models_that_are_not_layerwise_read_the_store(store):
    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 8)

        def forward(self, x, edge_index, edge_weight):
            return self.linear(x)

    graph = in_memory(store)
    model = NodeLaGraph(preset="paper", encoder=Mean(), **SMALL).fit(graph)
    assert np.array_equal(model.embed(store).values, model.embed(graph).values)


def test_directions_are_those_of_the_store(tmp_path):
    edges, nodes = tables(tmp_path)
    both = ingest(edges, tmp_path / "both", nodes=nodes)[0]
    one = ingest(edges, tmp_path / "one", nodes=nodes, options=IngestOptions(directed=True))[0]
    pieces = {"structure": "none", "batching": "clusters", **SMALL}
    with pytest.raises(ConfigError, match=r"symmetrize=True does not fit .*/one, which keeps"):
        NodeLaGraph(**pieces).fit(one)
    with pytest.raises(ConfigError, match=r"symmetrize=False came too late for .*/both"):
        NodeLaGraph(symmetrize=False, **pieces).fit(both)
    model = NodeLaGraph(symmetrize=False, **pieces).fit(one)
    graph = read_graphs(one.path, symmetrize=False)
    assert np.allclose(model.embed(one).values, model.embed(graph).values, atol=1e-5)


def test_what_is_too_large_for_memory(store, monkeypatch):
    model = NodeLaGraph(structure="none", batching="nodes", **SMALL).fit(store)
    huge = GraphStore(store.path, {**store.about, "num_nodes": 10**9})
    message = "'embed_to', or 'graphlatent embed' on the command line"
    with limited_memory("1GB"), pytest.raises(InputError, match=message):
        model.embed(huge)
