"""Weights of features and averages: by hand, by a NumPy version, and where f is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator
from graphlatent.nn import latent_estimate as module
from graphlatent.nn.latent_estimate import (
    FLOOR,
    SHARE_RANGE,
    averages,
    latent_estimate,
    walk_with_restart,
)
from graphlatent.nn.similarity import two_way
from graphlatent.ops.sparse import SparseMatrix
from head_reference import case, dense, latent


def estimate(z, matrix):
    return latent_estimate(z, matrix, generator=generator(0))


def copies(matrix, count):
    """The block-diagonal matrix of many equal graphs."""
    return SparseMatrix.from_scipy(sp.csr_matrix(np.kron(np.eye(count), matrix)))


def two_columns(first, second):
    """Rows of graphs whose two columns are uncorrelated: all signs of each pair of patterns."""
    columns = (np.array([p for _ in range(4) for p in first]) * 2, np.array([*second] * 4))
    signs = np.repeat([[1, 1], [1, -1], [-1, 1], [-1, -1]], len(first), axis=0)
    rows = [signs[:, i, None] * columns[i] for i in range(2)]
    return torch.from_numpy(np.stack([r.reshape(-1) for r in rows], axis=1)).float()


def centred(rows):
    return rows - rows.mean(0)


def correlation(found, f):
    found, f = centred(found), centred(f)
    return (found * f).sum() / np.sqrt((found**2).sum() * (f**2).sum())


def classes(homophily, strength, *, size=1500, degree=8, num_classes=6):
    """f, z = f + noise and A: f is a row of the node's class, edges stay in it or lead anywhere.

    Args:
        homophily: share of the edges that stay in a class.
        strength: standard deviations of f in each column; the noise has 1.
    """
    rng = np.random.default_rng(0)
    label = np.arange(size) % num_classes
    source = rng.integers(0, size, degree * size // 2)
    other = label[source] + num_classes * rng.integers(0, size // num_classes, len(source))
    inside = rng.random(len(source)) < homophily
    target = np.where(inside, other, rng.integers(0, size, len(source)))
    adjacency = sp.csr_matrix((np.ones(len(source)), (source, target)), shape=(size, size))
    adjacency = ((adjacency + adjacency.T) > 0).astype(float) + sp.eye(size)
    root = sp.diags(1 / np.sqrt(np.asarray(adjacency.sum(1)).ravel()))
    centres = rng.standard_normal((num_classes, len(strength)))
    f = (centred(centres) / centres.std(0) * strength)[label]
    z = torch.from_numpy(f + rng.standard_normal(f.shape)).float()
    return f, z, SparseMatrix.from_scipy((root @ adjacency @ root).tocsr())


def test_by_hand():
    # 32 cycles of 4 nodes, A of thirds. Rows are constant on 4 of 8 cycles, + + - - on 3 and
    # + - + - on one; and on 3, 3, 2 of 8: r = 3/8 and 1/8; correlations of siblings 1/4, 1/4.
    patterns = [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1]]
    rows = two_columns(*(np.repeat(patterns, n, axis=0) for n in ((4, 3, 1), (3, 3, 2))))
    cycle = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]) / 3
    found = estimate(rows, copies(cycle, 32))
    torch.testing.assert_close(found.directions.abs(), torch.eye(2))
    # v = 4, 1: r_bar = 13/40, p = 1/4 / r_bar = 10/13; spread 0.01, chance^2 = 1/128, kept 7/32:
    # r' = 0.325 + 7/32 * 0.05 and 0.325 - 7/32 * 0.2, phi = 0.436719 and 0.365625.
    # A A has the eigenvalues 1, 1/9, 1/9: u / v = 0.506173, 0.382716, c / v = 5/9, 4/9. g = 1/3,
    # cov(f, s) / v = 0.367795, 0.232986: a = 0.084668, 0.196458, b = 0.633691, 0.380625.
    # Weighted mean 0.067271 / 0.535130 = 0.125709 of a.
    torch.testing.assert_close(found.own, torch.tensor([0.67352, 1.56281]), atol=2e-5, rtol=0)
    # 0.868491 of 0.935762 belong to averages, which is more than the limit.
    assert found.share == 0.9
    # Walks with restart have the eigenvalues 1, 0.360392, 0.360392 and 0.216237, g = 0.484255:
    # u / v = 0.554551, 0.435395, c / v = 0.662177, 0.564206, cov(f, s) / v = 0.389405, 0.257007.
    # cov(f, s) / u = 0.702199, 0.590284, of the weighted mean 0.686348.
    torch.testing.assert_close(found.averaged, torch.tensor([1.02309, 0.86004]), atol=2e-5, rtol=0)


def test_direction_without_a_weight_by_hand():
    # 32 pairs: both nodes are equal in 7 of 8 in the first column, in 5 of 8 in the second, and
    # opposite in the others: r = 3/4 and 1/4; homophily 1, as no node has two neighbours.
    first, second = (np.repeat([[1, 1], [1, -1]], (n, 8 - n), axis=0) for n in (7, 5))
    found = estimate(two_columns(first, second), copies(np.full((2, 2), 0.5), 32))
    # Spread 0.04, chance^2 = 1/32, kept 7/32: phi = 0.65 + 0.7 / 32 and 0.65 - 2.8 / 32.
    # a = (phi - r) / (1 - r) = -0.31 and 0.41667: the first is at the floor.
    torch.testing.assert_close(found.own, torch.tensor([0.3, 1.0]))
    # Walks with restart have the eigenvalues 1 and 0.270295, g = 0.635148: u / v = 0.884132,
    # 0.652397, c / v = 0.908787, 0.726361; cov(f, s) / u = 0.792165, 0.687439, mean 0.777714.
    torch.testing.assert_close(found.averaged, torch.tensor([1.01858, 0.88392]), atol=2e-5, rtol=0)


def test_the_diagonal_of_a_large_matrix_is_estimated(monkeypatch):
    _, z, matrix = classes(*MODELS["bad edges"])
    assert len(z) > module._EXACT_NODES
    found = estimate(z, matrix)
    monkeypatch.setattr(module, "_EXACT_NODES", len(z))
    exact = estimate(z, matrix)
    assert not torch.equal(found.averaged, exact.averaged)
    torch.testing.assert_close(found.averaged, exact.averaged, rtol=0.02, atol=0)
    assert torch.equal(found.own, exact.own)


def test_memory_does_not_grow_with_the_square_of_the_nodes():
    # N x N floats would be 160 GB.
    size = 200_000
    node = torch.arange(size)
    ring = sp.csr_matrix((np.full(size, 0.5), (node, (node + 1) % size)), shape=(size, size))
    z = torch.sin(node / 50)[:, None] + torch.randn(size, 1, generator=generator(0))
    found = estimate(z.float(), SparseMatrix.from_scipy((ring + ring.T).astype(np.float32)))
    assert found.steps[1] > 0


def test_averages_are_sums_over_steps():
    x, matrix, _ = case([5, 4], num_features=3)
    steps, a = torch.tensor([0.5, 0.0, 2.0, 0.0, 0.25, 0.0]), dense(matrix)
    powers = [np.linalg.matrix_power(a, j) for j in range(len(steps))]
    expected = sum(float(w) * p for w, p in zip(steps, powers, strict=True)) @ dense(x)
    np.testing.assert_allclose(averages(matrix, x, steps), expected, atol=1e-5)
    walk = walk_with_restart()
    assert float(walk.sum()) == pytest.approx(1.0)
    np.testing.assert_allclose(walk[1:] / walk[:-1], 0.75)


def test_smooth_columns_on_a_ring_by_hand():
    # Columns are eigenvectors of A, so that averages are multiples of z: the determinant is its
    # least value. Neighbours are hardly alike, their siblings unlike: the homophily counts as 0.05.
    size, times = 400, np.arange(92, 108)
    step = np.roll(np.eye(size), 1, axis=1)
    matrix = SparseMatrix.from_scipy(sp.csr_matrix((step + step.T + np.eye(size)) / 3))
    angle = 2 * np.pi * times / size
    amplitude = np.linspace(1.5, 1, len(times))
    around = np.outer(np.arange(size), angle)
    columns = np.concatenate([amplitude * np.sin(around), amplitude * np.cos(around)], axis=1)
    found = estimate(torch.from_numpy(columns).float(), matrix)
    r, variance = np.cos(angle), amplitude**2
    mean_r = (variance * r).sum() / variance.sum()
    assert 0.02 < mean_r < 0.05
    spread, chance = (variance * (r - mean_r) ** 2).sum() / variance.sum(), 1 / np.sqrt(size)
    kept = 1 - chance**2 / spread
    phi = np.clip((kept * r + (1 - kept) * mean_r) / 0.05, 0, 0.95)
    # a = (1 - phi) (g / l^2 - 1) / 0.001 with the eigenvalue l and g = 1/3; b is negative.
    a = (1 - phi) * (3 / (1 + 2 * np.cos(angle)) ** 2 - 1)
    expected = np.maximum(a * (a * variance).sum() / (a**2 * variance).sum(), 0.3)
    np.testing.assert_allclose(found.own, np.repeat(expected, 2), rtol=1e-3)
    # Averages over two steps have the weight 0.
    assert found.share == 0.25
    walk = walk_with_restart().numpy()

    def walked(angle):
        return ((1 + 2 * np.cos(np.atleast_1d(angle))[:, None]) / 3) ** np.arange(9) @ walk

    g, c = walked(2 * np.pi * np.arange(size) / size).mean(), walked(angle)
    b = np.maximum(c - g * (1 - phi), 0) / c**2
    expected = np.maximum(b * (b * c**2 * variance).sum() / (b**2 * c**2 * variance).sum(), 0.3)
    np.testing.assert_allclose(found.averaged, np.repeat(expected, 2), rtol=1e-3)


MODELS = {
    "good edges": (0.9, [1.5, 1.0, 0.7, 0.4, 0.1]),
    "bad edges": (0.4, [1.5, 1.0, 0.7, 0.4, 0.1]),
    "strong features": (0.6, [3.0, 2.5, 2.0, 1.5, 2.0]),
}


def cases():
    for kind in ("alike", "unlike", "random"):
        x, matrix, _ = case([25, 15], num_features=8, kind=kind)
        yield kind, x, matrix
    for name, (homophily, strength) in MODELS.items():
        _, z, matrix = classes(homophily, strength, size=300)
        yield name, z, matrix


@pytest.mark.parametrize(("name", "z", "matrix"), [pytest.param(*c, id=c[0]) for c in cases()])
def test_equals_the_reference(name, z, matrix):
    found, expected = estimate(z, matrix), latent(dense(z), dense(matrix))
    assert (abs(expected.deviations) > 2) == (name != "random")
    assert (expected.deviations < -2) == (name == "unlike")
    assert found.share == pytest.approx(expected.share, rel=1e-4)
    np.testing.assert_allclose(found.own, expected.own, rtol=2e-4)
    np.testing.assert_allclose(found.averaged, expected.averaged, rtol=2e-4)
    # Directions have no sign.
    turns = found.directions.double().numpy().T @ expected.directions
    np.testing.assert_allclose(np.abs(turns), np.eye(len(turns)), atol=1e-4)


def test_share_varies_between_its_limits():
    found = {name: estimate(z, matrix).share for name, z, matrix in cases()}
    assert (found["random"], found["unlike"]) == (0.1, 0.3)
    low, high = SHARE_RANGE
    assert low < found["bad edges"] < found["good edges"] <= high


def closeness(name):
    """Correlations with f: of the averages' block, own features, averages, the best weights."""
    f, z, matrix = classes(*MODELS[name])
    found = estimate(z, matrix)
    directions = found.directions.double().numpy()
    s = centred(averages(matrix, z, found.steps).double().numpy())
    z = centred(z.double().numpy())
    block = s @ directions * found.averaged.double().numpy()
    best = []
    for column, target in zip((s @ directions).T, (f @ directions).T, strict=True):
        best.append(column * (column @ centred(target)) / (column @ column))
    rows = (block @ directions.T, z, s, np.stack(best, axis=1) @ directions.T)
    return [correlation(row, f) for row in rows]


@pytest.mark.parametrize("name", MODELS)
def test_weighted_averages_are_close_to_the_best_ones(monkeypatch, name):
    found, own, averages, best = closeness(name)
    assert found > max(own, averages) + 0.005
    monkeypatch.setattr(module, "FLOOR", 0.0)
    without_floor = closeness(name)[0]
    assert best - 0.002 < without_floor <= best


def test_noise_of_single_nodes_has_less_weight_than_what_neighbours_share():
    # The noise has the largest variance; columns are its own directions but for rounding.
    _, z, matrix = classes(0.6, [3.0, 0.0, 2.0])
    found = estimate(z * torch.tensor([1.0, 6.0, 1.0]), matrix)
    noise = int(found.directions[1].abs().argmax())
    assert noise == 0
    assert found.own[1:].min() > 1.5 * found.own[0]
    assert found.averaged[1:].min() > 1.5 * found.averaged[0]


def test_a_direction_that_does_not_vary_has_no_influence():
    x, matrix, _ = case([25, 15], num_features=4, kind="alike")
    found = estimate(x, matrix)
    # A constant column, and one that is a copy: one direction more without variance.
    constant = estimate(torch.cat([x, torch.full((40, 1), 3.0)], dim=1), matrix)
    torch.testing.assert_close(constant.own[:4], found.own, rtol=1e-3, atol=0)
    assert constant.own[4] == pytest.approx(FLOOR)
    copied = estimate(torch.cat([x, x[:, :1]], dim=1), matrix)
    weight = copied.directions[:, -1].abs()
    torch.testing.assert_close(weight, torch.tensor([0.5, 0, 0, 0, 0.5]).sqrt(), atol=1e-3, rtol=0)
    assert copied.own[-1] == copied.averaged[-1] == pytest.approx(FLOOR)


def nothing_to_learn():
    x, matrix, _ = case([12, 9], num_features=3, kind="alike")
    edgeless = SparseMatrix.from_scipy(sp.identity(21, format="csr"))
    yield "one node", torch.ones(1, 3), SparseMatrix.from_scipy(sp.identity(1, format="csr"))
    yield "no edges", x, edgeless
    yield "constant features", torch.full((21, 3), 5.0), matrix
    yield "zeros", torch.zeros(21, 3), matrix


@pytest.mark.parametrize(
    ("z", "matrix"), [pytest.param(*c[1:], id=c[0]) for c in nothing_to_learn()]
)
def test_all_weights_are_1_where_there_is_nothing_to_estimate(z, matrix):
    found = estimate(z, matrix)
    assert torch.equal(found.directions, torch.eye(3))
    assert found.own.tolist() == found.averaged.tolist() == [1, 1, 1]
    assert found.share == 0.1


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    num_features=st.integers(1, 5),
    kind=st.sampled_from(["alike", "unlike", "random"]),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
    seed=st.integers(0, 50),
)
def test_weights_are_finite_and_in_range(sizes, num_features, kind, scale, seed):
    x, matrix, _ = case(sizes, num_features=num_features, seed=seed, kind=kind)
    found = estimate(x * scale, matrix)
    gram = found.directions.T @ found.directions
    torch.testing.assert_close(gram, torch.eye(num_features), atol=1e-4, rtol=0)
    for weight in (found.own, found.averaged):
        assert torch.isfinite(weight).all()
        assert (weight >= 0.3 - 1e-6).all()
        assert weight.max() >= 1 - 1e-5
    assert found.share in (0.1, 0.3) or 0.25 <= found.share <= 0.9


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 50), scale=st.sampled_from([1e-3, 10.0]))
def test_units_and_rotations_change_nothing(seed, scale):
    x, matrix, _ = case([30], num_features=3, seed=seed, kind="alike")
    found = estimate(x, matrix)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator(seed))).Q
    other = estimate(scale * x @ turn, matrix)
    assert other.share == pytest.approx(found.share, rel=1e-2)
    torch.testing.assert_close(other.own, found.own, rtol=2e-2, atol=1e-3)
    torch.testing.assert_close(other.averaged, found.averaged, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_averages_that_are_rounding_errors_are_not_used(seed):
    # In cliques of five, one column is shared but for noise, the other sums to 0 in each clique and
    # is orthogonal to that noise: its averages are 0.
    matrix = SparseMatrix.from_scipy(sp.csr_matrix(np.kron(np.eye(40), np.full((5, 5), 0.2))))
    size = torch.randn(3, 40, 1, generator=generator(seed))
    shared = size[0] + 0.5 * size[1] * torch.tensor([1.0, -1, 0, 0, 0])
    apart = 0.3 * size[2] * torch.tensor([0.0, 0, 1, -1, 0])
    z = torch.stack([shared.reshape(-1), apart.reshape(-1)], dim=1)
    torch.testing.assert_close(estimate(z, matrix).own, torch.ones(2))


def test_own_noise_in_averages_of_a_directed_graph():
    """A node returns to itself over two edges only where both directions are edges."""
    rng = np.random.default_rng(0)
    dense_matrix = rng.random((30, 30)) * (rng.random((30, 30)) < 0.3)
    matrix = SparseMatrix.from_scipy(sp.csr_matrix(dense_matrix.astype(np.float32)))
    expected = np.trace(dense_matrix @ dense_matrix)
    assert two_way(matrix, matrix.value.double()) == pytest.approx(expected, rel=1e-5)
    empty = SparseMatrix.from_scipy(sp.csr_matrix((3, 3), dtype=np.float32))
    assert two_way(empty, empty.value.double()) == 0
