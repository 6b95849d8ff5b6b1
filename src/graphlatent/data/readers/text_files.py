"""Text tables (CSV and TSV, also gzipped) as pyarrow tables."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from graphlatent.data.memory_limit import exceeded, memory_limit, readable, require_memory
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage, regular_file

# Memory for each byte of text: the text itself and the numbers in it, such as '7,', of 8 bytes.
BYTES_PER_BYTE = 3
# For each column: its name and the objects around it.
_BYTES_PER_COLUMN = 1000
_CHUNK = 2**20


def read_text(
    path: Path,
    name: str,
    *,
    delimiter: str,
    packed: bool = False,
    text_columns: Sequence[str] = (),
) -> Any:
    """The table in a text file with a header.

    Args:
        path: a regular file.
        name: what to call the table in messages.
        delimiter: between the cells of a line.
        packed: the file is gzipped.
        text_columns: columns to keep as text.

    Raises:
        InputError: where it is no such file, or needs more memory than it may take.
    """
    size = regular_file(path)
    require_memory(BYTES_PER_BYTE * size, what=f"{name}: {path}, a file of {readable(size)},")
    source = _unpacked(path, name) if packed else path
    names, has_rows = _header(path, name, delimiter, packed=packed)
    if not has_rows:
        return pa.table({c: pa.array([], pa.string()) for c in names})
    options = {
        "read_options": arrow_csv.ReadOptions(column_names=names, skip_rows=1),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter),
        "convert_options": arrow_csv.ConvertOptions(
            column_types={c: pa.string() for c in text_columns}
        ),
    }
    with refusing_damage(
        f"{name}: {path} cannot be read as a table with {len(names)} columns split at {delimiter!r}"
    ):
        return arrow_csv.read_csv(source, **options)


def _unpacked(path: Path, name: str) -> Any:
    """The contents of a gzipped file, as far as they keep within the limit."""
    content, limit = bytearray(), memory_limit()
    with (
        refusing_damage(f"{name}: {path} cannot be read as gzipped UTF-8 text"),
        gzip.open(path) as file,
    ):
        while chunk := file.read(_CHUNK):
            content += chunk
            if BYTES_PER_BYTE * len(content) > limit:
                what = f"{name}: {path}, unpacked {readable(len(content))} or more,"
                raise exceeded(BYTES_PER_BYTE * len(content), limit=limit, what=what)
    return pa.BufferReader(content)


def _header(path: Path, name: str, delimiter: str, *, packed: bool) -> tuple[list[str], bool]:
    """The names in the first line, and whether anything follows."""
    opened = gzip.open if packed else open
    kind = "gzipped UTF-8 text" if packed else "UTF-8 text"
    with (
        refusing_damage(f"{name}: {path} cannot be read as {kind}"),
        opened(path, "rt", newline="", encoding="utf-8-sig") as file,
    ):
        lines = csv.reader(file, delimiter=delimiter)
        header = next(lines, None)
        has_rows = any(line.strip() for line in file)
    if not header or not any(cell.strip() for cell in header):
        raise InputError(
            f"{name}: {path} has no header. The first line must name the columns, such as"
            f" source{delimiter}target."
        )
    if lines.line_num > 1:
        raise InputError(
            f"{name}: {path} has a line break in the name of a column, which cannot be read. Take"
            " it out; where there is none, a quotation mark in the first line is not closed."
        )
    require_memory(
        _BYTES_PER_COLUMN * len(header), what=f"{name}: {path}, a table of {len(header):,} columns,"
    )
    return [cell.strip() for cell in header], has_rows
