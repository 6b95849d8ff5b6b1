"""Rows of LaGraph: as in the paper, as in the released scripts, and tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from graphlatent.bench.context import CONCAT, CellContext
from graphlatent.bench.probing import linear_grid, paper_probe, rbf_grid
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import (
    AT_BUDGET,
    CHOSEN,
    CHOSEN_PAPER_PROBE,
    CHOSEN_RBF,
    CHOSEN_SVM,
    VALIDATION,
    Row,
    RowDifference,
    RowOutcome,
    RowPlan,
    TableRow,
    register,
    svm_lines,
)
from graphlatent.bench.rows.trained import own_representation, representations
from graphlatent.bench.rows.untrained import PROPAGATED, RANDOM, RAW
from graphlatent.bench.rows.weisfeiler_lehman import WEISFEILER_LEHMAN
from graphlatent.bench.training import TrainingSpec
from graphlatent.config import Level
from graphlatent.probes.linear import best_on_validation
from graphlatent.probes.protocol import ReleasedProtocol

GRID: Mapping[str, tuple[float, ...]] = {
    "lr": (1e-5, 1e-4, 1e-3),
    "alpha": (0.1, 1.0, 10.0),
    "epochs": (5, 20, 50),
}
"""What the tuned row chooses from, besides no training at all."""


KERNEL_BASELINES: Mapping[str, Row] = {
    "random-initialised": RANDOM,
    "raw": RAW,
    "Weisfeiler-Lehman": WEISFEILER_LEHMAN,
}
"""Rows of graphs without training that have both SVMs, by short name."""


class PaperRow(Row):
    """The paper's settings, with ours where the paper says nothing."""

    name, label = "paper", "LaGraph as in the paper, chosen on validation"
    short = "LaGraph as in the paper"
    fixed = TableRow("LaGraph as in the paper, fixed epochs", "paper", AT_BUDGET)
    own_probe = TableRow(
        "LaGraph as in the paper, the paper's own probe, chosen on validation",
        "paper",
        CHOSEN_PAPER_PROBE,
    )

    def plan(self, recipe: Recipe) -> RowPlan:
        """Ablations keep the representation of their recipe, and use the linear probe alone."""
        spec = TrainingSpec(recipe.settings(), recipe.level)
        probes: dict[str, Any] = {"linear": linear_grid(recipe.level)}
        if not recipe.is_ablation:
            probes |= (
                {"rbf": rbf_grid()}
                if recipe.level == "graph"
                else {"paper-probe": paper_probe(recipe)}
            )
        candidates = {
            "epochs": list(recipe.evaluation.epochs),
            "budget": recipe.evaluation.budget,
            "representations": list(self._representations(recipe, spec)),
        }
        return RowPlan(probes, method=spec.method, settings=spec.resolved, candidates=candidates)

    def measure(self, cell: CellContext) -> RowOutcome:
        """One training, probed after every epoch of the evaluation."""
        recipe, evaluation = cell.recipe, cell.recipe.evaluation
        spec = TrainingSpec(recipe.settings(), cell.level)
        cell.train(spec, evaluation.epochs)
        forms = self._representations(recipe, spec)
        candidates = [cell.trained(spec, e, form) for e in evaluation.epochs for form in forms]
        own = cell.trained(spec, evaluation.budget, own_representation(spec))
        results = {CHOSEN: cell.chosen(candidates), AT_BUDGET: cell.fixed(own)}
        if not recipe.is_ablation:
            if cell.level == "graph":
                results |= cell.rbf_results(candidates, name=VALIDATION)
            else:
                appended = [cell.trained(spec, e, CONCAT) for e in evaluation.epochs]
                results[CHOSEN_PAPER_PROBE] = cell.chosen_paper_probe(appended)
        return RowOutcome(results, cell.training_facts(spec))

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """Chosen on validation and at fixed epochs; by the paper's own probe or both SVMs."""
        if level == "node":
            return [*super().table_rows(level), self.fixed, self.own_probe]
        linear, *others = svm_lines(self, self.short)
        return [linear, self.fixed, *others]

    def differences(self, level: Level) -> Sequence[RowDifference]:
        """The gain from training over rows without training, for each probe."""
        untrained = {"random-initialised": RANDOM, "propagated": PROPAGATED, "raw": RAW}
        before = "linear SVM: " if level == "graph" else ""
        gains = [
            self._gain(f"{before}{self.short} minus {short}", CHOSEN, row)
            for short, row in untrained.items()
        ]
        if level == "graph":
            return (
                gains
                + [
                    self._gain(f"RBF SVM: {self.short} minus {short}", CHOSEN_RBF, untrained[short])
                    for short in ("random-initialised", "raw")
                ]
                + [
                    self._gain(f"linear or RBF SVM: {self.short} minus {short}", CHOSEN_SVM, row)
                    for short, row in KERNEL_BASELINES.items()
                ]
            )
        appended = "fixed epochs minus random-initialised, features appended to both"
        probed = (
            f"{self.short} minus random-initialised, the paper's own probe, features appended to"
            " both"
        )
        return [
            *gains,
            self._gain(appended, AT_BUDGET, RANDOM),
            self._gain(probed, CHOSEN_PAPER_PROBE, RANDOM),
        ]

    def _gain(self, label: str, result: str, other: Row) -> RowDifference:
        first, second = (TableRow(row.label, row.name, result) for row in (self, other))
        return RowDifference(label, first, second)

    @staticmethod
    def _representations(recipe: Recipe, spec: TrainingSpec) -> tuple[str, ...]:
        if recipe.is_ablation:
            return (own_representation(spec),)
        return representations(recipe.level)


class ReleasedRow(Row):
    """The released scripts: their settings, their probe, the epoch chosen on TEST labels."""

    name, label = "released", "released preset, released protocol: chosen on TEST"
    honest_label = "released preset, the same chosen on validation"

    def plan(self, recipe: Recipe) -> RowPlan:
        """The scripts' settings and epochs."""
        spec = TrainingSpec(recipe.released_settings(), recipe.level)
        probe = (
            {"paper-probe": paper_probe(recipe)}
            if recipe.level == "node"
            else {"rbf": rbf_grid(preprocessing=("none",))}
        )
        return RowPlan(
            probe,
            method=spec.method,
            settings=spec.resolved,
            candidates={"epochs": self._epochs(recipe, spec)},
        )

    def measure(self, cell: CellContext) -> RowOutcome:
        """The best mean test score over epochs, and beside it the same chosen on validation."""
        spec = TrainingSpec(cell.recipe.released_settings(), cell.level)
        epochs = self._epochs(cell.recipe, spec)
        cell.train(spec, epochs)
        candidates = [cell.trained(spec, e, own_representation(spec)) for e in epochs]
        if cell.level == "node":
            probe, described = "paper-probe", "the epoch"
            predictions = {c.name: cell.paper_probe(c) for c in candidates}
        else:
            probe, described = "rbf", "the epoch (C chosen in inner folds of the training part)"
            predictions = {c.name: cell.probes.rbf(c, preprocessing=("none",)) for c in candidates}
        protocol = cell.protocol(released=True)
        assert isinstance(protocol, ReleasedProtocol)
        honest = "The same candidates; per split, the epoch with the highest validation score."
        results = {
            f"{probe}/test": protocol.best_on_test(predictions, selection=described),
            f"{probe}/validation": cell.final(best_on_validation(predictions), selection=honest),
        }
        return RowOutcome(results, cell.training_facts(spec))

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """On test labels, then on validation."""
        probe = self._probe(level)
        return [
            TableRow(self.label, self.name, f"{probe}/test"),
            TableRow(self.honest_label, self.name, f"{probe}/validation"),
        ]

    def differences(self, level: Level) -> Sequence[RowDifference]:
        """What looking at test labels brings."""
        on_test, honest = self.table_rows(level)
        paper = TableRow(PAPER.label, PAPER.name, f"{self._probe(level)}/validation")
        difference = "same probe" if level == "node" else "theirs without scaling"
        return [
            RowDifference(
                f"released, chosen on TEST, minus {PAPER.short} ({difference})", on_test, paper
            ),
            RowDifference(
                "released, chosen on TEST, minus the same chosen on validation", on_test, honest
            ),
        ]

    @staticmethod
    def _probe(level: Level) -> str:
        return "paper-probe" if level == "node" else "rbf"

    @staticmethod
    def _epochs(recipe: Recipe, spec: TrainingSpec) -> list[int]:
        last = spec.resolved["epochs"]
        return [*(e for e in recipe.evaluation.epochs if e < last), last]


class TunedRow(Row):
    """The paper's model, with learning rate, alpha and epochs (or no training) out of a grid."""

    name = "tuned"
    label = "LaGraph, learning rate x alpha x epochs (or no training) chosen on validation"

    def plan(self, recipe: Recipe) -> RowPlan:
        """The paper's settings without those that the grid replaces."""
        spec = TrainingSpec(recipe.settings(), recipe.level)
        settings = {k: v for k, v in spec.resolved.items() if k not in GRID}
        grid = {**{k: list(v) for k, v in GRID.items()}, "epochs": self._epochs(spec)}
        return RowPlan(
            {"linear": linear_grid(recipe.level)},
            method=spec.method,
            settings=settings,
            candidates={**grid, "representations": [own_representation(spec)]},
        )

    def measure(self, cell: CellContext) -> RowOutcome:
        """Every combination is a candidate; epoch 0 is one of them."""
        settings = cell.recipe.settings()
        paper = TrainingSpec(settings, cell.level)
        form, epochs = own_representation(paper), self._epochs(paper)
        start = TrainingSpec(replace(settings, epochs=0), cell.level)
        found = {"no training": cell.trained(start, 0, form)}
        for lr, alpha in product(GRID["lr"], GRID["alpha"]):
            spec = TrainingSpec(replace(settings, lr=lr, alpha=alpha), cell.level)
            cell.train(spec, epochs)
            found |= {
                f"lr {lr:g}, alpha {alpha:g}, epoch {e}": cell.trained(spec, e, form)
                for e in epochs
            }
        renamed = {
            name: tuple(
                replace(prediction, choice=replace(prediction.choice, candidate=name))
                for prediction in cell.probes.linear(candidate)
            )
            for name, candidate in found.items()
        }
        best = best_on_validation(renamed)
        return RowOutcome({CHOSEN: cell.final(best, selection=cell.selection(several=True))})

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """Chosen on validation."""
        return [TableRow(self.label, self.name, CHOSEN)]

    def differences(self, level: Level) -> Sequence[RowDifference]:
        """What the choice brings over no training."""
        before = "linear SVM: " if level == "graph" else ""
        label = f"{before}learning rate x alpha x epochs chosen, minus random-initialised"
        start = TableRow(RANDOM.label, RANDOM.name, CHOSEN)
        return [RowDifference(label, TableRow(self.label, self.name, CHOSEN), start)]

    @staticmethod
    def _epochs(spec: TrainingSpec) -> list[int]:
        return [int(e) for e in GRID["epochs"] if e <= spec.resolved["epochs"]]


PAPER = PaperRow()
for _row in (PAPER, ReleasedRow(), TunedRow()):
    register(_row)
