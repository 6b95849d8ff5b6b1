"""Checks of a snapshot before a run is restored from it.

Every tensor must have the name, shape and type that the run itself would save: the optimizer's
fused step writes as many numbers as a weight has into its moments, whatever their size is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphlatent.data.sharing import share_name
from graphlatent.io.runfolder import Snapshot
from graphlatent.io.tensor_forms import TensorForm, check_tensors
from graphlatent.ops.collective import rank

if TYPE_CHECKING:
    from graphlatent.training.loop import Training

_FLOATS = (torch.float32, torch.float64)
_MOMENTS = ("exp_avg", "exp_avg_sq")


def check_snapshot(snapshot: Snapshot, training: Training) -> dict[str, Any]:
    """The position that a snapshot holds, after everything in it was checked.

    Args:
        snapshot: as it was read from a file.
        training: the run that is to be restored; not changed.

    Raises:
        ValueError: where the run could not have saved this snapshot; says what is wrong.
    """
    position = _position(snapshot.position, training)
    tensors = snapshot.tensors
    check_tensors(tensors, _expected(position, training, tensors))
    training.watch.check(tensors, position["epoch"])
    _check_steps(tensors)
    _check_generators(tensors, position, training)
    return position


def _position(text: str, training: Training) -> dict[str, Any]:
    """The values beside the tensors: how far the run had come, and the state of its method."""
    try:
        position = json.loads(text)
    except RecursionError:
        position = None
    if not isinstance(position, dict):
        raise ValueError("its position is no JSON object")
    for name, most in (("epoch", training.settings.epochs), ("step", None)):
        value = position.get(name)
        if type(value) is not int or value < 0 or (most is not None and value > most):
            limit = "" if most is None else f" of at most {most}"
            raise ValueError(
                f"its {name} must be an integer of at least 0{limit}. Got {_short(value)}"
            )
    processes = position.get("processes", 1)
    if type(processes) is not int or processes < 1:
        raise ValueError(
            f"its number of processes must be an integer of at least 1. Got {_short(processes)}"
        )
    names = list(training.method.term_names)
    if position.get("term_names") != names:
        raise ValueError(f"its terms must be {names}. Got {_short(position.get('term_names'))}")
    if not isinstance(position.get("method"), dict):
        raise ValueError(
            f"the state of its method is no JSON object. Got {_short(position.get('method'))}"
        )
    return position


def _expected(
    position: Mapping[str, Any], training: Training, tensors: Mapping[str, Tensor]
) -> dict[str, TensorForm]:
    """The form of every tensor that the run would save at this position."""
    width = training.num_values
    forms = {f"model.{k}": TensorForm.of(v) for k, v in training.model.state_dict().items()}
    parameters = [p for group in training.optimizer.param_groups for p in group["params"]]
    # Snapshots of earlier versions do not say which weights had a gradient.
    indices = position.get("moments", list(range(len(parameters))))
    known = range(len(parameters))
    if not isinstance(indices, list) or not all(type(i) is int and i in known for i in indices):
        raise ValueError(f"its weights with moments must be some of {len(known)}. Got {indices!r}")
    for index in indices:
        form = TensorForm.of(parameters[index])
        forms |= {f"optimizer.{index}.{name}": form for name in _MOMENTS}
        forms[f"optimizer.{index}.step"] = TensorForm((), _FLOATS)
    forms["plan_state"] = TensorForm.of(training.plan_state)
    forms["step_state"] = TensorForm.of(training.step_generator.get_state())
    forms["history"] = TensorForm((position["epoch"], width + 1), (torch.float64,))
    # With shards, the nodes that were measured are of the first process's.
    own = share_name(training.batches)
    same_sample = position.get("shards") == own and (own is None or rank() == 0)
    watched = training.watch.expected(tensors, position["epoch"], same_sample=same_sample)
    forms |= {name: TensorForm.of(value) for name, value in watched.items()}
    forms["values"] = TensorForm((position["step"], width), _FLOATS)
    return forms


def _check_steps(tensors: Mapping[str, Tensor]) -> None:
    """The optimizer divides by a power of the number of steps and by roots of second moments."""
    for name, value in tensors.items():
        if not name.startswith("optimizer."):
            continue
        if name.endswith(".step") and (float(value) < 1 or float(value) % 1 != 0):
            raise ValueError(f"its {name} must be an integer of at least 1. Got {float(value):g}")
        if name.endswith(".exp_avg_sq") and bool((value < 0).any()):
            raise ValueError(f"its {name} holds negative numbers")


def _check_generators(
    tensors: Mapping[str, Tensor], position: Mapping[str, Any], training: Training
) -> None:
    """Whether both generators take their states, and the epoch that is planned has this step."""
    step, processes = position["step"], position.get("processes", 1)
    # Those of other shards had other steps.
    known = position.get("shards") == share_name(training.batches)
    device = training.step_generator.device
    for name, generator in (
        ("plan_state", torch.Generator()),
        ("step_state", torch.Generator(device=device)),
    ):
        try:
            generator.set_state(tensors[name])
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"its {name} is no state of a generator: {error}") from error
        if (
            name == "plan_state"
            and known
            and step
            and step >= len(training.plan(generator, processes=processes))
        ):
            raise ValueError(f"its step {step} is after the end of the epoch")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
