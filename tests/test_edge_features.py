"""Features of edges from a graph to embeddings: training, batches, saving, resuming, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from graphlatent import (
    GraphLaGraph,
    NodeBGRL,
    NodeDGI,
    NodeLaGraph,
    RunFolder,
    load_estimator,
    read_graphs,
)
from graphlatent.data.batches import GraphBatches, full_batch
from graphlatent.data.csr import CSRGraph
from graphlatent.data.features import encode_features
from graphlatent.data.graph import GraphData
from graphlatent.data.pieces import NodePieces
from graphlatent.errors import ConfigError, RunFolderError, TrainingInterrupted
from graphlatent.methods.lagraph.fast import can_share
from graphlatent.training.encoding import fit_encoding
from graphlatent.training.loop import Hooks

pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")
SMALL = {"encoder": "gin", "hidden_dim": 6, "epochs": 3, "device": "cpu"}
NODE = [
    (NodeLaGraph, {}),
    (NodeLaGraph, {"preset": "paper"}),
    (NodeLaGraph, {"edge_drop": 0.4, "feature_drop": 0.2}),
    (NodeLaGraph, {"batching": "nodes", "nodes_per_step": 9, "steps_per_epoch": 2}),
    (NodeLaGraph, {"objective": "cosine", "momentum": 0.9, "mask_value": "token"}),
    (NodeDGI, {}),
    (NodeBGRL, {}),
]
GRAPH = [(GraphLaGraph, {"batch_size": 3}), (GraphLaGraph, {"batch_size": 3, "preset": "paper"})]
IDS = [f"{cls.__name__}-{i}" for i, (cls, _) in enumerate(NODE + GRAPH)]


def tables(*, seed=0, num_graphs=1, num_nodes=14):
    rng = np.random.default_rng(seed)
    edges, nodes = [], []
    for graph in range(num_graphs):
        start = np.arange(num_nodes)
        ends = np.concatenate([np.stack([start, (start + step) % num_nodes]) for step in (1, 3)], 1)
        count = ends.shape[1]
        kind, amount = rng.choice(["card", "cash", "wire"], count), rng.lognormal(size=count)
        columns = {"source": ends[0], "target": ends[1], "kind": kind, "amount": amount}
        edges.append(pd.DataFrame({**columns, "graph": graph}))
        features = {"size": rng.normal(size=num_nodes), "colour": rng.choice(["r", "g"], num_nodes)}
        nodes.append(pd.DataFrame({"id": start, **features, "graph": graph}))
    return pd.concat(edges), pd.concat(nodes)


def data(*, names=("kind", "amount"), level="node", edges=None, **options) -> GraphData:
    made, nodes = tables(num_graphs=1 if level == "node" else 7)
    edges = made if edges is None else edges
    return read_graphs(edges, nodes=nodes, edge_features=list(names), **options)


def fitted(cls, values, graph):
    return cls(**{**SMALL, **values}).fit(graph)


@pytest.mark.parametrize(("cls", "values"), NODE + GRAPH, ids=IDS)
class TestEveryMethod:
    def test_edge_features_matter_in_training_and_in_embedding(self, cls, values):
        graph = data(level=cls.level)
        edges, _ = tables(num_graphs=1 if cls.level == "node" else 7)
        other = data(level=cls.level, edges=edges.assign(kind=edges["kind"].to_numpy()[::-1]))
        first, second = fitted(cls, values, graph), fitted(cls, values, other)
        assert first.history_.loss != second.history_.loss
        assert not np.allclose(first.transform(graph), first.transform(other))
        assert not np.allclose(first.transform(graph), second.transform(graph))

    def test_loaded_equals_saved(self, cls, values, tmp_path):
        graph = data(level=cls.level)
        estimator = fitted(cls, values, graph)
        loaded = load_estimator(estimator.save(tmp_path / "model"))
        assert loaded.features_.edges == estimator.features_.edges
        np.testing.assert_array_equal(loaded.transform(graph), estimator.transform(graph))

    def test_resumed_equals_uninterrupted(self, cls, values, tmp_path):
        graph = data(level=cls.level)
        whole = fitted(cls, values, graph)
        run = RunFolder(tmp_path / "run")
        steps = iter([False, True])
        hooks = Hooks(save=run.save_snapshot, stop_requested=lambda: next(steps))
        estimator = cls(**{**SMALL, **values})
        with pytest.raises(TrainingInterrupted):
            estimator.fit(graph, run=run, hooks=hooks)
        resumed = cls(**{**SMALL, **values}).fit(graph, run=run)
        np.testing.assert_array_equal(resumed.transform(graph), whole.transform(graph))

    def test_a_permutation_of_the_input_permutes_the_embeddings(self, cls, values):
        estimator = fitted(cls, {**values, "epochs": 0}, graph := data(level=cls.level))
        edges, nodes = tables(num_graphs=1 if cls.level == "node" else 7)
        shuffled = read_graphs(
            edges.sample(frac=1, random_state=1),
            nodes=nodes.sample(frac=1, random_state=2),
            edge_features=["amount", "kind"],
        )
        first, second = estimator.embed(graph).to_pandas(), estimator.embed(shuffled).to_pandas()
        pd.testing.assert_frame_equal(first, second.loc[first.index], rtol=1e-3, atol=1e-4)


def encoded(graph, **values):
    estimator = GraphLaGraph(**{**SMALL, **values})
    return encode_features(fit_encoding(graph, estimator._resolved()), graph)


def plain_edges(edges):
    return edges


CPU = torch.device("cpu")


def as_set(batch):
    """The edges of a batch by the rows of the training set, with their features."""
    ends = batch.node_id[batch.structure.edge_index]
    attr = batch.structure.edge_attr
    return {(int(u), int(v), tuple(attr[i].tolist())) for i, (u, v) in enumerate(ends.T)}


def test_batches_of_graphs_and_of_nodes_have_the_features_of_their_edges():
    graph = encoded(data(level="graph"))
    whole = full_batch(graph, prepare=plain_edges, device=CPU)
    everything = as_set(whole)
    graphs = GraphBatches(whole, graph.ptr, batch_size=3)
    batch = graphs.take(torch.tensor([5, 0, 2]))
    size = graph.num_nodes // 7
    assert as_set(batch) == {edge for edge in everything if edge[0] // size in (5, 0, 2)}
    nodes = NodePieces(
        CSRGraph.of(graph),
        nodes_per_step=20,
        steps_per_epoch=1,
        prepare=plain_edges,
        device=CPU,
        dtype=torch.float32,
    )
    chosen = torch.tensor([1, 2, 3, 5, 20, 21, 24, 60])
    inside = set(chosen.tolist())
    found = as_set(nodes.take(chosen))
    assert found and found == {e for e in everything if e[0] in inside and e[1] in inside}


def test_an_embedding_does_not_depend_on_the_rest_of_the_batch():
    edges, nodes = tables(num_graphs=7)
    estimator = fitted(GraphLaGraph, {}, data(level="graph"))
    alone = read_graphs(
        edges[edges["graph"] == 4],
        nodes=nodes[nodes["graph"] == 4],
        edge_features=["kind", "amount"],
    )
    found, whole = estimator.transform(alone), estimator.transform(data(level="graph"))
    np.testing.assert_allclose(found[0], whole[4], rtol=1e-4, atol=1e-5)


def test_the_fast_path_declines():
    estimator = fitted(NodeLaGraph, {}, data())
    assert not can_share(estimator.model_.encoder)
    assert not estimator.method_.can_capture(estimator.model_)
    dgi = fitted(NodeDGI, {}, data())
    assert not dgi.method_.can_capture(dgi.model_)


def test_without_edge_features_gin_has_the_bits_that_it_had():
    """The same model as of a graph that was read without naming its edge columns."""
    edges, nodes = tables()
    plain = read_graphs(edges.drop(columns=["kind", "amount"]), nodes=nodes)
    for none in (None, []):
        graph = read_graphs(edges, nodes=nodes, edge_features=none)
        a, b = (fitted(NodeLaGraph, {}, each) for each in (plain, graph))
        np.testing.assert_array_equal(a.transform(plain), b.transform(graph))
        assert "edges" not in b.features_.to_dict()


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (NodeLaGraph, {"encoder": "gcn"}, "encoder='gcn' does not use edge features"),
        (NodeDGI, {"encoder": "gcn"}, "encoder='gcn' does not use edge features"),
        (NodeBGRL, {"encoder": "gcn"}, "encoder='gcn' does not use edge features"),
        (
            GraphLaGraph,
            {"preset": "paper", "decoder": "gnn"},
            "decoder='gnn' does not use edge features",
        ),
    ],
)
def test_what_cannot_use_edge_features_says_so(cls, values, message):
    with pytest.raises(ConfigError, match=message):
        fitted(cls, values, data(level=cls.level))


def test_a_method_that_passes_no_edge_features_on_is_refused():
    class Forgetful(NodeDGI.method):
        def build(self, in_dim, *, generator):
            self.edge_dim, edge_dim = 0, self.edge_dim
            model = super().build(in_dim, generator=generator)
            self.edge_dim = edge_dim
            return model

    class NodeForgetful(NodeDGI):
        method = Forgetful

    with pytest.raises(ConfigError, match="The method 'dgi' does not use edge features"):
        NodeForgetful(**SMALL).fit(data())


def test_a_run_is_not_resumed_with_other_edge_features(tmp_path):
    edges, _ = tables()
    run = RunFolder(tmp_path / "run")
    fitted(NodeLaGraph, {}, data())
    NodeLaGraph(**SMALL).fit(data(), run=run)
    changed = data(edges=edges.assign(amount=edges["amount"] * 2))
    with pytest.raises(RunFolderError, match="edge feature 'amount': other values"):
        NodeLaGraph(**SMALL).fit(changed, run=run)
    with pytest.raises(RunFolderError, match="edge feature 'kind': text"):
        NodeLaGraph(**SMALL).fit(data(names=["amount"]), run=run)


def test_tiny_graphs_have_embeddings():
    edges = pd.DataFrame({"source": [0], "target": [0], "kind": ["a"]})
    loop = read_graphs(
        edges, nodes=pd.DataFrame({"id": [0, 1], "x": [1.0, 2.0]}), edge_features=["kind"]
    )
    assert fitted(NodeLaGraph, {}, loop).transform(loop).shape[0] == 2


class WithEdgeFeatures(torch.nn.Module):
    """A custom encoder that sums what its edges say."""

    def __init__(self, edge_dim=4):
        super().__init__()
        self.of_nodes, self.of_edges = torch.nn.Linear(3, 5), torch.nn.Linear(edge_dim, 5)

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        messages = torch.relu(self.of_nodes(x)[edge_index[0]] + self.of_edges(edge_attr))
        return x.new_zeros(len(x), 5).index_add(0, edge_index[1], messages)


def test_a_custom_encoder_gets_them_in_training_embedding_and_after_loading(tmp_path):
    torch.manual_seed(0)
    values = {"encoder": WithEdgeFeatures(), "embedding": "encoder"}
    estimator = fitted(NodeLaGraph, values, graph := data())
    edges, _ = tables()
    other = data(edges=edges.assign(kind="cash"))
    assert not np.allclose(estimator.transform(graph), estimator.transform(other))
    loaded = load_estimator(estimator.save(tmp_path / "m"), encoder=WithEdgeFeatures())
    np.testing.assert_array_equal(loaded.transform(graph), estimator.transform(graph))
