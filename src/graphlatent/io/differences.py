"""What differs between a run and the input or the encoding that it is resumed with, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Of columns, for warnings alone; runs of earlier versions do not have them.
_FOR_WARNINGS = ("median", "spread")


def input_differences(before: object, now: Mapping[str, str]) -> list[str]:
    """The parts of the input that are not the same.

    Args:
        before: fingerprints by part, as they are stored in the run.
        now: those of the present input, as `GraphData.fingerprints` returns them.
    """
    if not isinstance(before, Mapping):
        return ["the input: an earlier version of graphlatent began the run and cannot compare it"]
    return [
        _changed(part, str(before.get(part, "none")), now.get(part, "none"))
        for part in {**before, **now}
        if before.get(part, "none") != now.get(part, "none")
    ]


def _changed(part: str, before: str, now: str) -> str:
    # Of a store there are checksums alone.
    old, new = (text.partition("sha256:")[0].strip() or "given" for text in (before, now))
    return f"{part}: other values" if old == new else f"{part}: {old} in the run, {new} now"


def encoding_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two encodings of the features; rounding errors do not count.

    Args:
        before: as `FeatureSpec.to_dict` returned it, read from the run.
        now: the same of the present input.
    """
    found = []
    for key in {**before, **now}:
        old, new = before.get(key), now.get(key)
        if _is_close(old, new):
            continue
        names = [_column_names(value) for value in (old, new)]
        if key not in ("columns", "edges") or names[0] != names[1]:
            found.append(f"encoding of the features: {key}, {_short(old)} in the run")
            found[-1] += f", {_short(new)} now"
            continue
        found += [
            f"encoding of column {a['name']!r}: {_short(a)} in the run, {_short(b)} now"
            for a, b in zip(old or (), new or (), strict=True)
            if not _is_close(a, b)
        ]
    return found


def _column_names(columns: Any) -> list[Any]:
    is_list = isinstance(columns, list | tuple)
    return [c.get("name") if isinstance(c, Mapping) else c for c in columns] if is_list else []


def _is_close(before: Any, now: Any) -> bool:
    """Whether two values out of JSON are equal, up to rounding errors of numbers."""
    if isinstance(before, float) and isinstance(now, float):
        return math.isclose(before, now, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        before, now = (
            {k: v for k, v in m.items() if k not in _FOR_WARNINGS} for m in (before, now)
        )
        return before.keys() == now.keys() and all(_is_close(before[k], now[k]) for k in before)
    if isinstance(before, list | tuple) and isinstance(now, list | tuple):
        pairs = zip(before, now, strict=False)
        return len(before) == len(now) and all(_is_close(a, b) for a, b in pairs)
    return type(before) is type(now) and bool(before == now)


def _short(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, list | tuple) and _column_names(value) != list(value):
        value = _column_names(value)
    elif isinstance(value, Mapping):
        value = {key: part for key, part in value.items() if key != "name" and part != []}
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 120 else text[:117] + "..."
