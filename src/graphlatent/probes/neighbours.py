"""Exact nearest neighbours of rows in bounded memory, with ties broken by the order of the rows.

scikit-learn computes the distances. The selection is written here, because the neighbours that
`sklearn.neighbors.NearestNeighbors` takes among ties depend on the number of threads: with one and
with two, 10 % of the 50 nearest differ on the embeddings of IMDB-BINARY, where isomorphic graphs
have equal rows. Both take the same time, 0.12 s for 6,120 queries among 765 rows of Photo
(`python benchmarks/probes.py --part neighbours`, 2026-11-18, 2 CPU cores, scikit-learn 1.9.1).

Legend: M rows, D columns, Q queries, n candidate rows.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.metrics.pairwise import cosine_distances, euclidean_distances
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import safe_sparse_dot

from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.design import checked_matrix
from graphlatent.representations import RowMatrix

Array: TypeAlias = np.ndarray[Any, Any]
Distance: TypeAlias = Literal["euclidean", "cosine"]
Scaling: TypeAlias = Literal["none", "standard"]

DISTANCES: tuple[Distance, ...] = get_args(Distance)
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
# Number of distances held in memory at a time
_BLOCK = 2**23
# Distances that differ by at most this fraction of the typical one differ by rounding only
_ROUNDING = 2.0**-40


def float64_rows(representation: Any) -> RowMatrix:
    """The representation as float64 [M, D]: an array, or SciPy CSR where it was given sparse.

    Raises:
        InputError: where it is no 2-D matrix of finite numbers.
    """
    matrix = checked_matrix(representation)
    if isinstance(matrix, SparseMatrix):
        return matrix.to_scipy().astype(np.float64)
    rows: Array = matrix.to(device="cpu", dtype=torch.float64).numpy()
    return rows


def nearest_rows(
    rows: RowMatrix,
    *,
    queries: Array,
    among: Array,
    count: int,
    distance: Distance = "euclidean",
    preprocessing: Scaling = "none",
) -> Array:
    """The nearest rows of each query: positions in `among`, nearest first, int64 [Q, count].

    All distances are computed, a block of queries at a time. Equal distances, up to rounding, are
    ordered by their position in `among`.

    Args:
        rows: from `float64_rows`.
        queries: row numbers to find neighbours of [Q].
        among: row numbers of the candidates [n].
        count: number of neighbours, at most n.
        distance: "euclidean", or "cosine": 1 - the cosine of the angle; a row of zeros is at
            distance 1 of every row.
        preprocessing: "none", or "standard": columns with mean 0 and standard deviation 1 over the
            rows `among`.
    """
    candidates, scaler = rows[among], None
    if preprocessing == "standard":
        # Sparse rows are not centred, so that they stay sparse: see `_distances`
        scaler = StandardScaler(with_mean=not sp.issparse(rows)).fit(candidates)
        candidates = scaler.transform(candidates)
    centre = scaler.mean_ / scaler.scale_ if scaler is not None and sp.issparse(rows) else None
    typical = float(_squared_norms(candidates).mean()) if distance == "euclidean" else 1.0
    step = max(1, _BLOCK // len(among))
    found = np.empty((len(queries), count), dtype=np.int64)
    for start in range(0, len(queries), step):
        block = rows[queries[start : start + step]]
        block = block if scaler is None else scaler.transform(block)
        found[start : start + step] = _smallest(
            _distances(block, candidates, distance=distance, centre=centre),
            count,
            tolerance=_ROUNDING * typical,
        )
    return found


def _distances(
    left: RowMatrix, right: RowMatrix, *, distance: Distance, centre: Array | None
) -> Array:
    """Squared Euclidean or cosine distances, [len(left), len(right)].

    `centre` is what sparse rows still have to be shifted by. Euclidean distances do not depend on
    it; for the cosine it is applied to inner products and norms.
    """
    if distance == "euclidean":
        squared: Array = euclidean_distances(left, right, squared=True)
        return squared
    if centre is None:
        cosine: Array = cosine_distances(left, right)
        return cosine
    shift = float(centre @ centre)
    on_left, on_right = left @ centre, right @ centre
    products = safe_sparse_dot(left, right.T, dense_output=True) + (
        shift - on_left[:, None] - on_right
    )
    left_norms = np.sqrt(np.maximum(_squared_norms(left) + shift - 2 * on_left, 0))
    right_norms = np.sqrt(np.maximum(_squared_norms(right) + shift - 2 * on_right, 0))
    norms = left_norms[:, None] * right_norms
    centred: Array = 1 - products / np.where(norms > 0, norms, 1.0)
    return centred


def _squared_norms(rows: RowMatrix) -> Array:
    squares = rows.multiply(rows) if sp.issparse(rows) else np.square(rows)
    return np.asarray(squares.sum(axis=1)).ravel()


def _smallest(distance: Array, count: int, *, tolerance: float) -> Array:
    """Columns of the `count` smallest entries of every row, ascending, ties by column, [Q, count].

    Entries of the ascending order that differ from the one before by at most `tolerance` are ties.
    """
    if count < distance.shape[1]:
        columns = np.argpartition(distance, count - 1, axis=1)[:, :count]
        values = np.take_along_axis(distance, columns, axis=1)
        order = np.argsort(values, axis=1)
        columns, values = (np.take_along_axis(each, order, axis=1) for each in (columns, values))
    else:
        columns, values = _sorted(distance)
    # Rows in which ties of the last entry were left out are sorted as a whole
    crowded = (distance <= values[:, -1:] + tolerance).sum(axis=1) > count
    columns = _ties_by_column(columns, values, tolerance)
    if crowded.any():
        columns[crowded] = _ties_by_column(*_sorted(distance[crowded]), tolerance)[:, :count]
    return columns


def _sorted(distance: Array) -> tuple[Array, Array]:
    columns = np.argsort(distance, axis=1)
    return columns, np.take_along_axis(distance, columns, axis=1)


def _ties_by_column(columns: Array, values: Array, tolerance: float) -> Array:
    """The columns of ascending values [Q, n], those of tied values in ascending order."""
    tie = np.zeros_like(columns)
    tie[:, 1:] = np.cumsum(np.diff(values, axis=1) > tolerance, axis=1)
    order = np.lexsort((columns, tie), axis=1)
    return np.take_along_axis(columns, order, axis=1)
