"""Lists of names in messages."""

from __future__ import annotations

from collections.abc import Sequence

# Names that are listed before "and ... more".
_LISTED = 8


def listed(names: Sequence[object], most: int = _LISTED) -> str:
    """The names as text, such as "'a', 'b' and 3 more"."""
    more = len(names) - most
    shown = ", ".join(f"{name!r}" for name in names[:most])
    return f"{shown} and {more:,} more" if more > 0 else shown
