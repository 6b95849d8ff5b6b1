"""Similarity of neighbours in directed graphs, against sums over pairs of nodes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphlatent.nn.similarity import neighbour_similarity, neighbour_sums, two_way
from graphlatent.ops.sparse import SparseMatrix


def reference(rows, a):
    """Both correlations and the deviations, pair by pair."""
    u, size = rows - rows.mean(0), len(rows)
    mean_square = (u * u).sum() / size
    covariance = u.T @ u / size
    total = weight = pairs = of_pairs = variance = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        for j in others:
            total, weight = total + a[i, j] * (u[i] @ u[j]), weight + a[i, j]
            for k in others:
                if j != k:
                    of_pairs += a[i, j] * a[i, k] * (u[j] @ u[k])
                    pairs += a[i, j] * a[i, k]
            if j < i:
                # The product of the rows of i and j is one random number, for both directions.
                variance += (a[i, j] + a[j, i]) ** 2 * (covariance**2).sum()
    degree = ((a != 0) & ~np.eye(size, dtype=bool)).sum() / size
    return (
        total / weight / mean_square,
        of_pairs / pairs / mean_square,
        total / np.sqrt(variance),
        degree,
    )


def graph(kind, *, size=20, seed=0):
    """A weighted adjacency, dense."""
    a = sp.random(size, size, 4 / size, random_state=seed).toarray()
    if kind == "directed":
        a = np.triu(a)[:, ::-1]
    elif kind == "symmetric":
        a = a + a.T
    return a


@pytest.mark.parametrize("kind", ["directed", "mixed", "symmetric"])
def test_against_sums_over_pairs(kind):
    a, rng = graph(kind), np.random.default_rng(1)
    rows = a @ rng.normal(size=(20, 4)) + 0.3 * rng.normal(size=(20, 4)) + 1
    sparse = SparseMatrix.from_scipy(sp.csr_matrix(a), dtype=torch.float64)
    found = neighbour_similarity(torch.from_numpy(rows), sparse)
    values = (found.neighbours, found.siblings, found.deviations, found.degree)
    assert values == pytest.approx(reference(rows, a), rel=1e-9)


def test_a_symmetric_matrix_needs_no_search():
    a = graph("symmetric")
    known = SparseMatrix.from_scipy(sp.csr_matrix(a), dtype=torch.float64)
    marked = SparseMatrix(known.crow, known.col, known.value, known.shape, symmetric=True)
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 3)))
    assert neighbour_similarity(rows, marked) == neighbour_similarity(rows, known)
    assert float(two_way(marked, marked.value)) == pytest.approx(np.trace(a @ a), rel=1e-12)


@pytest.mark.parametrize("kind", ["directed", "mixed", "symmetric"])
def test_independent_rows_deviate_by_one(kind):
    sparse = SparseMatrix.from_scipy(sp.csr_matrix(graph(kind, size=200, seed=2)))
    rng = np.random.default_rng(0)
    found = [
        neighbour_similarity(
            torch.from_numpy(rng.normal(size=(200, 5)).astype(np.float32)), sparse
        ).deviations
        for _ in range(300)
    ]
    assert np.std(found) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", ["directed", "mixed", "symmetric"])
def test_chance_in_a_direction_is_that_of_all_pairs(kind):
    # With one column, the deviation of the correlation is that of the whole.
    sparse = SparseMatrix.from_scipy(sp.csr_matrix(graph(kind)), dtype=torch.float64)
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 1)))
    sums, found = neighbour_sums(rows, sparse), neighbour_similarity(rows, sparse)
    assert found.neighbours / float(sums.deviation) == pytest.approx(found.deviations, rel=1e-6)
