"""The settings of registered methods, as recipes and records need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from graphlatent.config import (
    WITHOUT_EFFECT,
    Level,
    Settings,
    from_mapping,
    resolve,
    to_mapping,
)
from graphlatent.methods.lagraph.method import LaGraph
from graphlatent.methods.registry import estimator_class

LAGRAPH = LaGraph.name
# Given when a recipe is run, not by the recipe.
GIVEN_LATER = ("random_state", "device", *WITHOUT_EFFECT)


def make_settings(method: str, level: Level, values: Mapping[str, Any], *, where: str) -> Settings:
    """Settings of a method out of plain values.

    Raises:
        ConfigError: where the method is not registered at the level, or a name is unknown; the
            message says `where`.
    """
    return from_mapping(estimator_class(method, level).settings_class, values, where=where)


def resolved_settings(settings: Settings, *, owner: str) -> dict[str, Any]:
    """Every setting as it is used, checked, in plain values; without those given later.

    Where a recipe does not say otherwise, a step sees the whole graph, whatever memory there is.

    Raises:
        ConfigError: where a setting is out of range.
    """
    values = to_mapping(resolve(settings, owner=owner))
    if values.get("batching") == "auto":
        values["batching"] = "full"
    return {name: value for name, value in values.items() if name not in GIVEN_LATER}


def default_settings(method: str, level: Level) -> Mapping[str, Any]:
    """The resolved defaults of a method.

    Raises:
        ConfigError: where the method is not registered at the level.
    """
    settings_class: Any = estimator_class(method, level).settings_class
    return _defaults(settings_class)


@cache
def _defaults(settings_class: Callable[[], Settings]) -> Mapping[str, Any]:
    return MappingProxyType(resolved_settings(settings_class(), owner="bench"))
