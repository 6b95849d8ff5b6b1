"""What the bench knows of methods: the estimator class of each, its settings and their defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from graphlatent.config import Level, from_mapping, resolve, to_mapping
from graphlatent.errors import bad_argument
from graphlatent.estimator import GraphLaGraph, NodeLaGraph

LAGRAPH = "lagraph"
# Given when a recipe is run, not by the recipe.
GIVEN_LATER = ("random_state", "device", "progress")
_ESTIMATORS: dict[tuple[str, str], type[Any]] = {
    (LAGRAPH, "node"): NodeLaGraph,
    (LAGRAPH, "graph"): GraphLaGraph,
}


def estimator_class(method: str, level: Level) -> type[Any]:
    """The estimator class of a method at a level.

    Raises:
        ConfigError: where the method is not known there.
    """
    if (method, level) not in _ESTIMATORS:
        raise bad_argument(
            "method",
            owner=f"{level}-level training",
            allowed=f"one of {tuple(method_names(level))}",
            got=method,
        )
    return _ESTIMATORS[method, level]


def method_names(level: Level) -> list[str]:
    """The methods that are registered at a level."""
    return [name for name, registered in _ESTIMATORS if registered == level]


def make_settings(method: str, level: Level, values: Mapping[str, Any], *, where: str) -> Any:
    """Settings of a method out of plain values; unknown names are errors that say `where`."""
    return from_mapping(settings_class(method, level), values, where=where)


def settings_class(method: str, level: Level) -> type[Any]:
    """The dataclass of a method's settings."""
    cls = estimator_class(method, level)
    return next(base for base in cls.__mro__ if dataclasses.is_dataclass(base) and base is not cls)


def resolved_settings(settings: Any, *, owner: str) -> dict[str, Any]:
    """Every setting as it is used, checked, in plain values; without those given later.

    Raises:
        ConfigError: where a setting is out of range.
    """
    values = to_mapping(resolve(settings, owner=owner))
    return {name: value for name, value in values.items() if name not in GIVEN_LATER}


def default_settings(method: str, level: Level) -> Mapping[str, Any]:
    """The resolved defaults of a method.

    Raises:
        ConfigError: where the method is not known at the level.
    """
    return _defaults(settings_class(method, level))


@cache
def _defaults(cls: type[Any]) -> Mapping[str, Any]:
    return MappingProxyType(resolved_settings(cls(), owner=cls.__name__))
