"""Rows that need no training: raw features, propagated features, and the untrained encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphlatent.bench.context import CONCAT, CellContext
from graphlatent.bench.probing import Candidate, linear_grid, paper_probe, rbf_grid
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import (
    AT_BUDGET,
    CHOSEN,
    CHOSEN_PAPER_PROBE,
    SVM_BLOCK,
    VALIDATION,
    Row,
    RowOutcome,
    RowPlan,
    TableRow,
    register,
    svm_lines,
)
from graphlatent.bench.rows.trained import own_representation, representations
from graphlatent.bench.training import TrainingSpec
from graphlatent.config import Level
from graphlatent.representations import propagated_features, raw_features

# Settings that a model without any training step does not depend on; a test checks this.
TRAINING_ONLY = (
    "diagnostics",
    "on_collapse",
    "select",
    "epochs",
    "lr",
    "optimizer",
    "weight_decay",
    "schedule",
    "warmup_ratio",
    "patience",
    "alpha",
    "reconstruction_weight",
    "masked_weight",
    "latent_weight",
    "variance_weight",
    "momentum",
    "edge_drop",
    "feature_drop",
    "invariance_on",
    "mask_ratio",
    "mask_value",
    "noise_std",
    "mask_rounding",
    "loss_reduction",
    "engine",
    "batching",
    "nodes_per_step",
    "steps_per_epoch",
    "num_neighbors",
    "parts_per_step",
    "batch_size",
)


class RawRow(Row):
    """The raw features; of graphs their sums."""

    name, label, seeded = "raw", "raw features", False

    def plan(self, recipe: Recipe) -> RowPlan:
        """The linear probe; of graphs the RBF SVM too."""
        probes: dict[str, Any] = {"linear": linear_grid(recipe.level)}
        if recipe.level == "graph":
            probes["rbf"] = rbf_grid()
        return RowPlan(probes)

    def measure(self, cell: CellContext) -> RowOutcome:
        """The features as they are; for tables of labels also what no label at all scores."""
        make = partial(raw_features, cell.data.graph, level=cell.level)
        candidate = Candidate("X", self.name, make)
        results = {CHOSEN: cell.chosen([candidate])}
        if cell.data.labels.ndim == 2:
            results["zeros/fixed"] = cell.final(
                cell.probes.zeros(), selection="Nothing is chosen, and no label is ever given."
            )
        if cell.level == "graph":
            results |= cell.rbf_results([candidate], name=VALIDATION)
        return RowOutcome(results)

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """The linear probe; at graph level also the RBF SVM, and the better of both."""
        return svm_lines(self) if level == "graph" else super().table_rows(level)


class PropagatedRow(Row):
    """Features averaged over two hops: the second alone, or all side by side."""

    name, label, seeded = "propagated", "propagated features", False

    def plan(self, recipe: Recipe) -> RowPlan:
        """The linear probe."""
        return RowPlan({"linear": linear_grid(recipe.level)})

    def measure(self, cell: CellContext) -> RowOutcome:
        """A split chooses one of the two forms."""
        make = partial(propagated_features, cell.data.graph, level=cell.level)
        candidates = [
            Candidate("A^2 X", self.name, make),
            Candidate("X, AX, A^2 X", self.name, partial(make, concat=True)),
        ]
        return RowOutcome({CHOSEN: cell.chosen(candidates)})

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """The linear probe; of graphs the linear SVM alone, shown beside those that may choose."""
        if level == "node":
            return super().table_rows(level)
        alone = f"{self.label}, linear SVM alone"
        return [
            TableRow(self.label, self.name, CHOSEN),
            TableRow(alone, self.name, CHOSEN, headline=True, block=SVM_BLOCK),
        ]


class RandomRow(Row):
    """The paper's encoder with its initial weights."""

    name, label = "random", "random-initialised encoder"
    appended = TableRow(
        "random-initialised encoder, features appended as in the paper", "random", AT_BUDGET
    )

    def plan(self, recipe: Recipe) -> RowPlan:
        """The settings that an untrained encoder depends on."""
        spec = TrainingSpec(recipe.settings(), recipe.level)
        probes: dict[str, Any] = {"linear": linear_grid(recipe.level)}
        if recipe.level == "graph":
            probes["rbf"] = rbf_grid()
        else:
            probes["paper-probe"] = paper_probe(recipe)
        settings = {k: v for k, v in spec.resolved.items() if k not in TRAINING_ONLY}
        return RowPlan(
            probes,
            method=spec.method,
            settings=settings,
            candidates={"representations": list(representations(recipe.level))},
        )

    def measure(self, cell: CellContext) -> RowOutcome:
        """No training step; both forms of the embedding, and the paper's."""
        spec = TrainingSpec(replace(cell.recipe.settings(), epochs=0), cell.level)
        candidates = [cell.trained(spec, 0, form) for form in representations(cell.level)]
        own = cell.trained(spec, 0, own_representation(spec))
        results = {CHOSEN: cell.chosen(candidates), AT_BUDGET: cell.fixed(own)}
        if cell.level == "graph":
            results |= cell.rbf_results(candidates, name=VALIDATION)
        else:
            appended = cell.trained(spec, 0, CONCAT)
            results[CHOSEN_PAPER_PROBE] = cell.chosen_paper_probe([appended])
        return RowOutcome(results)

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """Chosen on validation; of nodes also as the paper's embedding is probed."""
        return svm_lines(self) if level == "graph" else [*super().table_rows(level), self.appended]


RAW, PROPAGATED, RANDOM = register(RawRow()), register(PropagatedRow()), RandomRow()
register(RANDOM)
