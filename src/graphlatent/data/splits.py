"""Splits of rows into training, validation and test parts: random ones, and stratified folds.

A row is a node or a graph. Split `k` depends on the seed and on `k` alone: asking for more splits
does not change the first ones, so a table of 5 splits can be extended to 20 later. Not
scikit-learn's splitters: stored results depend on these exact splits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.display import counted
from graphlatent.errors import ConfigError, InputError, bad_argument

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the three parts of one split: disjoint, ascending, int64.

    Args:
        train: rows that the probe is fitted on.
        val: rows that its settings are chosen on.
        test: rows that it is scored on, once.
    """

    train: Array
    val: Array
    test: Array


def random_splits(
    num_rows: int,
    *,
    num_splits: int = 20,
    train_ratio: float = 0.1,
    val_ratio: float = 0.1,
    seed: int = 0,
    stratify: Array | Tensor | None = None,
) -> tuple[Split, ...]:
    """Independent random splits; by default the 10 / 10 / 80 % of the node benchmarks.

    Args:
        num_rows: number of rows.
        num_splits: number of splits.
        train_ratio: fraction of the rows to train on; at least one row.
        val_ratio: fraction of the rows to choose settings on; at least one row. The other rows are
            the test part.
        seed: of all splits; split `k` is drawn from (seed, k).
        stratify: labels [num_rows]; every part then has the classes in equal proportions, up to
            rounding.

    Raises:
        ConfigError: where a ratio or a count is out of range.
        InputError: where there are too few rows for three parts, or not one label per row.
    """
    owner = "random_splits"
    _check_count("num_splits", num_splits, owner=owner, least=1)
    _check_count("seed", seed, owner=owner, least=0)
    _check_ratio("train_ratio", train_ratio, owner=owner)
    _check_ratio("val_ratio", val_ratio, owner=owner)
    if train_ratio + val_ratio >= 1:
        raise ConfigError(
            f"The 'train_ratio' and 'val_ratio' parameters of {owner} must sum to less than 1, to"
            f" leave rows for the test. Got {train_ratio} + {val_ratio} instead."
        )
    num_train, num_val = max(1, round(train_ratio * num_rows)), max(1, round(val_ratio * num_rows))
    if num_train + num_val >= num_rows:
        raise InputError(
            f"There are too few rows to split: {counted(num_rows, 'row')} with"
            f" train_ratio={train_ratio} and val_ratio={val_ratio} leave none for the test. Give"
            " more rows, or smaller ratios."
        )
    classes = None if stratify is None else _class_numbers(stratify, num_rows=num_rows)
    splits = []
    for k in range(num_splits):
        order = _shuffled(num_rows, generator=_generator(seed, k))
        if classes is not None:
            order = _interleaved(order, classes)
        splits.append(_cut(order, num_train=num_train, num_val=num_val))
    return tuple(splits)


def fold_splits(
    labels: Array | Tensor, *, num_folds: int = 10, val_ratio: float = 0.1, seed: int = 0
) -> tuple[Split, ...]:
    """Stratified shuffled folds: each row is in the test part of exactly one split.

    The members of a class are distributed over the folds so that their numbers differ by at most
    one; a class with fewer members than folds is missing from the test part of some.

    Args:
        labels: one label per row [M].
        num_folds: number of folds, and of splits.
        val_ratio: fraction of the rows outside the fold to choose settings on, stratified; at
            least one row.
        seed: of the folds and of the validation parts.

    Raises:
        ConfigError: where a ratio or a count is out of range.
        InputError: where there are fewer rows than folds, or fewer than three rows.
    """
    owner = "fold_splits"
    _check_count("num_folds", num_folds, owner=owner, least=2)
    _check_count("seed", seed, owner=owner, least=0)
    _check_ratio("val_ratio", val_ratio, owner=owner)
    classes = _class_numbers(labels)
    num_rows = len(classes)
    if num_rows < max(num_folds, 3):
        raise InputError(
            f"There are too few rows for {num_folds} folds: {counted(num_rows, 'row')}. Every fold"
            " needs a row to test, and the other folds one to train and one to choose settings on."
            " Give more rows, or a smaller num_folds."
        )
    order = _shuffled(num_rows, generator=_generator(seed))
    # Class after class; the distribution over the folds continues where the last class stopped.
    dealt = order[np.argsort(classes[order], kind="stable")]
    fold = np.empty(num_rows, dtype=np.int64)
    fold[dealt] = np.arange(num_rows) % num_folds
    splits = []
    for k in range(num_folds):
        rest = np.flatnonzero(fold != k)
        rest = _interleaved(rest[_shuffled(len(rest), generator=_generator(seed, k))], classes)
        num_val = min(max(1, round(val_ratio * len(rest))), len(rest) - 1)
        splits.append(
            Split(
                train=np.sort(rest[num_val:]),
                val=np.sort(rest[:num_val]),
                test=np.flatnonzero(fold == k),
            )
        )
    return tuple(splits)


def budget_splits(
    labels: Array | Tensor,
    *,
    train_ratio: float,
    val_ratio: float = 0.1,
    test_ratio: float = 0.8,
    num_splits: int = 1,
    seed: int = 0,
) -> tuple[Split, ...]:
    """Stratified splits for a budget of labels: rows in none of the parts have no label.

    Validation and test parts do not depend on `train_ratio`, and the training part of a smaller
    budget is contained in that of a larger one.

    Args:
        labels: one label per row [M].
        train_ratio: share of the rows to train on; at least one row.
        val_ratio: share of the rows to choose settings on; at least one row.
        test_ratio: share of the rows to test on; at least one row.
        num_splits: number of splits.
        seed: of all splits; split `k` is drawn from (seed, k).

    Raises:
        ConfigError: where a ratio or a count is out of range, or the ratios sum to more than 1.
        InputError: where there are too few rows for three parts.
    """
    owner = "budget_splits"
    _check_count("num_splits", num_splits, owner=owner, least=1)
    _check_count("seed", seed, owner=owner, least=0)
    ratios = {"train_ratio": train_ratio, "val_ratio": val_ratio, "test_ratio": test_ratio}
    for name, ratio in ratios.items():
        _check_ratio(name, ratio, owner=owner)
    if sum(ratios.values()) > 1 + 1e-9:
        raise ConfigError(
            f"The ratios of {owner} must sum to at most 1. Got {train_ratio} + {val_ratio} +"
            f" {test_ratio} instead."
        )
    classes = _class_numbers(labels)
    num_rows = len(classes)
    num_test, num_val = (max(1, round(each * num_rows)) for each in (test_ratio, val_ratio))
    free = num_rows - num_test - num_val
    if free < 1:
        raise InputError(
            f"There are too few rows to split: {counted(num_rows, 'row')} with"
            f" val_ratio={val_ratio} and test_ratio={test_ratio} leave none to train on. Give more"
            " rows, or smaller ratios."
        )
    num_train = min(free, max(1, round(train_ratio * num_rows)))
    splits = []
    for k in range(num_splits):
        shuffled = _shuffled(num_rows, generator=_generator(seed, k))
        order = _interleaved(shuffled, classes)
        held, rest = order[: num_test + num_val], order[num_test + num_val :]
        # Each part again in proportion, from its own beginning.
        held, rest = _interleaved(held, classes), _interleaved(rest, classes)
        splits.append(
            Split(
                train=np.sort(rest[:num_train]),
                val=np.sort(held[:num_val]),
                test=np.sort(held[num_val:]),
            )
        )
    return tuple(splits)


def _cut(order: Array, *, num_train: int, num_val: int) -> Split:
    train, val, test = np.split(order, [num_train, num_train + num_val])
    return Split(train=np.sort(train), val=np.sort(val), test=np.sort(test))


def _interleaved(order: Array, classes: Array) -> Array:
    """The rows of `order` rearranged so that every contiguous part has the classes in proportion.

    The i-th of the n members of a class is placed at the quantile (i + 1/2) / n; the random order
    decides which member is the i-th, and the order among equal quantiles.
    """
    of_row = classes[order]
    by_class = np.argsort(of_row, kind="stable")
    size = np.bincount(of_row)
    start = np.cumsum(size) - size
    quantile = np.empty(len(order))
    quantile[by_class] = (np.arange(len(order)) - start[of_row[by_class]] + 0.5) / size[
        of_row[by_class]
    ]
    rearranged: Array = order[np.argsort(quantile, kind="stable")]
    return rearranged


def _shuffled(num_rows: int, *, generator: torch.Generator) -> Array:
    order: Array = torch.randperm(num_rows, generator=generator).numpy()
    return order


def _generator(*key: int) -> torch.Generator:
    """A generator for a key; similar keys give independent streams."""
    words = np.random.SeedSequence(key).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(words[0]) >> 1)


def _class_numbers(labels: Array | Tensor, *, num_rows: int | None = None) -> Array:
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1:
        raise InputError(f"Labels must be a 1-D array, one label per row. Got shape {array.shape}.")
    if num_rows is not None and len(array) != num_rows:
        raise InputError(f"Labels must have one entry per row, {num_rows}. Got {len(array)}.")
    numbers: Array = np.unique(array, return_inverse=True)[1]
    return numbers.astype(np.int64)


def _check_ratio(name: str, value: float, *, owner: str) -> None:
    if not 0 < value < 1:
        raise bad_argument(name, owner=owner, allowed="a float in the range (0.0, 1.0)", got=value)


def _check_count(name: str, value: int, *, owner: str, least: int) -> None:
    if value < least:
        raise bad_argument(name, owner=owner, allowed=f"an int of at least {least}", got=value)
