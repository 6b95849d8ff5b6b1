"""How points are coloured: by class, or by a number.

Text, truth values and up to 24 different whole numbers are classes; other numbers, and dates, have
a scale.
The colours of classes are Okabe and Ito's palette, which colour-blind readers can distinguish; from
the ninth class on they are lighter, then darker, and markers differ too. Of more than 24 classes
the smallest share one grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.times import days

Array: TypeAlias = np.ndarray[Any, Any]

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKERS = ("o", "^", "s")
OTHER = "#BBBBBB"
MISSING = "(no value)"
_MOST_CLASSES = len(PALETTE) * len(MARKERS)
_LONGEST_NAME = 30
_DATE_TICKS = 5


@dataclass(frozen=True, eq=False)
class Group:
    """Points that are drawn alike.

    Args:
        name: for the legend.
        color: as hexadecimal digits.
        marker: of `MARKERS`.
        rows: which points.
    """

    name: str
    color: str
    marker: str
    rows: Array


@dataclass(frozen=True, eq=False)
class Colouring:
    """Colours of points, by class or by number.

    Args:
        title: what the colours mean.
        groups: the classes in order; beside numbers, only the points that have none.
        numbers: float [M] with NaN where there is none, or None where there are classes.
        texts: the value of each point as text [M].
        are_dates: whether the numbers are days since 1970-01-01.
    """

    title: str
    groups: tuple[Group, ...]
    numbers: Array | None
    texts: Array
    are_dates: bool = False


def colouring(values: Array, *, title: str = "class") -> Colouring:
    """The colours of points by their values [M]: numbers, truth values, dates, text, or None."""
    if values.dtype.kind == "M" and not np.isnat(values).all():
        return _of_dates(values, title)
    missing = np.array([_is_missing(value) for value in values.tolist()], dtype=bool)
    texts = np.array([_text(value) for value in values.tolist()], dtype=object)
    texts[missing] = MISSING
    if _has_scale(values[~missing]):
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = values[~missing].astype(np.float64)
        return Colouring(title, _without_number(missing), numbers, texts)
    return Colouring(title, tuple(_groups(values, texts, missing)), None, texts)


def date_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Places on a scale of days since 1970-01-01, and the dates there as text."""
    places = np.linspace(low, high, _DATE_TICKS)
    # Within a few days the time of day matters.
    if high - low >= _DATE_TICKS:
        places = places.round()
    places = np.unique(places)
    return places.tolist(), _dates_as_text(places).tolist()


def _of_dates(values: Array, title: str) -> Colouring:
    numbers, missing = days(values), np.isnat(values)
    texts = np.full(len(values), MISSING, dtype=object)
    texts[~missing] = _dates_as_text(numbers[~missing])
    return Colouring(title, _without_number(missing), numbers, texts, are_dates=True)


def _dates_as_text(numbers: Array) -> Array:
    """Days since 1970-01-01 as dates, with the time of day where they are not all whole."""
    if (numbers == np.floor(numbers)).all():
        return numbers.astype("datetime64[D]").astype(str)
    minutes = (numbers * 1440).round().astype("datetime64[m]").astype(str)
    return np.char.replace(minutes, "T", " ")


def _without_number(missing: Array) -> tuple[Group, ...]:
    """The group of points that have no place on the scale, where there are any."""
    group = Group(MISSING, OTHER, MARKERS[0], np.flatnonzero(missing))
    return (group,) if missing.any() else ()


def _groups(values: Array, texts: Array, missing: Array) -> list[Group]:
    """One group for each class, and one for points without a class."""
    present = np.flatnonzero(~missing)
    try:
        names, codes, sizes = np.unique(values[present], return_inverse=True, return_counts=True)
    # Values of types that have no order
    except TypeError:
        names, codes, sizes = np.unique(texts[present], return_inverse=True, return_counts=True)
    groups = []
    large = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_CLASSES])
    for place, code in enumerate(large):
        color, marker = _look(place)
        rows = present[codes == code]
        groups.append(Group(_shortened(_text(names[code])), color, marker, rows))
    num_others = len(names) - len(large)
    if num_others:
        name = f"{num_others} other{'s' if num_others > 1 else ''}"
        rows = present[~np.isin(codes, large)]
        groups.append(Group(name, OTHER, MARKERS[0], rows))
    if missing.any():
        groups.append(Group(MISSING, OTHER, MARKERS[2], np.flatnonzero(missing)))
    return groups


def _look(place: int) -> tuple[str, str]:
    """The colour and the marker of a class by its place, from 0 to 23."""
    turn, color = divmod(place, len(PALETTE))
    # As it is, halfway to white, halfway to black; black itself gets lighter both times
    target = (0, 255, 60 if PALETTE[color] == "#000000" else 0)[turn]
    mixed = PALETTE[color]
    if turn:
        parts = [int(mixed[i : i + 2], 16) for i in (1, 3, 5)]
        mixed = "#" + "".join(f"{(part + target) // 2:02X}" for part in parts)
    return mixed, MARKERS[turn]


def _has_scale(values: Array) -> bool:
    """Whether values are numbers with a scale, not classes."""
    if values.dtype == object and _are_numbers(values.tolist()):
        values = values.astype(np.float64)
    if values.dtype.kind not in "iuf" or not len(values):
        return False
    distinct = np.unique(values)
    whole = bool((distinct == np.floor(distinct)).all())
    return not whole or len(distinct) > _MOST_CLASSES


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not np.isfinite(value))


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    return str(value)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
