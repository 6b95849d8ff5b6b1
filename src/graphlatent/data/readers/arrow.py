"""Tables of any kind as one checked pyarrow table, and their columns as NumPy arrays.

Accepted are CSV and TSV (also gzipped), Parquet, pandas and pyarrow.

Columns that a reader asks for as text (ids) are not converted to numbers, so '007' stays '007'.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from graphlatent.errors import InputError

DELIMITERS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
LONG_CATEGORY = 64
TABLE_SUFFIXES = (*DELIMITERS, ".parquet")


@dataclass(frozen=True, eq=False)
class LoadedTable:
    """A table and where it came from.

    Args:
        data: the pyarrow table; column names are unique.
        name: what to call it in messages, such as "nodes (nodes.csv)".
        from_text: whether it came out of a text file, in which everything is text until somebody
            reads numbers into it.
    """

    data: Any
    name: str
    from_text: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self.data.column_names)

    @property
    def num_rows(self) -> int:
        """How many rows there are, the header not counted."""
        return int(self.data.num_rows)

    def place(self, row: int) -> str:
        """Row `row` (from 0) as a message names it."""
        return (
            f"row {row + 1} (line {row + 2} with the header)"
            if self.from_text
            else f"row {row} (from 0)"
        )

    def column(self, name: str, *, option: str) -> Any:
        """The column as one pyarrow array, with dictionaries decoded.

        Raises `InputError` where there is no column of that name.
        """
        if name not in self.columns:
            raise InputError(self._no_column(name, option))
        column = self.data.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.combine_chunks()

    def _no_column(self, name: str, option: str) -> str:
        found = ", ".join(map(repr, self.columns))
        message = (
            f"{self.name}: there is no column '{name}' (option '{option}'). Columns found:"
            f" {found}. "
        )
        if len(self.columns) == 1 and self.from_text:
            return (
                message
                + "A single column often means another delimiter: .csv files are split at commas,"
                " .tsv files at tabs."
            )
        return message + f"Name the right one with the option '{option}'."


def table_suffix(path: Path) -> str | None:
    """Which of `TABLE_SUFFIXES` the file's name ends in, if any."""
    return next((suffix for suffix in TABLE_SUFFIXES if path.name.lower().endswith(suffix)), None)


def is_table(value: object) -> bool:
    """Whether `value` is a pandas DataFrame or a pyarrow Table."""
    return isinstance(value, pd.DataFrame | pa.Table)


def load_table(source: Any, *, role: str, text_columns: Sequence[str] = ()) -> LoadedTable:
    """The table in `source`: a file by its suffix, a pandas DataFrame or a pyarrow Table.

    Args:
        source: path or table.
        role: 'edges' or 'nodes', for messages.
        text_columns: columns of text files to keep as text.

    Raises:
        InputError: where the file is missing, of another kind or damaged, or the columns' names are
            not unique.
    """
    if isinstance(source, str | Path):
        table = _load_file(Path(source), role, text_columns)
    elif isinstance(source, pa.Table):
        table = LoadedTable(source, role)
    elif isinstance(source, pd.DataFrame):
        table = LoadedTable(_from_pandas(source, role), role)
    else:
        raise InputError(
            f"{role} must be a path, a pandas DataFrame or a pyarrow Table. Got"
            f" {type(source).__name__}."
        )
    twice = sorted({c for c in table.columns if table.columns.count(c) > 1})
    if twice:
        raise InputError(
            f"{table.name}: columns must have different names. {twice} occur more than once."
        )
    return table


def to_array(table: LoadedTable, name: str, *, option: str) -> np.ndarray[Any, Any]:
    """The column as a NumPy array of numbers, booleans or objects.

    Objects are text, with None where a value is missing.

    Categorical columns become text, whatever their categories are: NumPy's own where none is
    missing or long, so that it is known that text was meant.
    """
    column = table.column(name, option=option)
    kind = column.type
    categorical = pa.types.is_dictionary(table.data.column(name).type)
    if categorical or pa.types.is_large_string(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if pa.types.is_decimal(kind):
        column, kind = column.cast(pa.float64()), pa.float64()
    # In a text file an empty cell is a missing value.
    if pa.types.is_string(kind) and table.from_text:
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    usable = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_null,
    )
    if not any(is_kind(kind) for is_kind in usable):
        raise InputError(
            f"{table.name}: column '{name}' has the type {kind}, which cannot be used. Turn it into"
            " numbers, truth values or text, or leave it out by naming the feature columns (option"
            " 'features')."
        )
    array: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return _as_categories(array) if categorical and column.null_count == 0 else array


def _as_categories(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Short text as NumPy's own type, whose rows are all as long as the longest."""
    if max(map(len, array.tolist()), default=0) > LONG_CATEGORY:
        return array
    text = array.astype(np.str_)
    # It ends before NULs.
    return text if text.tolist() == array.tolist() else array


def _load_file(path: Path, role: str, text_columns: Sequence[str]) -> LoadedTable:
    name = f"{role} ({path.name})"
    suffix = table_suffix(path)
    if suffix is None:
        raise InputError(
            f"{role}: {path} is no table that can be read. Accepted are files ending in"
            f" {', '.join(TABLE_SUFFIXES)}."
        )
    if not path.is_file():
        raise InputError(f"{role}: there is no file {path}. Check the path.")
    if suffix == ".parquet":
        return LoadedTable(_read_parquet(path, name), name)
    return LoadedTable(_read_text(path, name, suffix, text_columns), name, from_text=True)


def _read_parquet(path: Path, name: str) -> Any:
    try:
        # Unlike read_table: no columns made up from folder names.
        with pq.ParquetFile(path) as file:
            return file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{name}: {path} cannot be read as Parquet. {_first_line(error)} Write the file again."
        ) from error


def _read_text(path: Path, name: str, suffix: str, text_columns: Sequence[str]) -> Any:
    delimiter, packed = DELIMITERS[suffix], suffix.endswith(".gz")
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
    try:
        return arrow_csv.read_csv(
            pa.input_stream(str(path), compression="gzip") if packed else path, **options
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{name}: {path} cannot be read as a table with {len(names)} columns split at"
            f" {delimiter!r}. {_first_line(error)}"
        ) from error


def _header(path: Path, name: str, delimiter: str, *, packed: bool) -> tuple[list[str], bool]:
    """The names in the first line, and whether anything follows."""
    opened = gzip.open if packed else open
    try:
        with opened(path, "rt", newline="", encoding="utf-8-sig") as file:
            header = next(csv.reader(file, delimiter=delimiter), None)
            has_rows = any(line.strip() for line in file)
    except (OSError, UnicodeDecodeError, csv.Error, EOFError, zlib.error) as error:
        kind = "gzipped UTF-8 text" if packed else "UTF-8 text"
        raise InputError(
            f"{name}: {path} cannot be read as {kind}. {_first_line(error)}"
        ) from error
    if not header or not any(cell.strip() for cell in header):
        raise InputError(
            f"{name}: {path} has no header. The first line must name the columns, such as"
            f" source{delimiter}target."
        )
    return [cell.strip() for cell in header], has_rows


def _from_pandas(frame: pd.DataFrame, role: str) -> Any:
    if frame.index.name is not None and frame.index.name not in frame.columns:
        frame = frame.reset_index()
    frame = frame.rename(columns=str)
    if not frame.columns.is_unique:
        # Refused by the caller, by name.
        return pa.table([pa.nulls(0)] * frame.shape[1], names=list(frame.columns))
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{role}: the DataFrame has a column of mixed or unknown types. {_first_line(error)}"
        ) from error


def _first_line(error: BaseException) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"The reader says: {text.rstrip('.')}."
