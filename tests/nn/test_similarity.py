"""Similarity of neighbours: by hand, on graphs with known homophily, and what follows from it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator
from graphlatent.nn.similarity import (
    NeighbourSimilarity,
    feature_similarity,
    neighbour_similarity,
)
from graphlatent.ops.sparse import SparseMatrix


def ring(size, times):
    """A ring, and rows that go round a circle `times` times."""
    step = np.roll(np.eye(size), 1, axis=1)
    matrix = ((step + step.T + np.eye(size)) / 3).astype(np.float32)
    angle = times * torch.arange(size) * 2 * torch.pi / size
    return torch.stack([angle.sin(), angle.cos()], dim=1), SparseMatrix.from_scipy(matrix)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def classes(homophily, reliability, *, degree=20, size=4000, width=200):
    """Classes with one direction each, noise of each node, edges in a class or anywhere."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 20, size)
    signal = unit(rng.standard_normal((20, width)))[label] * reliability**0.5
    noise = unit(rng.standard_normal((size, width))) * (1 - reliability) ** 0.5
    source = rng.integers(0, size, degree * size // 2)
    order = np.argsort(label, kind="stable")
    first = np.searchsorted(label[order], np.arange(21))
    spread = (rng.random(len(source)) * np.diff(first)[label[source]]).astype(int)
    inside = rng.random(len(source)) < homophily
    target = np.where(
        inside, order[first[label[source]] + spread], rng.integers(0, size, len(source))
    )
    ends = np.stack([np.append(source, target), np.append(target, source)])
    ones = np.ones(ends.shape[1], dtype=np.float32)
    matrix = sp.csr_matrix((ones, tuple(ends)), shape=(size, size))
    rows = torch.from_numpy((signal + noise).astype(np.float32))
    return rows, SparseMatrix.from_scipy(matrix)


def test_correlations_by_hand():
    # Each node has two neighbours with weight 1/3, whose rows have an angle of t = 360 degrees *
    # times / size, 2 t from each other; the covariance is 1/2 on the diagonal.
    for times in (1, 2, 6, 9):
        angle = 2 * np.pi * times / 40
        found = neighbour_similarity(*ring(40, times))
        assert found.neighbours == pytest.approx(np.cos(angle), rel=1e-3)
        assert found.siblings == pytest.approx(np.cos(2 * angle), abs=1e-3)
        deviations = 40 * 2 / 3 * np.cos(angle) / np.sqrt(2 * 2 * 40 / 9 * 0.5)
        assert found.deviations == pytest.approx(deviations, rel=1e-3)
        assert found.degree == 2


def test_what_follows_by_hand():
    # r = 0.3 and q = 0.15: homophily 0.5, reliability 0.6; over 4 neighbours the signal is 0.15,
    # the noise 0.1, so the ratio is 1.5.
    found = NeighbourSimilarity(0.3, 0.15, 9.0, 4.0)
    assert found.homophily == pytest.approx(0.5)
    assert found.reliability == pytest.approx(0.6)
    assert found.signal_to_noise == pytest.approx(1.5)
    assert found.variance_share == pytest.approx(1.0)
    # One neighbour: ratio 0.375.
    assert NeighbourSimilarity(0.3, 0.15, 9.0, 1.0).variance_share == pytest.approx(
        0.0703, rel=1e-3
    )


def test_neighbours_that_are_not_alike():
    similar, matrix = ring(40, 1)
    shuffled = similar[torch.randperm(40, generator=generator(0))]
    # By chance, unlike each other, constant, or without edges.
    cases = [
        neighbour_similarity(shuffled, matrix),
        neighbour_similarity(*ring(40, 15)),
        neighbour_similarity(torch.ones(40, 2), matrix),
        neighbour_similarity(similar, SparseMatrix.from_scipy(np.eye(40))),
    ]
    for found in cases:
        assert not found.significant
        assert found.signal_to_noise == 0
        assert found.variance_share == 0.05
        assert np.isnan(found.homophily) and np.isnan(found.reliability)
    assert [found.unlike for found in cases] == [False, True, False, False]
    assert cases[2] == NeighbourSimilarity(0.0, 0.0, 0.0, 2.0)
    assert cases[3] == NeighbourSimilarity(0.0, 0.0, 0.0, 0.0)


def test_two_deviations_are_significant_and_three_unlike():
    found = [NeighbourSimilarity(d / 10, 0.0, d, 2.0) for d in (-3.1, -2.9, 1.9, 2.1)]
    assert [f.unlike for f in found] == [True, False, False, False]
    assert [f.significant for f in found] == [False, False, False, True]


@pytest.mark.parametrize(("homophily", "reliability"), [(0.9, 0.1), (0.5, 0.5), (0.2, 0.8)])
def test_homophily_and_reliability_are_recovered_without_labels(homophily, reliability):
    found = neighbour_similarity(*classes(homophily, reliability))
    assert found.homophily == pytest.approx(homophily, abs=0.05)
    assert found.reliability == pytest.approx(reliability, rel=0.1, abs=0.02)
    ratio = homophily**2 * reliability * found.degree / (1 - reliability)
    assert found.signal_to_noise == pytest.approx(ratio, rel=0.3)


def test_features_of_any_kind_give_the_same_estimate():
    rows, matrix = classes(0.6, 0.4)
    exact = neighbour_similarity(rows, matrix)
    projected = feature_similarity(rows, matrix, generator=generator(0))
    assert projected.neighbours == pytest.approx(exact.neighbours, rel=0.1)
    assert projected.siblings == pytest.approx(exact.siblings, rel=0.1)
    # A few columns of any unit, with one that is not used.
    few = torch.cat([rows[:, :8], torch.zeros(len(rows), 1)], dim=1)
    units = torch.tensor([1e-3, 1, 10, 1e6, 1, 1, 1, 1, 1])
    scaled = feature_similarity(few * units, matrix, generator=generator(0))
    plain = feature_similarity(few, matrix, generator=generator(0))
    assert scaled.neighbours == pytest.approx(plain.neighbours, rel=1e-4)
    # Words, whose rows count by their direction.
    words = SparseMatrix.from_scipy(sp.csr_matrix((rows * (rows > 0.12)).numpy()))
    longer = SparseMatrix(words.crow, words.col, 7 * words.value, words.shape)
    found = [feature_similarity(x, matrix, generator=generator(0)) for x in (words, longer)]
    assert found[0].significant
    assert found[0].neighbours == pytest.approx(found[1].neighbours, rel=1e-4)


def test_skewed_features_that_are_independent_of_the_edges_are_not_similar():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        ends = sp.csr_matrix(rng.random((300, 300)) < 0.01).astype(np.float32)
        rows = torch.from_numpy(rng.lognormal(size=(300, 3)).astype(np.float32))
        matrix = SparseMatrix.from_scipy(ends.maximum(ends.T))
        found.append(neighbour_similarity(rows, matrix).deviations)
    assert abs(np.mean(found)) < 0.5 and 0.5 < np.std(found) < 1.5


def test_without_siblings_edges_alone_count():
    # Pairs of nodes: no node has two neighbours.
    pairs = np.kron(np.eye(30), [[0.5, 0.5], [0.5, 0.5]]).astype(np.float32)
    rows = torch.randn(30, 4, generator=generator(0)).repeat_interleave(2, 0)
    found = neighbour_similarity(rows, SparseMatrix.from_scipy(pairs))
    assert found.neighbours == found.siblings == pytest.approx(1.0)
    assert (found.homophily, found.reliability) == (pytest.approx(1.0), pytest.approx(1.0))


@settings(max_examples=50, deadline=None)
@given(
    neighbours=st.floats(-1, 1),
    siblings=st.floats(-1, 1),
    deviations=st.floats(-5, 500),
    degree=st.floats(0, 1e6),
)
def test_the_variance_share_stays_in_its_range(neighbours, siblings, deviations, degree):
    # Deviations are those of `neighbours`, so they have its sign.
    deviations = abs(deviations) * np.sign(neighbours)
    found = NeighbourSimilarity(neighbours, siblings, deviations, degree)
    assert not (found.significant and found.unlike)
    assert 0.05 <= found.variance_share <= 1
