"""The weight of the variance term follows from the signal-to-noise ratio of neighbourhoods."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cases import generator, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.config import resolve
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.nn.similarity import feature_similarity
from graphlatent.training.setup import set_up

SMALL = {"hidden_dim": 8, "epochs": 2, "progress": False, "device": "cpu", "variance_weight": 1.0}


def begun(graph, cls=NodeLaGraph, **values):
    """The method after `begin`, the resolved settings, and the batch."""
    estimator = cls(**{**SMALL, **values})
    settings = resolve(estimator.settings_class(**estimator.get_params()), owner="test")
    method = LaGraph(settings, level=cls.level)
    training, everything = set_up(graph, method, device=torch.device("cpu"))
    return method, training, everything()


def smooth_graph(noise):
    """Two halves without edges between them, whose features differ, plus noise."""
    graph = random_graph([30, 30], num_features=12, density=0.3)
    side = torch.where(torch.arange(60) < 30, 1.0, -1.0)[:, None]
    drawn = torch.randn(60, 12, generator=generator(0))
    whole = dataclasses.replace(graph, ptr=torch.tensor([0, 60]))
    return whole.with_features(side + noise * drawn)


@pytest.mark.parametrize("engine", ["auto", "general"])
@pytest.mark.parametrize("batching", ["full", "nodes"])
def test_noise_lowers_the_weight_and_signal_does_not(engine, batching):
    values = {"engine": engine, "batching": batching}
    clear, _, _ = begun(smooth_graph(0.1), **values)
    assert clear.step_settings.variance_weight == 1
    noisy, training, batch = begun(smooth_graph(50.0), variance_weight=2.0, **values)
    assert noisy.step_settings.variance_weight == pytest.approx(0.1)
    # What is saved is what the user asked for.
    assert noisy.settings.variance_weight == training.settings.variance_weight == 2
    matrix = noisy.smoothing_matrix(training.model, batch)
    found = feature_similarity(batch.x, matrix, generator=generator(3))
    assert found.variance_share == 0.05


def test_steps_use_the_weight(monkeypatch):
    graph = smooth_graph(50.0)
    adapted = NodeLaGraph(**SMALL).fit(graph).history_.loss
    monkeypatch.setattr(LaGraph, "_adapt_variance_weight", lambda *_: None)
    by_hand = NodeLaGraph(**{**SMALL, "variance_weight": 0.05}).fit(graph).history_.loss
    full = NodeLaGraph(**SMALL).fit(graph).history_.loss
    assert adapted == pytest.approx(by_hand, rel=1e-6)
    assert adapted[0] < full[0]


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (NodeLaGraph, {"embedding": "encoder"}),
        (NodeLaGraph, {"variance_weight": 0.0}),
        (NodeLaGraph, {"preset": "paper"}),
        (GraphLaGraph, {}),
    ],
)
def test_other_forms_keep_their_weights(cls, values):
    method, _, _ = begun(smooth_graph(50.0), cls, **values)
    assert method.step_settings is method.settings
