"""The rows of tables: one object each, found by name.

`untrained.py` has raw, propagated and random; `weisfeiler_lehman.py` wl; `lagraph.py` paper,
released and tuned; `defaults.py` defaults; `finetuned.py` those of tables about few labels;
`method.py` the row of any other registered method, which needs no registration of its own.
"""

from __future__ import annotations

from graphlatent.bench.methods import LAGRAPH
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows import defaults, finetuned, lagraph, untrained, weisfeiler_lehman
from graphlatent.bench.rows.base import Row, register, registered, unregister
from graphlatent.bench.rows.method import MethodRow, method_row
from graphlatent.methods.registry import method_names

__all__ = [
    "MethodRow",
    "Row",
    "all_rows",
    "defaults",
    "find_row",
    "finetuned",
    "lagraph",
    "method_rows",
    "register",
    "row_names",
    "seed_0_stands_for_all",
    "unregister",
    "untrained",
    "weisfeiler_lehman",
]


def all_rows() -> dict[str, Row]:
    """Every row by name, in the order of tables: the registered ones, then a row per method."""
    return {**registered(), **method_rows()}


def method_rows() -> dict[str, MethodRow]:
    """The rows of registered methods other than LaGraph, which has several rows of its own."""
    names = dict.fromkeys([*method_names("node"), *method_names("graph")])
    return {name: method_row(name) for name in names if name != LAGRAPH}


def find_row(name: str) -> Row:
    """The row of that name. Raises `KeyError` where there is none."""
    return all_rows()[name]


def row_names() -> tuple[str, ...]:
    """The names of all rows, in the order of tables."""
    return tuple(all_rows())


def seed_0_stands_for_all(row: Row, recipe: Recipe) -> bool:
    """Whether a row of a cell is the same for every seed; folds differ between seeds."""
    return not row.seeded and recipe.protocol != "folds"
