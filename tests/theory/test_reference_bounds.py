"""The estimates of both sides against a rewrite in numpy, for the same masks and noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference_bounds import both_sides, dense_matrix, exact_sides, lipschitz

from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.data.synthetic import latent_graph, latent_graph_set
from graphlatent.theory import LatentPredictor, Masker, Sampling, bound_of, theory_alpha, trained

SETTINGS = {"preset": "paper", "hidden_dim": 7, "epochs": 5, "lr": 0.05, "objective": "mse-output"}
CASES = {
    "gcn": (NodeLaGraph, lambda seed: latent_graph(num_nodes=25, feature_dim=4, seed=seed)),
    "gin": (GraphLaGraph, lambda seed: latent_graph_set(num_graphs=5, feature_dim=3, seed=seed)),
}


def recorded(monkeypatch, draws, units):
    """Make `bound_of` note its draws, and latent features and noise in the units of the network."""
    estimate = trained.estimate_bound

    def recording(predictor, latent, *, masker, **options):
        units.extend([latent.numpy(), options["sigma"].numpy()])

        def rows(generator):
            draws.append((masker.rows(generator), []))
            return draws[-1][0].numpy()

        def layers(x):
            draws[-1][1].append(x.numpy().copy())
            return predictor.layers(x)

        same = LatentPredictor(layers, predictor.decode, predictor.lipschitz, predictor.pooling)
        noting = Masker(lambda g: torch.from_numpy(rows(g)), masker.values)
        return estimate(same, latent, masker=noting, **options)

    monkeypatch.setattr(trained, "estimate_bound", recording)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale_features", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_both_sides(kind, scale_features, seed, monkeypatch):
    cls, make = CASES[kind]
    made, draws, units = make(seed), [], []
    settings = {**SETTINGS, "decoder_layers": 1 + seed, "scale_features": scale_features}
    estimator = cls(**settings, random_state=seed, mask_ratio=0.3).fit(made.graph)
    recorded(monkeypatch, draws, units)
    found = bound_of(estimator, made, sampling=Sampling(masks=5, draws=3), seed=seed)
    spec = estimator.features_
    mean, std = np.array(spec.standard).T if spec.standard else (0.0, np.ones(1))
    latent, sigma = units
    # The package scales features in float32.
    np.testing.assert_allclose(latent, (made.latent.numpy() - mean) / std * spec.scale, atol=1e-5)
    np.testing.assert_allclose(sigma, made.sigma * spec.scale / std + 0 * sigma, rtol=1e-5)
    graph_id = np.repeat(np.arange(made.graph.num_graphs), np.diff(made.graph.ptr.numpy()))
    state = {k: v.double().numpy() for k, v in estimator.model_.state_dict().items()}
    expected = both_sides(
        state,
        kind=kind,
        matrix=dense_matrix(kind, made.graph.edge_index.numpy(), len(latent)),
        latent=latent,
        sigma=sigma,
        graph_id=graph_id,
        draws=[(rows.numpy(), list(zip(xs[::2], xs[1::2], strict=True))) for rows, xs in draws],
    )
    for bound in ("theorem1", "corollary1", "corollary2"):
        value = getattr(expected, bound)
        assert found.right(bound).value == pytest.approx(value, rel=1e-9), bound
    assert found.left.value == pytest.approx(expected.left, rel=1e-9)
    assert found.gap().standard_error == pytest.approx(expected.gap_error, rel=1e-9)
    assert found.lipschitz == pytest.approx(lipschitz(state), rel=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_the_corrected_weight_is_right_exactly(seed, size):
    """Every noise and mask of a small graph, for random nonlinear functions of all nodes."""
    rng = np.random.default_rng(seed)
    latent, sigma = rng.normal(size=(3, 2)) * (seed % 2), 0.6
    first, last = rng.normal(size=(2, 6, 6)) / 2
    own = rng.uniform(0, 1.5)

    def f(x):
        return own * x + (np.tanh(x.ravel() @ first) @ last).reshape(x.shape)

    for function in (f, lambda x: x):
        left, reconstruction, change = exact_sides(function, latent, sigma, size)
        assert left <= reconstruction + theory_alpha(sigma, 2) * change + 1e-12


def test_the_printed_weight_is_wrong_exactly():
    """Of the identity, with F = 0."""
    left, reconstruction, change = exact_sides(lambda x: x, np.zeros((3, 2)), 0.6, 2)
    right = reconstruction + theory_alpha(0.6, 2) * change
    assert left == pytest.approx(4 * 0.36) and right == pytest.approx(left)
    assert reconstruction + theory_alpha(0.6, 2, form="printed") * change < 0.8 * left
