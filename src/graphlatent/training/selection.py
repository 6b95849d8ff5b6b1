"""The choice of an epoch, and of one training among several, without labels.

docs/evidence.md has what each rule costs against a choice by validation labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphlatent.config import Settings
from graphlatent.errors import InputError, bad_argument
from graphlatent.io.history import History
from graphlatent.training.collapse import find_collapse

RUN_RULES = ("effective_rank", "recovery", "objective")


def selects(settings: Settings) -> bool:
    """Whether the weights of an epoch other than the last one may be kept."""
    return settings.select != "last" or settings.on_collapse == "stop"


def selected_epoch(history: History, settings: Settings) -> int:
    """The epoch that `select` and `on_collapse` choose among those measured so far.

    Later measurements choose either the same epoch or their own.
    """
    collapse = find_collapse(history, settings)
    before = settings.on_collapse == "stop" or settings.select == "before_collapse"
    limit = collapse.epoch if collapse is not None and before else len(history) + 1
    measured = history.diagnostics
    rows = [i for i, epoch in enumerate(measured["epoch"]) if epoch < limit]
    epochs = [int(measured["epoch"][i]) for i in rows]
    if settings.select == "effective_rank":
        return epochs[_first_of_largest([measured["effective_rank"][i] for i in rows])]
    if settings.select == "objective" and epochs[-1] > 0:
        trained = [epoch for epoch in epochs if epoch > 0]
        return trained[_first_of_largest([-history.loss[epoch - 1] for epoch in trained])]
    return epochs[-1]


def choose_run(runs: Mapping[str, Any], *, by: str = "effective_rank") -> str:
    """The name of the best of several trainings by a measure that needs no labels.

    Args:
        runs: fitted estimators, or their histories, by name.
        by: "effective_rank": the largest; "recovery": the most that is left of the untrained
            embedding; "objective": the lowest loss, of trainings with the same objective and
            weights only. Each at the epoch whose weights the estimator has; first of equals.

    Raises:
        ConfigError: where `by` is unknown, or `runs` are not by name.
        InputError: where a training has no diagnostics, or losses cannot be compared.
    """
    if by not in RUN_RULES:
        raise bad_argument("by", owner="choose_run", allowed=f"one of {RUN_RULES}", got=by)
    given: object = runs
    if not isinstance(given, Mapping):
        allowed = "a dict of fitted estimators by name"
        raise bad_argument("runs", owner="choose_run", allowed=allowed, got=runs)
    if not runs:
        raise InputError("choose_run needs at least one fitted estimator. Got none.")
    if by == "objective":
        _check_same_objective(runs)
    values = [_value(run, by, name=name) for name, run in runs.items()]
    return list(runs)[_first_of_largest(values)]


def _value(run: Any, by: str, *, name: str) -> float:
    history = run if isinstance(run, History) else getattr(run, "history_", None)
    if not isinstance(history, History):
        raise InputError(
            f"choose_run needs fitted estimators, or their history_. Got {type(run).__name__} for"
            f" '{name}'."
        )
    epoch = len(history) if history.selected_epoch is None else history.selected_epoch
    if by == "objective":
        if not 0 < epoch <= len(history):
            raise InputError(f"'{name}' was not trained, so that it has no loss to compare.")
        return -history.loss[epoch - 1]
    measured = [int(e) for e in history.diagnostics.get("epoch", [])]
    if epoch not in measured:
        raise InputError(
            f"'{name}' has no diagnostics of its epoch {epoch}. Fit it with diagnostics=True."
        )
    return history.diagnostics[by][measured.index(epoch)]


def _check_same_objective(runs: Mapping[str, Any]) -> None:
    """Losses of different terms, or of terms with different weights, are not comparable."""
    names = ("objective", "loss_reduction", "alpha", "preset")
    forms = {
        tuple((n, getattr(getattr(run, "settings_", None), n, None)) for n in names)
        for run in runs.values()
    }
    if len(forms) > 1:
        raise InputError(
            "Losses of different objectives or weights cannot be compared (objective,"
            " loss_reduction, alpha). Use by='effective_rank' or by='recovery'."
        )


def _first_of_largest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda i: values[i])
