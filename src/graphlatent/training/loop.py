"""The training loop: epochs of steps, with a state that can be saved between any two steps.

All randomness is in two generators: one plans epochs (which nodes or graphs are in which step), the
other is the method's (masks, augmentations). A snapshot holds the weights, the optimizer's moments,
both generators, the history, and the epoch and step; a run resumed from it is bit-identical to an
uninterrupted one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from graphlatent.config import Settings
from graphlatent.data.batches import BatchSource
from graphlatent.errors import NonFiniteLossError, TrainingInterrupted, bad_argument
from graphlatent.io.history import History
from graphlatent.io.runfolder import Snapshot
from graphlatent.methods.base import Method
from graphlatent.training.checkpoint import check_snapshot
from graphlatent.training.finite import first_not_finite, settings_to_lower, training_state
from graphlatent.training.peak_memory import PeakMemory
from graphlatent.training.stepper import (
    Stepper,
    make_optimizer,
    matmul_precision,
    set_learning_rate,
)

SAMPLE_EVERY = 20
"""Epochs between two reads of the loss on a GPU, each of which makes the host wait for it."""


@dataclass(frozen=True)
class Progress:
    """The state of training after `epoch` of `epochs`: the last epoch's loss and terms."""

    epoch: int
    epochs: int
    loss: float
    terms: Mapping[str, float]


@dataclass(frozen=True)
class Hooks:
    """Callbacks of the training loop.

    Args:
        on_epoch: called for every epoch once its loss is known; on a GPU for up to SAMPLE_EVERY
            epochs one after another.
        on_step: called with the number of epochs done, such as 2.25, and of all epochs, before
            the first step and after every step; on a GPU when the host has waited for it.
        save_due: called after every step; True saves a snapshot.
        save: receives the snapshot.
        stop_requested: called after every step; True saves a snapshot and stops with
            `TrainingInterrupted`.
    """

    on_epoch: Callable[[Progress], None] = lambda _: None
    on_step: Callable[[float, int], None] = lambda done, epochs: None
    save_due: Callable[[], bool] = lambda: False
    save: Callable[[Snapshot], None] = lambda _: None
    stop_requested: Callable[[], bool] = lambda: False


def seeded(seed: int, stream: int, device: torch.device | str = "cpu") -> torch.Generator:
    """The generator number `stream` of a seed; different streams are independent."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed * 4 + stream)
    return generator


def check_hooks(value: object, *, owner: str) -> None:
    """Raise a `ConfigError` where an argument is neither `Hooks` nor None."""
    if value is not None and not isinstance(value, Hooks):
        raise bad_argument("hooks", owner=owner, allowed="a Hooks or None", got=value)


def checked_epochs(epochs: Sequence[int], last: int, *, owner: str) -> list[int]:
    """Epochs at which snapshots are taken. Raises where they do not ascend from 0 to `last`."""
    listed: list[Any] = list(epochs) if isinstance(epochs, Iterable) else []
    integers = all(isinstance(e, Integral) and not isinstance(e, bool) for e in listed)
    ascending = integers and len(listed) > 0 and listed == sorted(set(listed))
    if not ascending or listed[0] < 0 or listed[-1] > last:
        allowed = f"ascending ints from 0 to the estimator's epochs, {last}"
        raise bad_argument("epochs", owner=owner, allowed=allowed, got=epochs)
    return [int(epoch) for epoch in listed]


class Training:
    """One run: method, model, optimizer, generators, position and history.

    Args:
        method: computes the terms of the loss.
        model: built by the method.
        batches: the training set, as `Method.begin` returned it.
        device: where the model is.
        memory: measures the peak memory of the steps.
    """

    def __init__(
        self,
        method: Method[Any],
        model: nn.Module,
        batches: BatchSource,
        *,
        device: torch.device,
        memory: PeakMemory | None = None,
    ) -> None:
        settings: Settings = method.settings
        self.method, self.settings = method, settings
        self.model, self.batches, self.device = model, batches, device
        self.memory = memory or PeakMemory(device)
        self.optimizer = make_optimizer(model, settings)
        self.plan_generator = seeded(settings.random_state, 1)
        self.step_generator = seeded(settings.random_state, 2, device)
        self.stepper = Stepper(
            method, model, optimizer=self.optimizer, generator=self.step_generator
        )
        self.history = History.of(method.term_names)
        self.epoch, self.step = 0, 0
        on_gpu = device.type == "cuda"
        self.sample_every = SAMPLE_EVERY if on_gpu and settings.patience is None else 1
        # Loss and terms of the steps of this epoch, each [1 + terms].
        self.values: list[Tensor] = []
        # The same, with the learning rate, of finished epochs that are not in the history yet.
        self.pending: list[tuple[Tensor, float]] = []
        # Epochs that are in the history and have not been reported yet.
        self.unreported: list[Progress] = []
        # The plan generator's state when this epoch was planned.
        self.plan_state = self.plan_generator.get_state()

    def run(self, hooks: Hooks | None = None, *, until: int | None = None) -> History:
        """Train to the last epoch, or until the loss stops improving.

        Args:
            hooks: callbacks.
            until: stop after this epoch; a later call continues.

        Returns:
            The history.
        """
        hooks = hooks or Hooks()
        last = self.settings.epochs if until is None else min(until, self.settings.epochs)
        self.model.train()
        with (
            torch.enable_grad(),
            matmul_precision(self.settings.precision, self.device),
            self._on_device(),
            self.memory,
        ):
            hooks.on_step(self.epoch, self.settings.epochs)
            while self.epoch < last and not self._out_of_patience():
                self.run_epoch(hooks)
            self._record_pending()
            self._check_weights()
            self._report(hooks)
        self.stepper.reset()
        self.model.eval()
        return self.history

    def _on_device(self) -> AbstractContextManager[object]:
        """Make the training GPU the current device, which CUDA streams and graphs need."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def run_epoch(self, hooks: Hooks) -> None:
        """One pass over the training data."""
        self.plan_generator.set_state(self.plan_state)
        plan = self.batches.plan(self.plan_generator)
        lr = learning_rate(self.settings, self.epoch)
        set_learning_rate(self.optimizer, lr)
        while self.step < len(plan):
            self.values.append(self.stepper(self.batches, plan[self.step]))
            self.step += 1
            if self.device.type == "cpu":
                hooks.on_step(self.epoch + self.step / len(plan), self.settings.epochs)
            if self.step < len(plan):
                self._save_or_stop(hooks)
        self.pending.append((torch.stack(self.values), lr))
        self.epoch, self.step, self.values = self.epoch + 1, 0, []
        self.plan_state = self.plan_generator.get_state()
        if self.epoch % self.sample_every == 0:
            self._record_pending()
            latest = {name: column[-1] for name, column in self.history.terms.items()}
            if self.method.after_epoch(latest):
                self.stepper.reset()
        self._save_or_stop(hooks)
        # After saving, so that an epoch is reported only once it cannot be lost.
        self._report(hooks)

    def _record_pending(self) -> None:
        """Move finished epochs to the history; nothing else makes the host wait for the GPU."""
        pending = list(self.pending)
        if not pending:
            return
        stacked = torch.cat([values for values, _ in pending]).to("cpu", torch.float64)
        tables = torch.split(stacked, [len(values) for values, _ in pending])
        for table, (_, lr) in zip(tables, pending, strict=True):
            self._check_finite(table, len(self.history) + 1)
            loss, *means = table.mean(0).tolist()
            terms = dict(zip(self.method.term_names, means, strict=True))
            self.history.append(loss, terms, lr)
            self.pending.pop(0)
            self.unreported.append(Progress(len(self.history), self.settings.epochs, loss, terms))

    def _report(self, hooks: Hooks) -> None:
        if self.unreported and self.device.type != "cpu":
            hooks.on_step(len(self.history), self.settings.epochs)
        while self.unreported:
            hooks.on_epoch(self.unreported.pop(0))

    def _save_or_stop(self, hooks: Hooks) -> None:
        stop = hooks.stop_requested()
        if stop or hooks.save_due():
            self._record_pending()
            if self.values:
                table = torch.stack(self.values).to("cpu", torch.float64)
                self._check_finite(table, self.epoch + 1)
            self._check_weights()
            hooks.save(self.snapshot())
        if stop:
            raise TrainingInterrupted(
                f"Stopped after epoch {self.epoch} of {self.settings.epochs}, step {self.step}."
            )

    def _out_of_patience(self) -> bool:
        patience, loss = self.settings.patience, self.history.loss
        if patience is None or len(loss) <= patience:
            return False
        return min(loss[-patience:]) >= min(loss[:-patience])

    def _check_finite(self, table: Tensor, epoch: int) -> None:
        bad = torch.nonzero(~torch.isfinite(table).all(1))
        if bad.numel():
            step = int(bad[0])
            names = ("loss", *self.method.term_names)
            values = zip(names, table[step].tolist(), strict=True)
            listed = ", ".join(f"{name}={value:g}" for name, value in values)
            raise NonFiniteLossError(
                f"The loss is not a finite number at epoch {epoch}, step {step + 1}: {listed}. The"
                " last good checkpoint, if one was saved, is kept."
                f" {settings_to_lower(self.settings)}"
            )

    def _check_weights(self) -> None:
        name = first_not_finite(training_state(self.model, self.optimizer))
        if name is not None:
            raise NonFiniteLossError(
                f"Weights, or the state of the optimizer, are not finite after epoch {self.epoch},"
                f" step {self.step}: {name}. The last good checkpoint, if one was saved, is kept."
                f" {settings_to_lower(self.settings)}"
            )

    def snapshot(self) -> Snapshot:
        """The state between two steps."""
        self._record_pending()
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            for name, value in moments.items():
                tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value)
        tensors["plan_state"] = self.plan_state
        tensors["step_state"] = self.step_generator.get_state()
        tensors["history"] = self.history.to_tensor()
        width = 1 + len(self.method.term_names)
        tensors["values"] = torch.stack(self.values) if self.values else torch.zeros(0, width)
        # Copies, since training changes the tensors in place.
        copies = {name: value.detach().cpu().clone() for name, value in tensors.items()}
        position = {
            "epoch": self.epoch,
            "step": self.step,
            "term_names": self.method.term_names,
            "method": self.method.state(),
            "moments": sorted(self.optimizer.state_dict()["state"]),
        }
        return Snapshot(copies, json.dumps(position))

    def restore(self, snapshot: Snapshot) -> None:
        """Return to the state that `snapshot` holds.

        Raises:
            ValueError: where it is not one that this run could have saved; nothing is changed then.
        """
        tensors, position = dict(snapshot.tensors), check_snapshot(snapshot, self)
        prefix = "model."
        weights = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
        self.model.load_state_dict(weights)
        state = self.optimizer.state_dict()
        for key, value in tensors.items():
            if key.startswith("optimizer."):
                _, index, name = key.split(".")
                state["state"].setdefault(int(index), {})[name] = value
        self.optimizer.load_state_dict(state)
        self.stepper.reset()
        self.plan_state = tensors["plan_state"]
        self.step_generator.set_state(tensors["step_state"])
        names = self.method.term_names
        self.history = History.from_tensor(tensors["history"], term_names=names)
        self.pending, self.unreported = [], []
        device = next(self.model.parameters()).device
        self.values = [row.to(device) for row in tensors["values"]]
        self.epoch, self.step = position["epoch"], position["step"]
        self.method.load_state(position["method"])


def learning_rate(settings: Settings, epoch: int) -> float:
    """The learning rate of an epoch, counted from 0.

    During warm-up it increases linearly from 0; with the cosine schedule it then decreases to 0
    after the last epoch.
    """
    warmup = round(settings.warmup_ratio * settings.epochs)
    if epoch < warmup:
        return settings.lr * epoch / warmup
    if settings.schedule == "none":
        return settings.lr
    share = (epoch - warmup) / max(settings.epochs - warmup, 1)
    return settings.lr * 0.5 * (1 + math.cos(math.pi * share))
