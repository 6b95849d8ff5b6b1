"""The k-nearest-neighbour probe: a row gets the majority class of the training rows nearest to it.

Nothing is fitted but the scale of the columns, so the probe shows whether the rows of a class lie
together as they are. Legend: M rows, D columns, Q queries, n training rows, C classes, K labels of
a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from graphlatent.data.splits import Split
from graphlatent.display import counted
from graphlatent.errors import InputError, bad_argument
from graphlatent.ops.nearest import DISTANCES, SCALINGS, Distance, RowMatrix, Scaling, nearest_rows
from graphlatent.probes.metrics import METRICS, OF_CLASSES, ClassScores
from graphlatent.probes.neighbours import float64_rows
from graphlatent.probes.protocol import Protocol, SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice, ProbeResult

Array: TypeAlias = np.ndarray[Any, Any]

NEIGHBOURS = (1, 3, 5, 10, 20, 50)
SELECTION = (
    "Per split, the preprocessing, distance and number of neighbours with the highest validation"
    " {metric}; among equals the preprocessing named first, then the distance, then the number. The"
    " test labels of a split are read once, after its choice."
)
REFITTED = (
    " Neighbours of the test rows are then chosen from its training and validation rows together."
)
# Number of votes held in memory at a time
_BLOCK = 2**23


def knn_probe(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    splits: Sequence[Split],
    neighbours: Sequence[int] = NEIGHBOURS,
    distances: Sequence[Distance] = DISTANCES,
    preprocessing: Sequence[Scaling] = SCALINGS,
    metric: str = "accuracy",
    refit: bool = False,
) -> ProbeResult:
    """Test scores of a k-nearest-neighbour classifier, its settings chosen on validation rows.

    The neighbours of a row vote with equal weight. Among classes with equally many votes, the one
    with the nearest neighbour wins; training rows at the same distance are ordered by their
    position in the split. With a 0/1 matrix of labels each label is voted on separately, and a tie
    is decided by the nearest neighbour.

    Args:
        representation: one row per node or graph [M, D]: array, tensor, SciPy sparse matrix or
            `SparseMatrix`.
        labels: one class per row [M], or a 0/1 matrix of several labels per row [M, K].
        splits: training, validation and test rows; see `graphlatent.data.splits`.
        neighbours: numbers of neighbours to choose from. Those above a split's number of training
            rows are left out there.
        distances: "euclidean" and "cosine", to choose from. A row of zeros has the cosine distance
            1 to every row.
        preprocessing: to choose from. "none": rows as they are; "standard": columns with mean 0
            and standard deviation 1 over the training rows.
        metric: of classes, the score that decides and is reported. AUC and AP rank rows by the
            share of the neighbours that are of a class.
        refit: after the choice, take neighbours of the test rows from the validation rows too.

    Raises:
        ConfigError: where a setting is empty or has a value that is not allowed.
        InputError: where rows, labels and splits do not fit together.
    """
    _check_settings(neighbours, distances, preprocessing)
    rows = float64_rows(representation)
    protocol = Protocol(labels, splits, metric=metric)
    if metric not in OF_CLASSES:
        raise bad_argument("metric", owner="knn_probe", allowed=f"one of {OF_CLASSES}", got=metric)
    if protocol.num_rows != rows.shape[0]:
        raise InputError(
            f"Labels must have one entry per row of the representation, {rows.shape[0]}. Got"
            f" {protocol.num_rows}."
        )
    grid = _Grid(tuple(neighbours), tuple(distances), tuple(preprocessing), metric, refit)
    predictions = protocol.choose(lambda part: _select(rows, part, grid))
    return protocol.final(
        predictions, selection=SELECTION.format(metric=metric) + (REFITTED if refit else "")
    )


@dataclass(frozen=True)
class _Grid:
    """The settings to choose from, and the score that decides."""

    neighbours: tuple[int, ...]
    distances: tuple[Distance, ...]
    preprocessing: tuple[Scaling, ...]
    metric: str
    refit: bool


def _select(rows: RowMatrix, part: VisibleSplit, grid: _Grid) -> SplitPrediction:
    """The choice of one split and its predictions for the test rows, whose labels it cannot see."""
    counts = [k for k in grid.neighbours if k <= len(part.train)]
    if not counts:
        raise InputError(
            f"Split {part.number} has {counted(len(part.train), 'training row')}, fewer than each"
            f" of neighbours={grid.neighbours}. Add a smaller number, or train on more rows."
        )
    candidates = [
        (scaling, distance, k)
        for scaling in grid.preprocessing
        for distance in grid.distances
        for k in counts
    ]
    if len(part.val) == 0 and len(candidates) > 1:
        raise InputError(
            f"Split {part.number} has no validation rows, and there are {len(candidates)} settings"
            " to choose from. Give it validation rows, or name one of each setting."
        )
    scores = _val_scores(rows, part, grid, counts) if len(part.val) else [float("nan")]
    # The first of equals
    best = int(np.argmax([METRICS[grid.metric].utility(score) for score in scores]))
    scaling, distance, k = candidates[best]
    known, known_labels = part.train, part.train_labels
    if grid.refit:
        known = np.concatenate([known, part.val])
        known_labels = np.concatenate([known_labels, part.val_labels])
    near = nearest_rows(
        rows, queries=part.test, among=known, count=k, distance=distance, preprocessing=scaling
    )
    (predicted,) = _votes(near, known_labels, counts=[k])
    settings = {"preprocessing": scaling, "distance": distance, "neighbours": k}
    shares = _shares(near, known_labels, k) if METRICS[grid.metric].ranks else None
    return SplitPrediction(Choice("", settings, scores[best]), predicted, shares)


def _val_scores(
    rows: RowMatrix, part: VisibleSplit, grid: _Grid, counts: Sequence[int]
) -> list[float]:
    """The validation score of every setting, in the order of `candidates` in `_select`."""
    scores = []
    for scaling in grid.preprocessing:
        for distance in grid.distances:
            near = nearest_rows(
                rows,
                queries=part.val,
                among=part.train,
                count=max(counts),
                distance=distance,
                preprocessing=scaling,
            )
            metric = METRICS[grid.metric]
            scores += [
                metric(
                    part.val_labels,
                    predicted,
                    _shares(near, part.train_labels, k) if metric.ranks else None,
                )
                for k, predicted in zip(
                    counts, _votes(near, part.train_labels, counts=counts), strict=True
                )
            ]
    return scores


def _shares(near: Array, labels: Array, k: int) -> ClassScores:
    """The share of the first k neighbours that are of each class, or have each label."""
    if labels.ndim == 2:
        return ClassScores(labels[near[:, :k]].mean(1), np.arange(labels.shape[1]))
    classes, numbers = np.unique(labels, return_inverse=True)
    tally = np.zeros((len(near), len(classes)))
    for position in range(k):
        np.add.at(tally, (np.arange(len(near)), numbers[near[:, position]]), 1.0)
    return ClassScores(tally / k, classes)


def _votes(near: Array, labels: Array, *, counts: Sequence[int]) -> list[Array]:
    """The majority among the first k neighbours, for each k of `counts`: labels [Q] or [Q, K].

    Args:
        near: positions in `labels`, nearest first [Q, max(counts)].
        labels: of the rows that neighbours were taken from, [n] or [n, K].
        counts: numbers of neighbours.
    """
    if labels.ndim == 2:
        return [_label_votes(labels[near[:, :k]]) for k in counts]
    classes, numbers = np.unique(labels, return_inverse=True)
    chosen = np.empty((len(counts), len(near)), dtype=np.int64)
    step = max(1, _BLOCK // len(classes))
    for start in range(0, len(near), step):
        block = slice(start, start + step)
        chosen[:, block] = _class_votes(numbers[near[block]], len(classes), counts)
    return list(classes[chosen])


def _label_votes(votes: Array) -> Array:
    """The majority for each label, 0/1 [Q, K] from [Q, k, K]; a tie goes to the nearest."""
    balance = 2 * votes.sum(1) - votes.shape[1]
    majority: Array = np.where(balance == 0, votes[:, 0], balance > 0).astype(votes.dtype)
    return majority


def _class_votes(votes: Array, num_classes: int, counts: Sequence[int]) -> Array:
    """The winning class for each k of `counts`, [len(counts), Q], from the neighbours' classes.

    `votes` is [Q, max(counts)], nearest first.
    """
    num_rows, most = votes.shape
    row = np.arange(num_rows)
    # Position of the nearest neighbour of each class
    first = np.full((num_rows, num_classes), most)
    for position in range(most - 1, -1, -1):
        first[row, votes[:, position]] = position
    tally = np.zeros((num_rows, num_classes), dtype=np.int64)
    winners: dict[int, Array] = {}
    for position in range(most):
        tally[row, votes[:, position]] += 1
        if position + 1 in counts:
            # Most votes, then nearest
            winners[position + 1] = np.argmax(tally * (most + 1) - first, axis=1)
    return np.stack([winners[k] for k in counts])


def _check_settings(
    neighbours: Sequence[int], distances: Sequence[str], preprocessing: Sequence[str]
) -> None:
    owner = "knn_probe"
    if len(neighbours) == 0 or not all(
        isinstance(k, (int, np.integer)) and k >= 1 for k in neighbours
    ):
        raise bad_argument(
            "neighbours", owner=owner, allowed="one or more ints of at least 1", got=neighbours
        )
    choices = (("distances", distances, DISTANCES), ("preprocessing", preprocessing, SCALINGS))
    for name, given, allowed in choices:
        if isinstance(given, str) or not given or not set(given) <= set(allowed):
            raise bad_argument(name, owner=owner, allowed=f"one or more of {allowed}", got=given)
