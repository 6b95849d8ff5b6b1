"""Tables that compare variants of the settings, with published and measured numbers in one cell.

Rows without training come first, then one line for each variant. Variants of our defaults stand
below the defaults themselves, and a second block has their differences from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from graphlatent.bench.cells import empty_cell, printed_number
from graphlatent.bench.formats import Block, Cell, Line
from graphlatent.bench.ledger import Record
from graphlatent.bench.loading import all_recipes
from graphlatent.bench.notes import (
    DIFFERENCES,
    Provenance,
    amount_notes,
    by_column,
    dataset_notes,
    selection_notes,
)
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import AT_BUDGET, CHOSEN, RowDifference, TableRow
from graphlatent.bench.rows.defaults import DEFAULTS
from graphlatent.bench.rows.lagraph import PAPER
from graphlatent.bench.rows.untrained import PROPAGATED, RANDOM, RAW
from graphlatent.bench.table_records import TableRecords


def ablation_blocks(
    records: TableRecords, recipes: Sequence[Recipe], *, memory: bool
) -> tuple[list[Block], list[str]]:
    """The block of a table of variants, and notes on how its cells were selected.

    Args:
        records: of its cells, and of those that `baseline_rows` names.
        recipes: its cells.
        memory: whether peak memory is shown beside scores.
    """
    place = {(recipe.line, recipe.column): recipe for recipe in recipes}
    lines, columns = (tuple(dict.fromkeys(key[i] for key in place)) for i in (0, 1))
    variants = [
        Line(
            line,
            tuple(_variant(records, place.get((line, c)), memory=memory) for c in columns),
        )
        for line in lines
    ]
    measured = [
        found
        for recipe in recipes
        for found in records.provenance([recipe], shown_row(recipe), label=recipe.line)
    ]
    untrained: dict[str, list[Cell]] = {}
    beside: list[Provenance] = []
    for recipe, row in baseline_rows(recipes):
        untrained.setdefault(row.label, []).append(records.cell(recipe, row))
        beside += records.provenance([recipe], row, label=row.label)
    above = [Line(label, tuple(cells)) for label, cells in untrained.items()]
    selected = by_column((each.column, each.selection) for each in measured)
    notes = [
        *selection_notes(beside),
        f"measured: {selected}",
        *amount_notes([*beside, *measured]),
        *dataset_notes(recipes),
    ]
    blocks = [Block("", columns, (*above, *variants))]
    differences = tuple(
        Line(
            f"{line} minus {DEFAULTS.label}",
            tuple(_minus_defaults(records, place.get((line, c))) for c in columns),
        )
        for line in lines
        if any(place[key].changes for key in place if key[0] == line)
    )
    return [*blocks, *([Block(DIFFERENCES, columns, differences)] if differences else [])], notes


def baseline_rows(recipes: Sequence[Recipe]) -> list[tuple[Recipe, TableRow]]:
    """For each column, the rows without training and the cell that holds them.

    It is the first cell on the same data that lists such rows.
    """
    found = []
    for column in dict.fromkeys(recipe.column for recipe in recipes):
        one = next(recipe for recipe in recipes if recipe.column == column)
        rows = _rows_above_defaults(one) if one.changes else _rows_above_the_papers(one)
        found += [(main_cell(one), row) for row in rows]
    return found


def main_cell(recipe: Recipe) -> Recipe:
    """The first cell on the same data with rows without training; the cell itself without one."""
    same = [
        each
        for each in all_recipes()
        if (each.dataset, each.binarize) == (recipe.dataset, recipe.binarize)
        and RANDOM.name in each.rows
    ]
    return same[0] if same else recipe


def _rows_above_the_papers(recipe: Recipe) -> list[TableRow]:
    # At fixed epochs the features are appended to the embedding of nodes.
    appended = recipe.level == "node" and shown_row(recipe).result == AT_BUDGET
    random = RANDOM.appended if appended else TableRow(RANDOM.label, RANDOM.name, CHOSEN)
    return [*(TableRow(row.label, row.name, CHOSEN) for row in (RAW, PROPAGATED)), random]


def _rows_above_defaults(recipe: Recipe) -> list[TableRow]:
    """The headlines of rows without training, and the defaults without and with training."""
    untrained = [
        line for row in (RAW, PROPAGATED) for line in row.table_rows(recipe.level) if line.headline
    ]
    ours = [DEFAULTS.headline(recipe.level, trained=trained) for trained in (False, True)]
    return [*untrained, *ours]


def shown_row(recipe: Recipe) -> TableRow:
    """What a variant shows: chosen on validation where there is a choice of epochs.

    Of a variant of our defaults it is their headline.
    """
    if recipe.changes:
        return replace(DEFAULTS.headline(recipe.level), label=recipe.line)
    several = len(recipe.evaluation.epochs) > 1
    return TableRow(recipe.line, PAPER.name, CHOSEN if several else AT_BUDGET)


def _minus_defaults(records: TableRecords, recipe: Recipe | None) -> Cell:
    """A variant of our defaults minus the defaults, which the main table has."""
    if recipe is None:
        return empty_cell("no such cell")
    label = f"{recipe.line} minus {DEFAULTS.label}"
    both = RowDifference(label, shown_row(recipe), DEFAULTS.headline(recipe.level))
    return records.difference(recipe, both, second=main_cell(recipe))


def _variant(records: TableRecords, recipe: Recipe | None, *, memory: bool) -> Cell:
    """The published and the measured number in one cell."""
    if recipe is None:
        return empty_cell("no such cell")
    cell, printed = records.cell(recipe, shown_row(recipe)), recipe.published
    used = _peak_memory(records.records, recipe) if memory else None
    text = cell.text if used is None else f"{cell.text}, {used:.0f} MB"
    values = {**cell.values, "memory_mb": used}
    if printed is not None:
        beside = "" if printed.memory_mb is None else f", {printed.memory_mb} MB"
        text = f"{printed_number(printed.mean)}{beside} published / {text}"
        values |= {
            "published": printed.mean,
            "published_spread": printed.spread,
            "published_memory_mb": printed.memory_mb,
        }
    return replace(cell, text=text, values=values)


def _peak_memory(records: Iterable[Record], recipe: Recipe) -> float | None:
    """The median peak memory over the seeds, or None where it was not measured.

    The median, because the first training of a process also includes one-time allocations of the
    GPU libraries.
    """
    found = [
        record.training.get("peak_memory_mb")
        for record in records
        if record.cell == recipe.name and record.row == shown_row(recipe).row
    ]
    values = [value for value in found if isinstance(value, int | float)]
    return median(values) if values else None
