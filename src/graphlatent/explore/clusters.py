"""K-means clusters of rows.

Distances are Euclidean and rows are taken as they are: with rows of norm 1 the normalised mutual
information with the classes is 0.67 instead of 0.69 on Photo, 0.78 on CS with both.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from graphlatent.errors import InputError, warn
from graphlatent.explore.neighbours import check_count
from graphlatent.ops.nearest import Array, RowMatrix


def kmeans(rows: RowMatrix, num_clusters: int, *, restarts: int, seed: int) -> Array:
    """The cluster of every row, int64 [M], from 0 to K - 1.

    Args:
        rows: finite numbers, at least K rows [M, D].
        num_clusters: K.
        restarts: k-means++ starts, of which the one with the smallest sum of squares is kept.
        seed: `random_state` of scikit-learn's `KMeans`.
    """
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: reported below, once
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(num_clusters, init="k-means++", n_init=restarts, random_state=seed)
        found: Array = model.fit_predict(rows).astype(np.int64)
    if len(np.unique(found)) < num_clusters:
        warn(
            f"Only {len(np.unique(found))} of {num_clusters} clusters were found: many rows are the"
            " same. Look at the representation."
        )
    return found


def cluster_by_size(rows: RowMatrix, k: int, *, restarts: int, seed: int) -> Array:
    """The k-means cluster of every row, int64 [M]; cluster 0 is the largest, and so on.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where there are fewer rows than clusters.
    """
    check_count(k, name="k", owner="cluster")
    check_count(restarts, name="restarts", owner="cluster")
    check_count(seed, name="seed", owner="cluster", least=0, most=2**31 - 1)
    if rows.shape[0] < k:
        raise InputError(
            f"There are {rows.shape[0]} embeddings, fewer than the {k} clusters. Ask for fewer."
        )
    found = kmeans(rows, k, restarts=restarts, seed=seed)
    sizes = np.bincount(found, minlength=k)
    new_number = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
    numbered: Array = new_number[found]
    return numbered


def typical_rows(rows: Array, clusters: Array, *, count: int) -> list[Array]:
    """The rows nearest to the mean of each cluster, nearest first, at most `count` of each."""
    found = []
    for number in range(int(clusters.max()) + 1):
        members = np.flatnonzero(clusters == number)
        inside = rows[members].astype(np.float64)
        distance = np.square(inside - inside.mean(0)).sum(1) if len(members) else np.zeros(0)
        found.append(members[np.argsort(distance, kind="stable")[:count]])
    return found
