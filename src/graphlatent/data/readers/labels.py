"""Columns of labels or features out of files, and which of their rows belongs to which embedding.

Rows are joined by their ids. Files without ids (`.npy`, `.npz` without 'ids') have row numbers,
from 0, as ids. Legend: M rows, n rows of the other table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from graphlatent.data.graph_labels import first_rows
from graphlatent.data.ids import IdColumn, of_one_type, read_ids, shown
from graphlatent.data.readers.array_files import (
    ARRAY_SUFFIXES,
    ids_of_array,
    load_arrays,
    row_numbers,
)
from graphlatent.data.readers.arrow import LoadedTable, load_table, to_array
from graphlatent.data.readers.options import TableOptions
from graphlatent.display import listed
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]
_LABEL_NAMES = ("label", "labels", "y", "class")


@dataclass(frozen=True, eq=False)
class RowKeys:
    """What identifies each row of a table: its id, or its graph and its id.

    Args:
        columns: the graphs and ids, each [M]; no row occurs twice.
        names: the columns' names, such as ("id",); () where rows have numbers only.
        where: the table, for messages.

    Raises:
        InputError: where there are no rows, or an id occurs more than once.
    """

    columns: tuple[IdColumn, ...]
    names: tuple[str, ...]
    where: str

    def __post_init__(self) -> None:
        if len(self) == 0:
            raise InputError(f"{self.where}: there are no rows.")
        index = _index([column.values for column in self.columns])
        repeated = index.duplicated(keep=False)
        if repeated.any():
            num_ids = len(index[repeated].unique())
            several = "1 id occurs" if num_ids == 1 else f"{num_ids:,} ids occur"
            raise InputError(
                f"{self.where}: {several} more than once, the first"
                f" {self.shown(int(repeated.argmax()))}. An id must identify one row."
            )

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def shown(self, row: int) -> str:
        """The id of a row as a message shows it."""
        return " / ".join(shown(column.values[row]) for column in self.columns)


@dataclass(frozen=True, eq=False)
class KeyedColumns:
    """Columns of a table and the keys of its rows.

    Args:
        columns: values by column name, each [n]; numbers, truth values or objects (text, None where
            missing).
        keys: of the rows.
    """

    columns: dict[str, Array]
    keys: RowKeys

    @property
    def where(self) -> str:
        """The table, for messages."""
        return self.keys.where

    def named(self, names: Sequence[str]) -> KeyedColumns:
        """These columns only; all where none is named. Raises where there is no such column."""
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise InputError(
                f"{self.where} has no labels '{unknown[0]}', but {listed(self.columns)}. For other"
                " labels give a table by --labels."
            )
        return replace(self, columns={name: self.columns[name] for name in names or self.columns})

    def joined_to(self, rows: RowKeys, *, partial: bool = False) -> dict[str, Array]:
        """The columns in the order of `rows`, each [M]. Raises as `match_rows` does.

        With `partial`, values of rows that the table does not have are missing: NaN, NaT or None.
        """
        place = match_rows(rows, self.keys, partial=partial)
        return {name: _taken(values, place) for name, values in self.columns.items()}


def match_rows(rows: RowKeys, table: RowKeys, *, partial: bool = False) -> Array:
    """For every row of `rows` the number of the row of `table` with the same id, int64 [M].

    Args:
        rows: what the table is joined to.
        table: the rows that are looked up.
        partial: a table of some of the rows will do, if all of its ids are ids of `rows`; the
            others get -1. A table that has other ids too may have misspelt ones.

    Raises:
        InputError: where a row has none; says how many, and which is the first.
    """
    if len(rows.columns) != len(table.columns):
        raise InputError(
            f"{rows.where} has rows of several graphs, identified by graph and id, but"
            f" {table.where} has row numbers only."
        )
    if not rows.names and len(table) != len(rows):
        raise InputError(
            f"{rows.where} has no ids, so {table.where} must have the same rows in the same order:"
            f" {len(rows)}. Got {len(table)}."
        )
    pairs = [
        of_one_type([one, other]) for one, other in zip(rows.columns, table.columns, strict=True)
    ]
    wanted, there = (_index([pair[side] for pair in pairs]) for side in (0, 1))
    place = np.asarray(there.get_indexer(wanted), dtype=np.int64)
    missing = place < 0
    foreign = np.isin(np.arange(len(table)), place, invert=True)
    if missing.any() and (missing.all() or not partial or foreign.any()):
        also = ""
        if missing.all():
            way_out = "Are these the ids of the same rows? Name their column with the option 'id'."
        elif not partial:
            way_out = "Add them."
        else:
            also = f", but rows of other ids, the first {table.shown(int(foreign.argmax()))}"
            way_out = "Remove those rows, or add the missing ones with empty labels."
        raise InputError(
            f"{table.where} has no row for {int(missing.sum())} of the {len(rows)} embeddings, the"
            f" first of id {rows.shown(int(missing.argmax()))}{also}. {way_out}"
        )
    return place


def _taken(values: Array, place: Array) -> Array:
    """The values at `place`; missing where that is -1."""
    taken = values[place]
    if (place >= 0).all():
        return taken
    if values.dtype.kind == "M":
        taken[place < 0] = np.datetime64("NaT")
        return taken
    taken = taken if values.dtype.kind == "f" else taken.astype(object)
    taken[place < 0] = np.nan if values.dtype.kind == "f" else None
    return taken


def read_labels(
    path: Path,
    *,
    label: Sequence[str],
    id_column: str | None,
    rows: RowKeys,
    options: TableOptions | None = None,
    numbered: str | None = None,
    option: str = "label",
) -> KeyedColumns:
    """The label columns of a table or array file.

    A table may have several rows per embedded graph, such as a node table, where all rows of a
    graph have the same label.

    Args:
        path: a table, or `.npy` / `.npz`.
        label: names of the label columns; empty for the only one, or the one called 'label',
            'labels', 'y' or 'class'.
        id_column: the column of ids; None for that of `rows`, or else that of `options`.
        rows: the embeddings that labels are needed for.
        options: how text files are written, and the column of ids in the run's node table.
        numbered: the column of ids of a table whose rows have their numbers as ids where there is
            no such column, as molecules have; None for other tables.
        option: that named the label columns, for messages.

    Raises:
        InputError: where the file, a column or an id is missing, an id occurs twice, or the rows of
            a graph have different labels.
    """
    if path.suffix.lower() in ARRAY_SUFFIXES:
        return _labels_of_arrays(load_arrays(path, role="labels"), f"labels ({path.name})", label)
    keys = _key_columns(rows, id_column or numbered)
    as_text = (*keys, *_other_keys(keys[-1], options))
    table = load_table(path, role="labels", text_columns=as_text, options=options)
    if id_column is None and numbered is None:
        keys = _keys_there(keys, table, options)
    names = label or [_label_name(table, keys)]
    columns = {name: to_array(table, name, option=option) for name in names}
    if numbered is not None and id_column is None and numbered not in table.columns:
        numbers = row_numbers(table.num_rows, where=table.name)
        return KeyedColumns(columns, RowKeys((numbers,), (), table.name))
    if numbered is None and rows.names == ("graph",):
        return _by_graph(columns, table, keys)
    return KeyedColumns(columns, read_keys(table, keys))


def read_feature_columns(
    path: Path,
    *,
    drop: Sequence[str],
    features: Sequence[str] | None,
    id_column: str | None,
    rows: RowKeys,
    options: TableOptions | None = None,
) -> KeyedColumns:
    """The feature columns of a node table.

    Args:
        path: a table.
        drop: columns that are no features: labels.
        features: the columns; None for all but ids, graphs and those in `drop`.
        id_column: the column of ids; None for that of `rows`, or else that of `options`.
        rows: the embeddings that features are needed for.
        options: how text files are written, and which columns are text.

    Raises:
        InputError: where the file or an id is missing, an id occurs twice, or no column is left.
    """
    keys = _key_columns(rows, id_column)
    options = options or TableOptions()
    as_text = (*keys, *_other_keys(keys[-1], options), *drop, *options.text, *options.hash)
    table = load_table(path, role="nodes", text_columns=as_text, options=options)
    if id_column is None:
        keys = _keys_there(keys, table, options)
    names = [
        name
        for name in (table.columns if features is None else features)
        if name not in (*keys, *drop, "graph")
    ]
    if not names:
        raise InputError(f"{table.name}: there are no feature columns beside ids and labels.")
    columns = {name: to_array(table, name, option="features") for name in names}
    return KeyedColumns(columns, read_keys(table, keys))


def read_keys(table: LoadedTable, names: Sequence[str]) -> RowKeys:
    """The columns `names` as keys of the table's rows."""
    columns = tuple(read_ids(table, name, option="id") for name in names)
    return RowKeys(columns, tuple(names), table.name)


def _index(columns: Sequence[Any]) -> Any:
    """Columns of ids (pyarrow arrays) as one pandas index."""
    arrays = [pd.Index(column.to_pandas()) for column in columns]
    return arrays[0] if len(arrays) == 1 else pd.MultiIndex.from_arrays(arrays)


def _key_columns(rows: RowKeys, id_column: str | None) -> tuple[str, ...]:
    """The columns of a table that identify its rows as those of `rows` are identified."""
    names = rows.names or ("id",)
    return names if id_column is None else (*names[:-1], id_column)


def _keys_there(
    keys: tuple[str, ...], table: LoadedTable, options: TableOptions | None
) -> tuple[str, ...]:
    """The same with another column of ids where the expected one is not there, but that one is."""
    names = (keys[-1], *_other_keys(keys[-1], options))
    return (*keys[:-1], next((name for name in names if name in table.columns), keys[-1]))


def _other_keys(key: str, options: TableOptions | None) -> tuple[str, ...]:
    """Other columns that may hold the ids: those of the run's tables; of graphs also 'id'."""
    options = options or TableOptions()
    if key == "graph":
        return (*((options.graph,) if options.graph else ()), options.id)
    return (options.id,) if key == "id" else ()


def _by_graph(columns: dict[str, Array], table: LoadedTable, keys: tuple[str, ...]) -> KeyedColumns:
    """One row per graph out of a table that may have several."""
    graphs = read_ids(table, keys[-1], option="id")
    graph_of_row, _ = pd.factorize(graphs.values.to_pandas())
    rows = first_rows(
        columns, graph_of_row, graph_name=lambda row: shown(graphs.values[row]), where=table.name
    )
    ids = replace(graphs, values=graphs.values.take(rows))
    by_graph = {name: values[rows] for name, values in columns.items()}
    return KeyedColumns(by_graph, RowKeys((ids,), keys, table.name))


def _label_name(table: LoadedTable, keys: Sequence[str]) -> str:
    others = [c for c in table.columns if c not in keys]
    named = [c for c in _LABEL_NAMES if c in others]
    if named or len(others) == 1:
        return (named or others)[0]
    raise InputError(
        f"{table.name}: which column holds the labels? Name it with the option 'label'. Columns"
        f" found: {listed(others)}."
    )


def _labels_of_arrays(arrays: dict[str, Array], where: str, label: Sequence[str]) -> KeyedColumns:
    ids = ids_of_array(arrays["ids"], name="ids", where=where) if "ids" in arrays else None
    arrays = {key: array for key, array in arrays.items() if key != "ids"}
    names = (
        list(label)
        or [key for key in ("", *_LABEL_NAMES) if key in arrays][:1]
        or list(arrays)[: len(arrays) == 1]
    )
    unknown = [key for key in names if key not in arrays]
    if unknown or not names:
        raise InputError(
            f"{where}: which array holds the labels? Name it with the option 'label'. Arrays found:"
            f" {', '.join(map(repr, arrays)) or 'none'}."
        )
    columns: dict[str, Array] = {}
    for key in names:
        columns |= _columns_of_array(arrays[key], key or "label", where)
    num_rows = len(next(iter(columns.values())))
    if any(len(column) != num_rows for column in columns.values()) or (
        ids is not None and len(ids.values) != num_rows
    ):
        raise InputError(f"{where}: its arrays must all have one entry per row.")
    if ids is None:
        return KeyedColumns(columns, RowKeys((row_numbers(num_rows, where=where),), (), where))
    return KeyedColumns(columns, RowKeys((ids,), ("ids",), where))


def _columns_of_array(array: Array, name: str, where: str) -> dict[str, Array]:
    """One column, or one for each column of a 0/1 matrix."""
    if array.ndim not in (1, 2) or array.shape[1:] == (0,) or array.dtype.kind not in "biufUS":
        raise InputError(
            f"{where}: labels must be one per row [M], or a 0/1 matrix [M, K]. Got shape"
            f" {array.shape} of {array.dtype}."
        )
    if array.ndim == 1:
        return {name: array}
    return {f"{name} {k}": array[:, k] for k in range(array.shape[1])}
