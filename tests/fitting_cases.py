"""Rows of several kinds for tests of linear classifiers, and their preprocessing in plain NumPy."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler, normalize

from graphlatent.probes.design import checked_matrix
from graphlatent.probes.fitting import PreprocessedMatrix

PREPROCESSING = ("none", "row", "standard")


def case(kind, *, num_classes=3, num_rows=900):
    rng = np.random.default_rng(3)
    labels = np.arange(num_rows) % num_classes
    width = {"wide": 70, "copies": 70}.get(kind, 6)
    rows = (
        2 + rng.normal(size=(num_classes, width))[labels] + 1.5 * rng.normal(size=(num_rows, width))
    )
    rows = rows * rng.uniform(0.2, 3, size=width)
    if kind == "rank":
        rows = rows[:, :3] @ rng.normal(size=(3, 12))
    if kind == "copies":
        rows[:40] = np.repeat(rows[:10], 4, axis=0)
        labels[:40] = np.repeat(labels[:10], 4)
    if kind == "constant":
        rows[:, 2] = 7.0
        rows[:50, 4] = 3.0  # constant in the first fits only
    if kind == "sparse":
        rows = rows * (rng.random(rows.shape) < 0.5)
    return (rows.astype(np.float32) if kind == "float32" else rows), labels


def matrix_of(rows, *, sparse=False):
    return PreprocessedMatrix(checked_matrix(sp.csr_matrix(rows) if sparse else rows), "cpu")


def prepared(rows, train, preprocessing):
    """What `Design` promises, in plain NumPy and scikit-learn."""
    rows = np.asarray(rows, dtype=np.float64)
    if preprocessing == "row":
        rows = normalize(rows)
    if preprocessing == "standard":
        rows = StandardScaler().fit(rows[train]).transform(rows)
    rows = rows - rows[train].mean(0)
    constant = rows[train].std(0) < 1e-12
    rows[:, constant] = 0.0
    return rows / np.sqrt((rows[train] ** 2).sum(1).mean())
