"""The training loop: epochs of steps, with a position that can be saved and taken up again between
any two steps.

All randomness is in two generators: one plans epochs (which nodes or graphs go into which step),
    one draws masks. A
snapshot holds the weights, Adam's moments, both generators, the history and the position; restoring
it and going on gives the same bits as never having stopped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphlatent.config import Settings
from graphlatent.data.batches import BatchSource
from graphlatent.errors import NonFiniteLossError, TrainingInterrupted
from graphlatent.io.history import History
from graphlatent.io.runfolder import Snapshot
from graphlatent.methods.lagraph.engine import choose_engine
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.objective import Reconstruct
from graphlatent.methods.lagraph.reconstruction import SAFE_RATIO
from graphlatent.training.peak_memory import PeakMemory
from graphlatent.training.stepper import (
    Stepper,
    make_optimizer,
    matmul_precision,
    set_learning_rate,
)

SAMPLE_EVERY = 20
"""Epochs between two looks at the loss on a GPU, which would otherwise stand still each time."""


@dataclass(frozen=True)
class Progress:
    """Where training is: `epoch` of `epochs` done, and the last epoch's terms."""

    epoch: int
    epochs: int
    loss: float
    reconstruction: float
    invariance: float


@dataclass(frozen=True)
class Hooks:
    """What the loop tells and asks while it runs.

    Args:
        on_epoch: called for every epoch, once its loss is known: on a GPU for up to SAMPLE_EVERY of
            them at a time.
        save_due: asked after every step whether a snapshot should be saved now.
        save: gets the snapshot.
        stop_requested: asked after every step; True saves and stops with `TrainingInterrupted`.
    """

    on_epoch: Callable[[Progress], None] = lambda _: None
    save_due: Callable[[], bool] = lambda: False
    save: Callable[[Snapshot], None] = lambda _: None
    stop_requested: Callable[[], bool] = lambda: False


def seeded(seed: int, stream: int, device: torch.device | str = "cpu") -> torch.Generator:
    """One of several independent generators of a seed."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed * 4 + stream)
    return generator


class Training:
    """One run: model, optimiser, generators, position and history."""

    def __init__(
        self,
        model: LaGraphModel,
        batches: BatchSource,
        settings: Settings,
        *,
        device: torch.device,
        memory: PeakMemory | None = None,
    ) -> None:
        self.model, self.batches, self.settings, self.device = model, batches, settings, device
        self.memory = memory or PeakMemory(device)
        self.optimizer = make_optimizer(model, settings)
        self.plan_generator = seeded(settings.random_state, 1)
        self.mask_generator = seeded(settings.random_state, 2, device)
        self.stepper = Stepper(
            model, settings, optimizer=self.optimizer, generator=self.mask_generator
        )
        self.history = History()
        self.epoch, self.step = 0, 0
        self.engine = choose_engine(model, settings)
        self.sample_every = (
            SAMPLE_EVERY if device.type == "cuda" and settings.patience is None else 1
        )
        self.terms: list[Tensor] = []  # what the steps of this epoch returned
        # The same and the learning rate, of epochs that are not in the history yet
        self.waiting: list[tuple[Tensor, float]] = []
        # Of epochs that are in the history, and were not told yet
        self.reports: list[Progress] = []
        self.plan_state = self.plan_generator.get_state()  # as it was when this epoch was planned

    def run(self, hooks: Hooks | None = None, *, until: int | None = None) -> History:
        """Train to the last epoch (or, to go on later, to the epoch `until`), or until the loss
        stops improving. Returns the history.
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
            while self.epoch < last and not self._out_of_patience():
                self.run_epoch(hooks)
            self._collect()
            self._report(hooks)
        self.stepper.forget()
        self.model.eval()
        return self.history

    def _on_device(self) -> AbstractContextManager[object]:
        """The GPU that is trained on is the current one: streams and captured steps are made
        there.
        """
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def run_epoch(self, hooks: Hooks) -> None:
        """One pass over the training data."""
        self.plan_generator.set_state(self.plan_state)
        plan = self.batches.plan(self.plan_generator)
        lr = self._learning_rate()
        set_learning_rate(self.optimizer, lr)
        while self.step < len(plan):
            self.terms.append(self.stepper(self.batches, plan[self.step], self.engine))
            self.step += 1
            if self.step < len(plan):
                self._save_or_stop(hooks)
        self.waiting.append((torch.stack(self.terms), lr))
        self.epoch, self.step, self.terms = self.epoch + 1, 0, []
        self.plan_state = self.plan_generator.get_state()
        if self.epoch % self.sample_every == 0:
            worst = self._collect()
            self._guard(worst < SAFE_RATIO)
        self._save_or_stop(hooks)
        self._report(hooks)  # after saving: what was reported is safe

    def _collect(self) -> float:
        """Put the epochs that wait into the history: the one place where the host waits for the
        device. Returns the last one's ratio.
        """
        waiting = list(self.waiting)
        if not waiting:
            return 1.0
        stacked = torch.cat([terms for terms, _ in waiting]).to("cpu", torch.float64)
        tables = torch.split(stacked, [len(terms) for terms, _ in waiting])
        for table, (_, lr) in zip(tables, waiting, strict=True):
            self._check_finite(table, len(self.history) + 1)
            loss, reconstruction, invariance, _ = table.mean(0).tolist()
            self.history.append(loss, reconstruction, invariance, lr)
            self.waiting.pop(0)
            self.reports.append(
                Progress(len(self.history), self.settings.epochs, loss, reconstruction, invariance)
            )
        return float(tables[-1][:, 3].min())

    def _report(self, hooks: Hooks) -> None:
        while self.reports:
            hooks.on_epoch(self.reports.pop(0))

    def _guard(self, well_reconstructed: bool) -> None:
        """Form residuals in blocks where the Gram identity would subtract almost equal numbers;
        back where it would not.
        """
        how: Reconstruct = "blocks" if well_reconstructed else "gram"
        if self.engine.how not in ("output", how):
            self.engine = replace(self.engine, how=how)
            self.stepper.forget()

    def _save_or_stop(self, hooks: Hooks) -> None:
        stop = hooks.stop_requested()
        if stop or hooks.save_due():
            self._collect()
            if self.terms:
                self._check_finite(torch.stack(self.terms).to("cpu", torch.float64), self.epoch + 1)
            self._check_weights()
            hooks.save(self.snapshot())
        if stop:
            raise TrainingInterrupted(
                f"Stopped after epoch {self.epoch} of {self.settings.epochs}, step {self.step}."
            )

    def _learning_rate(self) -> float:
        if self.settings.schedule == "cosine":
            return (
                self.settings.lr * 0.5 * (1 + math.cos(math.pi * self.epoch / self.settings.epochs))
            )
        return self.settings.lr

    def _out_of_patience(self) -> bool:
        patience, loss = self.settings.patience, self.history.loss
        return (
            patience is not None
            and len(loss) > patience
            and min(loss[-patience:]) >= min(loss[:-patience])
        )

    @staticmethod
    def _check_finite(table: Tensor, epoch: int) -> None:
        bad = torch.nonzero(~torch.isfinite(table[:, :3]).all(1))
        if bad.numel():
            step = int(bad[0])
            loss, reconstruction, invariance, _ = table[step].tolist()
            raise NonFiniteLossError(
                f"The loss is not a finite number at epoch {epoch}, step {step + 1}: loss={loss:g},"
                f" reconstruction={reconstruction:g}, invariance={invariance:g}. The last good"
                " checkpoint, if one was saved, is kept. Try a smaller lr, or features on a"
                " smaller scale."
            )

    def _check_weights(self) -> None:
        bad = [
            name
            for name, value in self.model.state_dict().items()
            if not bool(torch.isfinite(value).all())
        ]
        if bad:
            raise NonFiniteLossError(
                f"The weights {bad[0]} are not finite after epoch {self.epoch}, step {self.step}."
                " The last good checkpoint, if one was saved, is kept. Try a smaller lr, or"
                " features on a smaller scale."
            )

    def snapshot(self) -> Snapshot:
        """The state between two steps."""
        self._collect()
        tensors = {
            f"model.{name}": value.detach() for name, value in self.model.state_dict().items()
        }
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {
                f"adam.{index}.{name}": torch.as_tensor(value).detach()
                for name, value in moments.items()
            }
        tensors["plan_state"], tensors["mask_state"] = (
            self.plan_state,
            self.mask_generator.get_state(),
        )
        tensors["history"] = self.history.to_tensor()
        tensors["terms"] = torch.stack(self.terms) if self.terms else torch.zeros(0, 4)
        # Training goes on in place
        tensors = {name: value.cpu().clone().contiguous() for name, value in tensors.items()}
        return Snapshot(
            tensors, json.dumps({"epoch": self.epoch, "step": self.step, "how": self.engine.how})
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to where `snapshot` was taken."""
        tensors, position = dict(snapshot.tensors), json.loads(snapshot.position)
        prefix = "model."
        self.model.load_state_dict(
            {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
        )
        state = self.optimizer.state_dict()
        for key, value in tensors.items():
            if key.startswith("adam."):
                _, index, name = key.split(".")
                state["state"].setdefault(int(index), {})[name] = value
        self.optimizer.load_state_dict(state)
        self.stepper.forget()
        self.plan_state = tensors["plan_state"]
        self.mask_generator.set_state(tensors["mask_state"])
        self.history, self.waiting, self.reports = History.from_tensor(tensors["history"]), [], []
        device = next(self.model.parameters()).device
        self.terms = [row.to(device) for row in tensors["terms"]]
        self.epoch, self.step = int(position["epoch"]), int(position["step"])
        self._guard(position.get("how") == "blocks")
