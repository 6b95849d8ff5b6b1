"""Named columns of node features as a matrix, encoded as `column_fitting.py` decided it.

Legend: N nodes, W features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.column_values import (
    ColumnValues,
    checked_numbers,
    column_values,
    is_sign,
    missing_values,
    without_signs,
)
from graphlatent.data.far_values import FAR, warn_of_far_values, warn_of_moved_median
from graphlatent.data.hashing import hashed
from graphlatent.data.mixed_columns import are_numerals
from graphlatent.data.places import place_of
from graphlatent.data.readers.messages import quoted
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.times import days_of_text
from graphlatent.display import counted
from graphlatent.errors import InputError, warn
from graphlatent.ops.sparse import SparseMatrix

Array: TypeAlias = np.ndarray[Any, Any]

_WORDS = {
    "numeric": "numbers",
    "boolean": "truth values",
    "categorical": "text",
    "hashed": "text",
    "date": "dates",
    "time": "times",
}
# Encoded columns are sparse where they are wider than this and fewer of their values are not 0 than
# the share below, above which a dense matrix is both smaller and faster.
DENSE_COLUMNS, DENSE_ABOVE = 256, 0.25


def encode_column(
    column: ColumnSpec, values: Array, *, node_ids: Array | None = None, unknown: str = ""
) -> tuple[Array, Array, Array]:
    """Which features of the column are set in which rows, and to what.

    Args:
        column: the spec.
        values: one value per node [N].
        node_ids: names of the nodes [N], for messages.
        unknown: 'ignore' or 'error', for categories that the spec does not have.

    Returns:
        Row and feature, int64, and value, float64, of all that is not 0 (and some that is).

    Raises:
        InputError: where the values are not of the kind that `column` was fitted on, missing, or a
            category never seen.
    """
    found = column_values(column.name, values)
    if column.impute and column.is_number:
        found = without_signs(found)
    if found.missing.any() and not column.impute:
        raise missing_values(column.name, found.missing, node_ids, fitted=True)
    # One node alone often lacks a value.
    if column.impute and len(values) > 1 and found.missing.all():
        warn(
            f"Column '{column.name}' has no value in any row. All are filled with what was learnt"
            " when the model was fitted, so it says nothing about these nodes."
        )
    if column.kind == "hashed":
        rows, cols = hashed(found.text(), buckets=column.buckets)
        encoded = np.ones(len(rows))
    elif column.kind == "categorical":
        rows, cols = _category_codes(column, found, node_ids, unknown or column.unknown)
        encoded = np.ones(len(rows))
    else:
        numbers = _numbers_as_fitted(column, found, node_ids)
        numbers = np.where(found.missing, column.fill, numbers)
        rows, cols = np.arange(len(values)), np.zeros(len(values), dtype=np.int64)
        encoded = (numbers - column.mean) / column.scale
        if (column.mean, column.scale) != (0.0, 1.0):
            warn_of_far_values(
                encoded,
                name=column.name,
                mean=column.mean,
                std=column.scale,
                node_ids=node_ids,
            )
            if (np.abs(encoded) <= FAR).all():
                warn_of_moved_median(numbers[~found.missing], column)
    if column.indicator:
        (gaps,) = np.nonzero(found.missing)
        rows = np.concatenate([rows, gaps])
        cols = np.concatenate([cols, np.full(len(gaps), column.width - 1)])
        encoded = np.concatenate([encoded, np.ones(len(gaps))])
    return rows, cols, encoded


def _numbers_as_fitted(column: ColumnSpec, found: ColumnValues, node_ids: Array | None) -> Array:
    """The values of a column of numbers, dates or times, float64 [N]; NaN where missing."""
    if found.missing.all():
        return np.full(len(found.missing), np.nan)
    if found.numbers is None:
        row = _first_wrong(column, found)
        raise _changed(column, f"text such as {found.text()[row]!r} {place_of(row, node_ids)}")
    times = ("date", "time")
    if found.kind != column.kind and (column.kind in times or found.kind in times):
        raise _changed(column, _WORDS[found.kind])
    numbers = checked_numbers(column.name, found.numbers, node_ids)
    truths = np.isin(numbers[~found.missing], (0.0, 1.0))
    if column.kind == "boolean" and not truths.all():
        raise _changed(column, f"{numbers[~found.missing][~truths][0]:g}")
    return numbers


def _first_wrong(column: ColumnSpec, found: ColumnValues) -> int:
    """The row of the first text that is no value of the column; signs for gaps are none."""
    text, gaps = found.text(), found.missing.tolist()
    if column.kind in ("date", "time"):
        wrong = [not gap and days_of_text([v]) is None for v, gap in zip(text, gaps, strict=True)]
    else:
        wrong = (~are_numerals(text) & ~found.missing).tolist()
    plain = [each and not is_sign(value) for each, value in zip(wrong, text, strict=True)]
    first = next((each for each in (plain, wrong) if True in each), None)
    return 0 if first is None else first.index(True)


def _changed(column: ColumnSpec, now: str) -> InputError:
    return InputError(
        f"Column '{column.name}' held {_WORDS[column.kind]} when the model was fitted, and now"
        f" holds {now}. Give it the same type of values, or fit again."
    )


def _category_codes(
    column: ColumnSpec, found: ColumnValues, node_ids: Array | None, unknown: str
) -> tuple[Array, Array]:
    """Rows whose category is known, and which it is; others are said or refused."""
    text, known = found.text(), {value: i for i, value in enumerate(column.categories)}
    codes = np.fromiter((known.get(each, -1) for each in text), dtype=np.int64, count=len(text))
    codes[found.missing] = -1
    new = (codes < 0) & ~found.missing
    if new.any():
        row = int(new.argmax())
        if unknown != "ignore":
            raise InputError(
                f"Column '{column.name}' holds '{text[row]}' {place_of(row, node_ids)}, a value it"
                f" never held when the model was fitted (known: {quoted(column.categories, 5)})."
                " Replace it by a known value, leave such values out (unknown='ignore', --unknown"
                " ignore on the command line), or fit again on graphs that hold it."
            )
        values = sorted({each for each, is_new in zip(text, new, strict=True) if is_new})
        warn(
            f"Column '{column.name}' holds values in {counted(int(new.sum()), 'row')} that it never"
            f" held when the model was fitted: {quoted(values, 5)}. There, none of its categories"
            " is set."
        )
    (rows,) = np.nonzero(codes >= 0)
    return rows, codes[rows]


def encode_columns(
    specs: Sequence[ColumnSpec],
    columns: Mapping[str, Array],
    *,
    node_ids: Array | None = None,
    options: TableOptions | None = None,
) -> Tensor | SparseMatrix:
    """The encoded columns as one matrix, float32 [N, W]; sparse where it is wide and mostly 0.

    Args:
        specs: how each column is encoded.
        columns: values by name, each [N]; those of `specs`, in any order. Others are not used.
        node_ids: names of the nodes [N], for messages.
        options: `unknown`, where it is to be another than that of the specs; `impute` and `hash`
            must be theirs.

    Raises:
        InputError: where a column is missing, or its values are not of the kind that its spec was
            made from; with unknown='error' also where a column is not known.
    """
    options = options or TableOptions()
    unknown = options.unknown or specs[0].unknown
    _check_columns(specs, columns, unknown)
    _check_options(specs, options)
    offset, rows, cols, values = 0, [], [], []
    for spec in specs:
        row_of, feature, encoded = encode_column(
            spec, columns[spec.name], node_ids=node_ids, unknown=unknown
        )
        # What float32 cannot hold becomes infinite, and is refused by `encode_features`.
        with np.errstate(over="ignore"):
            numbers = encoded.astype(np.float32)
        (nonzero,) = np.nonzero(numbers)
        rows.append(row_of[nonzero])
        cols.append(feature[nonzero] + offset)
        values.append(numbers[nonzero])
        offset += spec.width
    row, col, value = (torch.from_numpy(np.concatenate(part)) for part in (rows, cols, values))
    shape = (len(columns[specs[0].name]), offset)
    if offset > DENSE_COLUMNS and len(value) <= DENSE_ABOVE * shape[0] * shape[1]:
        return SparseMatrix.from_coo(row, col, value, shape)
    return torch.zeros(shape, dtype=torch.float32).index_put_((row, col), value)


def _check_columns(specs: Sequence[ColumnSpec], columns: Mapping[str, Array], unknown: str) -> None:
    """Raise where columns are missing, or not known and refused; say which are not used."""
    known = {spec.name for spec in specs}
    missing = [spec.name for spec in specs if spec.name not in columns]
    extra = [name for name in columns if name not in known]
    if missing:
        unused = f"; not used: {quoted(extra)}" if extra else ""
        raise InputError(
            "The feature columns are not those that the model was fitted on. Missing:"
            f" {quoted(missing)}{unused}. Add the missing columns, or fit again without them."
        )
    if not extra:
        return
    if unknown == "error":
        raise InputError(
            f"Columns that the model was not fitted on: {quoted(extra)}. Leave them out (drop,"
            " --drop on the command line), or allow for them (unknown='ignore', --unknown ignore)."
        )
    warn(f"Columns that are not used, since the model was not fitted on them: {quoted(extra)}.")


def _check_options(specs: Sequence[ColumnSpec], options: TableOptions) -> None:
    """Raise where an option asks for another encoding than the model was fitted with."""
    if options.impute is not None and options.impute != specs[0].impute:
        raise InputError(
            f"The model was fitted with impute={specs[0].impute or None!r}, and missing values are"
            f" filled by what it learnt then. impute={options.impute!r} needs a new model: fit"
            " again with it, or leave it out."
        )
    fitted = {spec.name for spec in specs if spec.kind == "hashed"}
    known = {spec.name for spec in specs}
    new = [name for name in options.hash if name in known - fitted]
    if new:
        raise InputError(
            f"The model was fitted on {quoted(new)} without hashing. Leave the option 'hash' out,"
            " or fit again with it."
        )
