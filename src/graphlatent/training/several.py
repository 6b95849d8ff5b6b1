"""What several processes check and exchange before and after they train one model together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from graphlatent.config import NodeSettings, Settings
from graphlatent.data.coordinates import NodeCoordinates
from graphlatent.data.features import FeatureSpec
from graphlatent.data.store.store import AnyGraph
from graphlatent.errors import ConfigError, InputError
from graphlatent.io.history import History
from graphlatent.io.runfolder import Snapshot
from graphlatent.methods.base import Method
from graphlatent.ops.collective import (
    broadcast_tensors,
    current,
    from_first,
    gathered_json,
    rank,
    world_size,
)
from graphlatent.training.loop import Training


def check_shareable(
    method: type[Method[Any]], settings: Settings, graph: AnyGraph | None = None
) -> None:
    """Raise where several processes compute and cannot share the steps of a training.

    Args:
        method: the method's class.
        settings: resolved.
        graph: as it was read; None where it is not read yet.

    Raises:
        ConfigError: where the method or the batching does not allow it.
        InputError: where processes have read different graphs.
    """
    if current() is None:
        return
    if not method.parallel:
        raise ConfigError(
            f"The method '{method.name}' cannot be trained by {world_size()} processes together:"
            " its class does not say parallel = True. Train it in one process, without torchrun."
        )
    if isinstance(settings, NodeSettings) and settings.batching == "full":
        raise ConfigError(
            f"{world_size()} processes cannot share the steps of batching='full', each of which"
            " sees the whole graph. Use another batching, such as batching='nodes', or one process"
            " with several threads, without torchrun."
        )
    if graph is not None:
        _check_same_input(graph)


def check_norms(model: nn.Module) -> None:
    """Raise a `ConfigError` where a model's batch norms see the rows of one process only."""
    if current() is None:
        return
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ConfigError(
                f"The encoder's {name} is torch's {type(module).__name__}, whose statistics are of"
                f" one process; there are {world_size()}. Use graphlatent.nn.norm.BatchNorm in your"
                " encoder, or one process, without torchrun."
            )


def _check_same_input(graph: AnyGraph) -> None:
    first, *others = gathered_json(graph.fingerprints())
    for number, other in enumerate(others, 1):
        parts = [name for name in {**first, **other} if first.get(name) != other.get(name)]
        if parts:
            raise InputError(
                f"Process {number} has read another input than process 0: {', '.join(parts)}"
                f" {'differs' if len(parts) == 1 else 'differ'}. Every process needs the same"
                " files, on every machine."
            )


def encoding_of_first(fit: Callable[[], FeatureSpec]) -> FeatureSpec:
    """The encoding that `fit` returns in the first process, with its coordinates."""
    if current() is None:
        return fit()

    def described() -> tuple[Any, dict[str, torch.Tensor]]:
        spec = fit()
        of_nodes = spec.coordinates
        return spec.to_dict(), {} if of_nodes is None else of_nodes.to_tensors()

    values, tensors = from_first(described)
    spec = FeatureSpec.from_dict(values)
    return replace(spec, coordinates=NodeCoordinates.from_tensors(tensors)) if tensors else spec


def begin_alike(training: Training, begin: Callable[[], bool]) -> bool:
    """Begin, or resume, in all processes what the first begins or resumes.

    Args:
        training: a run before its first step; changed in place.
        begin: restores `training`, in the first process; returns whether the run is complete.

    Returns:
        Whether it is.
    """
    if current() is None:
        return begin()

    def begun() -> tuple[Any, dict[str, torch.Tensor]]:
        complete = begin()
        told = {"complete": complete, "position": None, "history": training.history.to_csv()}
        begun_before = (training.epoch, training.step) != (0, 0) or training.optimizer.state
        if complete or not begun_before:
            return told, training.model.state_dict()
        snapshot = training.snapshot()
        return {**told, "position": snapshot.position}, dict(snapshot.tensors)

    told, tensors = from_first(begun)
    if rank() > 0 and told["position"] is not None:
        # The first has it counted in the steps of these processes already.
        training.restore(Snapshot(tensors, told["position"]))
    elif rank() > 0:
        training.model.load_state_dict(tensors)
    if rank() > 0 and told["complete"]:
        training.history = History.from_csv(told["history"])
        training.epoch = training.settings.epochs
    return bool(told["complete"])


def finish_alike(model: nn.Module, finish: Callable[[], None], *, shares: bool = False) -> None:
    """Let the first process finish a model, and give it to all; in place.

    Args:
        model: trained, the same in all processes.
        finish: changes it in place.
        shares: processes have different shards, and finish it together.
    """
    if current() is None:
        finish()
        return
    if shares:
        finish()
        broadcast_tensors(model.state_dict().values())
        return

    def finished() -> tuple[Any, dict[str, torch.Tensor]]:
        finish()
        return None, model.state_dict()

    _, tensors = from_first(finished)
    if rank() > 0:
        model.load_state_dict(tensors)
