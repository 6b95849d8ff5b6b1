"""How much of the tables is measured, and what can be measured with the data that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphlatent.bench.cells import published_cell
from graphlatent.bench.data import is_available
from graphlatent.bench.ledger import Record
from graphlatent.bench.loading import all_recipes
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows import all_rows, seed_0_stands_for_all
from graphlatent.data.datasets import DATASETS, is_present

SEEDS = 5
"""The seeds of every row that tables aim at."""


@dataclass(frozen=True)
class CellProgress:
    """What is published, available and measured of a cell.

    Args:
        cell: name of the recipe.
        table: it belongs to.
        dataset: of the cell.
        published: the printed mean in per cent; None where nothing is printed.
        spread: the number printed after ±; None where there is none.
        published_text: both, as tables show them.
        available: whether the data is available locally.
        measured: how many of the aimed rows x seeds are.
        goal: how many there are to measure.
        seeds_by_row: which seeds are measured.
    """

    cell: str
    table: str
    dataset: str
    published: float | None
    spread: float | None
    published_text: str
    available: bool
    measured: int
    goal: int
    seeds_by_row: Mapping[str, Sequence[int]]


def cell_progress(recipe: Recipe, records: Sequence[Record], *, root: Path) -> CellProgress:
    """What is published, available under `root` and measured of a cell."""
    rows = all_rows()
    seeds = {
        row: sorted(r.seed for r in records if r.cell == recipe.name and r.row == row)
        for row in recipe.rows
    }
    goals = {row: 1 if seed_0_stands_for_all(rows[row], recipe) else SEEDS for row in recipe.rows}
    printed = recipe.published
    return CellProgress(
        cell=recipe.name,
        table=recipe.table,
        dataset=recipe.dataset,
        published=None if printed is None else printed.mean,
        spread=None if printed is None else printed.spread,
        published_text="none" if printed is None else published_cell(printed).text,
        available=is_available(recipe, root),
        measured=sum(min(len(seeds[row]), goals[row]) for row in recipe.rows),
        goal=sum(goals.values()),
        seeds_by_row=seeds,
    )


def unavailable_sets(records: Sequence[Record], *, root: Path) -> list[str]:
    """Data sets that are neither under `root` nor measured."""
    cells = {record.cell for record in records}
    measured = {recipe.dataset for recipe in all_recipes() if recipe.name in cells}
    return [
        info.name for info in DATASETS if info.name not in measured and not is_present(info, root)
    ]
