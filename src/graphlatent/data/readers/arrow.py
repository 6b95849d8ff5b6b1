"""Tables of any kind as one checked pyarrow table, and their columns as NumPy arrays.

Accepted are text tables (CSV, TSV and others, also packed), Parquet, pandas, polars and pyarrow.

Columns that a reader asks for as text (ids) are not converted to numbers, so '007' stays '007'.
"""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.parquet import read_parquet
from graphlatent.data.readers.text_content import STANDARD_INPUT
from graphlatent.data.readers.text_files import read_text
from graphlatent.display import listed
from graphlatent.errors import InputError
from graphlatent.io.regular_files import exists, first_line, refusing_damage, regular_file

LONG_CATEGORY = 64
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".zip", ".parquet")


@dataclass(frozen=True, eq=False)
class LoadedTable:
    """A table and where it came from.

    Args:
        data: the pyarrow table; column names are unique.
        name: what to call it in messages, such as "nodes (nodes.csv)".
        from_text: whether it came out of a text file, in which everything is text until somebody
            reads numbers into it.
        first_line: of a text file, the line of the first row, from 1.
        has_header: of a text file, whether a line names the columns.
        notes: what had to be assumed to read it, by key.
        rows: the rows of the source that are in `data`; None for all.
    """

    data: Any
    name: str
    from_text: bool = False
    first_line: int = 2
    has_header: bool = True
    notes: Mapping[str, str] = field(default_factory=dict)
    rows: np.ndarray[Any, Any] | None = None

    @cached_property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self.data.column_names)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.columns)}

    @property
    def num_rows(self) -> int:
        """How many rows there are, the header not counted."""
        return int(self.data.num_rows)

    def only(self, kept: np.ndarray[Any, Any]) -> LoadedTable:
        """The table with some of its rows, bool [rows]; messages name them as in the source."""
        rows = np.arange(self.num_rows) if self.rows is None else self.rows
        return replace(self, data=self.data.filter(pa.array(kept)), rows=rows[kept])

    def place(self, row: int) -> str:
        """Row `row` (from 0) as a message names it."""
        row = row if self.rows is None else int(self.rows[row])
        if not self.from_text:
            return f"row {row} (from 0)"
        header = " with the header" if self.has_header else ""
        return f"row {row + 1} (line {row + self.first_line}{header})"

    def column(self, name: str, *, option: str) -> Any:
        """The column as one pyarrow array, with dictionaries decoded.

        Raises `InputError` where there is no column of that name.
        """
        if name not in self._position:
            raise InputError(self._no_column(name, option))
        column = self.data.column(self._position[name])
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.combine_chunks()

    def is_categorical(self, name: str) -> bool:
        """Whether the column, which must be there, has categories."""
        return bool(pa.types.is_dictionary(self.data.schema.field(self._position[name]).type))

    def _no_column(self, name: str, option: str) -> str:
        message = (
            f"{self.name}: there is no column '{name}' (option '{option}'). Columns found:"
            f" {listed(self.columns)}. "
        )
        near = difflib.get_close_matches(name, self.columns, n=1)
        if near and len(self.columns) > 1:
            message += f"Did you mean '{near[0]}'? "
        if len(self.columns) == 1 and self.from_text:
            return (
                message + "A single column often means another delimiter: name it with the option"
                " 'delimiter' (--delimiter on the command line)."
            )
        message += f"Name the right one with the option '{option}'."
        # Names that are numbers, or edges without the columns of their ends.
        is_row = option in ("source", "target") or any(name.isdecimal() for name in self.columns)
        if self.from_text and self.has_header and is_row:
            message += (
                " If the first line is a row and no header, say so (no_header=True, --no-header on"
                " the command line); columns are then called '0', '1', ..."
            )
        return message


def table_suffix(path: Path) -> str | None:
    """Which of `TABLE_SUFFIXES` the file's name ends in, '-' for standard input, or None."""
    if str(path) == STANDARD_INPUT:
        return STANDARD_INPUT
    return next((suffix for suffix in TABLE_SUFFIXES if path.name.lower().endswith(suffix)), None)


def is_table(value: object) -> bool:
    """Whether `value` is a pandas or polars DataFrame or a pyarrow Table."""
    return isinstance(value, pd.DataFrame | pa.Table) or is_polars(value, "DataFrame")


def is_polars(value: object, name: str) -> bool:
    """Whether `value` is of the class of that name in polars.

    polars is optional here; a caller who has such a table has imported it already.
    """
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(value, getattr(polars, name))


def is_text_view(kind: Any) -> bool:
    """Whether a pyarrow type is that of text with views, which pyarrow has from version 16 on."""
    return "string_view" in str(kind) and hasattr(pa.types, "is_string_view")


def load_table(
    source: Any,
    *,
    role: str,
    text_columns: Sequence[str] = (),
    unread: Sequence[str] = (),
    options: TableOptions | None = None,
) -> LoadedTable:
    """The table in `source`: a file by its suffix, a pandas DataFrame or a pyarrow Table.

    Args:
        source: path or table.
        role: 'edges' or 'nodes', for messages.
        text_columns: columns of text files to keep as text.
        unread: columns that are not needed, so that those of a DataFrame may hold anything.
        options: how text files are written; None for the defaults.

    Raises:
        InputError: where the file is missing, of another kind or damaged, or the columns' names are
            not unique.
    """
    if is_polars(source, "DataFrame"):
        source = source.to_arrow()
    if isinstance(source, str | Path):
        table = _load_file(Path(source), role, text_columns, options or TableOptions())
    elif isinstance(source, pa.Table):
        with refusing_damage(f"{role}: the pyarrow Table is inconsistent"):
            source.validate(full=True)
        table = LoadedTable(source, role)
    elif isinstance(source, pd.DataFrame):
        table = LoadedTable(_from_pandas(source, role, unread), role)
    else:
        raise InputError(
            f"{role} must be a path, a pandas or polars DataFrame or a pyarrow Table. Got"
            f" {type(source).__name__}."
        )
    return with_distinct_names(table)


def with_distinct_names(table: LoadedTable) -> LoadedTable:
    """The table. Raises `InputError` where two columns have one name."""
    twice = sorted(name for name, count in Counter(table.columns).items() if count > 1)
    if twice:
        raise InputError(
            f"{table.name}: columns must have different names. {twice} occur more than once."
        )
    return table


def to_array(table: LoadedTable, name: str, *, option: str) -> np.ndarray[Any, Any]:
    """The column as a NumPy array of numbers, booleans, dates, times or objects.

    Objects are text, with None where a value is missing. In a column of features
    (of nodes or edges) they may be of any type: `fit_column` says which ones it cannot use. Others
    must not be, nor dates or times; but dates may be colours (option 'color').

    Categorical columns become text, whatever their categories are: NumPy's own where none is
    missing or long, so that it is known that text was meant.
    """
    column = usable_column(table, name, option=option)
    kind, categorical = column.type, table.is_categorical(name)
    usable = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_null,
    )
    if not any(is_kind(kind) for is_kind in usable):
        if option in ("features", "edge_features"):
            return _times(column) if pa.types.is_temporal(kind) else _objects(column)
        if option == "color" and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return _times(column)
        raise InputError(
            f"{table.name}: column '{name}' has the type {kind}, which cannot be used. Turn it into"
            " numbers, truth values or text."
        )
    array: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return as_categories(array) if categorical and column.null_count == 0 else array


def usable_column(table: LoadedTable, name: str, *, option: str) -> Any:
    """The column as a pyarrow array, with categories and all kinds of text as plain text.

    Decimals become floats, and in a text file an empty cell is a missing value.
    """
    column = table.column(name, option=option)
    kind = column.type
    if table.is_categorical(name) or is_text_view(kind) or pa.types.is_large_string(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_string(kind) and table.from_text:
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    return column


def _times(column: Any) -> np.ndarray[Any, Any]:
    """Dates as datetime64, times of day and durations as timedelta64, missing ones as NaT."""
    if pa.types.is_time(column.type):
        column = column.cast(pa.time64("ns")).cast(pa.int64()).cast(pa.duration("ns"))
    if not pa.types.is_interval(column.type):
        times: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
        return times
    return _objects(column)


def _objects(column: Any) -> np.ndarray[Any, Any]:
    return np.fromiter(column.to_pylist(), dtype=object, count=len(column))


def as_categories(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Short text as NumPy's own type, whose rows are all as long as the longest."""
    if max(map(len, array.tolist()), default=0) > LONG_CATEGORY:
        return array
    text = array.astype(np.str_)
    # It ends before NULs.
    return text if text.tolist() == array.tolist() else array


def _load_file(
    path: Path, role: str, text_columns: Sequence[str], options: TableOptions
) -> LoadedTable:
    suffix = table_suffix(path)
    name = f"{role} ({'standard input' if suffix == STANDARD_INPUT else path.name})"
    if suffix is None:
        # A name that no file can have is not repeated.
        exists(path)
        raise InputError(
            f"{role}: {path} is no table that can be read. Accepted are files ending in"
            f" {', '.join(TABLE_SUFFIXES)}."
        )
    if suffix != STANDARD_INPUT:
        regular_file(path, role=role)
    if suffix == ".parquet":
        return LoadedTable(read_parquet(path, name), name)
    keys = options.keys_of(role)
    table = read_text(path, name, options=options, keys=keys, text_columns=text_columns)
    return LoadedTable(
        table.data,
        name,
        from_text=True,
        first_line=table.first_line,
        has_header=table.has_header,
        notes=table.notes,
    )


def _from_pandas(frame: pd.DataFrame, role: str, unread: Sequence[str]) -> Any:
    if frame.index.name is not None and frame.index.name not in frame.columns:
        frame = frame.reset_index()
    frame = frame.rename(columns=str)
    # Their names stay, for messages.
    empty = {name: None for name in unread if name in frame.columns}
    frame = frame.assign(**empty) if empty else frame
    if not frame.columns.is_unique:
        # Refused by the caller, by name.
        return pa.table([pa.nulls(0)] * frame.shape[1], names=list(frame.columns))
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(
            f"{role}: the DataFrame has a column of mixed or unknown types. {first_line(error)}"
            " Give it one type, or leave it out (drop=[...])."
        ) from error
