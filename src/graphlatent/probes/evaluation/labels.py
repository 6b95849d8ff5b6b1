"""What columns of labels mean to a probe: classes, or with several columns a 0/1 matrix of labels.

Rows without a label are left out. Columns that hold no classes (measurements, ids) are refused.
Legend: M rows, K labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]

# Numbers that are not whole may be classes, such as marks in steps of a half, if they are this few.
_MAX_FRACTIONAL_CLASSES = 10
# More distinct values than this are no classes where they are most of the rows.
_MAX_MOSTLY_DISTINCT = 20


@dataclass(frozen=True, eq=False)
class ProbeLabels:
    """What a probe predicts.

    Args:
        values: one class per labelled row, or a 0/1 matrix [labelled rows, K].
        rows: numbers of the rows that have a label.
        names: the label columns.
    """

    values: Array
    rows: Array
    names: tuple[str, ...]

    @property
    def multilabel(self) -> bool:
        """Whether a row may have several labels, so that `values` is a matrix."""
        return self.values.ndim == 2

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each class, or each label, has."""
        if self.multilabel:
            return dict(zip(self.names, self.values.sum(0).tolist(), strict=True))
        classes, counts = np.unique(self.values, return_counts=True)
        return {str(name): int(count) for name, count in zip(classes, counts, strict=True)}


def probe_labels(columns: Mapping[str, Array], *, where: str) -> ProbeLabels:
    """The classes in one column, or the 0/1 matrix of several.

    Args:
        columns: values by name, each [M]; None or NaN where a label is missing.
        where: the table, for messages.

    Raises:
        InputError: where a column holds no classes, several do not hold 0 and 1, or there is only
            one class.
    """
    missing = np.any([_missing(values) for values in columns.values()], axis=0)
    rows = np.flatnonzero(~missing)
    if len(rows) == 0:
        raise InputError(f"{where}: no row has a label in {_listed(columns)}.")
    names = tuple(columns)
    if len(columns) > 1:
        binary = [_zeros_and_ones(columns[name][rows], name, where) for name in names]
        return ProbeLabels(np.stack(binary, axis=1), rows, names)
    (name,) = names
    return ProbeLabels(_classes(columns[name][rows], name, where), rows, names)


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
        values = _as_text(values)
    distinct = np.unique(values)
    mostly_distinct = 2 * len(distinct) > len(values)
    share = f"{len(distinct)} different values in {len(values)} rows"
    if not whole and (len(distinct) > _MAX_FRACTIONAL_CLASSES or mostly_distinct):
        raise InputError(
            f"{where}: column '{name}' holds numbers such as {distinct[0]:g} and {distinct[-1]:g}"
            f" ({share}), which are no classes. Probes predict classes; regression is not offered."
            " Cut the numbers into classes, or name another column with the option 'label'."
        )
    if len(distinct) > _MAX_MOSTLY_DISTINCT and mostly_distinct:
        raise InputError(
            f"{where}: column '{name}' has {share}, such as {str(distinct[0])!r}, so it holds ids"
            " or measurements rather than classes. Name another column with the option 'label'."
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
