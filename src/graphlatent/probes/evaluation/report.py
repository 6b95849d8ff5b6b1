"""The report of a probe: scores, how they were measured and selected, and advice."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphlatent.probes.evaluation.advice import advice
from graphlatent.probes.evaluation.comparison import EMBEDDINGS, ProbeComparison
from graphlatent.probes.evaluation.evaluate import evaluate, split_notes
from graphlatent.probes.evaluation.labels import ProbeLabels
from graphlatent.probes.evaluation.plan import EvaluationPlan
from graphlatent.probes.evaluation.score_tables import ScoreTable, score_tables
from graphlatent.probes.evaluation.tasks import ProbeTask


@dataclass(frozen=True, eq=False, repr=False)
class ProbeReport:
    """What a probe of embeddings, and of the baselines beside them, has measured.

    Printed it is a text, in a notebook a table. `comparison` holds every score.

    Args:
        comparison: results by representation, metric and seed.
        plan: the kind of probe and its splits.
        labels: what was predicted.
        notes: what was left out or used, in words.
    """

    comparison: ProbeComparison
    plan: EvaluationPlan
    labels: ProbeLabels
    notes: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The kind of probe and the number of rows."""
        kind = "ridge regression" if self.labels.task == "regression" else f"{self.plan.kind} probe"
        return f"{kind} of {len(self.labels.values):,} rows"

    @property
    def advice(self) -> str | None:
        """One sentence on what the scores say; None where nothing stands beside the embeddings.

        By the main metric; where one of two classes is rare, by AUC.
        """
        metrics = self.comparison.results[EMBEDDINGS]
        rare = self.labels.is_imbalanced and "AUC" in metrics
        return advice(self.comparison, metric="AUC" if rare else None)

    @property
    def tables(self) -> list[ScoreTable]:
        """A table for each metric."""
        return score_tables(self.comparison)

    @property
    def sentences(self) -> list[str]:
        """What was measured on, how settings were selected, and the advice."""
        told = [
            f"Measured on {self.plan.description}.",
            f"How it was selected: {self.comparison.selection}{self._own_choices()}",
        ]
        return told if self.advice is None else [*told, f"Advice: {self.advice}"]

    def _own_choices(self) -> str:
        """A sentence on the metrics that have chosen settings of their own."""
        ours, main = self.comparison.results[EMBEDDINGS], self.comparison.selection
        own = [name for name, results in ours.items() if results[0].selection != main]
        return f" What is shown of {' and '.join(own)} was chosen by that score." if own else ""

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values, for JSON."""
        return {
            "notes": list(self.notes),
            "kind": self.plan.kind,
            "task": self.labels.task,
            "positive": self.labels.positive,
            "metric": self.comparison.metric,
            "measured_on": self.plan.description,
            "selection": self.comparison.selection,
            "label": list(self.labels.names),
            "rows": len(self.labels.values),
            "sizes": self.labels.counts,
            "advice": self.advice,
            **self.comparison.to_dict(),
        }

    def __repr__(self) -> str:
        tables = [table.to_text() for table in self.tables]
        notes = [f"note: {note}" for note in self.notes]
        return "\n\n".join([self.title, *tables, "\n".join([*self.sentences, *notes])])

    def _repr_html_(self) -> str:
        tables = "".join(table.to_html() for table in self.tables)
        notes = [f"note: {note}" for note in self.notes]
        told = "".join(f"<p>{html.escape(text)}</p>" for text in [*self.sentences, *notes])
        return f"<p><b>{html.escape(self.title)}</b></p>{tables}{told}"


@dataclass(frozen=True, eq=False)
class PreparedProbe:
    """A probe whose splits are drawn and checked, before anything is computed.

    Args:
        task: representations and labels.
        plan: of the probe.
        splits: of every seed.
    """

    task: ProbeTask
    plan: EvaluationPlan
    splits: Sequence[Any]

    @classmethod
    def of(cls, task: ProbeTask, plan: EvaluationPlan) -> PreparedProbe:
        """Draw the splits. Raises as `EvaluationPlan.splits` does."""
        return cls(task, plan, plan.splits(task.labels))

    @property
    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        labels = self.task.labels
        return [*self.task.notes, *labels.notes, *split_notes(labels, self.plan, self.splits)]

    def run(
        self, *, baselines: bool, progress: Callable[[str], object] | None = None
    ) -> ProbeReport:
        """Measure; with `baselines` also predictions that look at no row.

        Args:
            baselines: whether there are any.
            progress: is called with a few words before each representation.
        """
        comparison = evaluate(
            self.task.representations,
            self.task.labels,
            self.plan,
            splits=self.splits,
            constant=baselines,
            progress=progress,
        )
        return ProbeReport(comparison, self.plan, self.task.labels, self.notes)
