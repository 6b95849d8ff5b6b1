"""Tables in one file or many, read a few columns or a block of rows at a time.

A table is a file, a folder (with the subfolders that Spark makes; columns that only the names of
folders hold are not read), or a pattern such as 'part-*.parquet'. Files are taken in the order of
their paths.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from graphlatent.data.readers.arrow import (
    TABLE_SUFFIXES,
    LoadedTable,
    table_suffix,
    with_distinct_names,
)
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.text_content import (
    HOW_TO_DECODE,
    MARKS,
    TextContent,
    where_of,
)
from graphlatent.data.readers.text_files import TextLayout, single_spaces, text_layout
from graphlatent.display import counted
from graphlatent.errors import InputError
from graphlatent.io.regular_files import exists, is_folder, refusing_damage, regular_file

_ACCEPTED = tuple(suffix for suffix in TABLE_SUFFIXES if suffix != ".zip")
# What is read to find out how the rest of a text file is to be read.
_HEAD = 1 << 20
_BLOCK = 4 << 20
_ROWS = 1 << 17


@dataclass(frozen=True)
class TableFiles:
    """A table in files of one kind.

    Args:
        paths: the files, in order.
        role: 'edges' or 'nodes', for messages.
        options: how text files are written.
    """

    paths: tuple[Path, ...]
    role: str
    options: TableOptions

    @property
    def name(self) -> str:
        """What to call the table in messages."""
        more = "" if len(self.paths) == 1 else f" and {counted(len(self.paths) - 1, 'more file')}"
        return f"{self.role} ({self.paths[0].name}{more})"

    @property
    def is_text(self) -> bool:
        """Whether the files are text."""
        return table_suffix(self.paths[0]) != ".parquet"

    @cached_property
    def layouts(self) -> tuple[TextLayout, ...]:
        """How each text file is to be read."""
        options, keys = self.options, self.options.keys_of(self.role)
        heads = [(path, _head(path, self.name, options)) for path in self.paths]
        return tuple(
            text_layout(head, path, self.name, options=options, keys=keys) for path, head in heads
        )

    @cached_property
    def header(self) -> LoadedTable:
        """A table without rows that has the columns of the first file."""
        if self.is_text:
            names = self.layouts[0].columns
            table = LoadedTable(
                pa.Table.from_arrays([pa.array([], pa.string())] * len(names), names),
                self.name,
                from_text=True,
                first_line=self.layouts[0].first_line,
                has_header=self.layouts[0].has_header,
                notes=self.layouts[0].notes,
            )
            return with_distinct_names(table)
        with refusing_damage(f"{self.name}: {self.paths[0]} cannot be read as Parquet"):
            schema = pq.read_schema(self.paths[0])
        return with_distinct_names(LoadedTable(schema.empty_table(), self.name))

    def fingerprint(self) -> list[tuple[str, int, int]]:
        """Path, size and time of change of each file."""
        found = [(path, path.stat()) for path in self.paths]
        return [(str(path.absolute()), s.st_size, s.st_mtime_ns) for path, s in found]

    def blocks(
        self, columns: Sequence[str], *, text: Sequence[str] = (), numbers: Sequence[str] = ()
    ) -> Iterator[LoadedTable]:
        """The rows of some columns, a block at a time.

        Args:
            columns: those to read.
            text: columns of text files that stay text.
            numbers: columns of text files that are numbers.
        """
        row = 0
        for i, path in enumerate(self.paths):
            for batch in self._batches(i, path, columns, text, numbers):
                data = pa.Table.from_batches([batch])
                # Messages name rows of a single file by number.
                rows = np.arange(row, row + batch.num_rows)
                row += batch.num_rows
                yield replace(self.header, data=data, rows=rows)

    def read(self, columns: Sequence[str], *, text: Sequence[str]) -> LoadedTable:
        """All rows of some columns; the types of text files are found as `load_table` does."""
        parts = [self._whole(i, path, columns, text) for i, path in enumerate(self.paths)]
        with refusing_damage(
            f"{self.name}: the files have different types in {', '.join(columns)}",
            way_out="Give the columns one type in all files.",
        ):
            return replace(self.header, data=pa.concat_tables(parts, promote_options="permissive"))

    def _batches(
        self,
        i: int,
        path: Path,
        columns: Sequence[str],
        text: Sequence[str],
        numbers: Sequence[str],
    ) -> Iterator[Any]:
        if not self.is_text:
            with (
                refusing_damage(f"{self.name}: {path} cannot be read as Parquet"),
                pq.ParquetFile(path) as file,
            ):
                yield from file.iter_batches(_ROWS, columns=list(columns), use_threads=False)
            return
        layout = self.layouts[i]
        if not layout.has_rows:
            return
        options = layout.arrow_options(text)
        options["read_options"].block_size = _BLOCK
        options["convert_options"].include_columns = list(columns)
        types = dict.fromkeys(text, pa.string()) | dict.fromkeys(numbers, pa.float64())
        options["convert_options"].column_types = types
        with layout.refusing_damage(), _lines(path, layout, self.options) as stream:
            yield from arrow_csv.open_csv(stream, **options)

    def _whole(self, i: int, path: Path, columns: Sequence[str], text: Sequence[str]) -> Any:
        if not self.is_text:
            with (
                refusing_damage(f"{self.name}: {path} cannot be read as Parquet"),
                pq.ParquetFile(path) as file,
            ):
                return file.read(list(columns), use_threads=False)
        layout = self.layouts[i]
        if not layout.has_rows:
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        options = layout.arrow_options([name for name in text if name in columns])
        options["convert_options"].include_columns = list(columns)
        with layout.refusing_damage(), _lines(path, layout, self.options) as stream:
            return arrow_csv.read_csv(stream, **options)


def table_files(source: str | Path, *, role: str, options: TableOptions) -> TableFiles:
    """The files of a table.

    Args:
        source: a file, a folder, or a pattern with *, ? or [...]; ** stands for any folders.
        role: 'edges' or 'nodes', for messages.
        options: how text files are written.

    Raises:
        InputError: where there are no files, or files of several kinds.
    """
    path = Path(source)
    if exists(path) and not is_folder(path):
        regular_file(path, role=role)
        found = [path]
    elif exists(path):
        found = [p for p in sorted(path.rglob("*")) if p.is_file() and _is_data(p, path)]
    else:
        found = sorted(Path(p) for p in glob.glob(str(source), recursive=True))
        found = [p for p in found if p.is_file()]
    tables = [p for p in found if table_suffix(p) in _ACCEPTED]
    if not tables or (tables[0] == path and len(found) != 1) or str(source) == "-":
        came = f" It holds {found[0].name}, for one." if found and found[0] != path else ""
        raise InputError(
            f"{role}: there is no table that can be read a piece at a time at {source}.{came}"
            f" Accepted are files ending in {', '.join(_ACCEPTED)}, folders of them, and patterns"
            " such as 'part-*.parquet'. Unpack other archives, and write standard input to a file."
        )
    kinds = {table_suffix(p) == ".parquet" for p in tables}
    if len(kinds) > 1:
        raise InputError(
            f"{role}: {source} holds Parquet and text files. Give one kind, by a pattern such as"
            f" '{path / '*.parquet'}'."
        )
    return TableFiles(tuple(tables), role, options)


def _is_data(path: Path, folder: Path) -> bool:
    """Whether a file is none of those that Spark and others put beside the data."""
    return not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _head(path: Path, name: str, options: TableOptions) -> TextContent:
    """The first lines of a text file, as UTF-8."""
    where = where_of(path, name)
    with refusing_damage(f"{where} cannot be read as text"), _open(path) as file:
        data = file.read(_HEAD)
        # The first row may be longer.
        while data.count(b"\n") < 3 and len(data) < _BLOCK and (more := file.read(_HEAD)):
            data += more
        is_whole = not file.read(1)
        mark, codec = _codec(data, options)
        if mark and options.encoding and not codecs.lookup(options.encoding).name.startswith(codec):
            raise InputError(
                f"{where} starts with the byte order mark of {codec}, so that it is not"
                f" {options.encoding}. Leave out the encoding."
            )
        decoder = codecs.getincrementaldecoder(codec)()
        try:
            text = decoder.decode(data[mark:] if codec == "utf-8" else data, final=is_whole)
        except UnicodeDecodeError as error:
            raise InputError(f"{where} is not {codec.upper()} text. {HOW_TO_DECODE}") from error
    if not is_whole:
        text = text[: text.rfind("\n") + 1] or text
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return TextContent(text.encode("utf-8", "backslashreplace"), plain.suffix.lower())


def _codec(data: bytes, options: TableOptions) -> tuple[int, str]:
    """The length of the byte order mark of UTF-8, or 1 for another, and the encoding."""
    mark = next((each for each in MARKS if data.startswith(each)), b"")
    if mark:
        return len(mark), MARKS[mark]
    return 0, codecs.lookup(options.encoding or "utf-8").name


def _lines(path: Path, layout: TextLayout, options: TableOptions) -> Any:
    """The lines of a text file from its header on, as UTF-8, for pyarrow."""
    file = _open(path)
    mark, codec = _codec(file.read(4), options)
    file.seek(mark if codec == "utf-8" else 0)
    if codec != "utf-8":
        text = io.TextIOWrapper(file, encoding=codec, newline="")
        file = io.BufferedReader(_Encoded(text), _BLOCK)
    for _ in range(layout.num_skipped):
        file.readline()
    if layout.delimiter == " ":
        file = io.BufferedReader(_Spaced(file), _BLOCK)
    return pa.PythonFile(file, mode="r")


class _Converted(io.RawIOBase):
    """A stream of bytes made of pieces that end with lines."""

    def __init__(self) -> None:
        self._left = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        if not self._left:
            self._left = self.piece()
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def piece(self) -> bytes:
        """The next piece; empty at the end."""
        raise NotImplementedError


class _Encoded(_Converted):
    """Text as UTF-8."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        super().__init__()
        self._text = text

    def piece(self) -> bytes:
        """Some characters."""
        return self._text.read(_HEAD).encode("utf-8", "backslashreplace")


class _Spaced(_Converted):
    """Lines with one space between cells."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def piece(self) -> bytes:
        """Some lines."""
        return single_spaces(b"".join(self._file.readlines(_HEAD)))
