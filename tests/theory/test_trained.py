"""The bounds of trained models, at every logged epoch and over seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from graphlatent import GraphLaGraph, NodeDGI, NodeLaGraph
from graphlatent.data.synthetic import latent_graph, latent_graph_set
from graphlatent.errors import ConfigError, InputError
from graphlatent.report.bounds import plot_bounds
from graphlatent.theory import (
    LatentGraphOptions,
    Sampling,
    bound_of,
    bound_runs,
    bound_table,
    bound_through_training,
    smallest_gap,
)

OPTIONS = LatentGraphOptions(num_nodes=60)
SMALL = {"preset": "paper", "hidden_dim": 32, "epochs": 80, "lr": 5e-3, "objective": "mse-output"}
FEW = Sampling(masks=6, draws=3)


@pytest.fixture(scope="module")
def node_runs():
    return list(bound_runs(NodeLaGraph(**SMALL), OPTIONS, seeds=8, points=3, sampling=FEW))


def test_the_corrected_bounds_hold_at_every_step_of_every_seed(node_runs):
    assert [run.seed for run in node_runs] == list(range(8))
    assert {tuple(p.epoch for p in run.points) for run in node_runs} == {(0, 40, 80)}
    for bound in ("theorem1", "corollary1", "corollary2"):
        assert all(run.holds(bound) for run in node_runs)
    # Not because the sides have nothing to do with each other
    point = smallest_gap(node_runs, "theorem1", form="corrected").estimate
    assert 0 < point.gap().value < point.left.value


def test_the_printed_theorem_fails_in_training(node_runs):
    assert not any(run.holds("theorem1", form="printed") for run in node_runs)
    # It is violated by training, not by the initial weights.
    assert all(run.points[0].estimate.holds(form="printed") for run in node_runs)


@pytest.mark.parametrize("options", [{"compared": "unmasked"}, {"leak": 1.0}])
def test_it_fails_in_training_without_its_assumptions(options):
    # One masked node, so that few others see a change
    estimator = NodeLaGraph(**SMALL, mask_ratio=0.01)
    runs = list(bound_runs(estimator, OPTIONS, seeds=2, points=2, sampling=replace(FEW, **options)))
    assert not any(run.holds("theorem1") for run in runs)


def test_graph_level():
    settings = {**SMALL, "hidden_dim": 8, "epochs": 20, "objective": "mse-embed"}
    runs = list(bound_runs(GraphLaGraph(**settings), OPTIONS, seeds=2, points=2, sampling=FEW))
    for bound in ("theorem1", "corollary1", "corollary2"):
        assert all(run.holds(bound) for run in runs)
    constants = [p.estimate.readout_constant for run in runs for p in run.points]
    ratios = [p.estimate.readout_ratio for run in runs for p in run.points]
    assert all(0 < ratio < constant for ratio, constant in zip(ratios, constants, strict=True))


def test_parts_are_those_of_the_estimator():
    """The supervised error and the noise, computed from `reconstruct` on new observations."""
    made = latent_graph(num_nodes=80, feature_dim=6, sigma=0.8)
    for settings in (SMALL, {**SMALL, "scale_features": True}):
        estimator = NodeLaGraph(**settings).fit(made.graph)
        found = bound_of(estimator, made, sampling=Sampling(masks=20, draws=10))
        scale = torch.tensor(estimator.features_.scale)
        latent = scale * made.latent
        if estimator.features_.standard:
            mean, std = torch.tensor(estimator.features_.standard).T
            scale, latent = scale / std, scale * (made.latent - mean) / std
        errors = []
        for seed in range(60):
            generator = torch.Generator().manual_seed(seed)
            x = made.latent + 0.8 * torch.randn(made.latent.shape, generator=generator)
            output = estimator.reconstruct(made.graph.with_features(x))
            errors.append(((output - latent.numpy()) ** 2).sum(1).mean())
        assert found.error.value == pytest.approx(np.mean(errors), rel=0.02)
        noise = 0.8 * scale.expand(6)
        assert found.noise.mean() == pytest.approx(float(noise.square().sum()), rel=0.02)
        assert found.entry_noise == pytest.approx(float(noise.max()))
        assert found.row_noise == pytest.approx(float(noise.norm()))


def test_table_and_chart(node_runs, tmp_path):
    table = bound_table(node_runs, bounds=["theorem1"])
    assert len(table) == 24 and not table.isna().any().any()
    gap = table["theorem1_corrected"] - table["left"]
    np.testing.assert_allclose(gap, table["theorem1_corrected_gap"])
    path = plot_bounds(node_runs, tmp_path / "bounds.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"same logged epochs. Got 0 runs and 0 lists of epochs\."):
        plot_bounds([], tmp_path / "none.png")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (NodeDGI(epochs=1, hidden_dim=4), "about a fitted NodeLaGraph or GraphLaGraph. Got Nod"),
        (NodeLaGraph(**{**SMALL, "row_normalize": True}), "need row_normalize=False"),
        (NodeLaGraph(**{**SMALL, "mask_value": "swap"}), "masks that do not depend on the feat"),
    ],
)
def test_what_the_theorem_does_not_cover(estimator, message):
    made = latent_graph(num_nodes=20, feature_dim=3)
    with pytest.raises(ConfigError) as raised:
        list(bound_through_training(estimator.set_params(epochs=1), made, epochs=[1]))
    assert message in str(raised.value)


def test_wrong_numbers():
    for name in ("seeds", "points"):
        with pytest.raises(ConfigError, match=f"'{name}' parameter of bound_runs must be an int"):
            list(bound_runs(NodeLaGraph(**SMALL), OPTIONS, **{name: 0}))


def test_an_unfitted_estimator():
    with pytest.raises(ConfigError, match="about a fitted NodeLaGraph or GraphLaGraph"):
        bound_of(NodeLaGraph(), latent_graph_set(num_graphs=2))
