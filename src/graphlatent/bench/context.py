"""What a row is given to measure itself in a cell: data, trainings and probes.

Cells of the same data set and seed share a `Measurement`, so that nothing is trained or probed
twice. A `CellContext` is one cell's view of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from graphlatent.bench.better_svm import BETTER, BETTER_SELECTION, RBF, better_predictions
from graphlatent.bench.data import DatasetBundle
from graphlatent.bench.probing import Candidate, Predictions, Probes
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.training import Trainings, TrainingSpec
from graphlatent.config import Level
from graphlatent.data.graph import GraphData
from graphlatent.estimator import Estimator
from graphlatent.probes.design import Preprocessing
from graphlatent.probes.linear import best_on_validation, selection_text
from graphlatent.probes.protocol import Protocol, SplitPrediction
from graphlatent.probes.results import ProbeResult
from graphlatent.probes.svm import INNER_FOLDS, SVM_PREPROCESSING, nested_selection_text
from graphlatent.representations import raw_features

PLAIN, CONCAT = "embedding", "embedding + features"
FIXED = (
    "Nothing chosen but the probe's settings, per split on its validation part: the epoch and the"
    " representation are fixed beforehand. "
)
PAPERS_PROBE = (
    "The paper's probe (Adam, epochs and decay of its Table 6), features appended as in the paper; "
)


class Measurement:
    """What was trained and probed so far on one data set and seed.

    Args:
        data: the data.
        seed: of training and folds.
        device: where to train.
        probe_device: where to probe.
    """

    def __init__(
        self,
        data: DatasetBundle,
        *,
        seed: int,
        device: torch.device,
        probe_device: torch.device,
    ) -> None:
        self.data, self.seed = data, seed
        self.device, self.probe_device = device, probe_device
        self.trainings = Trainings(data, seed, device)
        self.probes = Probes(data, seed, probe_device)

    def cell(self, recipe: Recipe) -> CellContext:
        """The context of a cell of this data set."""
        return CellContext(recipe, self)

    @cached_property
    def features(self) -> torch.Tensor:
        """The raw features of nodes, dense, where they are probed."""
        raw: Any = raw_features(self.data.graph, level="node")
        dense = raw.toarray() if hasattr(raw, "toarray") else raw
        return torch.from_numpy(dense).to(self.probe_device)


@dataclass(frozen=True, eq=False)
class CellContext:
    """One cell of one data set and seed.

    Args:
        recipe: of the cell.
        measurement: shared by the cells of the data set and seed.
    """

    recipe: Recipe
    measurement: Measurement

    @property
    def level(self) -> Level:
        """What is classified, "node" or "graph"."""
        return self.recipe.level

    @property
    def data(self) -> DatasetBundle:
        """Graph, labels and splits."""
        return self.measurement.data

    @property
    def seed(self) -> int:
        """Of training and folds."""
        return self.measurement.seed

    @property
    def probes(self) -> Probes:
        """The probes, for predictions that are not chosen on validation."""
        return self.measurement.probes

    def protocol(self, *, released: bool = False) -> Protocol:
        """A new protocol with locked test labels; `released` selects as the released scripts do."""
        return self.data.protocol(self.seed, released=released, budget=self.recipe.labels)

    # -- training

    def train(self, spec: TrainingSpec, epochs: Iterable[int]) -> None:
        """Train once through all of the epochs, not once for each."""
        self.measurement.trainings.train(spec, sorted(set(epochs)))

    def training_facts(self, spec: TrainingSpec) -> Mapping[str, Any]:
        """Epochs, last loss, seconds and peak memory of a training."""
        return self.measurement.trainings.facts(spec)

    def fitted(self, spec: TrainingSpec) -> tuple[Estimator, GraphData]:
        """The estimator after its last epoch, and the graphs that it embeds."""
        return self.measurement.trainings.fitted(spec)

    def trained(self, spec: TrainingSpec, epoch: int, representation: str = PLAIN) -> Candidate:
        """The embedding after an epoch, features appended for `CONCAT`."""

        def rows() -> Any:
            embedding = self.measurement.trainings.embedding(spec, epoch)
            if representation == PLAIN:
                return embedding
            moved = torch.from_numpy(embedding).to(self.measurement.probe_device)
            return torch.cat([moved, self.measurement.features], dim=1)

        return Candidate(f"epoch {epoch}, {representation}", spec.key, rows)

    # -- results

    def final(self, predictions: Sequence[SplitPrediction], *, selection: str) -> ProbeResult:
        """The test scores of predictions; `selection` says how they were chosen."""
        return self.protocol().final(predictions, selection=selection)

    def best_linear(self, candidates: Sequence[Candidate]) -> Predictions:
        """Per split the linear probe's prediction of the candidate that is best on validation."""
        return best_on_validation({c.name: self.probes.linear(c) for c in candidates})

    def chosen(self, candidates: Sequence[Candidate]) -> ProbeResult:
        """The linear probe, everything chosen per split on validation."""
        return self.final(
            self.best_linear(candidates), selection=self.selection(len(candidates) > 1)
        )

    def fixed(self, candidate: Candidate) -> ProbeResult:
        """The linear probe on one candidate, its own settings chosen per split on validation."""
        return self.final(
            self.probes.linear(candidate), selection=FIXED + self.selection(several=False)
        )

    def rbf_results(
        self,
        candidates: Sequence[Candidate],
        *,
        name: str,
        before: str = "",
        preprocessing: Sequence[Preprocessing] = SVM_PREPROCESSING,
    ) -> dict[str, ProbeResult]:
        """The RBF SVM on the candidate that the linear one chose in each fold, and the better.

        Args:
            candidates: that the linear SVM chooses from.
            name: of the selection, the second part of the names of the results.
            before: put before the words of the RBF SVM's selection.
            preprocessing: that the RBF SVM chooses from.
        """
        linear = self.best_linear(candidates)
        names = [prediction.choice.candidate for prediction in linear]
        rows = {c.name: c.make() for c in candidates if c.name in names}
        words = before + nested_selection_text(len(candidates) > 1, "rbf", INNER_FOLDS)
        rbf = self.probes.rbf_of_chosen(rows, names, preprocessing=preprocessing)
        return self.rbf_and_better(linear, rbf, name=name, selection=words)

    def rbf_and_better(
        self, linear: Predictions, rbf: Predictions, *, name: str, selection: str
    ) -> dict[str, ProbeResult]:
        """The results of an RBF SVM, and of the better of it and a linear one in inner folds."""
        better = better_predictions(linear, rbf)
        return {
            f"{RBF}/{name}": self.final(rbf, selection=selection),
            f"{BETTER}/{name}": self.final(better, selection=BETTER_SELECTION),
        }

    def chosen_paper_probe(self, candidates: Sequence[Candidate]) -> ProbeResult:
        """The paper's own probe, the candidate chosen per split on validation."""
        choice = f"per split, the epoch with the highest validation {self.recipe.metric}."
        best = best_on_validation({c.name: self.paper_probe(c) for c in candidates})
        return self.final(best, selection=PAPERS_PROBE + choice)

    def paper_probe(self, candidate: Candidate) -> Predictions:
        """The predictions of the paper's own probe on one candidate."""
        evaluation = self.recipe.evaluation
        assert evaluation.probe_epochs is not None
        assert evaluation.probe_weight_decay is not None
        return self.probes.adam(
            candidate,
            epochs=evaluation.probe_epochs,
            weight_decay=evaluation.probe_weight_decay,
        )

    def selection(self, several: bool) -> str:
        """How the linear probe selects, in words; `several`: out of more than one candidate."""
        if self.level == "graph":
            return nested_selection_text(several, "linear", INNER_FOLDS)
        return selection_text(several, self.recipe.metric)
