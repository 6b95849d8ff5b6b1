"""What the weight of the invariance does to linear networks f(X) = a X + b P X."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphlatent.theory import LatentPredictor, Masker, Sampling, estimate_bound, theory_alpha

NODES, WIDTH = 8, 4


def parts(a, b, *, latent, sigma, masked):
    """Reconstruction and invariance of the output; P averages over both neighbours on a ring."""
    ring = torch.roll(torch.eye(NODES, dtype=torch.float64), 1, 0)
    matrix = a * torch.eye(NODES, dtype=torch.float64) + b * (ring + ring.T) / 2
    found = estimate_bound(
        LatentPredictor(layers=lambda x: [matrix @ x], decode=lambda h: h),
        latent,
        sigma=torch.full((WIDTH,), sigma, dtype=torch.float64),
        masker=Masker(
            lambda generator: torch.randperm(NODES, generator=generator)[:masked],
            lambda rows, _: latent.new_zeros(len(rows), WIDTH),
        ),
        generator=torch.Generator().manual_seed(0),
        sampling=Sampling(masks=6, draws=4),
    )
    return found.reconstruction.mean(), found.output_change.mean()


def minimiser(alpha, *, masked):
    """(a, b) that minimise reconstruction + alpha * invariance where neighbours have equal F."""
    steps = np.linspace(0, 1, 6)
    row = np.random.default_rng(0).normal(size=WIDTH)
    latent = torch.from_numpy(np.tile(row, (NODES, 1)))
    values = {}
    for a in steps:
        for b in steps:
            rest, change = parts(a, b, latent=latent, sigma=0.3, masked=masked)
            values[a, b] = rest + alpha * change
    return min(values, key=values.get)


def test_with_one_masked_node_a_large_weight_gives_the_denoising_autoencoder():
    """Own features are not used, and neighbours as in the best prediction without them."""
    a, b = minimiser(1e3, masked=1)
    assert a == 0 and b >= 0.8
    assert minimiser(0.0, masked=1)[0] > 0


def test_with_more_masked_nodes_it_gives_a_network_that_sees_nothing():
    """Neighbours that are masked together may not be used either."""
    assert minimiser(1e3, masked=NODES) == (0, 0)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_own_weight_of_nodes_without_neighbours(sigma):
    """f = a X: the minimum is at a = 1 - alpha / (2 sqrt(d (1 + sigma^2)))."""
    generator = torch.Generator().manual_seed(1)
    latent = torch.randn(NODES, WIDTH, generator=generator, dtype=torch.float64)
    latent = latent / latent.square().mean().sqrt()
    expected = {
        "corrected": 1 - sigma / math.sqrt(1 + sigma**2),
        "printed": 1 - sigma / math.sqrt(WIDTH * (1 + sigma**2)),
    }
    steps = np.linspace(0, 1, 101)
    # Both are exact: |1 - a|^2 and |a| times their values of the identity's parts.
    rest, _ = parts(0, 0, latent=latent, sigma=sigma, masked=NODES)
    _, change = parts(1, 0, latent=latent, sigma=sigma, masked=NODES)
    for form, best in expected.items():
        alpha = theory_alpha(sigma, WIDTH, form=form)
        values = (1 - steps) ** 2 * rest + alpha * steps * change
        assert steps[values.argmin()] == pytest.approx(best, abs=0.06)
