"""Single values of recipe files, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from graphlatent.errors import ConfigError, bad_argument


def names(cls: type[Any]) -> list[str]:
    """The names of the fields of a dataclass."""
    return [each.name for each in fields(cls)]


def require(
    table: Mapping[str, Any],
    keys: Iterable[str],
    *,
    where: str,
    way_out: str = "Give it there, or extend a recipe that has it.",
) -> None:
    """Raise a `ConfigError` that lists the keys that a table lacks."""
    missing = [f"'{key}'" for key in keys if key not in table]
    if missing:
        raise ConfigError(f"Missing in {where}: {', '.join(missing)}. {way_out}")


def one_of(value: str, allowed: Iterable[str], *, key: str, owner: str) -> None:
    """Raise a `ConfigError` where a value is not allowed."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise bad_argument(key, owner=owner, allowed=f"one of {allowed}", got=value)


def text(table: Mapping[str, Any], key: str, *, owner: str, needed: bool = False) -> str:
    """The text at `key`; "" where there is none and none is needed."""
    value = table.get(key, "")
    if not isinstance(value, str) or (needed and not value.strip()):
        raise bad_argument(
            key, owner=owner, allowed="text that is not empty" if needed else "text", got=value
        )
    return value


def number(
    table: Mapping[str, Any],
    key: str,
    *,
    owner: str,
    low: float = 0,
    high: float = math.inf,
    whole: bool = False,
) -> Any:
    """The number at `key`; None where there is none."""
    if key not in table:
        return None
    value = table[key]
    if (
        isinstance(value, bool)
        or not isinstance(value, int if whole else int | float)
        or not low <= value <= high
        or math.isinf(value)
    ):
        limits = f"from {low:g}" + ("" if math.isinf(high) else f" to {high:g}")
        raise bad_argument(
            key, owner=owner, allowed=f"{'an int' if whole else 'a number'} {limits}", got=value
        )
    return value
