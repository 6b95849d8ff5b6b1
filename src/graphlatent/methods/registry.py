"""The registered methods: estimator classes by name and level."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

from torch import nn

from graphlatent.errors import ConfigError
from graphlatent.estimator import Estimator
from graphlatent.io.runfolder import RunFolder
from graphlatent.setting_docs import document_settings

# Modules of the package that register methods, imported when a method is asked for by name.
_BUILT_IN = ("lagraph.estimators", "bgrl", "dgi")
_ESTIMATORS: dict[tuple[str, str], type[Estimator]] = {}

AnyEstimator = TypeVar("AnyEstimator", bound=type[Estimator])


def register(estimator: AnyEstimator) -> AnyEstimator:
    """Register an estimator class under its method's name and its level (a class decorator).

    It is then available to `graphlatent train --method NAME`, `graphlatent settings --method NAME`,
    `load_estimator` and the bench.
    """
    _ESTIMATORS[estimator.method.name, estimator.level] = estimator
    document_settings(estimator, settings=estimator.settings_class, base=Estimator)
    return estimator


def estimator_class(name: str, level: str) -> type[Estimator]:
    """The estimator class of a registered method at a level, 'node' or 'graph'.

    Raises:
        ConfigError: where there is none; the message lists the registered methods.
    """
    if (name, level) not in _ESTIMATORS:
        _import_plugins()
    found = _ESTIMATORS.get((name, level))
    if found is None:
        known = ", ".join(f"'{method}'" for method in method_names(level))
        other = [lv for (method, lv) in _ESTIMATORS if method == name]
        why = f"it embeds {other[0]}s only" if other else "it is not registered"
        raise ConfigError(
            f"There is no method '{name}' at {level} level: {why}. Methods at this level: {known}."
        )
    return found


@cache
def _import_plugins() -> None:
    """Import our methods and those that installed packages declare, which registers them."""
    for module in _BUILT_IN:
        import_module(f"graphlatent.methods.{module}")
    for plugin in entry_points(group="graphlatent.methods"):
        plugin.load()


def method_names(level: str) -> list[str]:
    """The names of the methods registered at a level, sorted."""
    _import_plugins()
    return sorted(name for name, registered in _ESTIMATORS if registered == level)


def load_estimator(
    folder: str | Path, *, encoder: nn.Module | None = None, device: str | None = None
) -> Estimator:
    """The fitted estimator in a run folder, of any registered method and level.

    Args:
        folder: the folder of a finished run, or one that `save` wrote.
        encoder: as in `Estimator.load`.
        device: as in `Estimator.load`.
    """
    config = RunFolder(folder).read_config()
    found = estimator_class(config.method, str(config.level))
    return found.load(folder, encoder=encoder, device=device)
