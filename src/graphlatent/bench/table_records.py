"""The records of a table, as cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphlatent.bench.cells import (
    NOT_AVAILABLE,
    NOT_MEASURED,
    counts,
    difference_cell,
    empty_cell,
    measured_cell,
    published_cell,
    selection,
)
from graphlatent.bench.differences import by_seed, for_every_seed, summary_of
from graphlatent.bench.formats import Cell
from graphlatent.bench.ledger import Record
from graphlatent.bench.notes import Provenance
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import BEST_OF, PUBLISHED, RowDifference, TableRow
from graphlatent.probes.results import ProbeResult


@dataclass(frozen=True)
class TableRecords:
    """Records of a table, and the data sets that could not be measured.

    Args:
        records: of its cells.
        absent: data sets that were not available.
    """

    records: Sequence[Record]
    absent: frozenset[str]

    def found(self, recipe: Recipe, row: TableRow) -> dict[int, ProbeResult]:
        """The results that a line shows of a cell, by seed."""
        return by_seed(self.records, cell=recipe.name, row=row.row, result=row.result)

    def cell(self, recipe: Recipe, row: TableRow) -> Cell:
        """What a line shows of a cell."""
        if row.result == PUBLISHED:
            return published_cell(recipe.published_of(row.row))
        if row.result.startswith(BEST_OF):
            best = recipe.best.get(row.result.removeprefix(BEST_OF))
            return published_cell(best, missing="none known")
        found = self.found(recipe, row)
        return measured_cell(found, name=_called(recipe, row)) if found else self._empty(recipe)

    def difference(
        self, recipe: Recipe, difference: RowDifference, *, second: Recipe | None = None
    ) -> Cell:
        """What a line of differences shows of a cell; `second` may be another cell of the set."""
        ones = self.found(recipe, difference.first)
        others = self.found(second or recipe, difference.second)
        if not ones or not others:
            return self._empty(recipe)
        others = for_every_seed(others, row=difference.second.row, other=ones)
        return difference_cell(ones, others, name=f"{recipe.name}, {difference.label}")

    def provenance(
        self, recipes: Iterable[Recipe], row: TableRow, *, label: str
    ) -> list[Provenance]:
        """How the measured cells of a line were obtained."""
        found = [(recipe, self.found(recipe, row)) for recipe in recipes]
        return [
            Provenance(
                label,
                recipe.column,
                selection(results),
                counts(summary_of(results, name=_called(recipe, row))),
            )
            for recipe, results in found
            if results
        ]

    def _empty(self, recipe: Recipe) -> Cell:
        return empty_cell(NOT_AVAILABLE if recipe.dataset in self.absent else NOT_MEASURED)


def _called(recipe: Recipe, row: TableRow) -> str:
    return f"{recipe.name}, row {row.row}, {row.result}"
