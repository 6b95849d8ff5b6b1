"""Encoding of named columns of node features.

The encoding is decided at fit time and applied to every graph alike.

Numbers are standardised unless they are all 0 or 1, truth values become 0 or 1, text becomes
one-hot over the values seen at fit time. Legend: N nodes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphlatent.data.mixed_columns import are_numerals, check_not_numbers
from graphlatent.data.places import EdgePlaces, place_of
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix

ColumnKind: TypeAlias = Literal["numeric", "categorical", "boolean"]
Array: TypeAlias = np.ndarray[Any, Any]

_KIND_OF_DTYPE: dict[str, ColumnKind] = {
    "b": "boolean",
    "i": "numeric",
    "u": "numeric",
    "f": "numeric",
    "U": "categorical",
    "S": "categorical",
}
_WORDS = {"numeric": "numbers", "boolean": "truth values", "categorical": "text"}
# A text column with more values than this, in more than half of its rows, is probably an id.
_MANY_CATEGORIES = 100
# Encoded columns are sparse where they are wider than this and fewer of their values are not 0 than
# the share below, above which a dense matrix is both smaller and faster.
DENSE_COLUMNS, DENSE_ABOVE = 256, 0.25


@dataclass(frozen=True)
class ColumnSpec:
    """How one named column becomes numbers.

    Args:
        name: the column.
        kind: 'numeric' (`(value - mean) / scale`), 'boolean' (0 or 1) or 'categorical' (one-hot).
        categories: the known values as text, sorted; for 'categorical' only.
        mean: subtracted; for 'numeric' only.
        scale: divided by; for 'numeric' only.
    """

    name: str
    kind: ColumnKind
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        where = f"Feature spec, column {self.name!r}"
        if not isinstance(self.name, str):
            raise InputError(f"{where}: the name must be text.")
        if self.kind not in get_args(ColumnKind):
            raise InputError(
                f"{where}: kind must be one of {get_args(ColumnKind)}. Got {self.kind!r}."
            )
        if (self.kind == "categorical") != bool(self.categories):
            raise InputError(
                f"{where}: kind '{self.kind}' does not go with categories {self.categories!r}."
            )
        if not all(isinstance(c, str) for c in self.categories) or list(self.categories) != sorted(
            set(self.categories)
        ):
            raise InputError(
                f"{where}: categories must be text, sorted, each once. Got {self.categories!r}."
            )
        if not _is_finite(self.mean):
            raise InputError(f"{where}: mean must be a finite number. Got {self.mean!r}.")
        if not _is_finite(self.scale) or self.scale <= 0:
            raise InputError(f"{where}: scale must be a finite number above 0. Got {self.scale!r}.")

    @property
    def width(self) -> int:
        """How many features the column becomes."""
        return len(self.categories) if self.kind == "categorical" else 1

    @property
    def names(self) -> list[str]:
        """A name for each of those features."""
        return (
            [f"{self.name}={c}" for c in self.categories]
            if self.kind == "categorical"
            else [self.name]
        )

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain values that JSON can hold; `from_dict` reads it back."""
        return {
            "name": self.name,
            "kind": self.kind,
            "categories": list(self.categories),
            "mean": self.mean,
            "scale": self.scale,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ColumnSpec:
        """The spec out of what `to_dict` wrote. Raises `InputError` where that is not one."""
        allowed = {f.name for f in fields(cls)}
        if not isinstance(values, Mapping) or not {"name", "kind"} <= set(values) <= allowed:
            raise InputError(
                "Feature spec: a column needs 'name' and 'kind', and keys out of"
                f" {sorted(allowed)}. Got {values!r}."
            )
        categories = values.get("categories", ())
        if not isinstance(categories, list | tuple):
            raise InputError(
                f"Feature spec, column {values['name']!r}: categories must be a list. Got"
                f" {categories!r}."
            )
        return cls(**{**values, "categories": tuple(categories)})


def fit_column(
    name: str, values: Array, *, standardize: bool, node_ids: Array | None = None
) -> ColumnSpec:
    """How this column is to be encoded, here and in graphs that come later.

    Args:
        name: the column.
        values: one value per node [N].
        standardize: bring numbers to mean 0 and standard deviation 1. Columns that hold only 0 and
            1 (a bag of words, indicators) are left as they are: standardised they would no longer
            be sparse, and a rare word would weigh more than a frequent one.
        node_ids: names of the nodes [N], for messages.

    Raises:
        InputError: where values are missing, infinite, or neither numbers, truth values nor text,
            or a column of numbers has text in it (mixed_columns.py).
    """
    kind = _checked_kind(name, values, node_ids)
    if kind == "categorical":
        text = _as_text(values)
        # Text of NumPy's own type was given as categories.
        if values.dtype.kind == "O":
            check_not_numbers(name, text, node_ids=node_ids)
        categories = sorted(set(text))
        if len(categories) > _MANY_CATEGORIES and 2 * len(categories) > len(values):
            warnings.warn(
                f"Column '{name}' has {len(categories):,} different values in {len(values):,} rows"
                " and becomes as many features. If it names the nodes, leave it out of the feature"
                " columns.",
                GraphLatentWarning,
                stacklevel=4,
            )
        return ColumnSpec(name, kind, categories=tuple(categories))
    numbers = _as_numbers(name, values, node_ids)
    if kind == "boolean" or not standardize or bool(np.isin(numbers, (0.0, 1.0)).all()):
        return ColumnSpec(name, kind)
    # By equality: the standard deviation of a constant need not round to 0.
    if numbers.min() == numbers.max():
        return ColumnSpec(name, kind, mean=float(numbers[0]))
    return ColumnSpec(name, kind, mean=float(numbers.mean()), scale=float(numbers.std()) or 1.0)


def encode_column(
    column: ColumnSpec, values: Array, *, node_ids: Array | None = None
) -> tuple[Array, Array]:
    """Which of the column's features is set in each row, and to what: int64 [N], float64 [N].

    Raises:
        InputError: where the values are not of the kind that `column` was fitted on, missing, or a
            category never seen.
    """
    kind = _checked_kind(column.name, values, node_ids)
    if column.kind == "categorical":
        return _category_codes(column, values, node_ids), np.ones(len(values))
    if kind == "categorical":
        text = _as_text(values)
        row = int(np.argmin(are_numerals(text)))
        raise _changed(column, f"text such as {str(text[row])!r} {place_of(row, node_ids)}")
    numbers = _as_numbers(column.name, values, node_ids)
    if column.kind == "boolean" and not np.isin(numbers, (0.0, 1.0)).all():
        raise _changed(column, f"{numbers[~np.isin(numbers, (0.0, 1.0))][0]:g}")
    return np.zeros(len(values), dtype=np.int64), (numbers - column.mean) / column.scale


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _changed(column: ColumnSpec, now: str) -> InputError:
    return InputError(
        f"Column '{column.name}' held {_WORDS[column.kind]} when the model was fitted, and now"
        f" holds {now}. Give it the same type of values, or fit again."
    )


def _checked_kind(name: str, values: Array, node_ids: Array | None) -> ColumnKind:
    """The kind of a column without missing values; any other column raises."""
    if values.dtype.kind == "O":
        return _checked_object_kind(name, values, node_ids)
    if values.dtype.kind not in _KIND_OF_DTYPE:
        raise InputError(
            f"Column '{name}' holds values of type {values.dtype}. A feature column must hold"
            " numbers, truth values or text; turn dates into numbers, or leave the column out."
        )
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise _missing(name, np.isnan(values), node_ids)
    return _KIND_OF_DTYPE[values.dtype.kind]


def _checked_object_kind(name: str, values: Array, node_ids: Array | None) -> ColumnKind:
    types = set(map(type, values.tolist()))
    # By far the most frequent case.
    if types == {str}:
        return "categorical"
    missing = np.array([np.ndim(value) == 0 and bool(pd.isna(value)) for value in values])
    if missing.any():
        raise _missing(name, missing, node_ids)
    if all(issubclass(t, bool | np.bool_) for t in types):
        return "boolean"
    if all(issubclass(t, int | float | np.number | np.bool_) for t in types):
        return "numeric"
    wrong = sorted(
        t.__name__ for t in types if not issubclass(t, str | bytes | int | float | np.generic)
    )
    if wrong:
        raise InputError(
            f"Column '{name}' holds values of type {wrong[0]}. A feature column must hold numbers,"
            " truth values or text; pass vectors as a matrix x, or leave the column out."
        )
    return "categorical"


def _missing(name: str, missing: Array, node_ids: Array | None) -> InputError:
    return InputError(
        f"Column '{name}' has {int(missing.sum())} missing value(s), the first"
        f" {place_of(int(missing.argmax()), node_ids)}. Fill them, drop those"
        f" {'edges' if isinstance(node_ids, EdgePlaces) else 'nodes'}, or leave the column out."
    )


def _as_text(values: Array) -> list[str]:
    # Not as an array of NumPy's text: its rows are all as long as the longest, and end before NULs.
    return [
        value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
        for value in values.tolist()
    ]


def _as_numbers(name: str, values: Array, node_ids: Array | None) -> Array:
    numbers = values.astype(np.float64)
    wrong = np.abs(numbers) > np.finfo(np.float32).max
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"Column '{name}' holds {numbers[row]} {place_of(row, node_ids)}, too large for a"
            " feature. Give it a finite number, or leave the column out."
        )
    return numbers


def _category_codes(column: ColumnSpec, values: Array, node_ids: Array | None) -> Array:
    text, known = _as_text(values), {value: i for i, value in enumerate(column.categories)}
    codes = np.fromiter((known.get(each, -1) for each in text), dtype=np.int64, count=len(text))
    if (codes < 0).any():
        row = int((codes < 0).argmax())
        shown = ", ".join(map(repr, column.categories[:5])) + (
            ", ..." if len(column.categories) > 5 else ""
        )
        raise InputError(
            f"Column '{column.name}' holds '{text[row]}' {place_of(row, node_ids)}, a value it"
            f" never held when the model was fitted (known: {shown}). Replace it by a known value,"
            " or fit again on graphs that hold it."
        )
    return codes


def encode_columns(
    specs: Sequence[ColumnSpec], columns: Mapping[str, Array], *, node_ids: Array | None = None
) -> Tensor | SparseMatrix:
    """The encoded columns as one matrix, float32 [N, W]; sparse where it is wide and mostly 0.

    Args:
        specs: how each column is encoded.
        columns: values by name, each [N]; exactly the columns of `specs`, in any order.
        node_ids: names of the nodes [N], for messages.

    Raises:
        InputError: where a column is missing or not known, or its values are not of the kind that
            its spec was made from.
    """
    known = [spec.name for spec in specs]
    missing, extra = (
        [name for name in known if name not in columns],
        sorted(set(columns) - set(known)),
    )
    if missing or extra:
        raise InputError(
            f"The feature columns differ from those the model was fitted on: missing {missing}, not"
            f" known {extra}. Give exactly the columns {known}; read_graphs keeps others out with"
            " label=[...]."
        )
    offset, rows, cols, values = 0, [], [], []
    for spec in specs:
        position, encoded = encode_column(spec, columns[spec.name], node_ids=node_ids)
        # What float32 cannot hold becomes infinite, and is refused by `encode_features`.
        with np.errstate(over="ignore"):
            numbers = encoded.astype(np.float32)
        (nonzero,) = np.nonzero(numbers)
        rows.append(nonzero)
        cols.append(position[nonzero] + offset)
        values.append(numbers[nonzero])
        offset += spec.width
    row, col, value = (torch.from_numpy(np.concatenate(part)) for part in (rows, cols, values))
    shape = (len(columns[known[0]]), offset)
    if offset > DENSE_COLUMNS and len(value) <= DENSE_ABOVE * shape[0] * shape[1]:
        return SparseMatrix.from_coo(row, col, value, shape)
    return torch.zeros(shape, dtype=torch.float32).index_put_((row, col), value)
