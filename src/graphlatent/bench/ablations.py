"""Tables that compare variants of the settings, with published and measured numbers in one cell.

Rows without training come first, then one line for each variant.
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
    Provenance,
    amount_notes,
    by_column,
    dataset_notes,
    selection_notes,
)
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import AT_BUDGET, CHOSEN, TableRow
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
    return [Block("", columns, (*above, *variants))], notes


def baseline_rows(recipes: Sequence[Recipe]) -> list[tuple[Recipe, TableRow]]:
    """For each column, the rows without training and the cell that holds them.

    It is the first cell on the same data that lists such rows.
    """
    found = []
    for column in dict.fromkeys(recipe.column for recipe in recipes):
        one = next(recipe for recipe in recipes if recipe.column == column)
        same = [
            each
            for each in all_recipes()
            if (each.dataset, each.binarize) == (one.dataset, one.binarize)
            and RANDOM.name in each.rows
        ]
        # At fixed epochs the features are appended to the embedding of nodes.
        appended = one.level == "node" and shown_row(one).result == AT_BUDGET
        random = RANDOM.appended if appended else TableRow(RANDOM.label, RANDOM.name, CHOSEN)
        rows = [*(TableRow(row.label, row.name, CHOSEN) for row in (RAW, PROPAGATED)), random]
        found += [(same[0] if same else one, row) for row in rows]
    return found


def shown_row(recipe: Recipe) -> TableRow:
    """What a variant shows: chosen on validation where there is a choice of epochs."""
    several = len(recipe.evaluation.epochs) > 1
    return TableRow(recipe.line, PAPER.name, CHOSEN if several else AT_BUDGET)


def _variant(records: TableRecords, recipe: Recipe | None, *, memory: bool) -> Cell:
    """What was printed and what was measured, in one cell."""
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
        if record.cell == recipe.name and record.row == PAPER.name
    ]
    values = [value for value in found if isinstance(value, int | float)]
    return median(values) if values else None
