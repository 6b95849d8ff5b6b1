"""What a column of labels means: classes, or with several columns of 0 and 1 a table of labels.

Rows without a label are left out. Columns that hold no classes (measurements, names of rows) are refused.
Legend: M rows, K labels.
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
        InputError: where a column holds no classes, several do not hold 0 and 1, or there is nothing to tell apart.
    """
    missing = np.any([_missing(values) for values in columns.values()], axis=0)
    kept = np.flatnonzero(~missing)
    if len(kept) == 0:
        raise InputError(f"{where}: no row has a label in {_listed(columns)}.")
    names = tuple(columns)
    if len(columns) > 1:
        return Target(np.stack([_zeros_and_ones(columns[name][kept], name, where) for name in names], axis=1), kept, names)
    (name,) = names
    return Target(_classes(columns[name][kept], name, where), kept, names)


def _missing(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        return np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def _classes(values: Array, name: str, where: str) -> Array:
    whole = values.dtype.kind != "f" or bool((values == np.floor(values)).all())
    if values.dtype.kind == "f" and whole:
        values = values.astype(np.int64)
    if values.dtype.kind in "OS":
        values = values.astype(str)
    distinct = np.unique(values)
    share = f"{len(distinct)} different values in {len(values)} rows"
    if not whole and (len(distinct) > _FEW or 2 * len(distinct) > len(values)):
        raise InputError(
            f"{where}: column '{name}' holds numbers such as {distinct[0]:g} and {distinct[-1]:g} ({share}), which are no classes. Probes "
            "predict classes; regression is not offered. Cut the numbers into classes, or name another column with --label."
        )
    if len(distinct) > _MANY and 2 * len(distinct) > len(values):
        raise InputError(
            f"{where}: column '{name}' has {share}, such as {str(distinct[0])!r}: it names or measures rows more than it sorts them into "
            "classes. Name another column with --label."
        )
    if len(distinct) == 1:
        raise InputError(f"{where}: every label in column '{name}' is {str(distinct[0])!r}. A probe needs two classes or more.")
    return values


def _zeros_and_ones(values: Array, name: str, where: str) -> Array:
    wrong = [value for value in values.tolist() if value not in (0, 1)]
    if wrong:
        raise InputError(
            f"{where}: with several --label columns each must hold 0 and 1 only, but '{name}' holds {wrong[0]!r}. "
            "Name one column for classes, or turn them into columns of 0 and 1."
        )
    return values.astype(np.int64)


def _listed(columns: Mapping[str, Array]) -> str:
    return ("column " if len(columns) == 1 else "all of the columns ") + ", ".join(map(repr, columns))
