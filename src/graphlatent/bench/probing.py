"""Probes of one data set and seed, each candidate probed once, and what they choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch

from graphlatent.bench.data import Array, DatasetBundle
from graphlatent.bench.recipe import Recipe
from graphlatent.config import Level
from graphlatent.probes.adam import adam_predictions
from graphlatent.probes.design import PREPROCESSING, Preprocessing
from graphlatent.probes.kernel_svm import Kernel, kernel_predictions
from graphlatent.probes.linear import L2_GRID, checked_settings, linear_predictions
from graphlatent.probes.protocol import SplitPrediction
from graphlatent.probes.rbf import RBF_C, rbf_predictions
from graphlatent.probes.results import Choice
from graphlatent.probes.svm import (
    INNER_FOLDS,
    SVM_L2_GRID,
    SVM_PREPROCESSING,
    inner_splits,
    svm_predictions,
)

Predictions: TypeAlias = tuple[SplitPrediction, ...]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A representation that a split may choose.

    Args:
        name: as records call it, such as "epoch 10, embedding".
        source: what it is made from; with the name it says which representation it is.
        make: returns its rows.
    """

    name: str
    source: str
    make: Callable[[], Any]


def linear_grid(level: Level) -> dict[str, Any]:
    """What the linear probe of a level chooses from, in plain values."""
    if level == "node":
        return {"l2": list(L2_GRID), "preprocessing": list(PREPROCESSING)}
    return {
        "l2": list(SVM_L2_GRID),
        "preprocessing": list(SVM_PREPROCESSING),
        "inner_folds": INNER_FOLDS,
    }


def rbf_grid(preprocessing: Sequence[Preprocessing] = SVM_PREPROCESSING) -> dict[str, Any]:
    """What the RBF SVM chooses from, in plain values."""
    return {"C": list(RBF_C), "preprocessing": list(preprocessing), "inner_folds": INNER_FOLDS}


def kernel_grid() -> dict[str, Any]:
    """What an SVM on a precomputed kernel chooses from, in plain values."""
    return {"C": list(RBF_C), "inner_folds": INNER_FOLDS}


def paper_probe(recipe: Recipe) -> dict[str, Any]:
    """The settings of the paper's own probe, in plain values."""
    assert recipe.evaluation.probe_epochs is not None
    assert recipe.evaluation.probe_weight_decay is not None
    return {
        "epochs": recipe.evaluation.probe_epochs,
        "weight_decay": float(recipe.evaluation.probe_weight_decay),
    }


@dataclass(eq=False)
class Probes:
    """Predictions of probes, each computed the first time it is needed.

    Args:
        data: labels and splits.
        seed: of folds, and of the paper's own probe.
        device: where to compute.
    """

    data: DatasetBundle
    seed: int
    device: torch.device
    _predictions: dict[tuple[str, str, str], Predictions] = field(default_factory=dict)

    def linear(self, candidate: Candidate) -> Predictions:
        """Logistic regression of nodes, a linear SVM in nested folds of graphs."""
        return self._once("linear", candidate, lambda: self._linear(candidate))

    def adam(self, candidate: Candidate, *, epochs: int, weight_decay: float) -> Predictions:
        """The paper's own probe of nodes."""

        def probe() -> Predictions:
            return adam_predictions(
                {candidate.name: candidate.make()},
                self.data.protocol(self.seed),
                epochs=epochs,
                weight_decay=weight_decay,
                seed=self.seed,
                device=self.device,
            )[candidate.name]

        return self._once(f"adam {epochs} {weight_decay}", candidate, probe)

    def rbf(self, candidate: Candidate, *, preprocessing: Sequence[Preprocessing]) -> Predictions:
        """An RBF SVM on the same candidate in every fold."""

        def probe() -> Predictions:
            names = [candidate.name] * len(self.data.protocol(self.seed).splits)
            rows = {candidate.name: candidate.make()}
            return self.rbf_of_chosen(rows, names, preprocessing=preprocessing)

        return self._once(f"rbf {tuple(preprocessing)}", candidate, probe)

    def rbf_of_chosen(
        self,
        rows: Mapping[str, Any],
        names: Sequence[str],
        *,
        preprocessing: Sequence[Preprocessing] = SVM_PREPROCESSING,
    ) -> Predictions:
        """An RBF SVM on the candidate named for each fold."""
        parts = self.data.protocol(self.seed).visible()
        inner = inner_splits(parts, inner_folds=INNER_FOLDS, seed=self.seed)
        return rbf_predictions(rows, names, parts, inner, C=RBF_C, preprocessing=preprocessing)

    def on_kernels(
        self, kernels: Mapping[str, Array], names: Sequence[Sequence[str]], *, kernel: Kernel
    ) -> Predictions:
        """An SVM on precomputed kernels; each fold chooses among those named for it."""
        parts = self.data.protocol(self.seed).visible()
        inner = inner_splits(parts, inner_folds=INNER_FOLDS, seed=self.seed)
        return kernel_predictions(kernels, names, parts, inner, kernel=kernel, C=RBF_C)

    def zeros(self) -> Predictions:
        """No label for any test row: with rare labels a high accuracy, and a micro-F1 of 0."""
        num_labels = self.data.labels.shape[1]
        return tuple(
            SplitPrediction(
                Choice("", {}, float("nan")),
                np.zeros((len(part.test), num_labels), dtype=np.int64),
            )
            for part in self.data.protocol(self.seed).visible()
        )

    def _once(
        self, probe: str, candidate: Candidate, predict: Callable[[], Predictions]
    ) -> Predictions:
        memo = (probe, candidate.source, candidate.name)
        if memo not in self._predictions:
            self._predictions[memo] = predict()
        return self._predictions[memo]

    def _linear(self, candidate: Candidate) -> Predictions:
        rows, protocol = {candidate.name: candidate.make()}, self.data.protocol(self.seed)
        if self.data.splits is None:
            settings = checked_settings(SVM_L2_GRID, SVM_PREPROCESSING, owner="bench")
            found = svm_predictions(
                rows, protocol, settings=settings, seed=self.seed, device=self.device
            )
        else:
            settings = checked_settings(L2_GRID, PREPROCESSING, owner="bench")
            found = linear_predictions(rows, protocol, settings=settings, device=self.device)
        return found[candidate.name]
