"""A table of results, and how it is written: Markdown for pages, CSV for machines, HTML to look at.

Scores are in per cent here. Every cell says something; what could not be measured says why.
"""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# What a cell may say to machines, in per cent where it is a score; columns of the CSV after those
# that say where the cell stands.
FIELDS = (
    "state",
    "published",
    "published_spread",
    "published_memory_mb",
    "mean",
    "std_splits",
    "std_seeds",
    "low",
    "high",
    "seeds",
    "splits",
    "memory_mb",
    "selection",
)
_PLACE = ("table", "block", "line", "column")


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Args:
        text: what is shown; never empty.
        detail: what is shown smaller where there is room: interval and counts.
        values: the same for machines, by names out of `FIELDS`; NaN is as good as nothing.
    """

    text: str
    detail: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A line of a table.

    Args:
        label: what is measured in it.
        cells: one per column.
        headline: whether the short form of the table has it.
    """

    label: str
    cells: tuple[Cell, ...]
    headline: bool = False


@dataclass(frozen=True)
class Block:
    """Lines that share a header.

    Args:
        title: what they have in common; "" where the table has one block.
        columns: headers.
        lines: top to bottom.
    """

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Table:
    """A table and what to know about it.

    Args:
        name: as in `graphlatent bench table NAME`.
        title: in words.
        blocks: top to bottom.
        notes: a sentence or more each.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]


def rows(table: Table) -> list[dict[str, Any]]:
    """One dict per cell: where it stands, and all of `FIELDS`; None where there is nothing to say.
    Floats have 4 decimals.
    """
    found = []
    for block in table.blocks:
        for line in block.lines:
            for column, cell in zip(block.columns, line.cells, strict=True):
                place = dict(
                    zip(_PLACE, (table.name, block.title, line.label, column), strict=True)
                )
                found.append({**place, **{name: _plain(cell.values.get(name)) for name in FIELDS}})
    return found


def markdown(table: Table) -> str:
    """The table as Markdown: title, a grid for each block, notes as a list."""
    parts = [f"**{_escaped(table.title)}**"]
    for block in table.blocks:
        parts += [f"*{_escaped(block.title)}*"] if block.title else []
        grid = [["", *block.columns], ["---"] * (len(block.columns) + 1)]
        grid += [[line.label, *(cell.text for cell in line.cells)] for line in block.lines]
        parts.append(
            "\n".join(f"| {' | '.join(_escaped(text) for text in line)} |" for line in grid)
        )
    if table.notes:
        parts.append("\n".join(f"- {_escaped(note)}" for note in table.notes))
    return "\n\n".join(parts)


def csv_text(table: Table) -> str:
    """The table as CSV, one line per cell; the columns are `rows`'."""
    file = io.StringIO()
    writer = csv.DictWriter(file, (*_PLACE, *FIELDS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(table))
    return file.getvalue().rstrip("\n")


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; margin: 2rem auto; max-width: 90rem;
       padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid #ddd; text-align: right;
         white-space: nowrap; vertical-align: top; }
th:first-child { text-align: left; font-weight: normal; white-space: normal; min-width: 12rem; }
thead th { border-bottom: 2px solid #555; }
small { display: block; color: #666; font-size: .75rem; }
.none { color: #999; font-style: italic; }
li { margin: .3rem 0; max-width: 60rem; }
"""


def html_page(table: Table) -> str:
    """The table as a web page that needs nothing beside itself."""
    body = [f"<h1>{html.escape(table.title)}</h1>"]
    for block in table.blocks:
        body += [f"<h2>{html.escape(block.title)}</h2>"] if block.title else []
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("", *block.columns))
        lines = [
            f"<tr><th>{html.escape(line.label)}</th>{''.join(map(_html_cell, line.cells))}</tr>"
            for line in block.lines
        ]
        body += [
            '<div class="wide"><table>',
            f"<thead><tr>{head}</tr></thead>",
            "<tbody>",
            *lines,
            "</tbody></table></div>",
        ]
    body += (
        ["<ul>", *(f"<li>{html.escape(note)}</li>" for note in table.notes), "</ul>"]
        if table.notes
        else []
    )
    head = (
        "<meta"
        f' charset="utf-8">\n<title>{html.escape(table.title)}</title>\n<style>{_STYLE}</style>'
    )
    text = "\n".join(body)
    return (
        "<!DOCTYPE html>\n<html"
        f' lang="en">\n<head>\n{head}\n</head>\n<body>\n{text}\n</body>\n</html>'
    )


FORMATS: Mapping[str, Callable[[Table], str]] = {"md": markdown, "csv": csv_text, "html": html_page}


def _html_cell(cell: Cell) -> str:
    known = any(_plain(cell.values.get(name)) is not None for name in ("published", "mean"))
    # Interval, counts.
    detail = "".join(
        f"<small>{html.escape(part)}</small>" for part in cell.detail.rsplit(", ", 1) if part
    )
    start = "<td>" if known else '<td class="none">'
    # Narrow enough for a screen.
    text = html.escape(cell.text).replace(" published / ", " published /<br>")
    return f"{start}{text}{detail}</td>"


def _escaped(text: str) -> str:
    """Text that Markdown takes for text: no column ends in it, no tag or comment begins."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    return value
