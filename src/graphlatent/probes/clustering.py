"""Clustering as a probe: do the classes come out as clusters, found without a label?

The rows are clustered first, for every seed; only then are the labels read, to score what was
found. Nothing is chosen by the scores. Legend: M rows, D columns, K clusters, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import lobpcg
from torch import Tensor

from graphlatent.errors import GraphLatentWarning, InputError, bad_argument, missing_package
from graphlatent.probes.design import PREPROCESSING, Preprocessing
from graphlatent.probes.knn import Rows, double_rows, nearest_rows
from graphlatent.probes.results import ScoresBySeed

Array: TypeAlias = np.ndarray[Any, Any]
Method: TypeAlias = Literal["kmeans", "spectral"]

METHODS: tuple[Method, ...] = get_args(Method)
SELECTION = "Nothing was chosen by the labels: they were read after clustering, to score it."
COUNTED = " The number of clusters is the number of classes."
_DENSE = 1500  # rows up to which all eigenvectors are computed
_SPARE = 4  # further vectors beside the wanted ones, which make those converge faster


@dataclass(frozen=True)
class ClusterResult(ScoresBySeed):
    """How well clusters and classes agree, seed by seed. All scores are 1 for perfect agreement.

    Args:
        nmi: normalised mutual information of each seed; 0 where clusters say nothing about classes.
        ari: adjusted Rand index of each seed; 0 on average for random clusters, and below for
            worse.
        acc: share of rows in the class of their cluster, clusters and classes matched one to one in
            the best way.
        method: "kmeans" or "spectral".
        num_clusters: K.
        seeds: of the random starts.
        selection: in words, what the labels were used for.
    """

    nmi: tuple[float, ...]
    ari: tuple[float, ...]
    acc: tuple[float, ...]
    method: str
    num_clusters: int
    seeds: tuple[int, ...]
    selection: str = SELECTION
    names: ClassVar[tuple[str, ...]] = ("nmi", "ari", "acc")


def cluster_probe(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    method: Method = "kmeans",
    num_clusters: int | None = None,
    seeds: Sequence[int] = range(5),
    preprocessing: Preprocessing = "none",
    restarts: int = 10,
    neighbours: int = 10,
) -> ClusterResult:
    """The agreement of classes with clusters that were found without them.

    Args:
        representation: one row per node or graph [M, D]: array, tensor, SciPy sparse matrix or
            `SparseMatrix`.
        labels: one class per row [M], numbers or names. They score the clusters, once all are
            found.
        method: "kmeans" or "spectral"; see `cluster_rows`.
        num_clusters: K. By default the number of classes: the one thing that is taken from the
            labels beforehand.
        seeds: random starts, one clustering each.
        preprocessing: "none": rows as they are; "row": each divided by its length; "standard": each
            column divided by its standard deviation over all rows. There are no labels to choose it
            by: name it beforehand, and report it.
        restarts: how often k-means starts anew for each seed; the start with the smallest distances
            to the centres is kept.
        neighbours: of each row, in the graph that "spectral" is about.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where rows and labels do not fit together.
        MissingDependencyError: where scikit-learn is not installed.
    """
    if len(seeds) == 0:
        raise bad_argument("seeds", owner="cluster_probe", allowed="one or more ints", got=seeds)
    classes = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    rows = double_rows(representation)
    if classes.shape != (rows.shape[0],):
        raise InputError(
            f"Labels must be one class per row of the representation, shape ({rows.shape[0]},). Got"
            f" shape {classes.shape}."
        )
    size = len(np.unique(classes)) if num_clusters is None else num_clusters
    counts = {"num_clusters": size, "restarts": restarts, "neighbours": neighbours}
    _check_settings(method, preprocessing, counts, num_rows=rows.shape[0], owner="cluster_probe")
    points = _points(scaled_rows(rows, preprocessing), size, method=method, neighbours=neighbours)
    found = [_kmeans(points, size, restarts=restarts, seed=int(seed)) for seed in seeds]
    scores = {
        name: tuple(score(classes, clusters) for clusters in found)
        for name, score in SCORES.items()
    }
    selection = SELECTION + (COUNTED if num_clusters is None else "")
    return ClusterResult(
        **scores,
        method=method,
        num_clusters=size,
        seeds=tuple(map(int, seeds)),
        selection=selection,
    )


def cluster_rows(
    representation: Any,
    *,
    num_clusters: int,
    method: Method = "kmeans",
    seed: int = 0,
    preprocessing: Preprocessing = "none",
    restarts: int = 10,
    neighbours: int = 10,
) -> Array:
    """The cluster of every row, int64 [M], from 0 to K - 1.

    - "kmeans": Lloyd's k-means from k-means++ starts (Arthur and Vassilvitskii 2007).
    - "spectral": Ng, Jordan and Weiss (2001) on the graph of nearest neighbours, in which a row is
      linked to another by 1 where each is among the other's nearest, by 1/2 where one is. The first
      K eigenvectors of D^-1/2 A D^-1/2, rows scaled to length 1, are clustered by k-means. All is
      sparse but the eigenvectors.

    Args:
        representation: one row per node or graph [M, D].
        num_clusters: K.
        method: "kmeans" or "spectral".
        seed: the same seed gives the same clusters.
        preprocessing: "none", "row" or "standard"; see `cluster_probe`.
        restarts: starts of k-means.
        neighbours: of each row in the graph of "spectral"; all others where there are fewer.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where there are fewer rows than clusters, or the representation is no table of
            numbers.
        MissingDependencyError: where scikit-learn is not installed.
    """
    rows = double_rows(representation)
    counts = {"num_clusters": num_clusters, "restarts": restarts, "neighbours": neighbours}
    _check_settings(method, preprocessing, counts, num_rows=rows.shape[0], owner="cluster_rows")
    points = _points(
        scaled_rows(rows, preprocessing), num_clusters, method=method, neighbours=neighbours
    )
    return _kmeans(points, num_clusters, restarts=restarts, seed=seed)


def scaled_rows(rows: Rows, how: Preprocessing) -> Rows:
    """The rows prepared as `cluster_probe` says. Centring is left out, since distances do not
    depend on it: sparse rows stay sparse.
    """
    if how == "none":
        return rows
    if isinstance(rows, Tensor):
        if how == "row":
            return torch.nn.functional.normalize(rows, dim=1)
        deviation, mean = torch.std_mean(rows, dim=0, correction=0)
        return rows * torch.where(deviation > 1e-10 * mean.abs(), 1 / deviation, 0.0)
    squares = rows.multiply(rows)
    if how == "row":
        length = np.sqrt(np.asarray(squares.sum(1)))
        return sp.csr_matrix(rows.multiply(1 / np.where(length > 0, length, 1)))
    power = np.asarray(squares.mean(0))
    variance = power - np.asarray(rows.mean(0)) ** 2
    varies = variance > 1e-12 * power
    return sp.csr_matrix(rows.multiply(varies / np.sqrt(np.where(varies, variance, 1))))


def clustering_accuracy(truth: Array, found: Array) -> float:
    """Share of rows in the class of their cluster, each cluster matched with one class of its own
    in the best way.

    With fewer classes than clusters, rows of a cluster without a class count as wrong. The matching
    is Kuhn's Hungarian method.
    """
    table = _table(truth, found)
    return float(table[linear_sum_assignment(-table)].sum() / table.sum())


def normalized_mutual_information(truth: Array, found: Array) -> float:
    """I(classes; clusters) / mean of their entropies, from 0 to 1; 1 where both put all rows
    together.
    """
    table = _table(truth, found)
    joint, of_class, of_cluster = (
        _entropy(counts) for counts in (table, table.sum(1), table.sum(0))
    )
    if of_class + of_cluster == 0:
        return 1.0
    return float(np.clip(2 * (of_class + of_cluster - joint) / (of_class + of_cluster), 0, 1))


def adjusted_rand(truth: Array, found: Array) -> float:
    """Rand index of all pairs of rows, less what equally large random clusters would get, scaled to
    1 (Hubert and Arabie 1985).

    1 where nothing is left to chance: all rows together, or each by itself, in both.
    """
    table = _table(truth, found)
    both, in_class, in_cluster = (
        float((counts * (counts - 1) // 2).sum()) for counts in (table, table.sum(1), table.sum(0))
    )
    pairs = float(table.sum() * (table.sum() - 1) // 2)
    expected, most = in_class * in_cluster / max(pairs, 1.0), (in_class + in_cluster) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


SCORES: Mapping[str, Callable[[Array, Array], float]] = {
    "nmi": normalized_mutual_information,
    "ari": adjusted_rand,
    "acc": clustering_accuracy,
}


def _table(truth: Array, found: Array) -> Array:
    """How many rows of each class are in each cluster, int64 [C, K]."""
    _, row = np.unique(truth, return_inverse=True)
    _, column = np.unique(found, return_inverse=True)
    shape = int(row.max()) + 1, int(column.max()) + 1
    counts: Array = (
        np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1])
        .astype(np.int64)
        .reshape(shape)
    )
    return counts


def _entropy(counts: Array) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def _points(
    rows: Rows, num_clusters: int, *, method: Method, neighbours: int
) -> Array | sp.csr_matrix:
    """What k-means is about: the rows themselves, or where they stand in the graph of
    neighbours.
    """
    if method == "kmeans":
        return rows.cpu().numpy() if isinstance(rows, Tensor) else rows
    vectors = _first_eigenvectors(_neighbour_graph(rows, neighbours, num_clusters), num_clusters)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def _kmeans(rows: Array | sp.csr_matrix, num_clusters: int, *, restarts: int, seed: int) -> Array:
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise missing_package("scikit-learn", needed_for="Clustering") from error
    with warnings.catch_warnings():
        # Fewer different rows than clusters: said below, once
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(num_clusters, init="k-means++", n_init=restarts, random_state=seed)
        found: Array = model.fit_predict(rows).astype(np.int64)
    if len(np.unique(found)) < num_clusters:
        words = (
            f"Only {len(np.unique(found))} of {num_clusters} clusters were found: many rows are the"
            " same. Look at the representation."
        )
        warnings.warn(words, GraphLatentWarning, stacklevel=4)
    return found


def _neighbour_graph(rows: Rows, neighbours: int, num_clusters: int) -> sp.csr_matrix:
    """The symmetric graph of nearest neighbours [M, M]: mean of "j is among the nearest of i" and
    its transpose.
    """
    num_rows = rows.shape[0]
    count = min(neighbours, num_rows - 1)
    everything = np.arange(num_rows)
    near = nearest_rows(rows, queries=everything, among=everything, count=count + 1)
    other = near != everything[:, None]
    # A row with many copies may be missing among its own nearest: drop the farthest instead
    other[:, -1] &= ~other.all(1)
    source, target = np.repeat(everything, count), near[other]
    half = sp.csr_matrix((np.full(len(target), 0.5), (source, target)), shape=(num_rows, num_rows))
    graph: sp.csr_matrix = sp.csr_matrix(half + half.T)
    num_parts = connected_components(graph, directed=False)[0]
    if num_parts > num_clusters:
        words = (
            f"The graph of {count} nearest neighbours falls into {num_parts} parts, more than the"
            f" {num_clusters} clusters: which parts are put together is a matter of chance. Raise"
            " 'neighbours'."
        )
        warnings.warn(words, GraphLatentWarning, stacklevel=4)
    return graph


def _first_eigenvectors(graph: sp.csr_matrix, count: int) -> Array:
    """The eigenvectors of D^-1/2 A D^-1/2 with the largest eigenvalues, [M, count].

    By LOBPCG (Knyazev 2001) for many rows: it works on all of them at once, so that it finds each
    of several equal eigenvalues, as separate parts of a graph have, where Lanczos methods may miss
    some.
    """
    degree = np.asarray(graph.sum(1)).ravel()
    root = sp.diags(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    matrix = root @ graph @ root
    num_rows = matrix.shape[0]
    if num_rows <= max(_DENSE, 10 * (count + _SPARE)):
        vectors: Array = np.linalg.eigh(matrix.toarray())[1][:, ::-1][:, :count]
        return vectors
    start = np.random.default_rng(0).normal(size=(num_rows, count + _SPARE))
    with warnings.catch_warnings():
        # Of the spare vectors, which need not converge
        warnings.simplefilter("ignore", UserWarning)
        values, vectors = lobpcg(matrix, start, largest=True, tol=1e-5, maxiter=500)
    return vectors[:, np.argsort(-values)[:count]]


def _check_settings(
    method: str, preprocessing: str, counts: Mapping[str, int], *, num_rows: int, owner: str
) -> None:
    if method not in METHODS:
        raise bad_argument("method", owner=owner, allowed=f"one of {METHODS}", got=method)
    if preprocessing not in PREPROCESSING:
        raise bad_argument(
            "preprocessing", owner=owner, allowed=f"one of {PREPROCESSING}", got=preprocessing
        )
    for name, value in counts.items():
        if value < 1:
            raise bad_argument(name, owner=owner, allowed="an int of at least 1", got=value)
    if num_rows < counts["num_clusters"]:
        raise InputError(
            f"There are fewer rows than clusters, {num_rows} and {counts['num_clusters']}. Ask for"
            " fewer clusters."
        )
