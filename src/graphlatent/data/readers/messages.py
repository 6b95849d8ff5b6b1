"""How messages of readers show values."""

from __future__ import annotations


def shortened(value: object) -> str:
    """A value as a message shows it; an integer may have more digits than Python writes."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= 50 else f"{text[:50]}..."
