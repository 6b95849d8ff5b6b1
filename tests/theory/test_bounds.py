"""Both sides of the bounds: closed forms, the counterexamples, and where the bounds must fail."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphlatent.errors import ConfigError
from graphlatent.theory import (
    LatentPredictor,
    Masker,
    Sampling,
    estimate_bound,
    readout_constant,
    theory_alpha,
)

NODES, SIGMA, WIDTH = 6, 0.7, 9


def random_rows(count):
    return lambda generator: torch.sort(torch.randperm(NODES, generator=generator)[:count]).values


def no_features(rows, generator):
    return torch.zeros(len(rows), WIDTH, dtype=torch.float64)


def estimate(layer, *, latent=None, rows=None, width=WIDTH, **options):
    """Of a network without decoder, masked by zeros."""
    latent = torch.zeros(NODES, width, dtype=torch.float64) if latent is None else latent
    values = options.pop("values", None) or (lambda rows, _: latent.new_zeros(len(rows), width))
    return estimate_bound(
        LatentPredictor(layers=lambda x: [layer(x)], decode=lambda h: h),
        latent,
        sigma=torch.full((width,), SIGMA, dtype=torch.float64),
        masker=Masker(rows or random_rows(2), values),
        generator=torch.Generator().manual_seed(0),
        graph_id=options.pop("graph_id", None),
        sampling=Sampling(**{"masks": 50, "draws": 30, **options}),
    )


def linear(matrix):
    return lambda x: torch.from_numpy(matrix) @ x


def close(estimated, expected):
    assert abs(estimated.value - expected) < 4 * estimated.standard_error + 1e-9


@pytest.mark.parametrize("width", [1, 2, 9])
def test_the_printed_theorem_needs_the_root_of_the_number_of_features(width):
    """f = identity, F = 0 and masks of zeros: equality with the factor sqrt(d)."""
    found = estimate(lambda x: x, width=width)
    close(found.left, 2 * width * SIGMA**2)
    close(found.right(), 2 * width * SIGMA**2)
    close(found.right(form="printed"), 2 * math.sqrt(width) * SIGMA**2)
    assert found.holds() and found.holds("corollary1")
    assert found.holds(form="printed") == (width == 1)
    assert found.holds("corollary1", form="printed") == (width == 1)


@pytest.mark.parametrize("options", [{"compared": "unmasked"}, {"compared": "all"}, {"leak": 0.5}])
def test_the_corrected_theorem_fails_without_its_assumptions(options):
    """Invariance of rows that are not masked says nothing, and so does a mask that shows x."""
    found = estimate(lambda x: x, **options)
    assert not found.holds() and not found.holds("corollary1")
    # What the identity's invariance is by hand, as a share of that of masked nodes
    share = {"unmasked": 0.0, "all": math.sqrt(2 / NODES)}.get(options.get("compared"), 0.5)
    close(found.right(), share * 2 * WIDTH * SIGMA**2)


def test_all_parts_of_a_linear_network():
    """f(X) = M X and a fixed mask: expectations in closed form."""
    rng = np.random.default_rng(0)
    matrix, latent = rng.normal(size=(NODES, NODES)) / 2, rng.normal(size=(NODES, WIDTH))
    rows, mask = np.array([1, 4]), rng.normal(size=(2, WIDTH))
    found = estimate(
        linear(matrix),
        latent=torch.from_numpy(latent),
        rows=lambda _: torch.from_numpy(rows),
        values=lambda *_: torch.from_numpy(mask),
    )
    noise = WIDTH * SIGMA**2
    rest = matrix - np.eye(NODES)
    supervised = ((rest @ latent) ** 2).sum() + noise * (matrix**2).sum()
    reconstruction = ((rest @ latent) ** 2).sum() + noise * (rest**2).sum()
    block = matrix[np.ix_(rows, rows)]
    change = ((block @ (latent[rows] - mask)) ** 2).sum() + noise * (block**2).sum()
    column = matrix[:, rows].sum(0)
    pooled = ((column @ (latent[rows] - mask)) ** 2).sum() + noise * (column**2).sum()
    close(found.error, supervised / NODES)
    close(found.left, supervised / NODES + noise)
    rights = {"theorem1": change, "corollary1": change}
    for bound, square in rights.items():
        right = reconstruction / NODES + 2 * SIGMA * math.sqrt(WIDTH * square / 2)
        # The root of a mean over 30 draws is a little too small.
        assert found.right(bound).value == pytest.approx(right, rel=0.02)
        assert found.right(bound).value < right + 4 * found.right(bound).standard_error
    assert found.readout_change.mean() == pytest.approx(math.sqrt(pooled / 2), rel=0.03)
    assert found.readout_ratio == pytest.approx(math.sqrt(change / pooled), rel=0.03)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [1, 3, NODES])
def test_the_corrected_theorem_holds_for_any_network(seed, count):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(NODES, NODES)) + seed % 3 * np.eye(NODES)
    mixing = torch.from_numpy(rng.normal(size=(WIDTH, WIDTH)))
    latent = torch.from_numpy(rng.normal(size=(NODES, WIDTH)))
    layers = [linear(matrix), lambda x: torch.tanh(linear(matrix)(x) @ mixing)]
    found = estimate(layers[seed % 2], latent=latent, rows=random_rows(count), masks=30, draws=10)
    assert found.holds() and found.gap().value > 0


def test_several_graphs_add_up():
    graph_id = torch.tensor([0, 0, 1, 1, 1, 1])
    alone = []
    for graph in (0, 1):
        chosen = graph_id == graph
        alone.append(
            estimate_bound(
                LatentPredictor(layers=lambda x: [x], decode=lambda h: h),
                torch.zeros(int(chosen.sum()), WIDTH, dtype=torch.float64),
                sigma=torch.full((WIDTH,), SIGMA, dtype=torch.float64),
                masker=Masker(lambda _: torch.tensor([1]), no_features),
                generator=torch.Generator().manual_seed(0),
                sampling=Sampling(masks=60, draws=20),
            )
        )
    rows = torch.tensor([1, 3])
    both = estimate(lambda x: x, rows=lambda _: rows, graph_id=graph_id, masks=60, draws=20)
    for name in ("supervised", "output_change", "readout_change"):
        expected = sum(
            len(graph_id[graph_id == g]) * getattr(alone[g], name).mean() for g in (0, 1)
        )
        assert getattr(both, name).mean() == pytest.approx(expected / NODES, rel=0.03)


def test_sums_are_not_bilipschitz():
    """Two embeddings with the same sum may be any distance apart: there is no k."""
    assert readout_constant(torch.tensor([5.0, 0.0]), torch.tensor([0.0, 0.0])) == math.inf
    assert readout_constant(torch.tensor([8.0, 1.0]), torch.tensor([2.0, 1.0])) == 2.0
    assert readout_constant(torch.zeros(2), torch.zeros(2)) == 0.0


def test_corollary_2_fails_for_every_constant_where_pooling_loses_what_is_masked():
    """h_v = x_v less the mean over the graph: z = z' = 0, whatever is masked."""
    centre = np.eye(NODES) - 1 / NODES
    found = estimate(linear(centre))
    assert np.abs(found.readout_change).max() < 1e-12
    close(found.left, (2 - 1 / NODES) * WIDTH * SIGMA**2)
    # The right side is the reconstruction alone, with any k of an ordinary size.
    assert found.reconstruction.mean() < 0.2 * found.left.value
    assert found.holds("corollary1")


def test_corollary_2_says_nothing_without_a_constant():
    """Sums that do not change at all while embeddings do: k is infinite, and so the right side."""
    turned = linear(np.array([[1.0, -1], [-1, 1]]))
    found = estimate_bound(
        LatentPredictor(layers=lambda x: [turned(x)], decode=lambda h: h),
        torch.zeros(2, WIDTH, dtype=torch.float64),
        sigma=torch.ones(WIDTH, dtype=torch.float64),
        masker=Masker(lambda _: torch.tensor([0]), no_features),
        generator=torch.Generator().manual_seed(0),
        sampling=Sampling(masks=2, draws=1),
    )
    assert found.readout_constant == found.readout_ratio == math.inf
    assert (found.readout_change == 0).all()
    assert found.right("corollary2").value == math.inf
    assert found.gap("corollary2").standard_error == math.inf
    assert found.holds("corollary2") and not math.isnan(found.gap("corollary1").value)


def test_every_graph_needs_a_masked_node():
    graph_id = torch.tensor([0, 0, 1, 1, 1, 1])
    with pytest.raises(ConfigError, match=r"Graph 1 has 4 nodes and none is masked\. Use mask_rou"):
        estimate(lambda x: x, rows=lambda _: torch.tensor([0, 1]), graph_id=graph_id)


def test_theory_alpha():
    assert theory_alpha(0.5, 16) == 4.0
    assert theory_alpha(0.5, 16, form="printed") == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compared": "none"}, "'compared' parameter of Sampling must be 'masked', 'unm"),
        ({"leak": 2.0}, "'leak' parameter of Sampling must be a float from 0 to 1. Got 2.0"),
        ({"masks": 1}, "'masks' parameter of Sampling must be an int of 2 or more. Got 1"),
        ({"draws": 0}, "'draws' parameter of Sampling must be an int of 1 or more. Got 0"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ConfigError) as raised:
        estimate(lambda x: x, **options)
    assert message in str(raised.value)


def test_wrong_names_of_bounds():
    found = estimate(lambda x: x, masks=2, draws=1)
    with pytest.raises(ConfigError, match="'bound' parameter of BoundEstimate must be of"):
        found.gap("theorem2")
    with pytest.raises(ConfigError, match=r"must be 'corrected' or 'printed'\. Got 'both'"):
        found.right(form="both")
