"""The rows of a cell, measured for one seed: every representation is trained and probed once, then
selected from in several ways.

Rows: "raw" and "propagated" features, "random" (the paper's encoder with its initial weights),
    "paper" (the paper's settings), "released"
(the released scripts' settings under their protocol, which chooses on test labels), "defaults"
(ours), "tuned" (the paper's model with learning rate, alpha and epochs chosen per split out of a
grid that starts at no training at all).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import torch

from graphlatent.bench.material import Material
from graphlatent.bench.recipe import Recipe
from graphlatent.config import Level, NodeSettings, resolve, to_mapping
from graphlatent.estimator import Estimator
from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.probes.adam import adam_answers
from graphlatent.probes.design import PREPROCESSING, Preprocessing
from graphlatent.probes.linear import (
    STRENGTHS,
    best_on_validation,
    checked_settings,
    linear_answers,
    words,
)
from graphlatent.probes.protocol import Answer, ReleasedProtocol
from graphlatent.probes.rbf import RBF_C, rbf_answers
from graphlatent.probes.results import Choice, ProbeResult
from graphlatent.probes.svm import (
    INNER_FOLDS,
    SVM_PREPROCESSING,
    SVM_STRENGTHS,
    inner_splits,
    nested_words,
    svm_answers,
)
from graphlatent.representations import propagated_features, raw_features

Found: TypeAlias = dict[str, tuple[Answer, ...]]
Results: TypeAlias = dict[str, ProbeResult]
PLAIN, CONCAT = "embedding", "embedding + features"
PAPERS_PROBE = (
    "The paper's probe (Adam, epochs and decay of its Table 6), features appended as in the paper; "
)
TUNED: Mapping[str, tuple[float, ...]] = {
    "lr": (1e-5, 1e-4, 1e-3),
    "alpha": (0.1, 1.0, 10.0),
    "epochs": (5, 20, 50),
}
# Of the first records, which did not say theirs
FIRST_GRIDS: Mapping[Level, str] = {"node": "2c0ba346", "graph": "fb1b12fa"}
FIXED = (
    "Nothing chosen but the probe's settings, per split on its validation part: the epoch and the"
    " representation are fixed beforehand. "
)


@dataclass(eq=False)
class Measurement:
    """One data set and seed: what was trained and probed so far, so that cells that share it do not
    do so twice.

    Args:
        material: the data.
        seed: of training and folds.
        device: where to train.
        probe_device: where to probe.
    """

    material: Material
    seed: int
    device: torch.device
    probe_device: torch.device
    embedded: dict[str, dict[int, Any]] = field(default_factory=dict)  # by settings and epoch
    training: dict[str, dict[str, Any]] = field(default_factory=dict)
    # By probe, settings and candidate
    answered: dict[tuple[str, str, str], tuple[Answer, ...]] = field(default_factory=dict)

    def row(self, recipe: Recipe, row: str) -> tuple[Results, Mapping[str, Any]]:
        """The results of one row by "probe/selection", and what is known about its training."""
        if row in ("raw", "propagated"):
            return self._baseline(recipe, row), {}
        if row == "random":
            settings = replace(recipe.settings(), epochs=0)
            names, fixed = (
                [(0, kind) for kind in self._kinds(recipe, chosen=chosen)]
                for chosen in (True, False)
            )
            return (
                self._selected(
                    recipe, settings, names, fixed=fixed, probes=("linear", "rbf", "paper-probe")
                ),
                {},
            )
        if row == "released":
            return self._released(recipe)
        if row == "tuned":
            return self._tuned(recipe), {}
        settings = recipe.settings() if row == "paper" else recipe.default_settings()
        epochs = recipe.evaluation.epochs if row == "paper" else _default_epochs(settings.epochs)
        budget = recipe.evaluation.budget if row == "paper" else settings.epochs
        main = "defaults" in recipe.rows  # ablations keep the representation of their recipe
        names = [(e, kind) for e in epochs for kind in self._kinds(recipe, chosen=main)]
        own = CONCAT if getattr(settings, "concat_input", False) else PLAIN
        probes = ("linear", "rbf", "paper-probe") if main else ("linear",)
        results = self._selected(
            recipe,
            settings,
            names,
            fixed=[(budget, own)],
            probes=probes if row == "paper" else ("linear", "rbf"),
        )
        if row == "defaults":
            untrained = self._selected(
                recipe, replace(settings, epochs=0), [(0, own)], fixed=[], probes=("linear",)
            )
            results |= {
                name.replace("validation", "untrained"): result
                for name, result in untrained.items()
            }
        return results, self.training.get(_key(settings, self.seed), {})

    def _kinds(self, recipe: Recipe, *, chosen: bool) -> tuple[str, ...]:
        """The representations a split may choose from."""
        if recipe.level == "graph":
            return (PLAIN,)
        own = CONCAT if getattr(recipe.settings(), "concat_input", False) else PLAIN
        return (PLAIN, CONCAT) if chosen else (own,)

    # -- rows

    def _baseline(self, recipe: Recipe, row: str) -> Results:
        graph, level = self.material.graph, recipe.level
        if row == "raw":
            candidates = {"X": raw_features(graph, level=level)}
        else:
            candidates = {"A^2 X": propagated_features(graph, level=level)}
            candidates["X, AX, A^2 X"] = propagated_features(graph, level=level, concat=True)
        found = {
            name: self._linear(row, name, partial(candidates.__getitem__, name))
            for name in candidates
        }
        results = {
            "linear/validation": self._final(
                best_on_validation(found), self._words(recipe, len(found) > 1)
            )
        }
        if row == "raw" and self.material.labels.ndim == 2:
            results["zeros/fixed"] = self._zeros()
        if recipe.level == "graph" and row == "raw":
            results["rbf/validation"] = self._rbf(
                candidates, best_on_validation(found), several=False
            )
        return results

    def _zeros(self) -> ProbeResult:
        """What no label at all scores: with rare labels a high accuracy, and a micro-F1 of 0."""
        parts = self.material.protocol(self.seed).visible()
        nothing = [
            Answer(
                Choice("", {}, float("nan")),
                np.zeros((len(p.test), self.material.labels.shape[1]), dtype=np.int64),
            )
            for p in parts
        ]
        return self._final(nothing, "Nothing is chosen, and no label is ever given.")

    def _selected(
        self,
        recipe: Recipe,
        settings: LaGraphSettings,
        names: Sequence[tuple[int, str]],
        *,
        fixed: Sequence[tuple[int, str]],
        probes: Sequence[str],
    ) -> Results:
        """Results of one training, chosen per split on validation, and with a fixed epoch."""
        found = {
            _name(*name): self._linear_of(settings, *name)
            for name in dict.fromkeys([*names, *fixed])
        }
        best = best_on_validation({_name(*name): found[_name(*name)] for name in names})
        results = {"linear/validation": self._final(best, self._words(recipe, len(names) > 1))}
        for name in fixed:
            results["linear/fixed"] = self._final(
                found[_name(*name)], FIXED + self._words(recipe, False)
            )
        if recipe.level == "graph" and "rbf" in probes:
            rows = {
                _name(epoch, kind): self._representation(settings, epoch, kind)
                for epoch, kind in names
            }
            results["rbf/validation"] = self._rbf(rows, best, several=len(names) > 1)
        if recipe.level == "node" and "paper-probe" in probes:
            own = [name for name in names if name[1] == CONCAT] or list(names)
            found = {_name(*name): self._adam_of(recipe, settings, *name) for name in own}
            said = (
                PAPERS_PROBE + f"per split, the epoch with the highest validation {recipe.metric}."
            )
            results["paper-probe/validation"] = self._final(best_on_validation(found), said)
        return results

    def _tuned(self, recipe: Recipe) -> Results:
        """The paper's model, its learning rate, alpha and epochs chosen per split; epoch 0 is one
        of the candidates.
        """
        kind = self._kinds(recipe, chosen=False)[0]
        found = {"no training": self._linear_of(replace(recipe.settings(), epochs=0), 0, kind)}
        for lr, alpha in product(TUNED["lr"], TUNED["alpha"]):
            settings = replace(recipe.settings(), lr=lr, alpha=alpha)
            epochs = [int(e) for e in TUNED["epochs"] if e <= settings.epochs]
            self._train(settings, epochs)
            found |= {
                f"lr {lr:g}, alpha {alpha:g}, epoch {e}": self._linear_of(settings, e, kind)
                for e in epochs
            }
        named = {
            name: tuple(replace(a, choice=replace(a.choice, candidate=name)) for a in answers)
            for name, answers in found.items()
        }
        return {
            "linear/validation": self._final(best_on_validation(named), self._words(recipe, True))
        }

    def _released(self, recipe: Recipe) -> tuple[Results, Mapping[str, Any]]:
        """The released scripts' training, probe and choice of the epoch on the test labels."""
        settings = recipe.released_settings()
        epochs = [e for e in recipe.evaluation.epochs if e < settings.epochs] + [settings.epochs]
        self._train(settings, epochs)
        key = _key(settings, self.seed)
        if recipe.level == "node":
            kind = CONCAT if getattr(settings, "concat_input", False) else PLAIN
            found = {_name(e, kind): self._adam_of(recipe, settings, e, kind) for e in epochs}
            name, said = "paper-probe", "the epoch"
        else:
            rows = {_name(e, PLAIN): self._representation(settings, e, PLAIN) for e in epochs}
            found = {each: self._rbf_of(key, each, rows, preprocessing=("none",)) for each in rows}
            name, said = "rbf", "the epoch (C chosen in inner folds of the training part)"
        protocol = self.material.protocol(self.seed, released=True)
        assert isinstance(protocol, ReleasedProtocol)
        results = {f"{name}/test": protocol.best_on_test(found, selection=said)}
        honest = "The same candidates; per split, the epoch with the highest validation score."
        results[f"{name}/validation"] = self._final(best_on_validation(found), honest)
        return results, self.training[key]

    # -- probes

    def _once(
        self, probe: str, key: str, name: str, probed: Callable[[], tuple[Answer, ...]]
    ) -> tuple[Answer, ...]:
        """The answers of a probe to one candidate, made the first time they are asked for."""
        memo = (probe, key, name)
        if memo not in self.answered:
            self.answered[memo] = probed()
        return self.answered[memo]

    def _linear_of(self, settings: LaGraphSettings, epoch: int, kind: str) -> tuple[Answer, ...]:
        return self._linear(
            _key(settings, self.seed),
            _name(epoch, kind),
            lambda: self._representation(settings, epoch, kind),
        )

    def _linear(self, key: str, name: str, rows: Callable[[], Any]) -> tuple[Answer, ...]:
        def probed() -> tuple[Answer, ...]:
            protocol = self.material.protocol(self.seed)
            if self.material.splits is None:
                settings = checked_settings(SVM_STRENGTHS, SVM_PREPROCESSING, owner="bench")
                return svm_answers(
                    {name: rows()},
                    protocol,
                    settings=settings,
                    seed=self.seed,
                    device=self.probe_device,
                )[name]
            settings = checked_settings(STRENGTHS, PREPROCESSING, owner="bench")
            return linear_answers(
                {name: rows()}, protocol, settings=settings, device=self.probe_device
            )[name]

        return self._once("linear", key, name, probed)

    def _adam_of(
        self, recipe: Recipe, settings: LaGraphSettings, epoch: int, kind: str
    ) -> tuple[Answer, ...]:
        epochs, decay, name = (
            recipe.evaluation.probe_epochs,
            recipe.evaluation.probe_weight_decay,
            _name(epoch, kind),
        )
        assert epochs is not None
        assert decay is not None

        def probed() -> tuple[Answer, ...]:
            rows, protocol = (
                {name: self._representation(settings, epoch, kind)},
                self.material.protocol(self.seed),
            )
            return adam_answers(
                rows,
                protocol,
                epochs=epochs,
                weight_decay=decay,
                seed=self.seed,
                device=self.probe_device,
            )[name]

        return self._once(f"adam {epochs} {decay}", _key(settings, self.seed), name, probed)

    def _rbf_of(
        self,
        key: str,
        name: str,
        rows: Mapping[str, Any],
        *,
        preprocessing: Sequence[Preprocessing],
    ) -> tuple[Answer, ...]:
        names = [name] * len(self.material.protocol(self.seed).splits)
        return self._once("rbf", key, name, lambda: self._rbf_answers(rows, names, preprocessing))

    def _rbf_answers(
        self, rows: Mapping[str, Any], names: Sequence[str], preprocessing: Sequence[Preprocessing]
    ) -> tuple[Answer, ...]:
        parts = self.material.protocol(self.seed).visible()
        inner = inner_splits(parts, inner_folds=INNER_FOLDS, seed=self.seed)
        return rbf_answers(rows, names, parts, inner, preprocessing=preprocessing)

    def _rbf(
        self, rows: Mapping[str, Any], best: Sequence[Answer], *, several: bool
    ) -> ProbeResult:
        answers = self._rbf_answers(
            rows, [answer.choice.candidate for answer in best], SVM_PREPROCESSING
        )
        return self._final(answers, nested_words(several, "rbf", INNER_FOLDS))

    def _final(self, answers: Sequence[Answer], selection: str) -> ProbeResult:
        return self.material.protocol(self.seed).final(answers, selection=selection)

    def _words(self, recipe: Recipe, several: bool) -> str:
        return (
            nested_words(several, "linear", INNER_FOLDS)
            if recipe.level == "graph"
            else words(several, recipe.metric)
        )

    # -- training

    def _representation(self, settings: LaGraphSettings, epoch: int, kind: str) -> Any:
        """The rows of one epoch of one training; trains to all epochs that are wanted the first
        time.
        """
        self._train(settings, [epoch])
        rows = self.embedded[_key(settings, self.seed)][epoch]
        if kind == PLAIN:
            return rows
        return torch.cat([torch.from_numpy(rows).to(self.probe_device), self._features], dim=1)

    @cached_property
    def _features(self) -> torch.Tensor:
        """The raw features of nodes, dense, where they are probed."""
        raw: Any = raw_features(self.material.graph, level="node")
        return torch.from_numpy(raw.toarray() if hasattr(raw, "toarray") else raw).to(
            self.probe_device
        )

    def prepare(self, recipe: Recipe, row: str) -> None:
        """Train whatever a row needs, all its epochs in one go."""
        if row == "paper":
            self._train(recipe.settings(), recipe.evaluation.epochs)
        if row == "defaults":
            settings = recipe.default_settings()
            self._train(settings, _default_epochs(settings.epochs))

    def _train(self, settings: LaGraphSettings, epochs: Sequence[int]) -> None:
        key = _key(settings, self.seed)
        if all(epoch in self.embedded.get(key, {}) for epoch in epochs):
            return
        began = time.monotonic()
        estimator = _estimator(settings, seed=self.seed, device=self.device)
        found: dict[int, Any] = {}
        last = None
        for epoch, then in estimator.snapshots(self.material.seen, epochs=sorted(epochs)):
            found[epoch], last = then.transform(self.material.graph), then
        self.embedded.setdefault(key, {}).update(found)
        loss = last.history_.loss if last is not None else []
        if len(loss) < self.training.get(key, {}).get("epochs", 0):
            return
        self.training[key] = {
            "epochs": len(loss),
            "last_loss": loss[-1] if loss else None,
            "seconds": round(time.monotonic() - began, 2),
        }
        if last is not None and last.peak_memory_ is not None:
            self.training[key]["peak_memory_mb"] = round(last.peak_memory_ / 2**20)


def measured_with(recipe: Recipe) -> str:
    """Of all that decides what is measured: the recipe's fingerprint, and that of the grids where
    they are not the first ones.
    """
    grids = grids_fingerprint(recipe.level)
    return (
        recipe.fingerprint
        if grids == FIRST_GRIDS[recipe.level]
        else f"{recipe.fingerprint}-{grids}"
    )


def grids_fingerprint(level: Level) -> str:
    """Of what the probes of a level choose from."""
    nodes = [STRENGTHS, PREPROCESSING]
    graphs = [SVM_STRENGTHS, SVM_PREPROCESSING, INNER_FOLDS, RBF_C]
    values = [
        nodes if level == "node" else graphs,
        {name: list(of) for name, of in TUNED.items()},
        _default_epochs(10**9),
    ]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:8]


def _estimator(settings: LaGraphSettings, *, seed: int, device: torch.device) -> Estimator:
    values = {**vars(settings), "random_state": seed, "device": str(device), "progress": False}
    if isinstance(settings, NodeSettings):
        # Features are appended where the embedding is probed
        return NodeLaGraph(**{**values, "concat_input": False})
    return GraphLaGraph(**values)


def _default_epochs(last: int) -> list[int]:
    """Epochs that validation may stop at with our defaults: some early ones, and the last."""
    return [e for e in (3, 10, 50) if e < last] + [last]


def _key(settings: LaGraphSettings, seed: int) -> str:
    """Equal for settings that train the same; the number of epochs and what is appended afterwards
    do not matter.
    """
    values = {
        k: v
        for k, v in to_mapping(resolve(settings, owner="bench")).items()
        if k not in ("concat_input", "device", "random_state")
    }
    if settings.schedule == "none":
        values.pop("epochs")
    return f"{seed} {values}"


def _name(epoch: int, kind: str) -> str:
    return f"epoch {epoch}, {kind}"
