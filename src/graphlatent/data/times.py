"""Dates and times in columns: recognised where they can be read in one way only, as days.

Text counts as dates if every value is written in the order year, month, day ('2024-01-31',
'2024/01/31', '2024-01-31 12:30', with or without a time zone, the same way in all rows), and as
times if every value is 'hh:mm' or 'hh:mm:ss'. '01/02/2024' may be January or February and stays
text. Legend: N values.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = np.ndarray[Any, Any]
TimeKind: TypeAlias = Literal["date", "time"]

DATES = (datetime.date, np.datetime64)
TIMES = (datetime.time, datetime.timedelta, np.timedelta64)
_DATE = re.compile(
    r"\d{4}([-/])\d\d\1\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?")
_LIKE_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
_DAY = np.timedelta64(1, "D")


def days(values: Array) -> Array:
    """Dates as days since 1970-01-01, and times as days, float64 [N]; NaN where missing.

    Args:
        values: NumPy's datetime64 or timedelta64 of any unit [N].
    """
    exact = values - np.datetime64(0, "D") if values.dtype.kind == "M" else values
    return np.asarray(exact / _DAY, dtype=np.float64)


def days_of_objects(values: Sequence[Any]) -> Array:
    """Python's and NumPy's dates, or times, as days, float64 [N]; NaN where None."""
    return np.array([np.nan if value is None else _day(value) for value in values], dtype=float)


def days_of_text(text: Sequence[str]) -> tuple[TimeKind, Array] | None:
    """What the values are and how many days, float64 [N]; None where they are not all of one kind.

    Args:
        text: values without missing ones, at least one.
    """
    if _TIME.fullmatch(text[0]) and all(map(_TIME.fullmatch, text)):
        since = _days_since_1970([f"1970-01-01 {value}" for value in text], zone=None)
        return None if since is None else ("time", since)
    if not _DATE.fullmatch(text[0]):
        return None
    found = [_DATE.fullmatch(value) for value in text]
    zones = {each is not None and bool(each["zone"]) for each in found}
    if len(zones) > 1 or None in found:
        return None
    zone = "UTC" if zones == {True} else None
    since = _days_since_1970([value.replace("/", "-") for value in text], zone=zone)
    return None if since is None else ("date", since)


def look_like_dates(text: Sequence[str]) -> bool:
    """Whether most values are written as a date is, in whatever order."""
    return 2 * sum(bool(_LIKE_DATE.fullmatch(value)) for value in text) > len(text)


def _days_since_1970(text: Sequence[str], *, zone: str | None) -> Array | None:
    """Dates as days, or None where a value is none, such as the 31st of June."""
    try:
        dates = pa.array(text, pa.string()).cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        return None
    return days(dates.cast(pa.int64()).to_numpy().view("datetime64[us]"))


def _day(value: Any) -> float:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return float(days(np.array([value]))[0])
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(days=1)
    if isinstance(value, datetime.time):
        since = datetime.timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
        return since / datetime.timedelta(days=1)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return float((value - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1))
    return float((value - datetime.date(1970, 1, 1)).days)
