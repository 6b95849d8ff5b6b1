"""The clustering probe: agreement of classes with clusters that were found without labels.

The rows are clustered first, for every seed; the labels are read afterwards, to score the clusters.
Nothing is selected by the scores. Legend: M rows, D columns, K clusters, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from sklearn.manifold import spectral_embedding
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler, normalize
from torch import Tensor

from graphlatent.errors import InputError, bad_argument, warn
from graphlatent.explore.clusters import kmeans
from graphlatent.ops.nearest import RowMatrix, nearest_others
from graphlatent.probes.design import PREPROCESSING, Preprocessing
from graphlatent.probes.neighbours import float64_rows
from graphlatent.probes.results import ScoresBySeed

Array: TypeAlias = np.ndarray[Any, Any]
Method: TypeAlias = Literal["kmeans", "spectral"]

METHODS: tuple[Method, ...] = get_args(Method)
SELECTION = "Nothing was chosen by the labels: they were read after clustering, to score it."
COUNTED = " The number of clusters is the number of classes."


@dataclass(frozen=True)
class ClusterResult(ScoresBySeed):
    """Agreement of clusters and classes for each seed; every score is 1 for perfect agreement.

    Args:
        nmi: normalised mutual information; 0 where clusters and classes are independent.
        ari: adjusted Rand index; 0 on average for random clusters, negative for worse.
        acc: accuracy under the best one-to-one matching of clusters and classes.
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
    """Agreement of the classes with clusters of the representation.

    Args:
        representation: one row per node or graph [M, D]: array, tensor, SciPy sparse matrix or
            `SparseMatrix`.
        labels: one class per row [M], numbers or names; used to score the clusters only.
        method: "kmeans" or "spectral"; see `cluster_rows`.
        num_clusters: K. By default the number of classes, the only thing that is taken from the
            labels beforehand.
        seeds: random starts, one clustering each.
        preprocessing: "none": rows as they are; "row": each row divided by its norm; "standard":
            each column divided by its standard deviation over all rows. There are no labels to
            choose it by: fix it beforehand, and report it.
        restarts: `n_init` of k-means for each seed.
        neighbours: of each row in the neighbour graph of "spectral".

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where rows and labels do not fit together.
    """
    if len(seeds) == 0:
        raise bad_argument("seeds", owner="cluster_probe", allowed="one or more ints", got=seeds)
    classes = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    rows = float64_rows(representation)
    if classes.shape != (rows.shape[0],):
        raise InputError(
            f"Labels must be one class per row of the representation, shape ({rows.shape[0]},). Got"
            f" shape {classes.shape}."
        )
    size = len(np.unique(classes)) if num_clusters is None else num_clusters
    counts = {"num_clusters": size, "restarts": restarts, "neighbours": neighbours}
    _check_settings(method, preprocessing, counts, num_rows=rows.shape[0], owner="cluster_probe")
    points = scaled_rows(rows, preprocessing)
    if method == "spectral":
        points = _spectral_rows(points, size, neighbours=neighbours)
    found = [kmeans(points, size, restarts=restarts, seed=int(seed)) for seed in seeds]
    scores = {
        name: tuple(float(score(classes, clusters)) for clusters in found)
        for name, score in SCORES.items()
    }
    return ClusterResult(
        **scores,
        method=method,
        num_clusters=size,
        seeds=tuple(map(int, seeds)),
        selection=SELECTION + (COUNTED if num_clusters is None else ""),
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

    - "kmeans": scikit-learn's `KMeans` from k-means++ starts (Arthur and Vassilvitskii 2007).
    - "spectral": Ng, Jordan and Weiss (2001) on the graph of nearest neighbours, in which two rows
      are linked with weight 1 if each is among the other's nearest, with 1/2 if only one is. The
      first K eigenvectors of the normalised Laplacian (scikit-learn's `spectral_embedding`), rows
      scaled to norm 1, are clustered by k-means.

    Args:
        representation: one row per node or graph [M, D].
        num_clusters: K.
        method: "kmeans" or "spectral".
        seed: `random_state` of k-means.
        preprocessing: "none", "row" or "standard"; see `cluster_probe`.
        restarts: `n_init` of k-means.
        neighbours: of each row in the graph of "spectral"; all others where there are fewer.

    Raises:
        ConfigError: where a setting is out of range.
        InputError: where there are fewer rows than clusters, or the representation is no 2-D
            matrix of numbers.
    """
    rows = float64_rows(representation)
    counts = {"num_clusters": num_clusters, "restarts": restarts, "neighbours": neighbours}
    _check_settings(method, preprocessing, counts, num_rows=rows.shape[0], owner="cluster_rows")
    points = scaled_rows(rows, preprocessing)
    if method == "spectral":
        points = _spectral_rows(points, num_clusters, neighbours=neighbours)
    return kmeans(points, num_clusters, restarts=restarts, seed=seed)


def scaled_rows(rows: RowMatrix, preprocessing: Preprocessing) -> RowMatrix:
    """The rows under a preprocessing of `cluster_probe`.

    Columns are not centred: distances do not depend on it, and sparse rows stay sparse.
    """
    if preprocessing == "none":
        return rows
    if preprocessing == "row":
        unit: RowMatrix = normalize(rows)
        return unit
    standardized: RowMatrix = StandardScaler(with_mean=False).fit_transform(rows)
    return standardized


def clustering_accuracy(labels: Array, clusters: Array) -> float:
    """Accuracy under the best one-to-one matching of clusters and classes (Hungarian method).

    With more clusters than classes, the rows of unmatched clusters count as wrong.
    """
    counts = contingency_matrix(labels, clusters)
    return float(counts[linear_sum_assignment(-counts)].sum() / counts.sum())


SCORES: Mapping[str, Callable[[Array, Array], float]] = {
    "nmi": normalized_mutual_info_score,
    "ari": adjusted_rand_score,
    "acc": clustering_accuracy,
}


def _spectral_rows(rows: RowMatrix, num_clusters: int, *, neighbours: int) -> Array:
    """Rows of the first K eigenvectors of the normalised Laplacian, scaled to norm 1, [M, K].

    `sklearn.cluster.SpectralClustering` does the same without the scaling of Ng, Jordan and Weiss;
    on the embeddings of Photo its NMI is 0.49 instead of 0.60. LOBPCG, because ARPACK factorises
    the Laplacian: 23.6 s instead of 0.4 s for 30,000 rows, with the same clusters (2026-11-18,
    2 CPU cores, scikit-learn 1.9.1; `python benchmarks/probes.py --part spectral`).
    """
    graph = _neighbour_graph(rows, neighbours, num_clusters)
    with warnings.catch_warnings():
        # As many parts as clusters are no fault; `_neighbour_graph` warns where there are more
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        vectors = spectral_embedding(
            graph,
            # LOBPCG needs two vectors at least
            n_components=max(num_clusters, 2),
            eigen_solver="lobpcg",
            random_state=0,
            drop_first=False,
        )
    scaled: Array = normalize(vectors[:, :num_clusters])
    return scaled


def _neighbour_graph(rows: RowMatrix, neighbours: int, num_clusters: int) -> sp.csr_matrix:
    """The symmetric graph of nearest neighbours [M, M].

    The mean of the 0/1 matrix "j is among the nearest of i" and its transpose.
    """
    num_rows = rows.shape[0]
    count = min(neighbours, num_rows - 1)
    every = np.arange(num_rows)
    near = nearest_others(rows, queries=every, count=count)
    source, target = np.repeat(every, count), near.ravel()
    half = sp.csr_matrix((np.full(len(target), 0.5), (source, target)), shape=(num_rows, num_rows))
    graph: sp.csr_matrix = sp.csr_matrix(half + half.T)
    num_parts = connected_components(graph, directed=False)[0]
    if num_parts > num_clusters:
        warn(
            f"The graph of {count} nearest neighbours has {num_parts} connected components, more"
            f" than the {num_clusters} clusters: which of them are merged is arbitrary. Raise"
            " 'neighbours'."
        )
    return graph


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
