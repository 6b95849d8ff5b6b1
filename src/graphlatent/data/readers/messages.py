"""How messages of readers show values."""

from __future__ import annotations

from collections.abc import Sequence

# Names that are listed before "and ... more".
_LISTED = 8


def shortened(value: object) -> str:
    """A value as a message shows it; an integer may have more digits than Python writes."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= 50 else f"{text[:50]}..."


def listed(names: Sequence[str]) -> str:
    """Names as a message lists them: the first eight, and how many more there are."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")
