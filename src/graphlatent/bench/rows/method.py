"""The row of any registered method besides LaGraph: its own settings, the same probe."""

from __future__ import annotations

from collections.abc import Sequence

from graphlatent.bench.context import CellContext
from graphlatent.bench.probing import linear_grid
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import (
    AT_BUDGET,
    CHOSEN,
    PUBLISHED,
    UNTRAINED,
    Row,
    RowDifference,
    RowOutcome,
    RowPlan,
    TableRow,
)
from graphlatent.bench.rows.lagraph import PAPER
from graphlatent.bench.rows.trained import measure_trained, representations
from graphlatent.bench.training import TrainingSpec
from graphlatent.config import Level
from graphlatent.methods.registry import estimator_class, method_names


class MethodRow(Row):
    """A method, with the settings of [methods.NAME] of the recipe.

    Args:
        name: of the registered method.
        title: what tables call it.
    """

    def __init__(self, name: str, *, title: str) -> None:
        self.name, self.title = name, title
        self.label = f"{title}, chosen on validation"

    def plan(self, recipe: Recipe) -> RowPlan:
        """The method's settings and evaluation epochs."""
        spec, evaluation = self._spec(recipe), recipe.methods[self.name].evaluation
        candidates = {
            "epochs": list(evaluation.epochs),
            "budget": evaluation.budget,
            "representations": list(representations(recipe.level)),
        }
        return RowPlan(
            {"linear": linear_grid(recipe.level)},
            method=spec.method,
            settings=spec.resolved,
            candidates=candidates,
        )

    def measure(self, cell: CellContext) -> RowOutcome:
        """Chosen on validation, at the fixed epoch, and before training."""
        spec, evaluation = self._spec(cell.recipe), cell.recipe.methods[self.name].evaluation
        results = measure_trained(cell, spec, epochs=evaluation.epochs, budget=evaluation.budget)
        return RowOutcome(results, cell.training_facts(spec))

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """The published number, then what was measured."""
        return [
            TableRow(f"{self.title}, published", self.name, PUBLISHED),
            TableRow(self.label, self.name, CHOSEN, headline=True),
            TableRow(f"{self.title}, fixed epochs", self.name, AT_BUDGET),
            TableRow(f"the encoder of {self.title}, random-initialised", self.name, UNTRAINED),
        ]

    def differences(self, level: Level) -> Sequence[RowDifference]:
        """What its training brings, and how it compares with LaGraph."""
        _, chosen, fixed, start = self.table_rows(level)
        paper = TableRow(PAPER.label, PAPER.name, CHOSEN)
        return [
            RowDifference(
                f"{self.title}, fixed epochs, minus its random-initialised encoder", fixed, start
            ),
            RowDifference(f"{self.title} minus {PAPER.short}", chosen, paper),
        ]

    def _spec(self, recipe: Recipe) -> TrainingSpec:
        return TrainingSpec(recipe.method_settings(self.name), recipe.level, self.name)


def method_row(name: str) -> MethodRow:
    """The row of a registered method, titled by its estimator class: "BGRL" for NodeBGRL."""
    levels: tuple[Level, ...] = ("node", "graph")
    for level in levels:
        if name in method_names(level):
            title = estimator_class(name, level).__name__.removeprefix(level.title())
            return MethodRow(name, title=title)
    raise KeyError(name)
