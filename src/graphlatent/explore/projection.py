"""Rows in the plane: by principal components, t-SNE or UMAP.

t-SNE and UMAP are given rows of length 1, so that near means similar by the cosine, reduced to 50
principal components. Of many rows they lay out a random sample; every other row is placed at the
median of the positions of its 5 nearest rows in the sample.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize

from graphlatent.errors import InputError, MissingDependencyError, bad_argument
from graphlatent.explore.reduction import components, principal_axes
from graphlatent.ops.nearest import nearest_rows
from graphlatent.ops.threads import library_threads_for

Array: TypeAlias = np.ndarray[Any, Any]
MapMethod: TypeAlias = Literal["pca", "tsne", "umap"]

METHODS: tuple[MapMethod, ...] = get_args(MapMethod)
TITLES = {"tsne": "t-SNE", "umap": "UMAP", "pca": "principal components"}
SAMPLE = {"tsne": 5_000, "umap": 20_000}
"""How many rows each method lays out at most."""
_WIDTH = 50
# Neighbours of a row in the sample by which it is placed
_ANCHORS = 5
# Rows converted to float64 at a time
_BLOCK = 2**16
# An iteration of t-SNE takes about 3 microseconds a row on one core: as long as this many
# multiplications in `ops/threads.py`
_TSNE_WORK = 90_000
# With fewer rows there are no neighbourhoods to preserve
_LEAST = 4


@dataclass(frozen=True, eq=False)
class Projection:
    """Rows in the plane.

    Args:
        points: float [M, 2].
        axes: names of both axes.
        method: by which they were computed.
        num_placed: rows that are not in the sample, and so were placed by their neighbours.
    """

    points: Array
    axes: tuple[str, str]
    method: MapMethod
    num_placed: int = 0


def default_method(num_rows: int) -> MapMethod:
    """t-SNE; of more rows than it lays out UMAP, where it is installed; of very few "pca".

    UMAP takes most of a minute to start, and 600 points are laid out by t-SNE in 3 s.
    """
    if num_rows < 2 * _LEAST:
        return "pca"
    many = num_rows > SAMPLE["tsne"]
    return "umap" if many and importlib.util.find_spec("umap") else "tsne"


def project(
    rows: Array, *, method: MapMethod, seed: int = 0, sample: int | None = None
) -> Projection:
    """Rows in the plane.

    Args:
        rows: finite numbers [M, D].
        method: "pca" for the first two principal components, "tsne" or "umap".
        seed: of the sample and of the layout.
        sample: how many rows t-SNE or UMAP lays out at most; None takes 5,000 or 20,000.

    Raises:
        ConfigError: where there is no such method.
        InputError: where there are too few rows for it.
        MissingDependencyError: where it needs a package that is not installed.
    """
    if method not in METHODS:
        raise bad_argument("method", owner="map", allowed=f"one of {METHODS}", got=method)
    if method == "pca":
        return _principal(rows)
    if len(rows) < _LEAST:
        raise InputError(
            f"{TITLES[method]} needs at least {_LEAST} rows. Got {len(rows)}. Use method='pca'."
        )
    shown = _sampled(len(rows), sample or SAMPLE[method], seed=seed)
    reduced = _reduced(rows, shown)
    lay_out = _tsne if method == "tsne" else _umap
    points = np.empty((len(reduced), 2))
    points[shown] = lay_out(reduced[shown], seed=seed)
    others = np.setdiff1d(np.arange(len(reduced)), shown)
    if len(others):
        near = nearest_rows(reduced, queries=others, among=shown, count=_ANCHORS)
        points[others] = np.median(points[shown][near], axis=1)
    axes = (f"{TITLES[method]} 1", f"{TITLES[method]} 2")
    return Projection(points, axes, method, len(others))


def _reduced(rows: Array, shown: Array) -> Array:
    """Rows of length 1 in the principal components of the rows `shown`, float32 [M, 50 or D]."""
    width = min(_WIDTH, rows.shape[1])
    axes = principal_axes(normalize(rows[shown].astype(np.float64)))
    found = np.empty((len(rows), width), dtype=np.float32)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        found[block] = axes.scores(normalize(rows[block].astype(np.float64)), width)
    return found


def _principal(rows: Array) -> Projection:
    width = min(2, rows.shape[1])
    scores, share = components(rows, width)
    points = np.zeros((len(rows), 2))
    points[:, :width] = scores
    first, second = ([*share.tolist(), 0.0])[:2]
    axes = (f"first component ({first:.0%} of variance)", f"second component ({second:.0%})")
    return Projection(points, axes, "pca")


def _sampled(num_rows: int, most: int, *, seed: int) -> Array:
    """Numbers of at most `most` random rows, ascending."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    return np.sort(order[: max(most, _ANCHORS)].numpy())


def _tsne(rows: Array, *, seed: int) -> Array:
    perplexity = min(30.0, (len(rows) - 1) / 3)
    # Rows of length 1 that differ by less are the same
    init = "pca" if min(rows.shape) >= 2 and float(np.ptp(rows)) > 1e-6 else "random"
    model = TSNE(perplexity=perplexity, init=init, learning_rate="auto", random_state=seed)
    # A thousand iterations of some milliseconds, in each of which threads wait for each other
    with library_threads_for(_TSNE_WORK * len(rows)):
        points: Array = model.fit_transform(rows)
    return points


def _umap(rows: Array, *, seed: int) -> Array:
    try:
        import umap
    except ImportError as error:
        raise MissingDependencyError(
            "UMAP needs the package 'umap-learn'. Install it with: pip install"
            " 'graphlatent[umap]', or use --method tsne (method='tsne')."
        ) from error
    with warnings.catch_warnings():
        # A fixed seed means one thread; and the spectral layout of few rows is not sparse
        warnings.simplefilter("ignore")
        model = umap.UMAP(
            n_neighbors=min(15, len(rows) - 1),
            init="spectral" if len(rows) > 3 * _LEAST else "random",
            random_state=seed,
            n_jobs=1,
        )
        points: Array = model.fit_transform(rows)
    return points
