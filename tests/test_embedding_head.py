"""Estimators whose embedding is made by a head, and estimators that pool in other ways."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from cases import as_sparse, make_method, make_settings, random_graph
from graphlatent import GraphLaGraph, NodeBGRL, NodeDGI, NodeLaGraph, load_estimator
from graphlatent.bench.training import TrainingSpec
from graphlatent.config import GraphSettings, NodeSettings
from graphlatent.data.graph import GraphData
from graphlatent.data.splits import random_splits
from graphlatent.errors import ConfigError, TrainingInterrupted
from graphlatent.io.runfolder import RunFolder
from graphlatent.nn.combined_graph_head import CombinedGraphHead
from graphlatent.nn.graph_head import GraphHead
from graphlatent.nn.node_head import NodeHead
from graphlatent.probes import linear_probe
from graphlatent.representations import propagated_features
from graphlatent.training.loop import Hooks
from test_custom_encoder import NeighbourSum

SIZES = [5, 4, 3, 6, 2, 7, 4, 3]
SMALL = {"hidden_dim": 8, "epochs": 3, "device": "cpu", "random_state": 3}
NODE = {**SMALL, "embedding": "combined", "embedding_dim": 6}
GRAPH = {**SMALL, "num_layers": 2, "batch_size": 3, "embedding": "standard"}
CASES = {
    "node": NodeLaGraph(**NODE),
    "node, GIN": NodeLaGraph(**NODE, encoder="gin"),
    "node, batches of nodes": NodeLaGraph(**NODE, batching="nodes", nodes_per_step=9),
    "node, batch norm": NodeLaGraph(**NODE, preset="released"),
    "node, custom encoder": NodeLaGraph(**NODE, encoder=NeighbourSum()),
    "node, DGI": NodeDGI(**NODE),
    "node, BGRL": NodeBGRL(**NODE),
    "graph": GraphLaGraph(**GRAPH),
    "graph, all readouts and PCA": GraphLaGraph(**GRAPH, readout="root", embedding_dim=6),
    "graph, maxima": GraphLaGraph(**GRAPH, readout="max", engine="general"),
    "graph, combined": GraphLaGraph(**{**GRAPH, "embedding": "combined"}),
    "graph, custom encoder": GraphLaGraph(**GRAPH, encoder=NeighbourSum()),
}
BUILT_IN = [name for name in CASES if "custom" not in name]


def width(case):
    """The expected columns of the cases; the default readout is of sums, means and maxima."""
    widths = {"graph": 3 * 16, "graph, maxima": 16, "graph, custom encoder": 3 * 6}
    return {**widths, "graph, combined": 2 * 4 + 3 * 16}.get(case, 6)


@pytest.mark.parametrize("case", CASES)
def test_saved_and_loaded_rows_are_equal(case, tmp_path):
    data = random_graph(SIZES)
    fitted = CASES[case].__class__(**CASES[case].get_params()).fit(data)
    rows = fitted.transform(data)
    assert rows.shape == (34 if case.startswith("node") else 8, width(case))
    assert rows.dtype == np.float32 and np.isfinite(rows).all()
    assert fitted.embedding_dim_ == width(case)
    of_graphs = CombinedGraphHead if case == "graph, combined" else GraphHead
    assert type(fitted.model_.head) is (NodeHead if case.startswith("node") else of_graphs)
    np.testing.assert_array_equal(fitted.transform(data), rows)
    custom = {"encoder": NeighbourSum()} if "custom" in case else {}
    loaded = load_estimator(fitted.save(tmp_path / "model"), **custom)
    np.testing.assert_array_equal(loaded.transform(data), rows)
    assert loaded.embedding_dim_ == fitted.embedding_dim_


@pytest.mark.parametrize("case", CASES)
def test_rows_do_not_depend_on_the_rest_of_the_batch(case):
    data, other = random_graph(SIZES), random_graph([6], seed=9)
    fitted = CASES[case].__class__(**CASES[case].get_params()).fit(data)
    alone = fitted.transform(other)
    ptr = torch.cat([data.ptr, data.ptr[-1:] + other.ptr[1:]])
    edges = torch.cat([data.edge_index, other.edge_index + data.num_nodes], dim=1)
    both = GraphData(edges, data.num_nodes + 6, ptr, x=torch.cat([data.x, other.x]))
    np.testing.assert_allclose(fitted.transform(both)[-len(alone) :], alone, atol=1e-4)


@pytest.mark.parametrize("case", ["node", "node, batch norm", "graph, all readouts and PCA"])
def test_each_snapshot_has_its_own_head(case):
    estimator, data = CASES[case], random_graph(SIZES)
    found = dict(estimator.snapshots(data, epochs=[0, 1, 3]))
    for epoch, then in found.items():
        alone = type(estimator)(**{**estimator.get_params(), "epochs": epoch}).fit(data)
        np.testing.assert_array_equal(then.transform(data), alone.transform(data))
    heads = [then.model_.head.components for then in found.values()]
    assert not torch.equal(heads[0], heads[1]) and not torch.equal(heads[1], heads[2])


def test_a_resumed_run_gives_the_same_rows(tmp_path):
    data, folder, asked = random_graph([20]), RunFolder(tmp_path / "run"), []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 2

    hooks = Hooks(save=folder.save_snapshot, stop_requested=stop)
    with pytest.raises(TrainingInterrupted):
        NodeLaGraph(**NODE).fit(data, run=folder, hooks=hooks)
    resumed = NodeLaGraph(**NODE).fit(data, run=folder)
    whole = NodeLaGraph(**NODE).fit(data)
    np.testing.assert_array_equal(resumed.transform(data), whole.transform(data))
    np.testing.assert_array_equal(
        load_estimator(folder.path).transform(data), whole.transform(data)
    )


@pytest.mark.usefixtures("random_biases")
@pytest.mark.parametrize("case", BUILT_IN)
def test_sparse_and_dense_features_agree(case):
    data = random_graph(SIZES, one_hot=True)
    dense, sparse = (
        type(CASES[case])(**{**CASES[case].get_params(), "features": form}).fit(graph)
        for form, graph in (("dense", data), ("sparse", as_sparse(data)))
    )
    found, expected = sparse.transform(as_sparse(data)), dense.transform(data)
    np.testing.assert_allclose(np.abs(found @ found.T), np.abs(expected @ expected.T), atol=5e-3)


@pytest.mark.parametrize("readout", ["max", "root-sum", "root-mean", "sum+mean+max", "root"])
def test_the_loss_pools_by_the_sum_for_other_readouts(readout):
    data = random_graph(SIZES)
    values = {**SMALL, "alpha": 2.0, "embedding": "readout"}
    plain = GraphLaGraph(**values, readout="sum").fit(data)
    other = GraphLaGraph(**values, readout=readout).fit(data)
    assert other.history_.columns() == plain.history_.columns()
    for key, value in plain.model_.state_dict().items():
        assert torch.equal(value, other.model_.state_dict()[key])
    assert GraphLaGraph(**values, readout="mean").fit(data).history_.loss != plain.history_.loss


def test_a_readout_is_of_every_layer():
    data = random_graph(SIZES)
    total, largest, together = (
        GraphLaGraph(**SMALL, readout=name, embedding="readout").fit_transform(data)
        for name in ("sum", "max", "sum+mean+max")
    )
    mean = total / np.array(SIZES, dtype=np.float32)[:, None]
    # Three layers of 8 columns.
    blocks = [part[:, start : start + 8] for start in (0, 8, 16) for part in (total, mean, largest)]
    np.testing.assert_array_equal(together, np.concatenate(blocks, axis=1))


def test_standard_rows_of_the_training_set():
    data = random_graph(SIZES)
    rows = CASES["graph"].__class__(**GRAPH).fit_transform(data)
    plain = GraphLaGraph(**{**GRAPH, "embedding": "readout"}).fit_transform(data)
    varies = plain.std(0) > 1e-6 * np.abs(plain).max(0)
    expected = np.where(varies, (plain - plain.mean(0)) / np.where(varies, plain.std(0), 1), 0)
    np.testing.assert_allclose(rows, expected, atol=1e-4)


def test_only_our_default_has_a_head():
    assert (NodeSettings.embedding, NodeSettings.embedding_dim) == ("encoder", None)
    assert (GraphSettings.embedding, GraphSettings.embedding_dim) == ("readout", None)
    data = random_graph(SIZES)
    assert isinstance(NodeLaGraph(**SMALL).fit(data).model_.head, NodeHead)
    assert isinstance(GraphLaGraph(**SMALL).fit(data).model_.head, CombinedGraphHead)
    bare = dataclasses.replace(data, x=None)
    assert isinstance(GraphLaGraph(**SMALL).fit(bare).model_.head, GraphHead)
    paper = {**SMALL, "preset": "paper"}
    for estimator in (NodeLaGraph(**paper), GraphLaGraph(**paper), NodeDGI(**SMALL)):
        assert not hasattr(estimator.fit(data).model_, "head")


def test_default_widths():
    data = random_graph([30], num_features=70)
    fitted = NodeLaGraph(**{**NODE, "embedding_dim": None, "hidden_dim": 400}).fit(data)
    assert fitted.embedding_dim_ == 512
    # Thirty training rows minus their mean have no more than 29 directions.
    assert np.count_nonzero(np.abs(fitted.transform(data)).sum(0)) == 29
    few = NodeLaGraph(**{**NODE, "embedding_dim": None}).fit(random_graph([30]))
    # Features, their averages, the encoder, and a column of the degrees.
    assert few.embedding_dim_ == 4 + 4 + 8 + 1


def test_pandas_output():
    data = random_graph(SIZES)
    estimator = GraphLaGraph(**GRAPH, embedding_dim=3).set_output(transform="pandas")
    frame = estimator.fit(data).transform(data)
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == ["e0", "e1", "e2"]


@pytest.mark.parametrize(
    ("make", "size"), [(NodeLaGraph, 1), (GraphLaGraph, 1), (NodeLaGraph, 3), (GraphLaGraph, 3)]
)
def test_nodes_without_edges(make, size):
    edges, ptr = torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, size])
    values = NODE if make is NodeLaGraph else {**GRAPH, "embedding_dim": 6}
    rows = make(**values).fit_transform(GraphData(edges, size, ptr, x=torch.ones(size, 2)))
    assert rows.shape == (size if make is NodeLaGraph else 1, 6) and np.isfinite(rows).all()


def test_negative_edge_weights_with_gin():
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    x, weight = np.eye(3, dtype=np.float32), np.array([-1.0, -1.0, 2.0, 2.0], dtype=np.float32)
    data = GraphData(
        torch.from_numpy(edges),
        3,
        torch.tensor([0, 3]),
        x=torch.from_numpy(x),
        edge_weight=torch.from_numpy(weight),
    )
    assert np.isfinite(NodeLaGraph(**NODE, encoder="gin").fit_transform(data)).all()


def test_the_bench_trains_with_a_head_once():
    """The settings of the embedding are part of what distinguishes trainings."""
    plain, headed = make_settings("node"), make_settings("node", embedding="combined")
    assert TrainingSpec(plain, "node").key != TrainingSpec(headed, "node").key
    assert not TrainingSpec(headed, "node").appends_features


@pytest.mark.parametrize(
    ("level", "values", "message"),
    [
        (
            "node",
            {"embedding_dim": 8},
            "The 'embedding_dim' parameter of NodeLaGraph has no effect without"
            " embedding='combined'. Set that, or leave 'embedding_dim' out.",
        ),
        (
            "node",
            {"encoder_weight": 0.5},
            "The 'encoder_weight' parameter of NodeLaGraph has no effect without"
            " embedding='combined'. Set that, or leave 'encoder_weight' out.",
        ),
        (
            "graph",
            {"embedding_dim": 8},
            "The 'embedding_dim' parameter of GraphLaGraph has no effect without"
            " embedding='standard'. Set that, or leave 'embedding_dim' out.",
        ),
        (
            "node",
            {"embedding": "combined", "concat_input": True},
            "concat_input=True of NodeLaGraph has no meaning with embedding='combined', which"
            " contains the features. Use concat_input=False, or embedding='encoder'.",
        ),
        (
            "node",
            {"embedding": "standard"},
            "The 'embedding' parameter of NodeLaGraph must be 'encoder' or 'combined'. Got"
            " 'standard' instead.",
        ),
        (
            "graph",
            {"embedding": "standard", "embedding_dim": 0},
            "The 'embedding_dim' parameter of GraphLaGraph must be an int in the range [1, inf) or"
            " None. Got 0 instead.",
        ),
    ],
)
def test_settings_that_contradict_each_other(level, values, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        make_settings(level, **values)


def test_a_model_with_a_head_of_its_own_is_refused(monkeypatch):
    method = make_method("node", embedding="combined")
    build = method.build

    def with_head(in_dim, *, generator):
        model = build(in_dim, generator=generator)
        model.head = nn.Linear(2, 2)
        return model

    monkeypatch.setattr(method, "build", with_head)
    with pytest.raises(TypeError, match="needs the name 'head' of the model of lagraph"):
        method.build_with_head(4, generator=torch.Generator())


@pytest.mark.parametrize("num_features", [1, 2, 5])
@pytest.mark.parametrize("source", ["raw", "propagated"])
def test_the_magnitude_of_few_features_is_kept(num_features, source):
    """Labels by the size of a feature or of its 2-hop average, which unit rows would lose."""
    differences = []
    # The mean of three graphs: a single difference varies by about 0.02.
    for seed in range(num_features, num_features + 3):
        best, found = _scores_by_magnitude(num_features, source, seed=seed)
        assert best > 0.94
        differences.append(found - best)
    # Neighbours are not alike here, so that averages have a small part of the embedding.
    assert np.mean(differences) > (-0.03 if source == "raw" else -0.06)


def _scores_by_magnitude(num_features, source, *, seed):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 600, size=(2, 1500))
    ends = ends[:, ends[0] != ends[1]]
    edges = np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1)
    # Columns of very different scales.
    scales = np.array([1.0, 1e3, 1e-3, 10.0, 0.1])[:num_features]
    x = (np.exp(rng.normal(size=(600, num_features))) * scales).astype(np.float32)
    data = GraphData(torch.from_numpy(edges), 600, torch.tensor([0, 600]), x=torch.from_numpy(x))
    rows = x if source == "raw" else propagated_features(data, level="node")
    score = (rows / scales).sum(1)
    labels = np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))
    splits = random_splits(600, num_splits=3, train_ratio=0.6)
    estimator = NodeLaGraph(epochs=2, hidden_dim=64, device="cpu", embedding="combined")
    found = linear_probe(estimator.fit_transform(data), labels, splits=splits).mean
    return linear_probe(rows, labels, splits=splits).mean, found
