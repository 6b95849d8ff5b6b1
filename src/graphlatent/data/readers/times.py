"""Edges until a time: which rows of a column of times are not later than a date or a number.

A date stands for its whole length: until 2024-06-30 means to the end of that day, until 2024-06 to
the end of that month. Times without a time zone count as UTC.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphlatent.data.readers.messages import shortened
from graphlatent.display import are
from graphlatent.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = np.ndarray[Any, Any]
_DATE = re.compile(r"(\d{4})(-\d\d)?(-\d\d)?([T ]\d\d)?(:\d\d)?(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
# How long a date is whose last part is the first, second ... group.
_LENGTH = ("years", "months", "days", "hours", "minutes", "seconds")
_WRITE = "Write a date as 2024-06-30 or 2024-06-30 14:00, or give a number."


def checked_until(value: object, *, time: object) -> str | None:
    """The value of the option 'until' as text.

    Args:
        value: a date, a time or a number, as an object or as text; or None.
        time: the option 'time', which must be given with it.

    Raises:
        InputError: where one of the two is missing, or the value is neither date nor number.
    """
    if value is None:
        if time is not None:
            raise InputError("The option 'time' is for 'until', and that is not given. Give both.")
        return None
    if time is None:
        raise InputError(
            "The option 'until' needs the column of times. Name it with the option 'time'."
        )
    if isinstance(value, dt.date):
        value = value.isoformat()
    elif isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        value = repr(value.item() if isinstance(value, np.generic) else value)
    elif isinstance(value, np.datetime64):
        value = str(value)
    if not isinstance(value, str) or (_number(value) is None and _end(value) is None):
        raise InputError(f"The option 'until' is {shown(value)}, no date and no number. {_WRITE}")
    return value.strip()


@dataclass(frozen=True, eq=False)
class EdgesUntil:
    """Which edges are not later than a time, bool [E]; and a note for `RawGraph.notes`."""

    kept: Array
    notes: dict[str, str]


def edges_until(
    values: Any, until: str, *, name: str, column: str, place: Callable[[int], str]
) -> EdgesUntil:
    """Which edges are not later than `until`.

    Args:
        values: the times of the edges: numbers, dates or texts of dates [E].
        until: as `checked_until` returns it.
        name: the source, for messages.
        column: the column or attribute, for messages.
        place: the name of a row, for messages.

    Raises:
        InputError: where no edge is left, a time is missing or cannot be read, or times and `until`
            are not both numbers or both dates.
    """
    import pandas as pd

    series, where = pd.Series(values), f"{name}, {column}"
    kept = _not_after(series, until, where, place)
    if len(kept) and not kept.any():
        raise InputError(
            f"{where}: no edge is from {until} or before; the first is from {series.min()}. Give a"
            " later time by the option 'until'."
        )
    text = f"{name}: edges until {until}, inclusive: {int(kept.sum()):,} of {len(kept):,} are used."
    return EdgesUntil(kept, {f"until {until}": text})


def _not_after(
    values: pd.Series[Any], until: str, where: str, place: Callable[[int], str]
) -> Array:
    missing = np.asarray(values.isna())
    if missing.any():
        raise InputError(
            f"{where}: {are(int(missing.sum()), 'time')} missing, the first in"
            f" {place(int(missing.argmax()))}. Fill them or drop the rows."
        )
    numbers = _numbers(values)
    if numbers is not None:
        return numbers <= _number_for(until, values, where)
    end = _end(until)
    if end is None:
        raise InputError(
            f"{where} holds times such as {shortened(str(values.iloc[0]))}, but the option 'until'"
            f" is the number {until}. Write a date as 2024-06-30."
        )
    times = _times(values, where, place)
    limit, inclusive = end
    kept: Array = (times <= limit if inclusive else times < limit).to_numpy()
    return kept


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if abs(number) < float("inf") else None
    return None


def _end(text: str) -> tuple[pd.Timestamp, bool] | None:
    """The end of a date in UTC and whether it is part of it; None where the text is no date."""
    import pandas as pd

    found = _DATE.fullmatch(text.strip())
    given = [] if found is None else [part is not None for part in found.groups()[:-1]]
    # A part without the one before it.
    if not given or given != sorted(given, reverse=True):
        return None
    try:
        start = pd.Timestamp(text.strip())
        start = start.tz_localize("UTC") if start.tz is None else start.tz_convert("UTC")
        if all(given):
            return start, True
        if start.year < 1:
            return None
    # A month or a day that there is not, or the year 0.
    except (ValueError, OverflowError):
        return None
    length: dict[str, Any] = {_LENGTH[sum(given) - 1]: 1}
    try:
        return start + pd.DateOffset(**length), False
    # It ends with the year 9999, the last that there is.
    except (ValueError, OverflowError):
        return pd.Timestamp(dt.datetime.max, tz="UTC"), True


def _numbers(values: pd.Series[Any]) -> Array | None:
    """The values where all of them are numbers."""
    if values.dtype.kind in "iuf":
        return values.to_numpy()
    plain = (int, float, np.integer, np.floating)
    if values.dtype == object and all(
        isinstance(each, plain) and not isinstance(each, bool) for each in values
    ):
        return np.array(values.tolist())
    return None


def _number_for(until: str, values: pd.Series[Any], where: str) -> int | float:
    number = _number(until)
    if number is not None:
        return number
    end = _end(until)
    seconds = "" if end is None else f", in seconds since 1970 (UTC) {int(end[0].timestamp()) - 1}"
    raise InputError(
        f"{where} holds numbers such as {values.iloc[0]}, but the option 'until' is the date"
        f" {until}. Give a number in the unit of the column{seconds}."
    )


def _times(values: pd.Series[Any], where: str, place: Callable[[int], str]) -> pd.Series[Any]:
    """The times in UTC."""
    import pandas as pd

    if values.dtype.kind != "M" and not isinstance(values.dtype, pd.DatetimeTZDtype):
        usable = np.array([isinstance(each, str | dt.date) for each in values], dtype=bool)
        readable = values.astype(object).where(usable)
        times = pd.to_datetime(readable, format="ISO8601", utc=True, errors="coerce")
        wrong = times.isna().to_numpy()
        if wrong.any():
            row = int(wrong.argmax())
            came = values.astype(object).iloc[row]
            raise InputError(
                f"{where}: {shortened(came)} in {place(row)} is no date that can be"
                " read. Write dates as 2024-06-30 or 2024-06-30 14:00."
            )
        return times
    return pd.to_datetime(values, utc=True)
