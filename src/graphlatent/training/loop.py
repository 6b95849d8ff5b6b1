"""The training loop: epochs of steps, with a state that can be saved between any two steps.

Several processes may share the steps (data/sharing.py): all have the same plan, the same weights
and the same history, and only the first saves snapshots and calls hooks.

All randomness is in two generators: one plans epochs (which nodes or graphs are in which step), the
other is the method's (masks, augmentations). A snapshot holds the weights, the optimizer's moments,
both generators, the history, and the epoch and step; a run resumed from it is bit-identical to an
uninterrupted one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from graphlatent.config import Settings
from graphlatent.data.batches import Batch, BatchSource, WholeSource
from graphlatent.data.sharing import moved_step, share_name, shared_plan
from graphlatent.errors import NonFiniteLossError, TrainingInterrupted, bad_argument
from graphlatent.io.history import History
from graphlatent.io.runfolder import Snapshot
from graphlatent.methods.base import Method
from graphlatent.ops.collective import current, first_only, rank, world_size
from graphlatent.training.ahead import Plans, cut_ahead
from graphlatent.training.checkpoint import check_snapshot
from graphlatent.training.diagnostics import latest
from graphlatent.training.finite import first_not_finite, settings_to_lower, training_state
from graphlatent.training.fitted import current_embedding
from graphlatent.training.hooks import Hooks as Hooks
from graphlatent.training.hooks import Measured, own_hooks
from graphlatent.training.hooks import Progress as Progress
from graphlatent.training.hooks import check_hooks as check_hooks
from graphlatent.training.peak_memory import PeakMemory
from graphlatent.training.stepper import (
    Stepper,
    learning_rate,
    make_optimizer,
    matmul_precision,
    set_learning_rate,
)
from graphlatent.training.watch import Watch

SAMPLE_EVERY = 20
"""Epochs between two reads of the loss on a GPU, each of which makes the host wait for it."""


def seeded(seed: int, stream: int, device: torch.device | str = "cpu") -> torch.Generator:
    """The generator number `stream` of a seed; different streams are independent."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed * 4 + stream)
    return generator


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
        self.step_generator = seeded(settings.random_state, 2, device)
        self.stepper = Stepper(
            method,
            model,
            optimizer=self.optimizer,
            generator=self.step_generator,
            gradient_norm=settings.diagnostics,
        )
        self.watch = Watch(method, model, batches)
        # The whole training set as one batch; a source of pieces does not have it.
        self.everything: Callable[[], Batch] = lambda: cast(WholeSource, batches).everything
        self.history = History.of(method.term_names, gradient_norm=settings.diagnostics)
        self.epoch, self.step = 0, 0
        on_gpu = device.type == "cuda"
        self.sample_every = SAMPLE_EVERY if on_gpu and settings.patience is None else 1
        # Loss and terms of the steps of this epoch, each [1 + terms].
        self.values: list[Tensor] = []
        # The same, with the learning rate, of finished epochs that are not in the history yet.
        self.pending: list[tuple[Tensor, float]] = []
        # Epochs that are in the history and have not been reported yet.
        self.unreported: list[Progress] = []
        # The state of the generator of plans before this epoch's.
        self.plan_state = seeded(settings.random_state, 1).get_state()

    def plan(self, generator: torch.Generator, *, processes: int | None = None) -> Sequence[Tensor]:
        """The steps of an epoch, of which this process has its part.

        Args:
            generator: of the plan.
            processes: how many share the steps; None means those that train now.
        """
        size = world_size() if processes is None else processes
        return shared_plan(self.batches, generator, rank=rank() % size, size=size)

    def run(self, hooks: Hooks | None = None, *, until: int | None = None) -> History:
        """Train to the last epoch, or until the loss stops improving or the embedding collapses.

        Args:
            hooks: callbacks.
            until: stop after this epoch; a later call continues. The weights are those of this
                epoch then, whatever `select` and `on_collapse` say.

        Returns:
            The history.
        """
        hooks = own_hooks(hooks or Hooks())
        last = self.settings.epochs if until is None else min(until, self.settings.epochs)
        self.model.train()
        with (
            torch.enable_grad(),
            matmul_precision(self.settings.precision, self.device),
            self._on_device(),
            self.memory,
        ):
            hooks.on_step(self.epoch, self.settings.epochs)
            if self.epoch == 0 and self.step == 0 and self._measure():
                self._tell(hooks)
            plans = self._plans(last - self.epoch)
            with self._cut_ahead(plans) as batches:
                while self.epoch < last and not self._ends(until):
                    self._run_epoch(hooks, plans, batches)
            self._record_pending()
            self._check_weights()
            self._report(hooks)
        if until is None:
            self.watch.finish(self.history)
        else:
            self.history.selected_epoch = self.epoch
        self.stepper.reset()
        self.model.eval()
        return self.history

    def _on_device(self) -> AbstractContextManager[object]:
        """Make the training GPU the current device, which CUDA streams and graphs need."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def run_epoch(self, hooks: Hooks) -> None:
        """One pass over the training data."""
        plans = self._plans(1)
        with self._cut_ahead(plans) as batches:
            self._run_epoch(hooks, plans, batches)

    def _plans(self, epochs: int) -> Plans:
        """Of the next epochs, the first without the steps that are done."""
        return Plans(self.plan, self.plan_state, epochs=epochs, done=self.step)

    def _cut_ahead(self, plans: Plans) -> AbstractContextManager[BatchSource]:
        workers = getattr(self.settings, "num_workers", 0)
        return cut_ahead(self.batches, plans, num_workers=workers)

    def _run_epoch(self, hooks: Hooks, plans: Plans, batches: BatchSource) -> None:
        plan, after = plans.take()
        lr = learning_rate(self.settings, self.epoch)
        set_learning_rate(self.optimizer, lr)
        while self.step < len(plan):
            self._seed_step(hooks)
            self.values.append(self.stepper(batches, plan[self.step]))
            self.step += 1
            if self.device.type == "cpu":
                hooks.on_step(self.epoch + self.step / len(plan), self.settings.epochs)
            if self.step < len(plan):
                self._save_or_stop(hooks)
        self.pending.append((torch.stack(self.values), lr))
        self.epoch, self.step, self.values = self.epoch + 1, 0, []
        self.plan_state = after
        if self.epoch % self.sample_every == 0:
            self._record_pending()
            terms = {name: column[-1] for name, column in self.history.terms.items()}
            if self.method.after_epoch(terms):
                self.stepper.reset()
        measured = self._measure()
        self._save_or_stop(hooks)
        # After saving, so that an epoch is reported only once it cannot be lost.
        self._report(hooks)
        if measured:
            self._tell(hooks)

    def _seed_step(self, hooks: Hooks) -> None:
        """Of several processes, each draws its own numbers, which depend on no step before.

        So any number of processes can go on where others have stopped.
        """
        if current() is None:
            return
        state = (self.settings.random_state, rank(), self.epoch, self.step)
        (seed,) = np.random.SeedSequence(state).generate_state(1, np.uint64)
        self.step_generator.manual_seed(int(seed) >> 1)
        self.stepper.stop = hooks.stop_requested()

    def _measure(self) -> bool:
        """Measure the embedding where it is due; whether it was."""
        if not self.watch.due(self.epoch, self.history):
            return False
        # The choice of an epoch may need its loss.
        self._record_pending()
        self.watch.measure(self.epoch, self.history)
        return True

    def _tell(self, hooks: Hooks) -> None:
        """Report a measurement."""
        tell = hooks.on_measure
        if tell is not None:
            values = latest(self.history.diagnostics)
            measured = Measured(self.epoch, values, partial(current_embedding, self))
            first_only(lambda: tell(measured))

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
            norm = means.pop() if self.settings.diagnostics else None
            terms = dict(zip(self.method.term_names, means, strict=True))
            self.history.append(loss, terms, lr, gradient_norm=norm)
            self.pending.pop(0)
            self.unreported.append(Progress(len(self.history), self.settings.epochs, loss, terms))

    def _report(self, hooks: Hooks) -> None:
        if self.unreported and self.device.type != "cpu":
            hooks.on_step(len(self.history), self.settings.epochs)
        while self.unreported:
            shown = latest(self.history.diagnostics)
            hooks.on_epoch(replace(self.unreported.pop(0), diagnostics=shown))

    def _save_or_stop(self, hooks: Hooks) -> None:
        # Several processes stop after the same step, in which they have told each other.
        stop = hooks.stop_requested() if current() is None else self.stepper.stop
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

    def _ends(self, until: int | None) -> bool:
        """Whether training ends before its last epoch; a collapse does not end part of one."""
        return self._out_of_patience() or (until is None and self.watch.stops(self.history))

    def _out_of_patience(self) -> bool:
        patience, loss = self.settings.patience, self.history.loss
        if patience is None or len(loss) <= patience:
            return False
        return min(loss[-patience:]) >= min(loss[:-patience])

    def _check_finite(self, table: Tensor, epoch: int) -> None:
        bad = torch.nonzero(~torch.isfinite(table).all(1))
        if bad.numel():
            step = int(bad[0])
            norm = ("gradient_norm",) if self.settings.diagnostics else ()
            names = ("loss", *self.method.term_names, *norm)
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

    @property
    def num_values(self) -> int:
        """Numbers that a step returns: the loss, its terms and with diagnostics a gradient norm."""
        return 1 + len(self.method.term_names) + self.settings.diagnostics

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
        tensors |= self.watch.tensors(self.history)
        none = torch.zeros(0, self.num_values)
        tensors["values"] = torch.stack(self.values) if self.values else none
        # Copies, since training changes the tensors in place.
        copies = {name: value.detach().cpu().clone() for name, value in tensors.items()}
        position = {
            "epoch": self.epoch,
            "step": self.step,
            "term_names": self.method.term_names,
            "diagnostic_names": self.watch.names,
            "method": self.method.state(),
            "moments": sorted(self.optimizer.state_dict()["state"]),
        }
        if current() is not None:
            position["processes"] = world_size()
        if (name := share_name(self.batches)) is not None:
            position["shards"] = name
        return Snapshot(copies, json.dumps(position))

    def restore(self, snapshot: Snapshot) -> None:
        """Return to the state that `snapshot` holds.

        Raises:
            ValueError: where it is not one that this run could have saved; nothing is changed then.
        """
        tensors, position = dict(snapshot.tensors), check_snapshot(snapshot, self)
        same_shards = position.get("shards") == share_name(self.batches)
        if not same_shards:
            # It has measured other nodes.
            tensors |= self.watch.started()
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
        self.history = History.from_snapshot(tensors, position)
        self.watch.restore(tensors)
        self.pending, self.unreported = [], []
        device = next(self.model.parameters()).device
        self.values = [row.to(device) for row in tensors["values"]]
        self.epoch, self.step = position["epoch"], position["step"]
        if same_shards:
            self._share_anew(position.get("processes", 1))
        else:
            # Other steps: the epoch begins again.
            self.step, self.values = 0, []
        self.method.load_state(position["method"])

    def _share_anew(self, before: int) -> None:
        """Count the steps of this epoch in those of this number of processes."""
        done, self.step = (
            self.step,
            moved_step(self.step, self.batches, before=before, now=world_size()),
        )
        # As many losses as steps: of the epoch's mean, a step then stands for several or a part.
        self.values = [self.values[i * done // self.step] for i in range(self.step)]
