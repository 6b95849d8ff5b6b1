"""What a column of labels means: classes, or with several columns of 0 and 1 a table of labels.

Rows without a label are left out. Columns that hold no classes (measurements, names of rows) are
refused. Legend: M rows, K labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]

_FEW = 10  # different broken numbers that may still be classes, such as marks in steps of a half
_MANY = 20  # different values that are too many where they are most of the rows


@dataclass(frozen=True, eq=False)
class Target:
    """What is to be predicted.

    Args:
        values: one class per kept row, or a 0/1 table [kept, K].
        kept: row numbers that have a label.
        names: the label columns.
    """

    values: Array
    kept: Array
    names: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether it is a table of labels."""
        return self.values.ndim == 2

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows each class, or each label, has."""
        if self.several:
            return dict(zip(self.names, self.values.sum(0).tolist(), strict=True))
        classes, counts = np.unique(self.values, return_counts=True)
        return {str(name): int(count) for name, count in zip(classes, counts, strict=True)}


def as_target(columns: Mapping[str, Array], *, where: str) -> Target:
    """The classes of one column, or the 0/1 table of several.

    Args:
        columns: values by name, each [M]; None or NaN where a label is missing.
        where: the table, for messages.

    Raises:
        InputError: where a column holds no classes, several do not hold 0 and 1, or there is
            nothing to tell apart.
    """
    missing = np.any([_missing(values) for values in columns.values()], axis=0)
    kept = np.flatnonzero(~missing)
    if len(kept) == 0:
        raise InputError(f"{where}: no row has a label in {_listed(columns)}.")
    names = tuple(columns)
    if len(columns) > 1:
        return Target(
            np.stack([_zeros_and_ones(columns[name][kept], name, where) for name in names], axis=1),
            kept,
            names,
        )
    (name,) = names
    return Target(_classes(columns[name][kept], name, where), kept, names)


def refuse_label(values: Array, target: Target, *, name: str, where: str) -> None:
    """Raise where a raw column sorts the rows exactly as the labels do.

    Args:
        values: of the column, none missing [M].
        target: what is probed.
        name: of the column.
        where: its table, for messages.

    Raises:
        InputError: where values and classes correspond one to one, so that the column is the label
            in other words.
    """
    column = _numbered(values[target.kept])
    labels = target.values.T if target.several else target.values[None]
    for label, classes in zip(target.names, labels, strict=True):
        numbers = _numbered(classes)
        num_classes, pairs = len(np.unique(numbers)), np.unique(np.stack([column, numbers]), axis=1)
        if num_classes > 1 and pairs.shape[1] == num_classes == len(np.unique(column)):
            raise InputError(
                f"{where}: the values of column '{name}' correspond one to one to those of the"
                f" label '{label}', so it is the label in other words and no feature to compare"
                " with. Take the column out of the table given by --raw."
            )


def _numbered(values: Array) -> Array:
    """For each value the number of its kind, from 0."""
    return np.unique(
        values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True
    )[1].reshape(-1)


def _missing(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        return np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def _classes(values: Array, name: str, where: str) -> Array:
    _check_numbers(values, name, where)
    whole = values.dtype.kind != "f" or bool((values == np.floor(values)).all())
    if values.dtype.kind == "f" and whole:
        values = values.astype(np.int64)
    if values.dtype.kind == "S":
        values = _decoded(values, name, where)
    if values.dtype.kind == "O":
        values = values.astype(str)
    distinct = np.unique(values)
    share = f"{len(distinct)} different values in {len(values)} rows"
    if not whole and (len(distinct) > _FEW or 2 * len(distinct) > len(values)):
        raise InputError(
            f"{where}: column '{name}' holds numbers such as {distinct[0]:g} and {distinct[-1]:g}"
            f" ({share}), which are no classes. Probes predict classes; regression is not offered."
            " Cut the numbers into classes, or name another column with --label."
        )
    if len(distinct) > _MANY and 2 * len(distinct) > len(values):
        raise InputError(
            f"{where}: column '{name}' has {share}, such as {str(distinct[0])!r}: it names or"
            " measures rows more than it sorts them into classes. Name another column with"
            " --label."
        )
    if len(distinct) == 1:
        raise InputError(
            f"{where}: every label in column '{name}' is {str(distinct[0])!r}. A probe needs two"
            " classes or more."
        )
    return values


def _check_numbers(values: Array, name: str, where: str) -> None:
    """Raise where a number is infinite, or a whole one that 64 bits do not hold: cast, it would
    become another one.
    """
    if values.dtype.kind not in "fu":
        return
    limit = 2**63  # as a float of any width it is exact
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
            f"{where}: with several --label columns each must hold 0 and 1 only, but '{name}' holds"
            f" {wrong[0]!r}. Name one column for classes, or turn them into columns of 0 and 1."
        )
    return values.astype(np.int64)


def _listed(columns: Mapping[str, Array]) -> str:
    return ("column " if len(columns) == 1 else "all of the columns ") + ", ".join(
        map(repr, columns)
    )
