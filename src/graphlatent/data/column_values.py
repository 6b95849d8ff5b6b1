"""The values of one column, sorted by kind: numbers, truth values, dates, times or text.

Text is recognised as truth values where every value is 'true' or 'false', and as dates or times as
times.py says, so that a column is of one kind whether it came typed or as text. Legend: N nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from graphlatent.data.column_spec import ColumnKind
from graphlatent.data.mixed_columns import MISSING_SIGNS, are_numerals
from graphlatent.data.places import EdgePlaces, place_of
from graphlatent.data.times import DATES, TIMES, days, days_of_objects, days_of_text
from graphlatent.display import counted
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]

_TRUTH = dict.fromkeys(("true", "True", "TRUE"), True)
_TRUTH |= dict.fromkeys(("false", "False", "FALSE"), False)
_NUMBERS = (int, float, np.number, np.bool_)


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values of one column.

    Args:
        kind: 'numeric', 'boolean', 'date', 'time' or 'categorical' (text).
        missing: which values are missing, bool [N].
        raw: as they came [N].
        numbers: the values in the unit of the kind, float64 [N], NaN where missing; None for text.
    """

    kind: ColumnKind
    missing: Array
    raw: Array
    numbers: Array | None = None

    @property
    def given_as_text(self) -> bool:
        """Whether it is known that text was meant, as in NumPy's arrays of text."""
        return self.raw.dtype.kind in "US"

    def text(self) -> list[str]:
        """The values as text [N], empty where missing."""
        pairs = zip(self.raw.tolist(), self.missing.tolist(), strict=True)
        return ["" if gap else _as_text(value) for value, gap in pairs]


def column_values(name: str, values: Array) -> ColumnValues:
    """The values of a column, sorted out.

    Raises:
        InputError: where they are neither numbers, truth values, dates, times nor text.
    """
    kind = values.dtype.kind
    none_missing = np.zeros(len(values), dtype=bool)
    if kind in "biu":
        numbers = values.astype(np.float64)
        return ColumnValues("boolean" if kind == "b" else "numeric", none_missing, values, numbers)
    if kind == "f":
        return ColumnValues("numeric", np.isnan(values), values, values.astype(np.float64))
    if kind in "mM":
        return ColumnValues(
            "date" if kind == "M" else "time", np.isnat(values), values, days(values)
        )
    if kind in "US":
        return ColumnValues("categorical", _blank(values.tolist()), values)
    if kind == "O":
        return _of_objects(name, values)
    raise _unusable(name, str(values.dtype))


def without_signs(found: ColumnValues) -> ColumnValues:
    """Numbers between signs for missing values ('?', 'n.a.', ...) as numbers with gaps.

    Any other column is unchanged.
    """
    if found.kind != "categorical" or found.given_as_text:
        return found
    text = found.text()
    signs = [is_sign(value) for value in text]
    numeral = are_numerals(value for value, sign in zip(text, signs, strict=True) if not sign)
    if 2 * len(numeral) < len(text) - int(found.missing.sum()) or not numeral.all():
        return found
    plain = pd.Series([None if sign else v for v, sign in zip(text, signs, strict=True)])
    numbers = pd.to_numeric(plain).to_numpy(dtype=np.float64)
    return replace(found, kind="numeric", missing=np.isnan(numbers), numbers=numbers)


def is_sign(text: str) -> bool:
    """Whether a text is one of those that people write for a missing value, or blank."""
    return not text.strip() or text.strip().lower() in MISSING_SIGNS


def checked_numbers(name: str, numbers: Array, node_ids: Array | None) -> Array:
    """The numbers of a column. Raises `InputError` where float32 cannot hold one of them."""
    wrong = np.abs(numbers) > np.finfo(np.float32).max
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"Column '{name}' holds {numbers[row]} {place_of(row, node_ids)}, too large for a"
            " feature. Give it a finite number, or leave the column out."
        )
    return numbers


def missing_values(
    name: str,
    missing: Array,
    node_ids: Array | None,
    *,
    fitted: bool = False,
    may_be_label: bool = False,
) -> InputError:
    """The error about missing values of a column.

    Args:
        name: the column.
        missing: which values are missing, bool [N].
        node_ids: names of the nodes, for the message.
        fitted: whether a model was fitted that does not fill them.
        may_be_label: whether the column may hold the classes of some of the nodes.
    """
    fill = "have them filled (impute='mean', --impute mean on the command line)"
    of_edges = isinstance(node_ids, EdgePlaces)
    rows = "edges" if of_edges else "nodes"
    way_out = (
        f"Fill them or drop those {rows}; a model that is to fill them must be fitted to {fill}."
        if fitted
        else f"Fill them, drop those {rows}, {fill}, or leave the column out (drop, --drop)."
    )
    if may_be_label and not of_edges:
        way_out += " If it is what you want to predict, name it as the label (label, --label)."
    return InputError(
        f"Column '{name}' has {counted(int(missing.sum()), 'missing value')}, the first"
        f" {place_of(int(missing.argmax()), node_ids)}. {way_out}"
    )


def _of_objects(name: str, values: Array) -> ColumnValues:
    listed = values.tolist()
    types = set(map(type, listed))
    missing = np.zeros(len(listed), dtype=bool)
    # By far the most frequent case.
    if types == {str}:
        missing = _blank(listed)
    else:
        missing = np.array([_is_missing(value) for value in listed], dtype=bool)
        types = {type(value) for value, gap in zip(listed, missing, strict=True) if not gap}
    plain = [None if gap else value for value, gap in zip(listed, missing.tolist(), strict=True)]
    found = ColumnValues("categorical", missing, values)
    if types == {str} or not types:
        return _recognised(found, plain)
    # Times first: to NumPy a timedelta64 is a number.
    if all(issubclass(t, DATES) for t in types):
        return replace(found, kind="date", numbers=days_of_objects(plain))
    if all(issubclass(t, TIMES) for t in types):
        return replace(found, kind="time", numbers=days_of_objects(plain))
    if all(issubclass(t, _NUMBERS) for t in types):
        is_truth = all(issubclass(t, bool | np.bool_) for t in types)
        numbers = np.array([np.nan if value is None else value for value in plain], dtype=float)
        return replace(found, kind="boolean" if is_truth else "numeric", numbers=numbers)
    wrong = sorted(
        t.__name__ for t in types if not issubclass(t, str | bytes | int | float | np.generic)
    )
    if wrong:
        raise _unusable(name, wrong[0])
    return found


def _recognised(found: ColumnValues, plain: Sequence[str | None]) -> ColumnValues:
    """Text that says truth values, dates or times as such."""
    text = [value for value in plain if value is not None]
    if not text:
        return replace(found, kind="numeric", numbers=np.full(len(plain), np.nan))
    numbers = np.full(len(plain), np.nan)
    if text[0] in _TRUTH and set(text) <= _TRUTH.keys():
        numbers[~found.missing] = [_TRUTH[value] for value in text]
        return replace(found, kind="boolean", numbers=numbers)
    distinct = list(dict.fromkeys(text))
    times = days_of_text(distinct)
    if times is None:
        return found
    day_of = dict(zip(distinct, times[1].tolist(), strict=True))
    numbers[~found.missing] = [day_of[value] for value in text]
    return replace(found, kind=times[0], numbers=numbers)


def _blank(text: Sequence[str] | Sequence[bytes]) -> Array:
    """Which texts are empty, or white space alone: a cell that looks empty is missing."""
    return np.array([not value.strip() for value in text], dtype=bool)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return not value.strip()
    if isinstance(value, float | np.floating | np.datetime64 | np.timedelta64):
        return bool(value != value)
    return value is None or value is pd.NA or value is pd.NaT


def _as_text(value: Any) -> str:
    # Not as an array of NumPy's text: its rows are all as long as the longest, and end before NULs.
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _unusable(name: str, kind: str) -> InputError:
    return InputError(
        f"Column '{name}' holds values of type {kind}. A feature column must hold numbers, truth"
        " values, dates, times or text. Leave it out (drop, --drop on the command line), or pass"
        " vectors as a matrix x."
    )
