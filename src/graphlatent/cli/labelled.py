"""Embeddings and label tables out of files, and which row of the one goes with which row of the
other.

Rows are matched by their ids. Files without ids (`.npy`, `.npz` without 'ids') have row numbers,
from 0, as ids. Legend: M embedded rows, n rows of the label table, D columns of the embedding, K
labels.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from graphlatent.data.ids import IdColumn, codes, of_one_type, read_ids, shown
from graphlatent.data.readers.arrow import Table, load_table, to_array
from graphlatent.embedding import SUFFIXES
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]

_ARRAYS = (".npy", ".npz")
_LABEL_NAMES = ("label", "labels", "y", "class")


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings as a file holds them.

    Args:
        values: float [M, D].
        keys: what names a row: its id, or its graph and its id.
        key_names: the columns of those, such as ("id",); () where rows have numbers only.
        name: for messages.
    """

    values: Array
    keys: tuple[IdColumn, ...]
    key_names: tuple[str, ...]
    name: str


@dataclass(frozen=True, eq=False)
class Labelled:
    """Columns of a table and what names its rows.

    Args:
        columns: values by column name, each [n]; numbers, truth values or objects (text, None where
            missing).
        keys: what names a row.
        name: for messages.
    """

    columns: dict[str, Array]
    keys: tuple[IdColumn, ...]
    name: str


def read_embeddings(path: Path) -> Embedded:
    """The embeddings in a file that 'graphlatent embed' wrote, in a run folder, or in a plain
    array.

    Raises:
        InputError: where there are none, or they cannot be read.
    """
    if path.is_dir():
        if not (path / "embeddings.parquet").is_file():
            raise InputError(
                f"The folder {path} holds no embeddings.parquet. Give a run folder of a finished"
                " 'graphlatent train', or a file."
            )
        path = path / "embeddings.parquet"
    suffix, name = path.suffix.lower(), f"embeddings ({path.name})"
    if suffix not in (*SUFFIXES, ".npy"):
        raise InputError(
            "Embeddings are read from a run folder or a file ending in"
            f" {', '.join((*SUFFIXES, '.npy'))}. Got '{path.name}'."
        )
    if suffix in _ARRAYS:
        return _embedded_arrays(_load_arrays(path, "embeddings"), name)
    table = load_table(path, role="embeddings", text_columns=("graph", "id"))
    columns = [c for c in table.columns if re.fullmatch(r"e\d+", c)]
    key_names = tuple(c for c in ("graph", "id") if c in table.columns)
    if not columns or not key_names:
        raise InputError(
            f"{name} must have a column 'id' or 'graph' and columns e0, e1, ..., as 'graphlatent"
            f" embed' writes them. Columns found: {', '.join(map(repr, table.columns[:8]))}."
        )
    columns.sort(key=lambda c: int(c[1:]))
    values = np.stack([to_array(table, c, option="embeddings") for c in columns], axis=1)
    if values.dtype.kind not in "fiu":
        raise InputError(
            f"{name}: the columns e0, e1, ... must hold numbers. Got values such as"
            f" {values[0, 0]!r}."
        )
    return _checked(
        Embedded(values, tuple(read_ids(table, c, option=c) for c in key_names), key_names, name)
    )


def read_labels(
    path: Path, *, labels: Sequence[str], id_column: str | None, like: Embedded
) -> Labelled:
    """The label columns of a table or array file.

    Args:
        path: a table, or `.npy` / `.npz`.
        labels: names of the label columns; empty for the one that is there, or is named so.
        id_column: the column that names rows; None for the embedding's own.
        like: the embeddings that labels are wanted for.

    Raises:
        InputError: where the file, a column or an id is missing, or an id stands there twice.
    """
    if path.suffix.lower() in _ARRAYS:
        return _checked(
            _labelled_arrays(_load_arrays(path, "labels"), f"labels ({path.name})", labels)
        )
    keys = _key_columns(like, id_column)
    table = load_table(path, role="labels", text_columns=keys)
    names = labels or [_label_name(table, keys)]
    return _checked(
        Labelled(
            {name: to_array(table, name, option="--label") for name in names},
            _keys(table, keys),
            table.name,
        )
    )


def read_features(
    path: Path,
    *,
    leave_out: Sequence[str],
    only: Sequence[str] | None,
    id_column: str | None,
    like: Embedded,
) -> Labelled:
    """The feature columns of a node table: those named in `only`, or all but ids; never those in
    `leave_out`, the labels.

    Raises:
        InputError: where the file or an id is missing, an id stands there twice, or no column is
            left.
    """
    keys = _key_columns(like, id_column)
    table = load_table(path, role="nodes", text_columns=(*keys, *leave_out))
    names = [
        name
        for name in (table.columns if only is None else only)
        if name not in (*keys, *leave_out, "graph")
    ]
    if not names:
        raise InputError(f"{table.name}: there are no feature columns beside ids and labels.")
    columns = {name: to_array(table, name, option="--raw") for name in names}
    return _checked(Labelled(columns, _keys(table, keys), table.name))


def match_rows(rows: Embedded, table: Labelled) -> Array:
    """For every embedded row the row of the table that has its id, int64 [M].

    Raises:
        InputError: where an embedded row has none; says how many, and which is the first.
    """
    if len(rows.keys) != len(table.keys):
        raise InputError(
            f"{rows.name} has rows of several graphs, known by graph and id, but {table.name} has"
            " row numbers only."
        )
    if not rows.key_names and _size(table) != _size(rows):
        raise InputError(
            f"{rows.name} has no ids, so {table.name} must have the same rows in the same order:"
            f" {_size(rows)}. Got {_size(table)}."
        )
    ours, theirs = _numbers(rows, table)
    order = np.argsort(theirs, kind="stable")
    place = order[np.minimum(np.searchsorted(theirs, ours, sorter=order), len(order) - 1)]
    missing = theirs[place] != ours
    if missing.any():
        way_out = (
            "Are these the ids of the same rows? Name their column with --id."
            if missing.all()
            else "Add them, their labels empty."
        )
        raise InputError(
            f"{table.name} has no row for {int(missing.sum())} of the {len(ours)} embeddings, the"
            f" first of id {_id_of(rows.keys, int(missing.argmax()))}. {way_out}"
        )
    return np.asarray(place, dtype=np.int64)


def _numbers(rows: Embedded, table: Labelled) -> tuple[Array, Array]:
    """The ids of both as comparable numbers; -1 for one that only the first has."""
    ours, theirs = (
        np.zeros(len(rows.values), dtype=np.int64),
        np.zeros(_size(table), dtype=np.int64),
    )
    for one, other in zip(rows.keys, table.keys, strict=True):
        here, there = of_one_type([one, other])
        distinct = there.unique()
        code = codes(here, distinct=distinct)
        ours = np.where((ours < 0) | (code < 0), -1, ours * len(distinct) + code)
        theirs = theirs * len(distinct) + codes(there, distinct=distinct)
    return ours, theirs


_Rows = TypeVar("_Rows", Embedded, Labelled)


def _size(rows: Embedded | Labelled) -> int:
    return len(rows.keys[0].values)


def _checked(rows: _Rows) -> _Rows:
    """The same; raises where there are no rows, or an id stands there more than once."""
    if _size(rows) == 0:
        raise InputError(f"{rows.name}: there are no rows.")
    number = np.zeros(_size(rows), dtype=np.int64)
    for key in rows.keys:
        distinct = key.values.unique()
        number = number * len(distinct) + codes(key.values, distinct=distinct)
    _, first, count = np.unique(number, return_index=True, return_counts=True)
    if (count > 1).any():
        row = int(first[count > 1].min())
        twice = (
            f"{int((count > 1).sum())} id(s) stand there more than once, the first"
            f" {_id_of(rows.keys, row)}"
        )
        raise InputError(f"{rows.name}: {twice}. An id must name one row.")
    return rows


def _id_of(keys: Sequence[IdColumn], row: int) -> str:
    return " / ".join(shown(key.values[row]) for key in keys)


def _key_columns(like: Embedded, id_column: str | None) -> tuple[str, ...]:
    """The columns of a table that name its rows as the embedding's are named."""
    names = like.key_names or ("id",)
    return names if id_column is None else (*names[:-1], id_column)


def _keys(table: Table, names: Sequence[str]) -> tuple[IdColumn, ...]:
    return tuple(read_ids(table, name, option="--id") for name in names)


def _label_name(table: Table, keys: Sequence[str]) -> str:
    others = [c for c in table.columns if c not in keys]
    named = [c for c in _LABEL_NAMES if c in others]
    if named or len(others) == 1:
        return (named or others)[0]
    raise InputError(
        f"{table.name}: which column holds the labels? Name it with --label. Columns found:"
        f" {', '.join(map(repr, others))}."
    )


# --- arrays ---


def _load_arrays(path: Path, role: str) -> dict[str, Array]:
    """The arrays of a file by name; a single one of a `.npy` has the name ''."""
    if not path.is_file():
        raise InputError(f"{role}: there is no file {path}. Check the path.")
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError) as error:
        raise InputError(
            f"{role}: {path} cannot be read as NumPy arrays. The reader says: {error}. Write the"
            " file anew."
        ) from error


def _row_numbers(num_rows: int, where: str) -> IdColumn:
    return IdColumn(pa.array(np.arange(num_rows)), f"{where}, by row number,", open_type=False)


def _id_column(ids: Array, name: str, where: str) -> IdColumn:
    """An array as ids. Raises `InputError` where it does not hold one integer or text per row."""
    called = f"{where}, array '{name}',"
    whole = ids.dtype.kind in "iu" or (ids.dtype.kind == "f" and bool((ids == np.floor(ids)).all()))
    if ids.ndim != 1 or not (whole or ids.dtype.kind in "US"):
        raise InputError(
            f"{called} must hold one id per row [M], integers or text. Got shape {ids.shape} of"
            f" {ids.dtype}."
        )
    try:
        if whole:
            return IdColumn(
                pa.array([int(number) for number in ids.tolist()], pa.int64()),
                called,
                open_type=False,
            )
        texts = [each.decode("utf-8") if isinstance(each, bytes) else each for each in ids.tolist()]
        return IdColumn(pa.array(texts, pa.string()), called, open_type=False)
    except (UnicodeError, OverflowError, pa.ArrowException) as error:
        raise InputError(
            f"{called} must hold integers of 64 bits or text in UTF-8. The reader says: {error}."
        ) from error


def _embedded_arrays(arrays: dict[str, Array], name: str) -> Embedded:
    values = arrays.get("embeddings", arrays.get(""))
    if values is None or values.ndim != 2 or values.dtype.kind not in "fiu":
        found = ", ".join(f"{key or 'array'} {array.shape}" for key, array in arrays.items())
        raise InputError(
            f"{name} must hold a 2-D array of numbers (in an .npz, named 'embeddings'). Found:"
            f" {found or 'nothing'}."
        )
    key_names = tuple(key for key in ("graphs", "ids") if key in arrays)
    keys = tuple(_id_column(arrays[key], key, name) for key in key_names) or (
        _row_numbers(len(values), name),
    )
    if any(len(key.values) != len(values) for key in keys):
        raise InputError(
            f"{name}: there must be one id per row, {len(values)}. Got {len(keys[-1].values)}."
        )
    return _checked(
        Embedded(
            values, keys, tuple({"graphs": "graph", "ids": "id"}[key] for key in key_names), name
        )
    )


def _labelled_arrays(arrays: dict[str, Array], name: str, labels: Sequence[str]) -> Labelled:
    ids = _id_column(arrays["ids"], "ids", name) if "ids" in arrays else None
    arrays = {key: array for key, array in arrays.items() if key != "ids"}
    names = (
        list(labels)
        or [key for key in ("", *_LABEL_NAMES) if key in arrays][:1]
        or list(arrays)[: len(arrays) == 1]
    )
    unknown = [key for key in names if key not in arrays]
    if unknown or not names:
        raise InputError(
            f"{name}: which array holds the labels? Name it with --label. Arrays found:"
            f" {', '.join(map(repr, arrays)) or 'none'}."
        )
    columns: dict[str, Array] = {}
    for key in names:
        array = arrays[key]
        if array.ndim not in (1, 2) or array.shape[1:] == (0,) or array.dtype.kind not in "biufUS":
            raise InputError(
                f"{name}: labels must be one per row [M], or a 0/1 table [M, K]. Got shape"
                f" {array.shape} of {array.dtype}."
            )
        columns |= (
            {key or "label": array}
            if array.ndim == 1
            else {f"{key or 'label'} {k}": array[:, k] for k in range(array.shape[1])}
        )
    num_rows = len(next(iter(columns.values())))
    if any(len(column) != num_rows for column in columns.values()) or (
        ids is not None and len(ids.values) != num_rows
    ):
        raise InputError(f"{name}: its arrays must all have one entry per row.")
    return Labelled(columns, (ids or _row_numbers(num_rows, name),), name)
