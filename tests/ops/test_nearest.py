"""Nearest other rows against brute force, and how many of them k-means cells find."""

from __future__ import annotations

import numpy as np
import pytest

from graphlatent.ops.nearest import nearest_by_cells, nearest_others, pair_distances


def all_distances(rows, distance):
    """Every pair by the definition, one at a time."""
    rows = rows.astype(np.float64)
    if distance == "euclidean":
        return np.array([[np.linalg.norm(a - b) for b in rows] for a in rows])
    return np.array(
        [[1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for b in rows] for a in rows]
    )


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_others_and_their_distances_are_those_of_all_pairs(distance, dtype):
    rows = np.random.default_rng(0).normal(size=(40, 5)).astype(dtype)
    expected = all_distances(rows, distance)
    np.fill_diagonal(expected, np.inf)
    queries = np.array([3, 0, 39])
    near = nearest_others(rows, queries=queries, count=6, distance=distance)
    np.testing.assert_array_equal(near, np.argsort(expected[queries], axis=1)[:, :6])
    found = pair_distances(rows, np.repeat(queries, 6), near.ravel(), distance=distance)
    np.testing.assert_allclose(found, np.sort(expected[queries], axis=1)[:, :6].ravel(), atol=1e-6)


def test_a_row_is_never_its_own_neighbour_among_copies():
    rows = np.tile([1.0, 2.0], (5, 1))
    near = nearest_others(rows, queries=np.arange(5), count=2)
    assert all(row not in found for row, found in enumerate(near.tolist()))


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_cells_find_nearly_all_of_the_nearest(distance):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 8))
    rows = (centres[rng.integers(0, 30, 6000)] + 0.3 * rng.normal(size=(6000, 8))).astype("f4")
    exact = nearest_others(rows, queries=np.arange(6000), count=5, distance=distance)
    found = nearest_by_cells(rows, count=5, distance=distance, cells=4)
    hits = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(exact, found, strict=True)])
    assert hits > 0.95
    # Looked for in one cell of twelve only, more of them are missed
    fewer = nearest_by_cells(rows, count=5, distance=distance, cells=1)
    missed = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(exact, fewer, strict=True)])
    assert 0.5 < missed < hits


def test_few_rows_are_one_cell():
    rows = np.random.default_rng(0).normal(size=(9, 3))
    exact = nearest_others(rows, queries=np.arange(9), count=8)
    np.testing.assert_array_equal(nearest_by_cells(rows, count=8), exact)
