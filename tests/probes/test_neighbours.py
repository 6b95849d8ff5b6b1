"""Nearest rows: by hand, against scikit-learn, and ties in the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

import graphlatent.ops.nearest as neighbours
from graphlatent.ops.nearest import DISTANCES, SCALINGS, nearest_rows
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.neighbours import float64_rows


def test_cosine_by_hand():
    rows = float64_rows([[1.0, 0.0], [0.0, 5.0], [-1.0, 0.0], [0.0, 0.0], [0.1, 0.3]])
    near = nearest_rows(
        rows, queries=np.array([4, 3]), among=np.arange(4), count=4, distance="cosine"
    )
    # Cosines 0.95, 0.32, 0 (no length), -0.32; of zeros all are 0
    assert near.tolist() == [[1, 0, 3, 2], [0, 1, 2, 3]]


def test_standardizing_by_hand():
    rows = float64_rows([[0.0, 0.0], [100.0, 1.0], [10.0, 1.0]])
    among, queries = np.array([0, 1]), np.array([2])
    # 10 against 90 in the first column
    assert nearest_rows(rows, queries=queries, among=among, count=1).tolist() == [[0]]
    by_column = nearest_rows(rows, queries=queries, among=among, count=1, preprocessing="standard")
    # (10 / 50)^2 + (1 / 0.5)^2 = 4.04 against (90 / 50)^2 = 3.24
    assert by_column.tolist() == [[1]]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("preprocessing", SCALINGS)
@pytest.mark.parametrize("sparse", [False, True])
def test_without_ties_they_are_those_of_scikit_learn(distance, preprocessing, sparse):
    rng = np.random.default_rng(0)
    rows = (1 + rng.normal(size=(150, 9))) * rng.uniform(0.1, 5, size=9)
    if sparse:
        rows = rows * (rng.random(rows.shape) < 0.6)
    among, queries = np.arange(0, 90), np.arange(90, 150)
    scaler = StandardScaler().fit(rows[among])
    scaled = scaler.transform(rows) if preprocessing == "standard" else rows
    model = NearestNeighbors(n_neighbors=12, metric=distance).fit(scaled[among])
    found = nearest_rows(
        float64_rows(sp.csr_matrix(rows) if sparse else rows),
        queries=queries,
        among=among,
        count=12,
        distance=distance,
        preprocessing=preprocessing,
    )
    np.testing.assert_array_equal(found, model.kneighbors(scaled[queries], return_distance=False))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 100), st.floats(0.01, 100))
def test_rotation_changes_no_neighbour_and_scaling_a_row_no_angle(seed, factor):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 4))
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    lengths = np.where(rng.random((40, 1)) < 0.5, factor, 1.0)
    where = {"queries": np.arange(20), "among": np.arange(20, 40), "count": 5}
    np.testing.assert_array_equal(
        nearest_rows(rows, **where), nearest_rows(factor * rows @ rotation + 3, **where)
    )
    np.testing.assert_array_equal(
        nearest_rows(rows, distance="cosine", **where),
        nearest_rows(rows * lengths, distance="cosine", **where),
    )


def test_distances_that_differ_by_rounding_are_ties():
    rng = np.random.default_rng(0)
    # All in one direction
    rows = np.outer(rng.uniform(0.1, 9, size=30), rng.normal(size=37))
    every = np.arange(30)
    found = nearest_rows(rows, queries=every, among=every, count=20, distance="cosine")
    np.testing.assert_array_equal(found, np.tile(np.arange(20), (30, 1)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 12), st.sampled_from(DISTANCES))
def test_ties_are_ordered_by_position(seed, count, distance):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, size=(20, 3)).astype(float)
    among = rng.permutation(12)

    def exact(a, b):
        if distance == "euclidean":
            return round(float(np.sum((a - b) ** 2)), 9)
        size = float(np.linalg.norm(a) * np.linalg.norm(b))
        return round(1 - float(a @ b) / size if size > 0 else 1.0, 9)

    expected = [
        sorted(range(12), key=lambda i: (exact(rows[q], rows[among[i]]), i))[:count]
        for q in range(12, 20)
    ]
    for form in (rows, sp.csr_matrix(rows)):
        found = nearest_rows(
            form, queries=np.arange(12, 20), among=among, count=count, distance=distance
        )
        assert found.tolist() == expected


@pytest.mark.parametrize("distance", DISTANCES)
def test_blocks_change_nothing(distance, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(30, 4))
    where = {"queries": np.arange(20), "among": np.arange(20, 30), "count": 3}
    whole = nearest_rows(rows, distance=distance, preprocessing="standard", **where)
    # Three queries at a time
    monkeypatch.setattr(neighbours, "_BLOCK", 39)
    again = nearest_rows(rows, distance=distance, preprocessing="standard", **where)
    np.testing.assert_array_equal(again, whole)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_constant_rows_are_all_tied(form):
    near = nearest_rows(
        float64_rows(form(np.ones((9, 2)))),
        queries=np.arange(9),
        among=np.arange(4),
        count=3,
        distance="cosine",
        preprocessing="standard",
    )
    assert near.tolist() == [[0, 1, 2]] * 9


def test_every_form_is_float64_and_what_came_in_is_not_changed():
    rows = np.random.default_rng(0).poisson(0.5, size=(6, 4)).astype(np.float32)
    before = rows.copy()
    for form in (rows, rows.tolist(), torch.from_numpy(rows), sp.coo_matrix(rows)):
        found = float64_rows(form)
        assert found.dtype == np.float64
        every = np.arange(6)
        nearest_rows(found, queries=every, among=every, count=2, preprocessing="standard")
    sparse = float64_rows(SparseMatrix.from_scipy(sp.csr_matrix(rows)))
    assert sp.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), rows)
    np.testing.assert_array_equal(rows, before)
