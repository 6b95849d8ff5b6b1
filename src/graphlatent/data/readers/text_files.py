"""Text tables (CSV, TSV and the like) as pyarrow tables."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from graphlatent.data.memory_limit import require_memory
from graphlatent.data.mixed_columns import are_numerals
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.text_content import TextContent, text_content, where_of
from graphlatent.display import counted, listed
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_OTHER_DELIMITERS = "\t;,|"
_WORDS = {"\t": "tabs", " ": "spaces"}
# Lines at the start of a .txt file that say what it holds, as in the collections SNAP and KONECT.
_COMMENT = re.compile(rb"(?:[#%][^\n]*\n|\r?\n)+")
_BLANK = re.compile(rb"(?:\r?\n)+")
# Rows that are compared with the first one, which may be a header.
_COMPARED = 10
# For each column: its name and the objects around it.
_BYTES_PER_COLUMN = 1000


@dataclass(frozen=True, eq=False)
class TextTable:
    """A table out of a text file.

    Args:
        data: the pyarrow table.
        first_line: the line of its first row, from 1.
        has_header: whether a line before it names the columns.
        notes: what had to be assumed, by key.
    """

    data: Any
    first_line: int
    has_header: bool
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TextLayout:
    """How the lines of a text file are to be read.

    Args:
        text: the lines, without comments.
        where: the table and its file, for messages.
        delimiter: between the cells of a line.
        has_header: whether the first line names the columns.
        columns: their names.
        has_rows: whether there are rows.
        num_skipped: lines before the first one, which are blank or comments.
        notes: what had to be assumed, by key.
    """

    text: bytes
    where: str
    delimiter: str
    has_header: bool
    columns: list[str] = field(default_factory=list)
    has_rows: bool = False
    num_skipped: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def first_line(self) -> int:
        """The line of the first row, from 1."""
        return self.num_skipped + (2 if self.has_header else 1)

    def stream(self) -> io.TextIOWrapper:
        """The lines as a text file."""
        return io.TextIOWrapper(io.BytesIO(self.text), encoding="utf-8", newline="")

    def arrow_options(self, text_columns: Sequence[str]) -> dict[str, Any]:
        """Options of pyarrow's readers of CSV."""
        return {
            # With threads of pyarrow, a process that has imported torch may abort when it exits.
            "read_options": arrow_csv.ReadOptions(
                column_names=self.columns, skip_rows=1 if self.has_header else 0, use_threads=False
            ),
            "parse_options": arrow_csv.ParseOptions(delimiter=self.delimiter),
            "convert_options": arrow_csv.ConvertOptions(
                column_types={c: pa.string() for c in text_columns}
            ),
        }

    def refusing_damage(self) -> AbstractContextManager[None]:
        """A context in which errors of pyarrow's readers are those of the input."""
        return refusing_damage(
            f"{self.where} cannot be read as a table with {len(self.columns)} columns split at"
            f" {self.delimiter!r}"
        )


def read_text(
    path: Path,
    name: str,
    *,
    options: TableOptions,
    keys: Sequence[str] = (),
    text_columns: Sequence[str] = (),
) -> TextTable:
    """The table in a text file.

    Args:
        path: a regular file (.csv, .tsv, .txt, these also with .gz, or .zip), or '-'.
        name: what to call the table in messages.
        options: `delimiter`, `encoding` and `no_header`.
        keys: columns that the table must have. Where they are numbers and the first line has none
            of them, that line is a row.
        text_columns: columns to keep as text.

    Raises:
        InputError: where it is no such file, or needs more memory than it may take.
    """
    content = text_content(path, name, encoding=options.encoding)
    layout = text_layout(content, path, name, options=options, keys=keys)
    if layout.has_rows:
        table = _read(layout, text_columns)
    else:
        table = pa.table({c: pa.array([], pa.string()) for c in layout.columns})
    return TextTable(table, layout.first_line, layout.has_header, layout.notes)


def text_layout(
    content: TextContent, path: Path, name: str, *, options: TableOptions, keys: Sequence[str] = ()
) -> TextLayout:
    """How a text file, or its first lines, are to be read; with the arguments of `read_text`."""
    text, num_skipped, num_comments = _without_comments(content)
    delimiter, notes = _find_delimiter(text, name, content.suffix, options.delimiter)
    if num_comments:
        notes[f"{name} comments"] = (
            f"{name}: skipped {counted(num_comments, 'line')} of comments at the start."
        )
    if delimiter == " ":
        text = single_spaces(text)
    layout = TextLayout(text, where_of(path, name), delimiter, has_header=not options.no_header)
    columns, has_rows = _columns(layout)
    if layout.has_header and _are_places(keys, columns):
        line = f"{name}: the first line, {listed(columns, most=4)}, is read as a"
        if set(keys) <= set(columns):
            notes[f"{name} header"] = (
                f"{line} header, as it has columns of these names. If it is a row, give the option"
                " 'no_header' (--no-header on the command line)."
            )
        elif not _is_header(layout):
            notes[f"{name} header"] = (
                f"{line} row, as columns are given by number. If it is a header, give their names."
            )
            layout = replace(layout, has_header=False)
            columns, has_rows = _columns(layout)
    return replace(layout, columns=columns, has_rows=has_rows, num_skipped=num_skipped, notes=notes)


def _are_places(keys: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether columns may be given by their places, from 0."""
    return bool(keys) and all(key.isdecimal() and int(key) < len(columns) for key in keys)


def _read(layout: TextLayout, text_columns: Sequence[str]) -> Any:
    with layout.refusing_damage():
        return arrow_csv.read_csv(
            pa.BufferReader(layout.text), **layout.arrow_options(text_columns)
        )


def _without_comments(content: TextContent) -> tuple[bytes, int, int]:
    """The text without blank lines and comments at its start; how many lines, and comments."""
    pattern = _COMMENT if content.suffix == ".txt" else _BLANK
    found = pattern.match(content.data)
    if found is None:
        return content.data, 0, 0
    skipped = found[0].splitlines()
    return content.data[found.end() :], len(skipped), sum(map(bool, skipped))


def _find_delimiter(
    text: bytes, name: str, suffix: str, given: str | None
) -> tuple[str, dict[str, str]]:
    """The character between cells, and a note where neither the user nor the suffix says it."""
    usual = _DELIMITERS.get(suffix)
    end = text.find(b"\n")
    first = text[: end if end >= 0 else len(text)].decode("utf-8").strip("\r")
    if given is not None:
        return given, {}
    if usual is not None and usual in first:
        return usual, {}
    found = max(_OTHER_DELIMITERS, key=first.count)
    if found not in first:
        if usual is not None or len(first.split()) < 2:
            return usual or ",", {}
        found = " "
    words = _WORDS.get(found, repr(found))
    return found, {
        f"{name} delimiter": f"{name}: cells are split at {words}, as the first line looks. If that"
        " is wrong, give the option 'delimiter' (--delimiter on the command line)."
    }


def single_spaces(text: bytes) -> bytes:
    """Lines whose cells are separated by one space; spaces and tabs at their ends are dropped."""
    if b'"' in text:
        # Those in quotation marks stay.
        quoted = re.compile(rb'("[^"\n]*")|[ \t]+')
        text = quoted.sub(lambda found: found[1] or b" ", text)
    else:
        text = re.sub(rb"[ \t]+", b" ", text)
    return re.sub(rb"(?:^|(?<=\n)) | (?=\r?\n|\Z)", b"", text)


def _columns(layout: TextLayout) -> tuple[list[str], bool]:
    """The names of the columns, and whether there are rows."""
    stream = layout.stream()
    lines = csv.reader(stream, delimiter=layout.delimiter)
    with refusing_damage(f"{layout.where} cannot be read as a text table"):
        first = next(lines, None)
    if first is None or not any(cell.strip() for cell in first):
        raise InputError(
            f"{layout.where} has no header. The first line must name the columns, such as"
            f" source{layout.delimiter}target."
        )
    if "\0" in "".join(first):
        raise InputError(
            f"{layout.where} has NUL characters in its first line. If it is text, give its encoding"
            " (encoding='utf-16-le', --encoding utf-16-le on the command line)."
        )
    require_memory(
        _BYTES_PER_COLUMN * len(first), what=f"{layout.where}, a table of {len(first):,} columns,"
    )
    if not layout.has_header:
        if _is_header(layout):
            raise InputError(
                f"{layout.where}: the first line looks like a header: {listed(first, most=4)}."
                " Leave out no_header (--no-header), or take the line out where only some tables"
                " have one."
            )
        return [str(i) for i in range(len(first))], True
    if lines.line_num > 1:
        raise InputError(
            f"{layout.where} has a line break in the name of a column, which cannot be read. Take"
            " it out; where there is none, a quotation mark in the first line is not closed."
        )
    return [cell.strip() for cell in first], any(line.strip() for line in stream)


def _is_header(layout: TextLayout) -> bool:
    """Whether the first line holds names above columns of numbers."""
    rows: list[list[str]] = []
    # Cells too long for Python's reader are not for that of pyarrow.
    with suppress(csv.Error):
        lines = (line for line in csv.reader(layout.stream(), delimiter=layout.delimiter) if line)
        rows = list(islice(lines, _COMPARED + 1))
    first, *below = rows or [[]]
    if not below or are_numerals(first).any() or any(len(row) != len(first) for row in below):
        return False
    return any(bool(are_numerals(column).all()) for column in zip(*below, strict=True))
