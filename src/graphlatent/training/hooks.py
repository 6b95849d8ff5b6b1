"""Callbacks of the training loop, and what they get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from graphlatent.errors import bad_argument
from graphlatent.io.runfolder import Snapshot
from graphlatent.ops.collective import rank


@dataclass(frozen=True)
class Progress:
    """The state of training after `epoch` of `epochs`: the last epoch's loss and terms.

    `diagnostics` are the latest measurements of the embedding by name; empty where there are none.
    """

    epoch: int
    epochs: int
    loss: float
    terms: Mapping[str, float]
    diagnostics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What `Hooks.on_measure` gets after a measured epoch.

    Args:
        epoch: the number of epochs done.
        values: the diagnostics.
        embedding: computes the embeddings of the training set as `transform` would return them if
            training ended here, [M, D]; training goes on unchanged.
    """

    epoch: int
    values: Mapping[str, float]
    embedding: Callable[[], Tensor]


@dataclass(frozen=True)
class Hooks:
    """Callbacks of the training loop.

    Args:
        on_epoch: called for every epoch once its loss is known; on a GPU for up to SAMPLE_EVERY
            epochs one after another.
        on_step: called with the number of epochs done, such as 2.25, and of all epochs, before
            the first step and after every step; on a GPU when the host has waited for it.
        on_measure: called after every epoch whose embedding was measured, and before the first;
            None leaves it out.
        save_due: called after every step; True saves a snapshot.
        save: receives the snapshot.
        stop_requested: called after every step; True saves a snapshot and stops with
            `TrainingInterrupted`.
        on_stage: called after the last epoch while a graph in a store is embedded, with what is
            computed, how many nodes that is done for, and of how many.
    """

    on_epoch: Callable[[Progress], None] = lambda _: None
    on_step: Callable[[float, int], None] = lambda done, epochs: None
    on_measure: Callable[[Measured], None] | None = None
    save_due: Callable[[], bool] = lambda: False
    save: Callable[[Snapshot], None] = lambda _: None
    stop_requested: Callable[[], bool] = lambda: False
    on_stage: Callable[[str, int, int], None] = lambda stage, done, total: None


def own_hooks(hooks: Hooks) -> Hooks:
    """The hooks of this process: of several, all but the first are only asked whether to stop.

    They take part in `on_measure`, during which the first computes alone.
    """
    if rank() == 0:
        return hooks
    return Hooks(stop_requested=hooks.stop_requested, on_measure=hooks.on_measure)


def check_hooks(value: object, *, owner: str) -> None:
    """Raise a `ConfigError` where an argument is neither `Hooks` nor None."""
    if value is not None and not isinstance(value, Hooks):
        raise bad_argument("hooks", owner=owner, allowed="a Hooks or None", got=value)
