"""Nearest neighbours of rows in bounded memory, with ties broken by the order of the rows.

`nearest_rows` and `nearest_others` compare all pairs. `nearest_by_cells` compares each row with the
rows of the nearest k-means cells only, which finds most of the nearest neighbours of many rows in a
fraction of the time.

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
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics.pairwise import cosine_distances, euclidean_distances
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.extmath import safe_sparse_dot

Array: TypeAlias = np.ndarray[Any, Any]
RowMatrix: TypeAlias = Array | sp.csr_matrix
Distance: TypeAlias = Literal["euclidean", "cosine"]
Scaling: TypeAlias = Literal["none", "standard"]

DISTANCES: tuple[Distance, ...] = get_args(Distance)
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
# Number of distances held in memory at a time
_BLOCK = 2**23
# Distances that differ by at most this fraction of the typical one differ by rounding only
_ROUNDING = 2.0**-40
# Rows in a cell of `nearest_by_cells`, on average
_CELL_SIZE = 500


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
        rows: finite numbers, in float64 where ties must be exact [M, D].
        queries: row numbers to find neighbours of [Q].
        among: row numbers of the candidates [n].
        count: number of neighbours, at most n.
        distance: "euclidean", or "cosine": 1 - the cosine of the angle; a row of zeros is at
            distance 1 of every row.
        preprocessing: "none", or "standard": columns with mean 0 and standard deviation 1 over the
            rows `among`.
    """
    candidates, scaler = rows[among].astype(np.float64, copy=False), None
    if preprocessing == "standard":
        # Sparse rows are not centred, so that they stay sparse: see `_distances`
        scaler = StandardScaler(with_mean=not sp.issparse(rows)).fit(candidates)
        candidates = scaler.transform(candidates)
    centre = scaler.mean_ / scaler.scale_ if scaler is not None and sp.issparse(rows) else None
    typical = float(_squared_norms(candidates).mean()) if distance == "euclidean" else 1.0
    step = max(1, _BLOCK // len(among))
    found = np.empty((len(queries), count), dtype=np.int64)
    for start in range(0, len(queries), step):
        block = rows[queries[start : start + step]].astype(np.float64, copy=False)
        block = block if scaler is None else scaler.transform(block)
        found[start : start + step] = _smallest(
            _distances(block, candidates, distance=distance, centre=centre),
            count,
            tolerance=_ROUNDING * typical,
        )
    return found


def nearest_others(
    rows: RowMatrix, *, queries: Array, count: int, distance: Distance = "euclidean"
) -> Array:
    """The nearest other rows of each query, nearest first, int64 [Q, count].

    Args:
        rows: finite numbers [M, D].
        queries: row numbers to find neighbours of [Q].
        count: number of neighbours, less than M.
        distance: "euclidean" or "cosine".
    """
    every = np.arange(rows.shape[0])
    near = nearest_rows(rows, queries=queries, among=every, count=count + 1, distance=distance)
    return _without_self(near, queries)


def nearest_by_cells(
    rows: Array, *, count: int, distance: Distance = "euclidean", cells: int = 20, seed: int = 0
) -> Array:
    """Approximately the nearest other rows of every row, nearest first, int64 [M, count].

    The rows are divided by k-means into cells of 500 on average. The neighbours of a row are looked
    for in its own cell and in the cells whose centres are nearest to that of its own.

    Args:
        rows: finite numbers [M, D].
        count: number of neighbours, less than M.
        distance: "euclidean" or "cosine".
        cells: in how many cells to look, more where they have too few rows.
        seed: of k-means.
    """
    points = normalize(rows) if distance == "cosine" else rows
    num_cells = max(1, len(rows) // _CELL_SIZE)
    model = MiniBatchKMeans(num_cells, n_init=1, batch_size=4096, random_state=seed)
    cell = model.fit_predict(points)
    members = np.split(
        np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell, minlength=num_cells))[:-1]
    )
    apart = euclidean_distances(model.cluster_centers_, squared=True)
    found = np.empty((len(rows), count), dtype=np.int64)
    for own, inside in enumerate(members):
        if not len(inside):
            continue
        nearest = [members[other] for other in np.argsort(apart[own], kind="stable")]
        sizes = np.cumsum([len(each) for each in nearest])
        used = max(cells, 1 + int(np.searchsorted(sizes, count + 1)))
        among = np.sort(np.concatenate(nearest[:used]))
        near = nearest_rows(rows, queries=inside, among=among, count=count + 1, distance=distance)
        found[inside] = _without_self(among[near], inside)
    return found


def pair_distances(
    rows: Array, left: Array, right: Array, *, distance: Distance = "euclidean"
) -> Array:
    """The distance of each pair of rows, float64 [Q]; Euclidean ones are not squared."""
    found = np.empty(len(left))
    step = max(1, _BLOCK // max(rows.shape[1], 1))
    for start in range(0, len(left), step):
        block = slice(start, start + step)
        one, other = (rows[side[block]].astype(np.float64) for side in (left, right))
        if distance == "euclidean":
            found[block] = np.sqrt(_squared_norms(one - other))
        else:
            found[block] = 1 - (normalize(one) * normalize(other)).sum(axis=1)
    return found


def _without_self(near: Array, queries: Array) -> Array:
    """The neighbours of each query without itself, [Q, n - 1] from [Q, n]."""
    other = near != queries[:, None]
    # A row with many copies may be missing among its own nearest: drop the farthest instead
    other[:, -1] &= ~other.all(1)
    others: Array = near[other].reshape(len(near), near.shape[1] - 1)
    return others


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
