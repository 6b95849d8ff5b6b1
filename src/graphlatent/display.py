"""How objects are shown: one line in a terminal, a small table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: '1 column', '2 columns', '12,000 edges'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def are(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun and its verb: '1 id is', '2 ids are'."""
    return f"{counted(number, noun, plural)} {'is' if number == 1 else 'are'}"


def listed(names: Iterable[str], *, most: int = 8) -> str:
    """Names in quotes, of many the first and how many more there are: "'a', 'b' and 4 more"."""
    shown = [repr(name) for name in names]
    more = len(shown) - most
    first = ", ".join(shown[:most]) or "none"
    return first if more <= 0 else f"{first} and {more:,} more"


def html_table(
    title: str, rows: Sequence[Sequence[object]], *, head: Sequence[object] | None = None
) -> str:
    """A table as HTML, with everything in it escaped."""
    top = "" if head is None else _row(head, "th")
    body = "".join(_row(row, "td") for row in rows)
    return f"<table><caption>{escape(title)}</caption>{top}{body}</table>"


def _row(cells: Sequence[object], tag: str) -> str:
    inner = "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
