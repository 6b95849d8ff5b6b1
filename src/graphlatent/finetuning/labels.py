"""Labels of which some are missing: -1 marks rows without a label, as in scikit-learn.

Legend: M rows, K classes or labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphlatent.errors import InputError, bad_argument, shown

Array: TypeAlias = np.ndarray[Any, Any]
ClassWeight: TypeAlias = Literal["balanced"] | dict[Any, float] | None
UNLABELLED = -1
_LARGEST_WHOLE = 2.0**53


@dataclass(frozen=True, eq=False)
class PartialLabels:
    """Classes as numbers, or a 0/1 matrix, with -1 where a label is missing.

    Args:
        classes: the classes in order [K]; of a 0/1 matrix the numbers of its columns.
        codes: number of each row's class, int64 [M]; or 0, 1 and -1, int64 [M, K].
    """

    classes: Array
    codes: Array

    @property
    def multilabel(self) -> bool:
        """Whether a row may have several labels."""
        return self.codes.ndim == 2

    @property
    def labelled(self) -> Array:
        """The numbers of the rows that have a label, ascending."""
        known = self.codes != UNLABELLED
        return np.flatnonzero(known.any(1) if self.multilabel else known)

    @property
    def counts(self) -> Array:
        """How many rows each class has, or how many each label is 1 in: int64 [K]."""
        if self.multilabel:
            return np.asarray((self.codes == 1).sum(0))
        return np.bincount(self.codes[self.labelled], minlength=len(self.classes))

    @property
    def strata(self) -> Array | None:
        """What parts of the rows are stratified by, [M]; None for a 0/1 matrix."""
        return None if self.multilabel else self.codes

    def values(self, rows: Array) -> Array:
        """The labels of some labelled rows, as they were given."""
        codes: Array = self.codes[rows]
        values: Array = codes if self.multilabel else self.classes[codes]
        return values


def read_labels(y: Any, *, num_rows: int, of: str, owner: str) -> PartialLabels:
    """The labels of rows, of which some may be missing.

    Args:
        y: one class per row [M], or a 0/1 matrix [M, K]. -1, and in arrays of objects or floats
            also None, NaN and pandas.NA, mark what is missing.
        num_rows: M.
        of: what a row is, "node" or "graph", for messages.
        owner: of the argument, for messages.

    Raises:
        InputError: where there is not one label per row, or not two classes among them.
    """
    array = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if array.ndim not in (1, 2) or len(array) != num_rows:
        raise InputError(
            f"'y' of {owner} must have one entry per {of}, {num_rows:,}, and -1 where a label is"
            f" missing. Got shape {array.shape}."
        )
    return _matrix(array, owner=owner) if array.ndim == 2 else _classes(array, of=of, owner=owner)


def _classes(array: Array, *, of: str, owner: str) -> PartialLabels:
    if array.dtype.kind in "US" and (array == type(array[0])(str(UNLABELLED))).any():
        raise InputError(
            f"'y' of {owner} is text and contains '-1'. For names of classes with -1 where a label"
            " is missing, give an array of dtype=object."
        )
    known = ~missing_labels(array)
    values = array[known]
    if values.dtype.kind == "O" and all(isinstance(each, Real) for each in values):
        values = np.array(values.tolist())
    if values.dtype.kind == "f":
        # Larger numbers may stand for several integers.
        whole = (np.abs(values) < _LARGEST_WHOLE) & (values == np.floor(values))
        if not whole.all():
            raise InputError(
                f"'y' of {owner} must hold classes: whole numbers or names. Got"
                f" {shown(float(values[~whole][0]))}."
            )
        values = values.astype(np.int64)
    try:
        classes, numbers = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise InputError(
            f"'y' of {owner} mixes types that cannot be sorted ({error}). Give names, or numbers."
        ) from error
    if classes.dtype.kind not in "biuUO" or not all(
        isinstance(each, str | Real) for each in classes.tolist()
    ):
        raise InputError(
            f"'y' of {owner} must hold classes: whole numbers or names. Got"
            f" {shown(classes.tolist()[0])}."
        )
    if len(classes) < 2:
        found = "none" if len(classes) == 0 else f"only {shown(classes.tolist()[0])}"
        raise InputError(
            f"'y' of {owner} must have at least two classes among the labelled {of}s. Got {found};"
            " -1 marks rows without a label and is no class."
        )
    codes = np.full(len(array), UNLABELLED, dtype=np.int64)
    codes[known] = numbers
    # Names read from tables are objects.
    if classes.dtype.kind == "O" and all(isinstance(each, str) for each in classes):
        classes = classes.astype(str)
    return PartialLabels(classes, codes)


def _matrix(array: Array, *, owner: str) -> PartialLabels:
    missing = missing_labels(array)
    codes = np.where(missing, UNLABELLED, array)
    wrong = codes[~np.isin(codes, (0, 1, UNLABELLED))]
    if wrong.size:
        raise InputError(
            f"'y' of {owner} with several columns must hold 0 and 1, and -1 where a label is"
            f" missing. Got {shown(wrong.tolist()[0])}."
        )
    codes = codes.astype(np.int64)
    if not (codes != UNLABELLED).any():
        raise InputError(f"'y' of {owner} has no label: every entry is -1.")
    return PartialLabels(np.arange(codes.shape[1]), codes)


def missing_labels(array: Array) -> Array:
    """Where an array of labels has none: -1; where its type has them also None, NaN, pandas.NA."""
    if array.dtype.kind == "f":
        missing: Array = np.isnan(array) | (array == UNLABELLED)
        return missing
    if array.dtype.kind == "O":
        # None, NaN and pandas.NA, which have no truth value when compared; not 'NA' as a text.
        absent: Array = np.asarray(pd.isna(array))
        flat = [
            gone or (not isinstance(value, str) and value == UNLABELLED)
            for gone, value in zip(absent.ravel().tolist(), array.ravel().tolist(), strict=True)
        ]
        return np.array(flat, dtype=bool).reshape(array.shape)
    if array.dtype.kind in "US":
        return np.zeros(array.shape, dtype=bool)
    equal: Array = array == UNLABELLED
    return equal


def label_weights(
    labels: PartialLabels, rows: Array, class_weight: ClassWeight, *, owner: str
) -> Tensor:
    """The weight of every label, by code, float64 [2, K] of a matrix and [K] of classes.

    'balanced' gives class k the weight n / (K n_k) for n_k of n rows, as in scikit-learn; a label
    of a matrix the weight n_0 / n_1 where it is 1.

    Args:
        labels: of all rows.
        rows: those that are trained on, from which 'balanced' counts.
        class_weight: None for equal weights, 'balanced', or weights by class.
        owner: of the argument, for messages.

    Raises:
        ConfigError: where `class_weight` is none of these, or names a class that does not exist.
    """
    codes, num = labels.codes[rows], len(labels.classes)
    if labels.multilabel:
        if isinstance(class_weight, dict):
            raise bad_argument(
                "class_weight",
                owner=owner,
                allowed="None or 'balanced' for several labels per row",
                got=class_weight,
            )
        weights = torch.ones(2, num, dtype=torch.float64)
        if class_weight == "balanced":
            ones, zeros = (codes == 1).sum(0), (codes == 0).sum(0)
            both = (ones > 0) & (zeros > 0)
            weights[1] = torch.from_numpy(np.where(both, zeros / np.maximum(ones, 1), 1.0))
        return weights
    if class_weight is None:
        return torch.ones(num, dtype=torch.float64)
    if isinstance(class_weight, dict):
        return _given_weights(labels, class_weight, owner=owner)
    counts = np.bincount(codes, minlength=num)
    return torch.from_numpy(len(codes) / (num * np.maximum(counts, 1)))


def _given_weights(labels: PartialLabels, given: dict[Any, Any], *, owner: str) -> Tensor:
    classes = labels.classes.tolist()
    for name, value in given.items():
        if name not in classes:
            listed = ", ".join(map(repr, classes[:8]))
            raise bad_argument(
                "class_weight", owner=owner, allowed=f"of classes in y ({listed})", got=name
            )
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not 0 < float(value) < math.inf:
            allowed = "of finite numbers above 0"
            raise bad_argument("class_weight", owner=owner, allowed=allowed, got=value)
    return torch.tensor([float(given.get(name, 1.0)) for name in classes], dtype=torch.float64)


def held_out(
    labels: PartialLabels, ratio: float, *, generator: torch.Generator
) -> tuple[Array, Array]:
    """The labelled rows in two parts: those to train on, and a share for validation.

    Stratified by class. Every class keeps a row to train on, so that with very few labels the
    validation part is smaller than asked, or empty.

    Args:
        labels: of all rows.
        ratio: share of the labelled rows in the second part.
        generator: of the draw.
    """
    rows = labels.labelled
    order = rows[torch.randperm(len(rows), generator=generator).numpy()]
    wanted = round(ratio * len(rows))
    if labels.multilabel:
        wanted = min(wanted, len(rows) - 1)
        return np.sort(order[wanted:]), np.sort(order[:wanted])
    codes = labels.codes[order]
    rank, size = np.empty(len(order), dtype=np.int64), np.bincount(codes)
    for number in range(len(size)):
        rank[codes == number] = np.arange(size[number])
    # The first of each class stays; the others are taken evenly from all classes.
    free = np.flatnonzero(rank > 0)
    quantile = (rank[free] - 0.5) / np.maximum(size[codes[free]] - 1, 1)
    chosen = free[np.argsort(quantile, kind="stable")][:wanted]
    keep = np.ones(len(order), dtype=bool)
    keep[chosen] = False
    return np.sort(order[keep]), np.sort(order[~keep])
