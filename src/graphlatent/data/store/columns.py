"""Named columns of a store: one array of numbers each, with the values of text beside it.

They come back as `read_graphs` gives them, so that they are encoded in the same way: numbers, truth
values and times as arrays, text as objects (None where missing), categories as NumPy's text.
Legend: N nodes, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch import Tensor

from graphlatent.data.readers.arrow import LoadedTable, as_categories, to_array, usable_column
from graphlatent.data.store.layout import COLUMNS
from graphlatent.data.store.npy import NpyWriter, mapped
from graphlatent.errors import InputError
from graphlatent.io.regular_files import refusing_damage

Array: TypeAlias = np.ndarray[Any, Any]
ColumnForm: TypeAlias = Literal["array", "text", "category", "truth"]
# Values of text at a time: each becomes a Python object.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class StoredColumn:
    """One column and its files.

    Args:
        name: of the column.
        form: 'array' (the values themselves), 'text' or 'category' (numbers of distinct values, -1
            where missing), or 'truth' (1, 0, and -1 where missing).
        file: the array, under the store.
        values_file: of text, its distinct values; '' for others.
    """

    name: str
    form: ColumnForm
    file: str
    values_file: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The column's files, under the store."""
        return (self.file, self.values_file) if self.values_file else (self.file,)

    def values(self, folder: Path, index: Tensor | slice) -> Array:
        """The values of the nodes `index`, [R]."""
        with refusing_damage(f"store: {folder / self.file} cannot be read as an array"):
            array = mapped(folder / self.file)
        chosen = array[index if isinstance(index, slice) else index.numpy()]
        if self.form == "array":
            return np.array(chosen)
        if self.form == "truth":
            return np.array([False, True, None], dtype=object)[chosen]
        with refusing_damage(f"store: {folder / self.values_file} cannot be read"):
            distinct = pq.read_table(folder / self.values_file).column(0).to_pylist()
        if self.form == "category":
            return np.array(distinct, dtype=np.str_)[chosen]
        # The last one is that of -1.
        objects = np.empty(len(distinct) + 1, dtype=object)
        objects[:-1] = distinct
        return objects[chosen]


def write_column(table: LoadedTable, name: str, *, folder: Path, number: int) -> StoredColumn:
    """Write a column of a node table.

    Args:
        table: with all rows of the column, in the order of the nodes.
        name: of the column.
        folder: the store.
        number: of the column, for the names of its files.

    Raises:
        InputError: where the column holds anything but numbers, truth values, dates, times or text.
    """
    (folder / COLUMNS).mkdir(exist_ok=True)
    file = f"{COLUMNS}/{number:05d}.npy"
    column = usable_column(table, name, option="features")
    if pa.types.is_string(column.type):
        return _write_text(table, name, column, folder, file)
    values = to_array(table, name, option="features")
    if values.dtype.kind == "O":
        values = _truth_codes(table, name, values)
        form: ColumnForm = "truth"
    else:
        form = "array"
    with NpyWriter(folder / file, values.dtype) as writer:
        writer.append(values)
    return StoredColumn(name, form, file)


def _write_text(
    table: LoadedTable, name: str, column: Any, folder: Path, file: str
) -> StoredColumn:
    """Write the numbers of the distinct values, and these."""
    encoded = column.dictionary_encode()
    values_file = file.replace(".npy", ".values.parquet")
    pq.write_table(pa.table({"value": encoded.dictionary}), folder / values_file)
    with NpyWriter(folder / file, np.int32) as writer:
        writer.append(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False))
    categorical = table.is_categorical(name) and column.null_count == 0
    distinct = np.array(encoded.dictionary.to_pylist(), dtype=object)
    is_category = categorical and as_categories(distinct).dtype.kind == "U"
    return StoredColumn(name, "category" if is_category else "text", file, values_file)


def _truth_codes(table: LoadedTable, name: str, values: Array) -> Array:
    """Truth values among gaps as 1, 0 and -1, int8 [N]."""
    codes = np.empty(len(values), dtype=np.int8)
    for start in range(0, len(values), _BLOCK):
        for i, value in enumerate(values[start : start + _BLOCK].tolist(), start):
            if value is not None and not isinstance(value, bool):
                raise InputError(
                    f"{table.name}: column '{name}' holds values such as {value!r}, which cannot be"
                    " features. Turn them into numbers, dates or text, or leave the column out"
                    " (drop, --drop on the command line)."
                )
            codes[i] = -1 if value is None else value
    return codes


def write_labels(columns: dict[str, Any], path: Path) -> None:
    """Write label columns, pyarrow arrays by name, each [N], as Parquet."""
    pq.write_table(pa.table(columns), path)
