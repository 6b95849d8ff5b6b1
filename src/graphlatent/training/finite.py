"""Checks that a model is made of finite numbers, and advice on what to change where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from graphlatent.config import Settings, describe, field_hints
from graphlatent.data.batches import Batch
from graphlatent.errors import GraphLatentError, InputError, NonFiniteLossError
from graphlatent.methods.base import Method
from graphlatent.setting_types import union_members

# A setting that is this many times its default, or this large where that is 0, may be too large.
_SUSPECT = 100.0


def first_not_finite(tensors: Iterable[tuple[str, Tensor]]) -> str | None:
    """The name of the first tensor with a value that is NaN or infinite; None where all are finite.

    A GPU is waited for once.
    """
    named = [(name, value) for name, value in tensors if value.is_floating_point()]
    if not named:
        return None
    finite = torch.stack([torch.isfinite(value).all() for _, value in named]).tolist()
    return None if all(finite) else named[finite.index(False)][0]


def training_state(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Iterable[tuple[str, Tensor]]:
    """The weights and buffers of a model, and the optimizer's moments, by name.

    An infinite moment stops the training of its weight without making the weight infinite.
    """
    yield from model.state_dict().items()
    for of, parameter in model.named_parameters():
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                yield f"{of} ({name} of the optimizer)", value


def large_settings(settings: Settings) -> str:
    """A sentence that names the numbers among the settings that are far above their defaults."""
    large = []
    for name, _, default, _ in describe(type(settings)):
        value = getattr(settings, name)
        if float not in union_members(field_hints(type(settings))[name]) or value is None:
            continue
        usual = default if isinstance(default, int | float) and default > 0 else 1.0
        if value > _SUSPECT * usual:
            large.append(f"{name} ({value:g}; the default is {default:g})")
    return f"Try a smaller {' and a smaller '.join(large)}." if large else ""


def settings_to_lower(settings: Settings) -> str:
    """What to do about a loss or weights that are not finite, as a sentence."""
    return (
        large_settings(settings)
        or "Try a smaller lr, or features and edge weights on a smaller scale."
    )


def check_statistics(model: nn.Module, settings: Settings) -> None:
    """Raise where what was measured on the training set after training is not finite.

    Raises:
        NonFiniteLossError: where settings are far above their defaults.
        InputError: where the features or the edge weights are the likely cause.
    """
    name = first_not_finite(model.state_dict().items())
    if name is not None:
        raise _overflow(f"The model's {name}", settings)


def fit_head(method: Method[Any], model: nn.Module, batch: Batch) -> None:
    """Fit the model's head, where it has one, to the training set, and check it.

    Raises:
        NonFiniteLossError, InputError: as `check_statistics`.
    """
    with checked_fit(model, method.settings):
        method.fit_head(model.eval(), batch)


@contextmanager
def checked_fit(model: nn.Module, settings: Settings) -> Iterator[None]:
    """A context in which a head is fitted; afterwards it is checked, as `fit_head` does."""
    try:
        yield
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise _overflow("The output of the encoder", settings) from error
    check_statistics(model, settings)


def _overflow(what: str, settings: Settings) -> GraphLatentError:
    """The error about values of the training set that are not finite after training."""
    message = f"{what}, measured on the training set, is not finite: it overflows"
    if large := large_settings(settings):
        return NonFiniteLossError(f"{message} float32. {large}")
    return InputError(
        f"{message} float32. Features or edge weights are too large, or differ too much in size."
        " Divide them by a constant or take logarithms; encoder='gcn' divides by the sums of edge"
        " weights."
    )
