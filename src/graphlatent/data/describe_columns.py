"""What each named column of a graph will become, in words, and why one is refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.column_fitting import fit_column, is_sparse_table
from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.column_values import column_values, without_signs
from graphlatent.data.far_values import outlier_note
from graphlatent.data.graph import GraphData
from graphlatent.data.readers.messages import quoted
from graphlatent.errors import GraphLatentWarning, InputError

Array: TypeAlias = np.ndarray[Any, Any]
# Categories that are listed, and equal columns in a row that become one line.
_CATEGORIES, _RUN = 3, 4
# Later dates, and those as long before 1970, are shown as numbers.
_DAYS_OF_YEAR_9999 = 2_932_896


@dataclass(frozen=True)
class ColumnFact:
    """What one column becomes.

    Args:
        name: the column.
        becomes: its features in words, such as 'one-hot of 3 categories'.
        problem: why it is refused; empty where it is not.
    """

    name: str
    becomes: str
    problem: str = ""


def column_facts(graph: GraphData, *, standardize: bool = True) -> list[ColumnFact]:
    """What each named column becomes when a model is fitted; never fails on a column."""
    columns = graph.columns or {}
    is_sparse = is_sparse_table(columns)
    return [
        _fact(graph, name, values, standardize=standardize and not is_sparse)
        for name, values in columns.items()
    ]


def in_lines(facts: Sequence[ColumnFact]) -> list[str]:
    """The facts as lines for people, who have read the problems; equal columns share a line."""
    lines = []
    for becomes, group in groupby(facts, key=_in_short):
        names = [fact.name for fact in group]
        if len(names) < _RUN:
            lines += [f"{name}: {becomes}" for name in names]
        else:
            lines.append(f"{names[0]} to {names[-1]} ({len(names):,} columns): {becomes}")
    return lines


def _in_short(fact: ColumnFact) -> str:
    return "refused (see problems)" if fact.problem else fact.becomes


def _fact(graph: GraphData, name: str, values: Array, *, standardize: bool) -> ColumnFact:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GraphLatentWarning)
        try:
            spec = fit_column(
                name,
                values,
                standardize=standardize,
                node_ids=graph.node_ids,
                options=graph.reading,
            )
        except InputError as error:
            return ColumnFact(name, f"refused. {error}", str(error))
    remarks = "".join(f" {each.message}" for each in caught)
    return ColumnFact(name, _becomes(spec, values, standardize) + remarks)


def _becomes(spec: ColumnSpec, values: Array, standardize: bool) -> str:
    found = column_values(spec.name, values)
    if spec.kind == "hashed":
        text = f"words hashed into {spec.buckets} features"
    elif spec.kind == "categorical":
        names = quoted(spec.categories, _CATEGORIES)
        text = f"one-hot of {len(spec.categories):,} categories ({names})"
    else:
        found = without_signs(found)
        text = _of_numbers(spec, found.numbers, standardize)
    gaps = int(found.missing.sum())
    if not gaps:
        return text
    filled = f" filled with {_shown(spec, spec.fill)}" if spec.is_number else ""
    beside = ", and a feature that says where" if spec.indicator else ""
    return f"{text}; {gaps:,} missing{filled or ' (no feature set)'}{beside}"


def _of_numbers(spec: ColumnSpec, numbers: Array | None, standardize: bool) -> str:
    words = {"date": "date, in days since 1970-01-01", "time": "time, in days"}.get(spec.kind)
    unit = " days" if words else ""
    if spec.kind == "boolean":
        return "truth value, 0 or 1"
    present = np.array([]) if numbers is None else numbers[~np.isnan(numbers)]
    if words is None and bool(np.isin(present, (0.0, 1.0)).all()):
        return "0 and 1, as they are"
    words = words or "number"
    if not standardize:
        return f"{words}, as it is"
    if present.min() == present.max():
        return f"{words}, the same everywhere, so 0"
    mean = _shown(spec, spec.mean)
    note = f". {outlier_note(spec)}" if outlier_note(spec) else ""
    return f"{words}, standardised (mean {mean}, standard deviation {spec.scale:.4g}{unit}){note}"


def _shown(spec: ColumnSpec, value: float) -> str:
    """A number in the unit of the column; a date as such."""
    if spec.kind == "date" and abs(value) < _DAYS_OF_YEAR_9999:
        return str(np.datetime64(round(value), "D"))
    return f"{value:.6g}"
