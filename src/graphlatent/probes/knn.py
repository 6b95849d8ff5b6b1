"""The nearest-neighbour probe: a row gets the class that most of the training rows nearest to it
have.

It has nothing to fit but the scale of the columns, so it shows whether rows of a class lie together
as they are. Also here, for every probe that needs them: `double_rows`, how they hold a
representation, and `nearest_rows`, exact neighbours in bounded memory. Legend: M rows, D columns, Q
rows asked about, n rows to choose neighbours from, C classes, K labels of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphlatent.data.splits import Split
from graphlatent.errors import InputError, bad_argument
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.design import checked_table
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.protocol import Answer, Protocol, Visible
from graphlatent.probes.results import Choice, ProbeResult

Array: TypeAlias = np.ndarray[Any, Any]
Rows: TypeAlias = Tensor | sp.csr_matrix
Distance: TypeAlias = Literal["euclidean", "cosine"]
Scaling: TypeAlias = Literal["none", "standard"]

NEIGHBOURS = (1, 3, 5, 10, 20, 50)
DISTANCES: tuple[Distance, ...] = get_args(Distance)
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
SELECTION = (
    "Per split, the preprocessing, distance and number of neighbours with the highest validation"
    " {score}; among equals the preprocessing named first, then the distance, then the number. The"
    " test labels of a split are read once, after its choice."
)
REFITTED = (
    " Neighbours of the test rows are then chosen from its training and validation rows together."
)
_BLOCK = 2**23  # distances held at a time
# Distances that differ by no more than this share of the usual one differ by rounding only
_ROUNDING = 2.0**-40


def knn_probe(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    splits: Sequence[Split],
    neighbours: Sequence[int] = NEIGHBOURS,
    metrics: Sequence[Distance] = DISTANCES,
    preprocessing: Sequence[Scaling] = SCALINGS,
    score: str = "accuracy",
    refit: bool = False,
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Test scores of the nearest-neighbour classifier, every setting chosen on validation rows of
    the same split.

    The neighbours of a row vote with equal weight. Of classes with equally many votes, the one with
    the nearest neighbour wins; of training rows at the same distance, the one that comes first is
    the nearer. With a 0/1 table of labels each label is voted on by itself, and half of the votes
    are decided by the nearest neighbour.

    Args:
        representation: one row per node or graph [M, D]: array, tensor, SciPy sparse matrix or
            `SparseMatrix`.
        labels: one class per row [M], or a 0/1 table of several labels per row [M, K].
        splits: which rows train, choose and test; see `graphlatent.data.splits`.
        neighbours: how many neighbours to choose from. Numbers above a split's number of training
            rows are left out there.
        metrics: distances to choose from. "cosine": 1 - the cosine of the angle; a row of zeros is
            at distance 1 of every row.
        preprocessing: "none": rows as they are; "standard": columns with mean 0 and standard
            deviation 1 over the training rows.
        score: what decides and what is reported, "accuracy" or "micro-F1".
        refit: let validation rows be neighbours of the test rows too, after the choice.
        device: where to compute; in float64.

    Raises:
        ConfigError: where a setting is empty or holds something else.
        InputError: where rows, labels and splits do not fit together.
    """
    _check_settings(neighbours, metrics, preprocessing)
    rows = double_rows(representation, device=device)
    protocol = Protocol(labels, splits, metric=score)
    if protocol.num_rows != rows.shape[0]:
        raise InputError(
            f"Labels must have one entry per row of the representation, {rows.shape[0]}. Got"
            f" {protocol.num_rows}."
        )
    grid = _Grid(tuple(neighbours), tuple(metrics), tuple(preprocessing), score, refit)
    answers = protocol.choose(lambda part: _select(rows, part, grid))
    return protocol.final(
        answers, selection=SELECTION.format(score=score) + (REFITTED if refit else "")
    )


def double_rows(representation: Any, *, device: torch.device | str = "cpu") -> Rows:
    """The representation as float64 [M, D]: a tensor on the device, or SciPy CSR where it came
    sparse.

    Raises:
        InputError: where it is no table of finite numbers.
    """
    table = checked_table(representation)
    if isinstance(table, SparseMatrix):
        return table.to_scipy().astype(np.float64)
    return table.to(device=device, dtype=torch.float64)


def nearest_rows(
    rows: Rows,
    *,
    queries: Array,
    among: Array,
    count: int,
    metric: Distance = "euclidean",
    preprocessing: Scaling = "none",
) -> Array:
    """The nearest rows of each query: places in `among`, nearest first, int64 [Q, count]; equals in
    the order of `among`.

    Exact: all distances are computed, a block of queries at a time. Distances that are equal but
        for rounding count as equal.

    Args:
        rows: from `double_rows`.
        queries: row numbers to find neighbours of [Q].
        among: row numbers to find them in [n]; "standard" takes its figures from these rows.
        count: how many, n at most.
        metric: "euclidean" or "cosine".
        preprocessing: "none" or "standard".
    """
    prepared = _prepared(rows, among, preprocessing)
    squares = prepared.squares(among)
    usual = float(squares.mean()) if metric == "euclidean" else 1.0
    step = max(1, _BLOCK // len(among))
    found = np.empty((len(queries), count), dtype=np.int64)
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        distance = _distances(
            prepared.products(block, among), prepared.squares(block), squares, metric=metric
        )
        found[start : start + step] = (
            _smallest(distance, count, tolerance=_ROUNDING * usual).cpu().numpy()
        )
    return found


@dataclass(frozen=True)
class _Grid:
    """What to choose from, and how."""

    neighbours: tuple[int, ...]
    metrics: tuple[Distance, ...]
    preprocessing: tuple[Scaling, ...]
    score: str
    refit: bool


def _select(rows: Rows, part: Visible, grid: _Grid) -> Answer:
    """The choice of one split, and its answer for the test rows. The test labels are not among what
    it is given.
    """
    counts = [k for k in grid.neighbours if k <= len(part.train)]
    if not counts:
        raise InputError(
            f"Split {part.number} has {len(part.train)} training row(s), fewer than each of"
            f" neighbours={grid.neighbours}. Add a smaller number, or train on more rows."
        )
    candidates = [
        (how, metric, k) for how in grid.preprocessing for metric in grid.metrics for k in counts
    ]
    if len(part.val) == 0 and len(candidates) > 1:
        raise InputError(
            f"Split {part.number} has no validation rows, and there are {len(candidates)} settings"
            " to choose from. Give it validation rows, or name one of each setting."
        )
    scores = _val_scores(rows, part, grid, counts) if len(part.val) else [float("nan")]
    best = int(np.argmax(scores))  # the first of equals
    how, metric, k = candidates[best]
    known, known_labels = part.train, part.train_labels
    if grid.refit:
        known, known_labels = (
            np.concatenate([known, part.val]),
            np.concatenate([known_labels, part.val_labels]),
        )
    near = nearest_rows(
        rows, queries=part.test, among=known, count=k, metric=metric, preprocessing=how
    )
    (predicted,) = _votes(near, known_labels, counts=[k])
    return Answer(
        Choice("", {"preprocessing": how, "metric": metric, "neighbours": k}, scores[best]),
        predicted,
    )


def _val_scores(rows: Rows, part: Visible, grid: _Grid, counts: Sequence[int]) -> list[float]:
    """The score on the validation rows of every setting, the number of neighbours changing
    fastest.
    """
    scores = []
    for how in grid.preprocessing:
        for metric in grid.metrics:
            near = nearest_rows(
                rows,
                queries=part.val,
                among=part.train,
                count=max(counts),
                metric=metric,
                preprocessing=how,
            )
            scores += [
                METRICS[grid.score](part.val_labels, p)
                for p in _votes(near, part.train_labels, counts=counts)
            ]
    return scores


def _votes(near: Array, labels: Array, *, counts: Sequence[int]) -> list[Array]:
    """What the first k neighbours say, for each k of `counts`: labels [Q] or [Q, K].

    Args:
        near: places in `labels`, nearest first [Q, max(counts)].
        labels: of the rows to choose neighbours from, [n] or [n, K].
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
    """0/1 [Q, K] out of the neighbours' labels [Q, k, K]: the majority, or where there is none, the
    nearest.
    """
    balance = 2 * votes.sum(1) - votes.shape[1]
    majority: Array = np.where(balance == 0, votes[:, 0], balance > 0).astype(votes.dtype)
    return majority


def _class_votes(votes: Array, num_classes: int, counts: Sequence[int]) -> Array:
    """The class that wins, for each k of `counts` [len(counts), Q], out of the neighbours' classes
    [Q, max(counts)].
    """
    num_rows, most = votes.shape
    row = np.arange(num_rows)
    # How near the nearest neighbour of each class is
    first = np.full((num_rows, num_classes), most)
    for place in range(most - 1, -1, -1):
        first[row, votes[:, place]] = place
    tally = np.zeros((num_rows, num_classes), dtype=np.int64)
    winners: dict[int, Array] = {}
    for place in range(most):
        tally[row, votes[:, place]] += 1
        if place + 1 in counts:
            # Most votes, then nearest
            winners[place + 1] = np.argmax(tally * (most + 1) - first, axis=1)
    return np.stack([winners[k] for k in counts])


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Rows with scaled columns; where they are sparse, `shift` is still to be subtracted from each,
    so that they stay sparse.
    """

    rows: Rows
    shift: Array | None = None

    def products(self, left: Array, right: Array) -> Tensor:
        """The inner products of the rows `left` with the rows `right`, [len(left), len(right)]."""
        if isinstance(self.rows, Tensor):
            return self.rows[left] @ self.rows[right].T
        dense = (self.rows[left] @ self.rows[right].T).toarray()
        if self.shift is not None:
            dense += (
                float(self.shift @ self.shift)
                - (self.rows[left] @ self.shift)[:, None]
                - self.rows[right] @ self.shift
            )
        return torch.from_numpy(dense)

    def squares(self, index: Array) -> Tensor:
        """The squared lengths of the rows `index`."""
        if isinstance(self.rows, Tensor):
            return self.rows[index].square().sum(1)
        chosen = self.rows[index]
        squares = np.asarray(chosen.multiply(chosen).sum(1)).ravel()
        if self.shift is not None:
            squares = np.maximum(
                squares + float(self.shift @ self.shift) - 2 * (chosen @ self.shift), 0
            )
        return torch.from_numpy(squares)


def _prepared(rows: Rows, train: Array, how: Scaling) -> _Prepared:
    """The rows, with columns of mean 0 and deviation 1 over `train` where asked. A column that is
    constant there becomes 0.
    """
    if how == "none":
        return _Prepared(rows)
    if isinstance(rows, Tensor):
        deviation, middle = torch.std_mean(rows[train], dim=0, correction=0)
        return _Prepared(
            (rows - middle) * torch.where(deviation > 1e-10 * middle.abs(), 1 / deviation, 0.0)
        )
    chosen = rows[train]
    mean, power = (np.asarray(each.mean(0)).ravel() for each in (chosen, chosen.multiply(chosen)))
    varies = power - mean**2 > 1e-12 * power
    scale = varies / np.sqrt(np.where(varies, power - mean**2, 1.0))
    return _Prepared(sp.csr_matrix(rows.multiply(scale)), mean * scale)


def _distances(products: Tensor, left: Tensor, right: Tensor, *, metric: Distance) -> Tensor:
    """Squared Euclidean or cosine distances out of inner products and squared lengths."""
    if metric == "euclidean":
        return products.mul_(-2).add_(left[:, None]).add_(right)
    lengths = left.sqrt()[:, None] * right.sqrt()
    return 1 - products.div_(torch.where(lengths > 0, lengths, 1.0))


def _smallest(distance: Tensor, count: int, *, tolerance: float) -> Tensor:
    """Places of the `count` smallest of every row, ascending, equals by place, [Q, count]; topk
    alone breaks ties as it likes.
    """
    value, place = torch.topk(distance, count, dim=1, largest=False)
    # Equals of the last one were left out
    crowded = (distance <= value[:, -1:] + tolerance).sum(1) > count
    place = _equals_by_place(value, place, tolerance)
    if bool(crowded.any()):
        place[crowded] = _equals_by_place(*torch.sort(distance[crowded], dim=1), tolerance)[
            :, :count
        ]
    return place


def _equals_by_place(value: Tensor, place: Tensor, tolerance: float) -> Tensor:
    """Places of ascending values [Q, n], equals ascending: values next to each other that are no
    further apart than `tolerance`.
    """
    group = torch.zeros_like(place)
    group[:, 1:] = torch.cumsum(value.diff(dim=1) > tolerance, dim=1)
    return place.gather(1, torch.argsort(group * (place.max() + 1) + place, dim=1))


def _check_settings(
    neighbours: Sequence[int], metrics: Sequence[str], preprocessing: Sequence[str]
) -> None:
    owner = "knn_probe"
    if len(neighbours) == 0 or not all(
        isinstance(k, (int, np.integer)) and k >= 1 for k in neighbours
    ):
        raise bad_argument(
            "neighbours", owner=owner, allowed="one or more ints of at least 1", got=neighbours
        )
    if isinstance(metrics, str) or not metrics or not set(metrics) <= set(DISTANCES):
        raise bad_argument(
            "metrics", owner=owner, allowed=f"one or more of {DISTANCES}", got=metrics
        )
    if (
        isinstance(preprocessing, str)
        or not preprocessing
        or not set(preprocessing) <= set(SCALINGS)
    ):
        raise bad_argument(
            "preprocessing", owner=owner, allowed=f"one or more of {SCALINGS}", got=preprocessing
        )
