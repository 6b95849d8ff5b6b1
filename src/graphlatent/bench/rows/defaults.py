"""The row of LaGraph with our defaults: the embedding as `transform` returns it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphlatent.bench.context import FIXED as FIXED_WORDS
from graphlatent.bench.context import CellContext
from graphlatent.bench.probing import linear_grid, rbf_grid
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import (
    AT_BUDGET,
    CHOSEN,
    CHOSEN_SVM,
    EITHER_SVM,
    FIXED,
    START,
    UNTRAINED,
    Row,
    RowDifference,
    RowOutcome,
    RowPlan,
    TableRow,
    register,
)
from graphlatent.bench.rows.lagraph import KERNEL_BASELINES, PAPER
from graphlatent.bench.rows.trained import own_representation, representations
from graphlatent.bench.rows.untrained import PROPAGATED, RAW
from graphlatent.bench.training import TrainingSpec
from graphlatent.config import Level
from graphlatent.probes.design import Preprocessing
from graphlatent.probes.svm import SVM_PREPROCESSING

FORM = "linear/representation"
"""The last epoch; the embedding alone or with the features appended, chosen on validation."""


def _preprocessing(spec: TrainingSpec) -> tuple[Preprocessing, ...]:
    """What the RBF SVM chooses from: standardised embeddings are not standardised again."""
    return ("none",) if spec.resolved.get("embedding") == "standard" else SVM_PREPROCESSING


class DefaultsRow(Row):
    """The package's own defaults at the last epoch; neither epoch nor representation is chosen."""

    name, label = "defaults", "LaGraph with our defaults"
    uses_defaults = True
    start_label = "the encoder of our defaults, random-initialised"
    form = TableRow(
        "LaGraph with our defaults, features appended or not chosen on validation",
        "defaults",
        FORM,
    )

    def plan(self, recipe: Recipe) -> RowPlan:
        """The defaults as they are, with what the recipe changes of them."""
        spec = TrainingSpec(recipe.default_settings(), recipe.level)
        probes: dict[str, Any] = {"linear": linear_grid(recipe.level)}
        if recipe.level == "graph":
            probes["rbf"] = rbf_grid(_preprocessing(spec))
        forms = (own_representation(spec),) if recipe.changes else representations(recipe.level)
        candidates = {"epochs": [spec.resolved["epochs"]], "representations": list(forms)}
        return RowPlan(probes, method=spec.method, settings=spec.resolved, candidates=candidates)

    def measure(self, cell: CellContext) -> RowOutcome:
        """The embedding at the last epoch, and that of the same settings without training.

        Of graphs by both SVMs, and by the better of them in inner folds. Variants of the defaults
        are compared with the defaults alone, and only have what is trained.
        """
        settings = cell.recipe.default_settings()
        spec = TrainingSpec(settings, cell.level)
        untrained = TrainingSpec(replace(settings, epochs=0), cell.level)
        last, own = spec.resolved["epochs"], own_representation(spec)
        end, start = cell.trained(spec, last, own), cell.trained(untrained, 0, own)
        results = {AT_BUDGET: cell.fixed(end)}
        if cell.level == "graph":
            scaling = _preprocessing(spec)
            results |= cell.rbf_results(
                [end], name=FIXED, before=FIXED_WORDS, preprocessing=scaling
            )
        if not cell.recipe.changes:
            results[UNTRAINED] = cell.chosen([start])
            if cell.level == "graph":
                results |= cell.rbf_results([start], name=START, preprocessing=scaling)
            else:
                forms = [cell.trained(spec, last, form) for form in representations(cell.level)]
                results[FORM] = cell.chosen(forms)
        return RowOutcome(results, cell.training_facts(spec))

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """Trained and untrained, by every probe; of nodes also the form of the embedding chosen."""
        if level == "node":
            return [self.headline(level), self.headline(level, trained=False), self.form]
        lines = [
            TableRow(label, self.name, f"{probe}/{selection}")
            for probe in ("linear", "rbf")
            for label, selection in ((self.label, FIXED), (self.start_label, START))
        ]
        return [*lines, self.headline(level), self.headline(level, trained=False)]

    def headline(self, level: Level, *, trained: bool = True) -> TableRow:
        """The line that counts: the linear probe of nodes, the better of both SVMs of graphs."""
        label, selection = (self.label, FIXED) if trained else (self.start_label, START)
        if level == "node":
            return TableRow(label, self.name, f"linear/{selection}", headline=True)
        return TableRow(f"{label}, {EITHER_SVM}", self.name, f"svm/{selection}", headline=True)

    def differences(self, level: Level) -> Sequence[RowDifference]:
        """The gain over no training, over rows without training, and over the paper's settings.

        Propagated features of graphs have the linear SVM alone, and are compared by it.
        """
        ours, start = self.headline(level), self.headline(level, trained=False)
        minus_start = f"{self.label} minus its random-initialised encoder"
        linear, linear_start = (TableRow(self.label, self.name, r) for r in (AT_BUDGET, UNTRAINED))
        minus_propagated = self._minus("propagated", linear, PROPAGATED, CHOSEN)
        if level == "node":
            rows = {"raw": RAW, "propagated": PROPAGATED, PAPER.short: PAPER}
            return [
                RowDifference(minus_start, ours, start),
                *(self._minus(short, ours, row, CHOSEN) for short, row in rows.items()),
                RowDifference(
                    f"{self.label} minus the same, features appended or not chosen", ours, self.form
                ),
            ]
        rows = {k: KERNEL_BASELINES[k] for k in ("raw", "Weisfeiler-Lehman")} | {PAPER.short: PAPER}
        better = [
            RowDifference(minus_start, ours, start),
            *(self._minus(short, ours, row, CHOSEN_SVM) for short, row in rows.items()),
        ]
        by_linear = [RowDifference(minus_start, linear, linear_start), minus_propagated]
        return [
            *(replace(each, label=f"linear or RBF SVM: {each.label}") for each in better),
            *(replace(each, label=f"linear SVM: {each.label}") for each in by_linear),
        ]

    def _minus(self, short: str, ours: TableRow, row: Row, result: str) -> RowDifference:
        other = TableRow(row.label, row.name, result)
        return RowDifference(f"{self.label} minus {short}", ours, other)


DEFAULTS = DefaultsRow()
register(DEFAULTS)
