"""What columns of labels mean to a probe: classes, numbers, or with several columns a 0/1 matrix.

Rows without a label are left out. Numbers that are not whole are predicted by regression, unless
they are so few that they are classes. Columns that may hold ids are refused.
Legend: M rows, K labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from graphlatent.errors import InputError, bad_argument
from graphlatent.probes.similar_classes import warn_of_similar_classes

Array: TypeAlias = np.ndarray[Any, Any]
Task: TypeAlias = Literal["classification", "regression"]
# The positive one of two classes, where it goes by such a name; otherwise the rarer one.
_POSITIVE = ("1", "true", "yes", "positive")
# Below this share of the rarer class, accuracy says little about it.
_RARE = 0.3

# Numbers that are not whole may be classes, such as marks in steps of a half, if they are this few.
_MAX_FRACTIONAL_CLASSES = 10
# More distinct values than this are no classes where they are most of the rows.
_MAX_MOSTLY_DISTINCT = 20


@dataclass(frozen=True, eq=False)
class ProbeLabels:
    """What a probe predicts.

    Args:
        values: one class or number per labelled row, or a 0/1 matrix [labelled rows, K].
        rows: numbers of the rows that have a label.
        names: the label columns.
        task: "regression" where the values are numbers to predict.
        positive_class: the positive one of two classes; None: '1', 'true', 'yes' or 'positive',
            otherwise the rarer.
        task_is_named: whether the user named the task.
    """

    values: Array
    rows: Array
    names: tuple[str, ...]
    task: Task = "classification"
    positive_class: str | None = None
    task_is_named: bool = False

    @property
    def multilabel(self) -> bool:
        """Whether a row may have several labels, so that `values` is a matrix."""
        return self.values.ndim == 2

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each class, or each label, has; nothing for numbers."""
        if self.task == "regression":
            return {}
        if self.multilabel:
            return dict(zip(self.names, self.values.sum(0).tolist(), strict=True))
        classes, counts = np.unique(self.values, return_counts=True)
        return {str(name): int(count) for name, count in zip(classes, counts, strict=True)}

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes."""
        return not self.multilabel and len(self.counts) == 2

    @property
    def positive(self) -> str | None:
        """The positive one of two classes; None where there are not two."""
        if not self.is_binary:
            return None
        if self.positive_class is not None:
            return self.positive_class
        counts = self.counts
        named = [name for name in counts if name.lower() in _POSITIVE]
        # Of equally many rows the last, as scikit-learn takes it.
        return named[0] if named else min(reversed(counts), key=lambda name: counts[name])

    @property
    def is_imbalanced(self) -> bool:
        """Whether one of two classes is rare."""
        return self.is_binary and min(self.counts.values()) < _RARE * len(self.values)

    @property
    def coded_values(self) -> Array:
        """The values, two classes as 1 for the positive one and 0 for the other."""
        if not self.is_binary:
            return self.values
        names = np.array([str(each) for each in self.values.tolist()])
        is_positive: Array = names == self.positive
        return is_positive.astype(np.int64)

    @property
    def notes(self) -> list[str]:
        """What was decided about the label, where it could be meant otherwise."""
        if self.task_is_named:
            return []
        if self.task == "regression":
            return [
                f"'{self.names[0]}' holds numbers, which are predicted by regression (the option"
                " 'task' says otherwise)"
            ]
        whole = not self.multilabel and self.values.dtype.kind in "iu"
        if whole and len(self.counts) > _MAX_MOSTLY_DISTINCT:
            return [
                f"'{self.names[0]}' has {len(self.counts)} different whole numbers, which are taken"
                " as classes. If they are measurements, give the option 'task' as 'regression'"
            ]
        return []


def probe_labels(
    columns: Mapping[str, Array],
    *,
    where: str,
    task: str | None = None,
    positive: str | None = None,
) -> ProbeLabels:
    """The classes or numbers in one column, or the 0/1 matrix of several.

    Args:
        columns: values by name, each [M]; None or NaN where a label is missing.
        where: the table, for messages.
        task: "classification" or "regression"; None: numbers that are not whole are regressed.
        positive: the positive one of two classes.

    Raises:
        InputError: where a column holds no classes, several do not hold 0 and 1, or there is only
            one class.
    """
    if task is not None and task not in get_args(Task):
        raise bad_argument(
            "task", owner="probe", allowed="'classification' or 'regression'", got=task
        )
    missing = np.any([_missing(values) for values in columns.values()], axis=0)
    rows = np.flatnonzero(~missing)
    if len(rows) == 0:
        raise InputError(f"{where}: no row has a label in {_listed(columns)}.")
    names = tuple(columns)
    if len(columns) > 1:
        if task == "regression" or positive is not None:
            raise InputError(
                f"{where}: regression and a positive class are of one label column, and there are"
                f" {len(columns)}. Name one with the option 'label'."
            )
        binary = [_zeros_and_ones(columns[name][rows], name, where) for name in names]
        return ProbeLabels(np.stack(binary, axis=1), rows, names)
    (name,) = names
    values = columns[name][rows]
    if task == "regression" or (task is None and _is_measured(values)):
        labels = ProbeLabels(_numbers(values, name, where), rows, names, "regression")
    else:
        labels = ProbeLabels(_classes(values, name, where), rows, names, positive_class=positive)
        warn_of_similar_classes(labels.counts, where=f"Label '{name}'")
    labels = replace(labels, task_is_named=task is not None)
    if positive is not None and (not labels.is_binary or positive not in labels.counts):
        found = ", ".join(map(repr, list(labels.counts)[:8])) or "numbers"
        raise InputError(
            f"{where}: 'positive' must be one of two classes in column '{name}'. Got {positive!r};"
            f" the column holds {found}."
        )
    return labels


def refuse_label_as_feature(values: Array, labels: ProbeLabels, *, name: str, where: str) -> None:
    """Raise where a feature column divides the rows exactly as a label does.

    Args:
        values: of the column, none missing [M].
        labels: what is probed.
        name: of the column.
        where: its table, for messages.

    Raises:
        InputError: where values and classes correspond one to one, so that the column is the label
            under another name.
    """
    if labels.task == "regression":
        if _is_multiple(values[labels.rows], labels.values):
            raise InputError(
                f"{where}: column '{name}' is the label '{labels.names[0]}' in other units, so it"
                " is no feature to compare with. Take it out of the table of raw features."
            )
        return
    column = _codes(values[labels.rows])
    matrix = labels.values.T if labels.multilabel else labels.values[None]
    for label, classes in zip(labels.names, matrix, strict=True):
        codes = _codes(classes)
        num_classes, pairs = len(np.unique(codes)), np.unique(np.stack([column, codes]), axis=1)
        if num_classes > 1 and pairs.shape[1] == num_classes == len(np.unique(column)):
            raise InputError(
                f"{where}: the values of column '{name}' correspond one to one to those of the"
                f" label '{label}', so the column is the label under another name and no feature"
                " to compare with. Take it out of the table of raw features."
            )


def _codes(values: Array) -> Array:
    """For each value the number of its kind, from 0."""
    return np.unique(_as_text(values) if values.dtype.kind == "O" else values, return_inverse=True)[
        1
    ].reshape(-1)


def _as_text(values: Array) -> Array:
    # Not as NumPy's text, of which every row is as long as the longest.
    return np.fromiter(map(str, values.tolist()), dtype=object, count=len(values))


def _missing(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        # None, NaN and pandas.NA, which has no truth value when it is compared.
        return np.asarray(pd.isna(values))
    return np.zeros(len(values), dtype=bool)


def _is_multiple(values: Array, numbers: Array) -> bool:
    """Whether a column is a linear function of the label, up to rounding."""
    if values.dtype.kind not in "iuf":
        return False
    column, label = (each.astype(np.float64) - each.mean() for each in (values, numbers))
    norms = float(np.linalg.norm(column) * np.linalg.norm(label))
    return norms > 0 and abs(float(column @ label)) > (1 - 1e-9) * norms


def _is_measured(values: Array) -> bool:
    """Whether a column holds numbers that are not whole and too many to be classes."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return False
    num = len(np.unique(values))
    fractional = bool((values != np.floor(values)).any())
    return fractional and (num > _MAX_FRACTIONAL_CLASSES or 2 * num > len(values))


def _numbers(values: Array, name: str, where: str) -> Array:
    """A column of numbers to predict."""
    if values.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            values = values.astype(np.float64)
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"{where}: regression needs numbers, and column '{name}' holds"
            f" {str(values[0])!r}. Name another column with the option 'label', or leave the option"
            " 'task' out."
        )
    numbers: Array = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{where}: column '{name}' holds infinite numbers. Leave the cell empty where a label"
            " is missing."
        )
    if len(np.unique(numbers)) == 1:
        raise InputError(
            f"{where}: every label in column '{name}' is {numbers[0]:g}, so there is nothing to"
            " predict."
        )
    return numbers


def _classes(values: Array, name: str, where: str) -> Array:
    """A column of classes."""
    _check_numbers(values, name, where)
    whole = values.dtype.kind != "f" or bool((values == np.floor(values)).all())
    if values.dtype.kind == "f" and whole:
        values = values.astype(np.int64)
    if values.dtype.kind == "S":
        values = _decoded(values, name, where)
    if values.dtype.kind == "O":
        values = _as_text(values)
    distinct = np.unique(values)
    mostly_distinct = 2 * len(distinct) > len(values)
    share = f"{len(distinct)} different values in {len(values)} rows"
    if len(distinct) > _MAX_MOSTLY_DISTINCT and mostly_distinct:
        raise InputError(
            f"{where}: column '{name}' has {share}, such as {str(distinct[0])!r}, so it holds ids"
            " or measurements rather than classes. Name another column with the option 'label'; if"
            " it holds measurements, give the option 'task' as 'regression'."
        )
    if len(distinct) == 1:
        raise InputError(
            f"{where}: every label in column '{name}' is {str(distinct[0])!r}. A probe needs two"
            " classes or more."
        )
    return values


def _check_numbers(values: Array, name: str, where: str) -> None:
    """Raise where a number is infinite, or whole and beyond 64 bits: the cast would change it."""
    if values.dtype.kind not in "fu":
        return
    # As a float of any width it is exact.
    limit = 2**63
    wrong = [value for value in np.unique(values).tolist() if not -limit <= value < limit]
    if wrong:
        raise InputError(
            f"{where}: column '{name}' holds {wrong[0]!r}, and classes given as numbers must be"
            " finite and fit into 64 bits. Write the classes as text or as smaller numbers, or"
            " leave the cell empty where a label is missing."
        )


def _decoded(values: Array, name: str, where: str) -> Array:
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: column '{name}' holds bytes that are not UTF-8, {error.object!r}. Save the"
            " labels as text."
        ) from error


def _zeros_and_ones(values: Array, name: str, where: str) -> Array:
    wrong = [value for value in values.tolist() if value not in (0, 1)]
    if wrong:
        raise InputError(
            f"{where}: with several label columns each must hold only 0 and 1, but '{name}' holds"
            f" {wrong[0]!r}. Name one column of classes, or turn them into columns of 0 and 1."
        )
    return values.astype(np.int64)


def _listed(columns: Mapping[str, Array]) -> str:
    return ("column " if len(columns) == 1 else "all of the columns ") + ", ".join(
        map(repr, columns)
    )
