"""Rows of tables about few labels: an encoder fine-tuned with a head on the labelled graphs.

The encoder starts random-initialised or pre-trained, on all graphs and without labels. Learning
rate and number of epochs are the paper's grid (appendix D), chosen per split on validation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from graphlatent.bench.context import CellContext
from graphlatent.bench.probing import Predictions, linear_grid
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import (
    CHOSEN,
    PUBLISHED,
    Row,
    RowDifference,
    RowOutcome,
    RowPlan,
    TableRow,
    register,
)
from graphlatent.bench.rows.untrained import TRAINING_ONLY
from graphlatent.bench.training import TrainingSpec
from graphlatent.config import Level
from graphlatent.data.graph import GraphData
from graphlatent.estimator import Estimator
from graphlatent.finetuning.labels import PartialLabels, label_weights, read_labels
from graphlatent.finetuning.settings import FineTuneSettings
from graphlatent.finetuning.tuner import FineTuner, State, tunable_copy
from graphlatent.probes.design import PREPROCESSING
from graphlatent.probes.linear import (
    L2_GRID,
    checked_settings,
    linear_predictions,
    selection_text,
)
from graphlatent.probes.metrics import accuracy
from graphlatent.probes.protocol import SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice
from graphlatent.representations import raw_features

LR, EPOCHS = (1e-3, 1e-4, 1e-5), (5, 10, 15, 20)
"""The paper's grid."""
BATCH_SIZE = 32
"""Ours: the paper does not give it."""
FROM_ZERO, FROM_PROBE = "finetune/validation", "probe-finetune/validation"
BLOCK = "Fine-tuned, the head from 0"
PROBE_BLOCK = "Fine-tuned, the head from a linear probe"
FROZEN_BLOCK = "Frozen, logistic regression"
GRID_WORDS = (
    "Per split, learning rate (1e-3, 1e-4, 1e-5) and epochs (5, 10, 15, 20) with the highest"
    " validation accuracy; among equals the lowest validation loss, then the one named first. The"
    " test labels of a split are read once, after its choice."
)


@dataclass(frozen=True)
class _Candidate:
    """What one setting of the grid reached."""

    lr: float
    epochs: int
    val_score: float
    val_loss: float
    state: tuple[State, State]

    @property
    def rank(self) -> tuple[float, float]:
        return self.val_score, -self.val_loss


class FewRawRow(Row):
    """The summed raw features, by logistic regression on the labelled graphs."""

    name, label, levels = "few-raw", "raw features, summed", ("graph",)

    def plan(self, recipe: Recipe) -> RowPlan:
        """The linear probe."""
        return RowPlan({"linear": linear_grid("node")})

    def measure(self, cell: CellContext) -> RowOutcome:
        """The features as they are."""
        rows = raw_features(cell.data.graph, level="graph")
        words = selection_text(False, cell.recipe.metric)
        return RowOutcome({CHOSEN: cell.final(_probed(cell, rows), selection=words)})

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """The linear probe."""
        return [TableRow(self.label, self.name, CHOSEN, headline=True, block=FROZEN_BLOCK)]


class FineTunedRow(Row):
    """An encoder frozen, and fine-tuned from a head of zeros and from a linear probe.

    Args:
        name: of the row.
        label: as tables call it.
        settings: of the pre-training of a recipe.
        trained: False for the same encoder random-initialised.
        uses_defaults: whether the settings are our defaults.
        minus: differences from other rows: label and row.
        printed: whether the paper prints numbers of the row that are not LaGraph's.
    """

    levels = ("graph",)

    def __init__(
        self,
        name: str,
        label: str,
        settings: Callable[[Recipe], Any],
        *,
        trained: bool,
        uses_defaults: bool,
        minus: Sequence[tuple[str, str]] = (),
        printed: bool = False,
    ) -> None:
        self.name, self.label, self.uses_defaults = name, label, uses_defaults
        self._settings, self.trained, self._minus, self._printed = settings, trained, minus, printed

    def spec(self, recipe: Recipe) -> TrainingSpec:
        """The pre-training; none for a random-initialised encoder."""
        settings = self._settings(recipe)
        return TrainingSpec(settings if self.trained else replace(settings, epochs=0), recipe.level)

    def plan(self, recipe: Recipe) -> RowPlan:
        """The settings of the encoder, and the grid of fine-tuning."""
        spec = self.spec(recipe)
        unused = () if self.trained else TRAINING_ONLY
        grid = {"lr": list(LR), "epochs": list(EPOCHS), "batch_size": BATCH_SIZE}
        return RowPlan(
            {"linear": linear_grid("node"), "finetune": grid},
            method=spec.method,
            settings={name: v for name, v in spec.resolved.items() if name not in unused},
        )

    def measure(self, cell: CellContext) -> RowOutcome:
        """The frozen embedding by logistic regression, and both ways of fine-tuning."""
        spec = self.spec(cell.recipe)
        estimator, graph = cell.fitted(spec)
        rows = estimator.transform(graph)
        words = selection_text(False, cell.recipe.metric)
        results = {CHOSEN: cell.final(_probed(cell, rows), selection=words)}
        encoded = estimator._encoded(graph, estimator.features_, estimator.settings_)
        for name, probe in ((FROM_ZERO, False), (FROM_PROBE, True)):
            settings = FineTuneSettings(
                linear_probe=probe, batch_size=BATCH_SIZE, random_state=cell.seed
            )
            tune = partial(
                _tuned, estimator=estimator, encoded=encoded, rows=rows, settings=settings
            )
            predictions = cell.protocol().choose(tune)
            results[name] = cell.final(predictions, selection=GRID_WORDS)
        return RowOutcome(results, cell.training_facts(spec) if self.trained else {})

    def table_rows(self, level: Level) -> Sequence[TableRow]:
        """One line in each block; the printed number of a random initialisation in the first."""
        lines = [
            TableRow(self.label, self.name, FROM_ZERO, headline=True, block=BLOCK),
            TableRow(self.label, self.name, FROM_PROBE, block=PROBE_BLOCK),
            TableRow(self.label, self.name, CHOSEN, block=FROZEN_BLOCK),
        ]
        label = "random initialisation, published"
        above = TableRow(label, self.name, PUBLISHED, headline=True, block=BLOCK)
        return [above, *lines] if self._printed else lines

    def differences(self, level: Level) -> Sequence[RowDifference]:
        """From other rows by both ways of fine-tuning, from frozen, and from raw features."""
        ways = (("from 0", FROM_ZERO), ("from a probe", FROM_PROBE))
        found = [
            RowDifference(
                f"head {way}: {label}",
                TableRow(self.label, self.name, result),
                TableRow(other, other, result),
            )
            for way, result in ways
            for label, other in self._minus
        ]
        frozen = TableRow(self.label, self.name, CHOSEN)
        found += [
            RowDifference(
                f"{self.label}: fine-tuned, head {way}, minus frozen",
                TableRow(self.label, self.name, result),
                frozen,
            )
            for way, result in ways
        ]
        raw = TableRow(FewRawRow.label, FewRawRow.name, CHOSEN)
        names = ((CHOSEN, "frozen"), (FROM_PROBE, "fine-tuned, head from a probe"))
        return found + [
            RowDifference(
                f"{self.label}: {name}, minus raw features",
                TableRow(self.label, self.name, result),
                raw,
            )
            for result, name in names
        ]


def _probed(cell: CellContext, rows: Any) -> Predictions:
    """Logistic regression on frozen rows, its settings chosen on validation."""
    settings = checked_settings(L2_GRID, PREPROCESSING, owner="bench")
    found = linear_predictions({"": rows}, cell.protocol(), settings=settings)
    return found[""]


def _tuned(
    part: VisibleSplit,
    *,
    estimator: Estimator,
    encoded: GraphData,
    rows: Any,
    settings: FineTuneSettings,
) -> SplitPrediction:
    """The prediction of the setting of the grid that is best on validation."""
    labels = _visible_labels(part, num_rows=len(rows))
    weights = label_weights(labels, part.train, None, owner="bench")
    best: _Candidate | None = None
    embedded = torch.from_numpy(rows)
    for lr in LR:
        tuner = FineTuner(
            tunable_copy(estimator),
            encoded,
            labels,
            part.train,
            weights,
            replace(settings, lr=lr),
            rows=embedded.to(next(estimator.model_.parameters()).device),
        )
        if settings.linear_probe:
            tuner.fit_probe(part.val)
        for epoch in range(1, max(EPOCHS) + 1):
            tuner.run_epoch()
            if epoch not in EPOCHS:
                continue
            predicted = labels.classes[tuner.logits(part.val).argmax(1).cpu().numpy()]
            score = accuracy(part.val_labels, predicted)
            found = _Candidate(lr, epoch, score, tuner.loss(part.val), tuner.state())
            if best is None or found.rank > best.rank:
                best = found
    assert best is not None
    tuner.restore(best.state)
    predicted = labels.classes[tuner.logits(part.test).argmax(1).cpu().numpy()]
    choice = Choice("", {"lr": best.lr, "epochs": best.epochs}, best.val_score)
    return SplitPrediction(choice, predicted)


def _visible_labels(part: VisibleSplit, *, num_rows: int) -> PartialLabels:
    """The training and validation labels; those of all other rows are missing."""
    y = np.full(num_rows, -1, dtype=part.train_labels.dtype)
    y[part.train], y[part.val] = part.train_labels, part.val_labels
    return read_labels(y, num_rows=num_rows, of="graph", owner="bench")


def _paper(recipe: Recipe) -> Any:
    """The paper's settings, with as many epochs as without labels."""
    return replace(recipe.settings(), epochs=recipe.evaluation.budget)


def _defaults(recipe: Recipe) -> Any:
    return recipe.default_settings()


register(
    FineTunedRow(
        "finetune-random",
        "the paper's encoder, random-initialised",
        _paper,
        trained=False,
        uses_defaults=False,
        printed=True,
    )
)
register(
    FineTunedRow(
        "finetune-paper",
        "the paper's pre-training",
        _paper,
        trained=True,
        uses_defaults=False,
        minus=[("the paper's pre-training minus random initialisation", "finetune-random")],
    )
)
register(
    FineTunedRow(
        "finetune-defaults-random",
        "the encoder of our defaults, random-initialised",
        _defaults,
        trained=False,
        uses_defaults=True,
        minus=[("the encoder of our defaults minus the paper's, both random", "finetune-random")],
    )
)
register(
    FineTunedRow(
        "finetune-defaults",
        "pre-training with our defaults",
        _defaults,
        trained=True,
        uses_defaults=True,
        minus=[
            ("our pre-training minus its random initialisation", "finetune-defaults-random"),
            ("our pre-training minus the paper's", "finetune-paper"),
        ],
    )
)
register(FewRawRow())
