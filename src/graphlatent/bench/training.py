"""Trainings of one data set and seed, each done once: embeddings after chosen epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from graphlatent.bench.data import Array, DatasetBundle
from graphlatent.bench.methods import LAGRAPH, resolved_settings
from graphlatent.config import Level, Settings
from graphlatent.data.graph import GraphData
from graphlatent.estimator import Estimator
from graphlatent.methods.registry import estimator_class


@dataclass(frozen=True, eq=False)
class TrainingSpec:
    """A method and its settings.

    Args:
        settings: an object of the method's settings class.
        level: "node" or "graph".
        method: its registered name.
    """

    settings: Settings
    level: Level
    method: str = LAGRAPH

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """Every setting as it is used, in plain values."""
        return resolved_settings(self.settings, owner="bench")

    @cached_property
    def key(self) -> str:
        """A key that is equal for settings with the same training.

        Without a schedule the number of epochs is not part of it. Neither are the features, which
        are appended to the embedding afterwards.
        """
        constant_lr = self.resolved.get("schedule", "none") == "none"
        ignored = ("concat_input", "epochs") if constant_lr else ("concat_input",)
        values = {name: value for name, value in self.resolved.items() if name not in ignored}
        return f"{self.method} {self.level} {values}"

    @property
    def appends_features(self) -> bool:
        """Whether the settings append the input features to the embedding."""
        return bool(self.resolved.get("concat_input", False))


@dataclass(eq=False)
class Trainings:
    """Embeddings of everything, by training and epoch.

    Args:
        data: what to train on and what to embed.
        seed: of training.
        device: where to train.
    """

    data: DatasetBundle
    seed: int
    device: torch.device
    _embeddings: dict[str, dict[int, Array]] = field(default_factory=dict)
    _facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _fitted: dict[str, Estimator] = field(default_factory=dict)

    def train(self, spec: TrainingSpec, epochs: Sequence[int]) -> None:
        """Embed after each of the epochs, in one training; nothing where that was done before."""
        known = self._embeddings.setdefault(spec.key, {})
        if all(epoch in known for epoch in epochs):
            return
        began = time.monotonic()
        last = None
        estimator = self._estimator(spec)
        train_graph, graph = self._graphs(spec)
        for epoch, fitted in estimator.snapshots(train_graph, epochs=sorted(epochs)):
            known[epoch], last = fitted.transform(graph), fitted
        assert last is not None
        loss = last.history_.loss
        # The facts of the longest training are kept.
        if len(loss) < self._facts.get(spec.key, {}).get("epochs", 0):
            return
        facts = {
            "epochs": len(loss),
            "last_loss": loss[-1] if loss else None,
            "seconds": round(time.monotonic() - began, 2),
        }
        if last.peak_memory_ is not None:
            facts["peak_memory_mb"] = round(last.peak_memory_ / 2**20)
        self._facts[spec.key] = facts

    def fitted(self, spec: TrainingSpec) -> tuple[Estimator, GraphData]:
        """The estimator after its last epoch, fitted once, and the graphs that it embeds."""
        train_graph, graph = self._graphs(spec)
        key = f"{spec.key} {spec.resolved['epochs']}"
        if key not in self._fitted:
            began = time.monotonic()
            estimator = self._estimator(spec).fit(train_graph)
            loss = estimator.history_.loss
            self._fitted[key] = estimator
            self._facts[spec.key] = {
                "epochs": len(loss),
                "last_loss": loss[-1] if loss else None,
                "seconds": round(time.monotonic() - began, 2),
            }
        return self._fitted[key], graph

    def _graphs(self, spec: TrainingSpec) -> tuple[GraphData, GraphData]:
        """What is trained on, and what is embedded."""
        read = self.data.read_graph
        if read is not None and spec.resolved.get("structure", "none") != "none":
            return read, read
        return self.data.train_graph, self.data.graph

    def embedding(self, spec: TrainingSpec, epoch: int) -> Array:
        """The rows after an epoch, float32; trains where that was not done before."""
        self.train(spec, [epoch])
        return self._embeddings[spec.key][epoch]

    def facts(self, spec: TrainingSpec) -> Mapping[str, Any]:
        """Epochs, last loss, seconds and peak memory; empty where it was not trained."""
        return self._facts.get(spec.key, {})

    def _estimator(self, spec: TrainingSpec) -> Estimator:
        values = {
            **vars(spec.settings),
            "random_state": self.seed,
            "device": str(self.device),
            "progress": False,
            # Epochs are given; measuring changes nothing but takes time.
            "diagnostics": False,
            "on_collapse": "ignore",
            "select": "last",
        }
        # What the record says, and not what a default is for a graph of this size.
        for name in ("hidden_dim", "epochs"):
            values[name] = spec.resolved[name] if values[name] is None else values[name]
        if values.get("batching") == "auto":
            values["batching"] = spec.resolved["batching"]
        if "concat_input" in values:
            # Features are appended where the embedding is probed.
            values["concat_input"] = False
        return estimator_class(spec.method, spec.level)(**values)
