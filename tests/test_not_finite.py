"""Weights, features and embeddings that overflow float32 are errors, and leave no complete run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from graphlatent import GraphLaGraph, NodeLaGraph, RunFolder, setting_types
from graphlatent.errors import GraphLatentWarning, InputError, NonFiniteLossError, RunFolderError
from graphlatent.methods.registry import load_estimator

NODES = 20
START = np.arange(NODES)
EDGES = np.stack([np.r_[START, (START + 1) % NODES], np.r_[(START + 1) % NODES, START]])
X = np.random.default_rng(0).normal(size=(NODES, 5)).astype(np.float32)
LEVELS = {"node": NodeLaGraph, "graph": GraphLaGraph}
SMALL = {"hidden_dim": 4, "device": "cpu"}


@pytest.fixture
def settings_without_limit(monkeypatch):
    """No setting is too large, as if one within the limits had such an effect."""
    monkeypatch.setattr(setting_types, "LARGEST_FLOAT", 1e40)


def graphs(level: str, x=X, weight=None):
    """One graph for embeddings of nodes, three for those of graphs."""
    if level == "node":
        return (EDGES, x, weight)
    few = (EDGES % 4)[:, [0, 1, 2, 3, 20, 21, 22, 23]]
    first = None if weight is None else weight[:8]
    return [(EDGES, x, weight), (few, x + 1, first), (few, x + 2, first)]


@pytest.mark.usefixtures("settings_without_limit")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"lr": 1e20}, r"Try a smaller lr \(1e\+20; the default is 0.0.*\)\."),
        ({"lr": 1e39}, r"Try a smaller lr \(1e\+39; the default is 0.0.*\)\."),
        ({"alpha": 1e37, "preset": "paper"}, r"Try a smaller alpha \(1e\+37; .*\)\."),
    ],
)
def test_a_last_step_that_overflows_is_an_error_and_leaves_no_complete_run(
    level, settings, advice, tmp_path
):
    estimator = LEVELS[level](epochs=1, **SMALL, **settings)
    with pytest.raises(NonFiniteLossError, match=rf"(not finite|not a finite).*{advice}$"):
        estimator.fit(graphs(level), run=tmp_path)
    run = RunFolder(tmp_path)
    assert run.started and not run.complete
    with pytest.raises(NonFiniteLossError, match=advice):
        estimator.fit_transform(graphs(level))
    with pytest.raises(NonFiniteLossError, match=advice):
        list(estimator.snapshots(graphs(level), epochs=[1]))
    assert not hasattr(estimator, "model_")


@pytest.mark.usefixtures("settings_without_limit")
def test_an_infinite_moment_of_the_optimizer_is_an_error():
    # The weight is not trained any more, and stays finite.
    message = r"exp_avg_sq of the optimizer.*smaller weight_decay"
    with pytest.raises(NonFiniteLossError, match=message):
        NodeLaGraph(epochs=1, weight_decay=1e38, **SMALL).fit(graphs("node"))


@pytest.mark.parametrize("level", LEVELS)
def test_a_new_value_far_from_the_fitted_ones_is_refused_by_column(level):
    nodes = pd.DataFrame({"id": START, "age": X[:, 0] * 1e-3, "size": X[:, 1]})
    edges = pd.DataFrame({"source": EDGES[0], "target": EDGES[1]})
    fitted = LEVELS[level](epochs=1, **SMALL).fit((edges, nodes))
    nodes.loc[3, "age"] = 1e36
    message = r"The feature 'age' is 1e\+36 in row 3 \(from 0\), node 3, too far"
    with pytest.raises(InputError, match=message):
        fitted.transform((edges, nodes))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_new_matrix_far_from_the_fitted_one_is_refused_by_column(sparse):
    small, far = X * 1e-3, X * 1e-3
    far[3, 2] = 1e37
    convert = (lambda x: torch.from_numpy(x).to_sparse()) if sparse else np.asarray
    fitted = NodeLaGraph(epochs=1, **SMALL).fit((EDGES, convert(small)))
    message = r"The feature 'x2' is 1e\+37 in row 3 \(from 0\), too far"
    with pytest.raises(InputError, match=message):
        fitted.transform((EDGES, convert(far)))


def test_rows_that_are_not_finite_are_named_by_id():
    ids = [f"n{i}" for i in START]
    edges = pd.DataFrame({"source": np.take(ids, EDGES[0]), "target": np.take(ids, EDGES[1])})
    nodes = pd.DataFrame({"id": ids, "a": X[:, 0], "b": X[:, 1]})
    fitted = NodeLaGraph(epochs=1, encoder="gin", **SMALL).fit((edges, nodes))
    message = r"of 20 embeddings are not .* node n0: its features or edge weights, or"
    with pytest.raises(InputError, match=message):
        fitted.transform((edges.assign(weight=1e38), nodes))


@pytest.mark.parametrize("part", ["encoder.convs.0.weight", "decoder.linears.0.bias", "token"])
def test_weights_that_are_not_finite_are_not_loaded(part, tmp_path):
    """Neither those of the embedding, nor those that only the decoder's answers depend on."""
    fitted = NodeLaGraph(epochs=1, **SMALL).fit(graphs("node"))
    fitted.model_.get_parameter(part).data.view(-1)[0] = float("nan")
    folder = fitted.save(tmp_path / "model")
    with pytest.raises(RunFolderError, match=rf"not finite numbers, the first in {part}\. Copy"):
        load_estimator(folder)


def test_weights_that_are_not_finite_are_named_as_the_cause():
    fitted = NodeLaGraph(epochs=1, **SMALL).fit(graphs("node"))
    fitted.model_.encoder.convs[0].weight.data.fill_(float("nan"))
    with pytest.raises(InputError, match="the model's weights are not finite"):
        fitted.transform(graphs("node"))


@pytest.mark.filterwarnings("ignore:The edge weights of a node sum")
@pytest.mark.parametrize("level", LEVELS)
def test_statistics_that_overflow_are_an_error(level, tmp_path):
    # All embeddings would be 0.
    estimator = LEVELS[level](epochs=1, encoder="gin", **SMALL)
    message = r"norms.0.var, measured .* edge weights are too large"
    weight = np.resize([1e30, 1e-30], EDGES.shape[1])
    with pytest.raises(InputError, match=message):
        estimator.fit(graphs(level, weight=weight), run=tmp_path)
    assert not RunFolder(tmp_path).complete


def test_sums_that_float32_loses_are_a_warning_with_gin_only():
    weight = np.where(np.isin(EDGES, (0, 1)).all(0), 1e12, 1.0)
    expected = "sum to as much as 1e[+]12, and those of 18 nodes to less than 6e-08 of that"
    with pytest.warns(GraphLatentWarning, match=expected):
        NodeLaGraph(epochs=1, encoder="gin", **SMALL).fit(graphs("node", weight=weight))
    NodeLaGraph(epochs=1, **SMALL).fit(graphs("node", weight=weight))
    # Small weights beside a node's own features are lost without harm.
    tiny = np.where(weight > 1, 1e-30, 1.0)
    NodeLaGraph(epochs=1, encoder="gin", **SMALL).fit(graphs("node", weight=tiny))


@pytest.mark.usefixtures("settings_without_limit")
def test_an_encoder_whose_output_overflows_is_an_error():
    # Without batch norm: what the head is computed from is not finite.
    estimator = NodeLaGraph(epochs=1, lr=1e25, num_layers=1, **SMALL)
    with pytest.raises(NonFiniteLossError, match=r"not finite.* Try a smaller lr \(1e\+25;"):
        estimator.fit(graphs("node"))
