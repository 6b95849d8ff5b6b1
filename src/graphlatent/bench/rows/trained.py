"""What rows of trained methods have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphlatent.bench.context import CONCAT, PLAIN, CellContext
from graphlatent.bench.probing import Candidate
from graphlatent.bench.rows.base import AT_BUDGET, CHOSEN, UNTRAINED
from graphlatent.bench.training import TrainingSpec
from graphlatent.config import Level
from graphlatent.probes.results import ProbeResult


def representations(level: Level) -> tuple[str, ...]:
    """The forms of an embedding that a split may choose from."""
    return (PLAIN, CONCAT) if level == "node" else (PLAIN,)


def own_representation(spec: TrainingSpec) -> str:
    """The form of the embedding that the settings ask for."""
    return CONCAT if spec.appends_features else PLAIN


def trained_candidates(
    cell: CellContext, spec: TrainingSpec, epochs: Sequence[int]
) -> list[Candidate]:
    """Every epoch in every form; the training is done once to all epochs."""
    cell.train(spec, epochs)
    return [cell.trained(spec, e, form) for e in epochs for form in representations(cell.level)]


def measure_trained(
    cell: CellContext, spec: TrainingSpec, *, epochs: Sequence[int], budget: int
) -> dict[str, ProbeResult]:
    """The linear probe of one training.

    Returns:
        Epoch and form chosen per split on validation; the budget's epoch in the form that the
        settings ask for; the same before training.
    """
    own = own_representation(spec)
    start = TrainingSpec(replace(spec.settings, epochs=0), cell.level, spec.method)
    return {
        CHOSEN: cell.chosen(trained_candidates(cell, spec, epochs)),
        AT_BUDGET: cell.fixed(cell.trained(spec, budget, own)),
        UNTRAINED: cell.chosen([cell.trained(start, 0, own)]),
    }
