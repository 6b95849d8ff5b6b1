"""The tables of the paper, made from the ledger: published and measured numbers.

A main table (1, 2, binarized) has a column for each data set and the lines of the registered rows.
The others are ablations (`ablations.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from graphlatent.bench.ablations import ablation_blocks, baseline_rows
from graphlatent.bench.better_svm import BETTER, RBF
from graphlatent.bench.formats import Block, Line, Table
from graphlatent.bench.ledger import Record
from graphlatent.bench.loading import find_table, recipes_of
from graphlatent.bench.notes import (
    DIFFERENCES,
    INTERVALS,
    MEMORY,
    SPREAD,
    Provenance,
    amount_notes,
    dataset_notes,
    metrics_in_words,
    published_notes,
    record_notes,
    selection_notes,
)
from graphlatent.bench.recipe import BEST, Recipe
from graphlatent.bench.recipe_files import TableFile
from graphlatent.bench.rows import Row, all_rows
from graphlatent.bench.rows.base import BEST_OF, PUBLISHED, SVM_BLOCK, RowDifference, TableRow
from graphlatent.bench.rows.lagraph import PAPER
from graphlatent.bench.table_records import TableRecords
from graphlatent.config import Level
from graphlatent.data.datasets import dataset_info
from graphlatent.errors import InputError

ABSENT_FILE = "absent.json"
"""Of a ledger: data sets that were not available where it was made, with the reason."""
PRINTED = TableRow("published", PAPER.name, PUBLISHED, headline=True)
"""The first line of every block."""
PRINTED_SHORT = "LaGraph, published"
"""Its label in the short form, which has no note that says whose number it is."""


def printed_lines(recipes: Sequence[Recipe]) -> list[TableRow]:
    """The lines of published numbers: the paper's, and the highest ones where any cell has them."""
    best = [
        TableRow(label, PAPER.name, f"{BEST_OF}{key}", headline=True)
        for key, label in BEST.items()
        if any(key in recipe.best for recipe in recipes)
    ]
    printed = any(recipe.published is not None for recipe in recipes)
    return [*([PRINTED] if printed else []), *best]


def make_table(name: str, records: Sequence[Record], *, absent: Collection[str] = ()) -> Table:
    """A packaged table, made from records.

    Args:
        name: of the table, such as "1".
        records: of the ledger; those of other tables do not matter.
        absent: data sets that are not available.

    Raises:
        ConfigError: where there is no such table.
        InputError: where records of a row do not match.
    """
    table, recipes = find_table(name, argument="table", owner="bench"), recipes_of(name)
    own = {recipe.name for recipe in recipes}
    above = _above(table, recipes)
    kept = [r for r in records if r.cell in own or (r.cell, r.row) in above]
    found = TableRecords(kept, frozenset(absent))
    if table.variants:
        blocks, notes = ablation_blocks(found, recipes, memory=table.memory)
        reading = [SPREAD, *([INTERVALS] if any(r.changes for r in recipes) else [])]
    else:
        blocks, notes = _main_blocks(found, recipes)
        reading = [SPREAD, INTERVALS]
    reading += [MEMORY] if table.memory else []
    printed = [(recipe.column, recipe.published) for recipe in recipes]
    best = [
        note
        for key, label in BEST.items()
        if any(key in recipe.best for recipe in recipes)
        for note in published_notes([(r.column, r.best.get(key)) for r in recipes], title=label)
    ]
    return Table(
        name,
        f"{table.title} ({metrics_in_words(recipes)})",
        tuple(blocks),
        (
            *published_notes(printed, title=PRINTED.label),
            *best,
            *notes,
            *reading,
            *record_notes(kept),
        ),
    )


def shortened(table: Table) -> Table:
    """The headlines of the block that has most of them, in its measured columns, without notes.

    For a page that links to the whole table.
    """
    block = max(table.blocks, key=lambda block: sum(line.headline for line in block.lines))
    measured = [
        i
        for i in range(len(block.columns))
        if any("mean" in line.cells[i].values for line in block.lines)
    ]
    lines = tuple(
        Line(
            PRINTED_SHORT if line.label == PRINTED.label else line.label,
            tuple(line.cells[i] for i in measured),
            headline=True,
        )
        for line in block.lines
        if line.headline
    )
    columns = tuple(block.columns[i] for i in measured)
    return replace(table, blocks=(replace(block, columns=columns, lines=lines),), notes=())


def absent_sets(root: Path) -> frozenset[str]:
    """Data sets that were not available when a ledger was made.

    They are the keys of its absent.json; there are none where it has no such file.

    Raises:
        InputError: where the file is damaged or names a set that is not known.
    """
    path = root / ABSENT_FILE
    if not path.exists():
        return frozenset()
    try:
        if not (path.is_file() or path.is_dir()):
            raise OSError("It is a pipe or a device.")
        return frozenset(
            dataset_info(name).name for name in dict(json.loads(path.read_text(encoding="utf-8")))
        )
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} must be a JSON object that gives a reason for each data set that is not"
            f" available. {error}"
        ) from error


def lines_of(recipes: Sequence[Recipe]) -> list[TableRow]:
    """The lines of the rows that any of the cells lists, in the order of the registry."""
    return [line for row in _rows_of(recipes) for line in row.table_rows(recipes[0].level)]


def differences_of(recipes: Sequence[Recipe]) -> list[RowDifference]:
    """The differences between rows that any of the cells lists."""
    rows = _rows_of(recipes)
    names = {row.name for row in rows}
    return [
        difference
        for row in rows
        for difference in row.differences(recipes[0].level)
        if {difference.first.row, difference.second.row} <= names
    ]


def block_title(level: Level, line: TableRow) -> str:
    """The block of a line: at graph level there is one for each kind of SVM."""
    if level == "node":
        return ""
    by_probe = {RBF: "RBF SVM", BETTER: SVM_BLOCK}
    return line.block or by_probe.get(line.result.split("/")[0], "Linear SVM")


def _above(table: TableFile, recipes: Sequence[Recipe]) -> set[tuple[str, str]]:
    """Cells and rows of other tables that are shown above an ablation."""
    if not table.variants:
        return set()
    return {(recipe.name, row.row) for recipe, row in baseline_rows(recipes)}


def _rows_of(recipes: Sequence[Recipe]) -> list[Row]:
    return [
        row for name, row in all_rows().items() if any(name in recipe.rows for recipe in recipes)
    ]


def _main_blocks(records: TableRecords, recipes: Sequence[Recipe]) -> tuple[list[Block], list[str]]:
    """The blocks of a main table, and notes on how each of its lines was selected."""
    level, columns = recipes[0].level, tuple(recipe.column for recipe in recipes)
    by_block: dict[str, list[TableRow]] = {}
    for line in lines_of(recipes):
        by_block.setdefault(block_title(level, line), []).append(line)
    blocks: list[Block] = []
    found: list[Provenance] = []
    notes: list[str] = []
    first = next(iter(by_block), "")
    for title, lines in by_block.items():
        # Of few labels the paper has numbers for fine-tuning alone, the first block.
        above = printed_lines(recipes) if title == first or not recipes[0].labels else []
        made = [
            Line(
                line.label,
                tuple(records.cell(recipe, line) for recipe in recipes),
                headline=line.headline,
            )
            for line in (*above, *lines)
        ]
        blocks.append(Block(title, columns, tuple(made)))
        for line in lines:
            label = f"{title}, {line.label}" if title else line.label
            if line.result == PUBLISHED:
                printed = [(recipe.column, recipe.published_of(line.row)) for recipe in recipes]
                notes += published_notes(printed, title=label)
            else:
                found += records.provenance(recipes, line, label=label)
    differences = tuple(
        Line(each.label, tuple(records.difference(recipe, each) for recipe in recipes))
        for each in differences_of(recipes)
    )
    blocks += [Block(DIFFERENCES, columns, differences)] if differences else []
    return blocks, [
        *notes,
        *selection_notes(found),
        *amount_notes(found),
        *dataset_notes(recipes),
    ]
