"""How named columns of node features are to be encoded, decided at fit time.

Numbers, dates and times are standardised unless they are all 0 or 1, truth values become 0 or 1,
text becomes one-hot over the values seen at fit time, or is hashed. Legend: N nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.column_spec import ColumnSpec, Impute
from graphlatent.data.column_values import (
    ColumnValues,
    checked_numbers,
    column_values,
    missing_values,
    without_signs,
)
from graphlatent.data.far_values import median_and_spread, outlier_note
from graphlatent.data.hashing import BUCKETS
from graphlatent.data.measurements import FEW, SHARE
from graphlatent.data.mixed_columns import check_not_numbers
from graphlatent.data.readers.messages import quoted
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.times import look_like_dates
from graphlatent.errors import InputError, warn

Array: TypeAlias = np.ndarray[Any, Any]

# A text column with more values than this, in more than half of its rows, is probably an id.
MANY_CATEGORIES = 100
# One-hot features of one column beyond which an encoder is wider than anybody wants.
MOST_CATEGORIES = 10_000


def fit_columns(
    columns: Mapping[str, Array],
    *,
    standardize: bool,
    node_ids: Array | None = None,
    options: TableOptions | None = None,
) -> tuple[ColumnSpec, ...]:
    """How all columns of a table are to be encoded; says what was decided about special ones.

    Args:
        columns: values by name, each [N].
        standardize: as for `fit_column`; a table like a sparse matrix (`is_sparse_table`) is not
            standardised.
        node_ids: names of the nodes [N], for messages.
        options: as for `fit_column`.

    Raises:
        InputError: as `fit_column` does.
    """
    options = options or TableOptions()
    _check_names(columns, options)
    is_sparse = is_sparse_table(columns)
    if standardize and is_sparse and not all(map(_is_zero_one, columns.values())):
        warn(
            f"Most values of the {len(columns):,} columns are 0, so that numbers are taken as they"
            " are, as in a sparse matrix of words. Divide columns of another unit by their standard"
            " deviation first."
        )
    standardize = standardize and not is_sparse
    fit = partial(fit_column, standardize=standardize, node_ids=node_ids, options=options)
    found = {name: _fitted_or_refused(fit, name, values) for name, values in columns.items()}
    refused = {name: each for name, each in found.items() if isinstance(each, InputError)}
    specs = [each for each in found.values() if isinstance(each, ColumnSpec)]
    if refused:
        raise _all_refused(refused)
    for text in _notes(specs, columns):
        warn(text)
    return tuple(specs)


def _fitted_or_refused(
    fit: Callable[[str, Array], ColumnSpec], name: str, values: Array
) -> ColumnSpec | InputError:
    try:
        return fit(name, values)
    except InputError as error:
        return error


def _all_refused(refused: Mapping[str, InputError]) -> InputError:
    """The first error, and the names of the other columns."""
    first, *others = refused
    if not others:
        return refused[first]
    return InputError(
        f"{refused[first]} Also refused: {quoted(others)}; 'graphlatent info' says why."
    )


def is_sparse_table(columns: Mapping[str, Array]) -> bool:
    """Whether a table holds more than FEW columns, of numbers only, and most values are 0.

    Words or counts, that is: as a matrix they would be taken as they are (measurements.py), and so
    they are as a table.
    """
    if len(columns) <= FEW or any(values.dtype.kind not in "biuf" for values in columns.values()):
        return False
    size = sum(len(values) for values in columns.values())
    return sum(int(np.count_nonzero(values)) for values in columns.values()) <= SHARE * size


def _is_zero_one(values: Array) -> bool:
    return bool(np.isin(values, (0, 1)).all())


def _check_names(columns: Mapping[str, Array], options: TableOptions) -> None:
    """Raise where an option names a column that is no feature."""
    for option in ("hash", "text"):
        unknown = [name for name in getattr(options, option) if name not in columns]
        if unknown:
            raise InputError(
                f"There is no feature column {quoted(unknown)} (option '{option}'). The columns"
                f" are: {quoted(list(columns))}."
            )


def _notes(specs: Sequence[ColumnSpec], columns: Mapping[str, Array]) -> list[str]:
    """What was decided about dates, hashed text, outliers and missing values, as sentences."""
    notes = []
    for kind, words in (
        ("date", "Dates are used as numbers, in days since 1970-01-01 (UTC)"),
        ("time", "Times are used as numbers, in days"),
        ("hashed", f"The words of text are hashed into {BUCKETS} features for each column"),
    ):
        names = [spec.name for spec in specs if spec.kind == kind]
        notes += [f"{words}: {quoted(names)}."] if names else []
    notes += filter(None, map(outlier_note, specs))
    gaps = {s: _num_gaps(s, columns[s.name]) for s in specs if s.impute}
    numbers = [f"{s.name!r} ({n:,})" for s, n in gaps.items() if n and s.is_number]
    text = [f"{s.name!r} ({n:,})" for s, n in gaps.items() if n and not s.is_number]
    if numbers:
        center = "median" if specs[0].impute == "median" else "mean"
        notes.append(f"Missing numbers are filled with the {center}: {_shortened(numbers)}.")
    if text:
        notes.append(f"Missing text sets no feature: {_shortened(text)}.")
    return notes


def _num_gaps(spec: ColumnSpec, values: Array) -> int:
    found = column_values(spec.name, values)
    return int((without_signs(found) if spec.is_number else found).missing.sum())


def _shortened(parts: list[str]) -> str:
    more = f" and {len(parts) - 8:,} more" if len(parts) > 8 else ""
    return ", ".join(parts[:8]) + more


def fit_column(
    name: str,
    values: Array,
    *,
    standardize: bool,
    node_ids: Array | None = None,
    options: TableOptions | None = None,
) -> ColumnSpec:
    """How this column is to be encoded, here and in graphs that come later.

    Args:
        name: the column.
        values: one value per node [N].
        standardize: bring numbers to mean 0 and standard deviation 1. Columns that hold only 0 and
            1 (a bag of words, indicators) are left as they are: standardised they would no longer
            be sparse, and a rare word would weigh more than a frequent one.
        node_ids: names of the nodes [N], for messages.
        options: how missing values are filled, and which columns are read as text or hashed.

    Raises:
        InputError: where a value is missing and `impute` is not given, or infinite, or of no kind
            that can be used; where a column of numbers has text in it (mixed_columns.py), or text
            has so many values that it probably names the nodes.
    """
    options = options or TableOptions()
    found = column_values(name, values)
    if options.impute is not None and name not in (*options.text, *options.hash):
        found = without_signs(found)
    if len(values) and found.missing.all():
        raise InputError(
            f"Column '{name}' holds no value at all. Leave it out (drop, --drop on the command"
            " line)."
        )
    if found.missing.any() and options.impute is None:
        classes = found.numbers is None or found.kind == "boolean"
        raise missing_values(name, found.missing, node_ids, may_be_label=classes)
    filling: dict[str, Any] = {"impute": options.impute or "", "unknown": options.unknown or ""}
    filling["indicator"] = options.impute == "indicator" and bool(found.missing.any())
    if name in options.hash:
        return ColumnSpec(name, "hashed", buckets=BUCKETS, **filling)
    if found.numbers is None or name in options.text:
        known = _categories(name, found, as_text=name in options.text, node_ids=node_ids)
        return ColumnSpec(name, "categorical", categories=known, **filling)
    numbers = checked_numbers(name, found.numbers, node_ids)[~found.missing]
    if options.impute is not None:
        filling["fill"] = _center(numbers, options.impute)
    if found.kind == "boolean" or not standardize or _is_zero_one(numbers):
        return ColumnSpec(name, found.kind, **filling)
    # By equality: the standard deviation of a constant need not round to 0.
    if numbers.min() == numbers.max():
        return ColumnSpec(name, found.kind, mean=float(numbers[0]), **filling)
    scale = float(numbers.std()) or 1.0
    # Dates go on from week to week.
    if found.kind == "numeric":
        filling |= median_and_spread(numbers)
    return ColumnSpec(name, found.kind, mean=float(numbers.mean()), scale=scale, **filling)


def _center(numbers: Array, impute: Impute) -> float:
    return float(np.median(numbers) if impute == "median" else numbers.mean())


def _categories(
    name: str, found: ColumnValues, *, as_text: bool, node_ids: Array | None
) -> tuple[str, ...]:
    """The values of a text column, sorted."""
    there = ~found.missing
    text = np.array(found.text(), dtype=object)[there].tolist()
    is_given = as_text or found.given_as_text
    if not is_given:
        check_not_numbers(name, text, node_ids=node_ids, rows=np.flatnonzero(there))
    categories = sorted(set(text))
    many = len(categories) > MANY_CATEGORIES and 2 * len(categories) > len(text)
    if len(categories) > MOST_CATEGORIES or (many and not is_given):
        dates = " If it holds dates, write all of them as YYYY-MM-DD." * look_like_dates(text)
        raise InputError(
            f"Column '{name}' holds text with {len(categories):,} different values in"
            f" {len(text):,} rows, too many for one feature each.{dates} If it names the nodes,"
            " leave it out (drop, --drop on the command line); if its words say something about"
            f" them, hash it into {BUCKETS} features (hash, --hash)."
        )
    return tuple(categories)
