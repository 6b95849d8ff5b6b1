"""Columns of ids: read, brought to one type, and numbered. Everything here works on whole columns.

Ids are integers or text and are compared as given: the integer 1 and the text '1' are different
ids, and never in one column. Whole floats count as integers as long as they are exact; truth values
are no ids. In a text file everything is text; its ids count as integers where every one of them is
written as an integer is (so '7' may be one, '007' is not), and whitespace around them is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphlatent.data.readers.arrow import LoadedTable, is_text_view
from graphlatent.display import are
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]
EXACT_INTEGERS = {np.float16: 2**11 - 1, np.float32: 2**24 - 1, np.float64: 2**53 - 1}
"""For each type, the largest n so that each integer up to n is a float that no other rounds to."""
# Those of which `item` gives an equal value of Python's; of times it gives a number.
_SCALARS = (np.integer, np.floating, np.bool_, np.str_)


@dataclass(frozen=True, eq=False)
class IdColumn:
    """A column of ids without gaps.

    Args:
        values: pyarrow array of int64 or string.
        where: the table and the column, for messages.
        open_type: the source does not say whether these are integers or text (a text file, or no
            rows at all).
    """

    values: Any
    where: str
    open_type: bool


def read_ids(table: LoadedTable, name: str, *, option: str) -> IdColumn:
    """The column `name` as ids.

    Raises `InputError` where an id is missing or is neither an integer nor text.
    """
    values, where = table.column(name, option=option), f"{table.name}, column '{name}'"
    if is_text_view(values.type):
        values = values.cast(pa.string())
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if table.from_text and is_text:
        values = pc.utf8_trim_whitespace(values)
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    if values.null_count:
        row = int(np.argmax(_to_numpy(values.is_null())))
        raise InputError(
            f"{where}: {are(values.null_count, 'id')} missing, the first in"
            f" {table.place(row)}. Fill them or drop the rows."
        )
    if is_text or pa.types.is_null(values.type):
        return IdColumn(
            values.cast(pa.string()), where, open_type=table.from_text or len(values) == 0
        )
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise InputError(
            f"{where}: ids must be integers or text. Got values of type {values.type}."
        )
    if pa.types.is_floating(values.type) and len(values):
        _refuse_inexact(values, where)
    try:
        return IdColumn(values.cast(pa.int64()), where, open_type=len(values) == 0)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{where}: ids must be integers of 64 bits or text. Got values of type {values.type}"
            " that are neither."
        ) from error


def _refuse_inexact(values: Any, where: str) -> None:
    """Raise where floats are so large that different integers may have become one."""
    exact = EXACT_INTEGERS[values.type.to_pandas_dtype()]
    numbers = np.abs(_to_numpy(values))
    if np.isfinite(numbers).all() and numbers.max() > exact:
        raise InputError(
            f"{where}: ids must be integers of 64 bits or text. Got values of type {values.type} up"
            f" to {numbers.max():.0f}, and above {exact} different integers may be the same float."
            " Read the column as integers or as text."
        )


def exact_ids(ids: Sequence[Any]) -> Array:
    """Ids of any types as an array that holds exactly these: int64, or objects.

    NumPy by itself would make floats of integers that do not fit into 64 bits, text of the integers
    among text, and would cut NULs off the end of text.
    """
    plain = [each.item() if isinstance(each, _SCALARS) else each for each in ids]
    if all(type(each) is int and -(2**63) <= each < 2**63 for each in plain):
        return np.array(plain, dtype=np.int64)
    return np.fromiter(plain, dtype=object, count=len(plain))


def of_one_type(columns: Sequence[IdColumn]) -> list[Any]:
    """The values of all columns as int64, or all as string.

    Raises `InputError` where one column has integers and another text.
    """
    as_integers = [_integers(c.values) for c in columns]
    integer = [c for c in columns if not c.open_type and not pa.types.is_string(c.values.type)]
    text = [c for c in columns if not c.open_type and pa.types.is_string(c.values.type)]
    text += [c for c, integers in zip(columns, as_integers, strict=True) if integers is None]
    if integer and text:
        raise InputError(
            f"{integer[0].where} holds integers, but {text[0].where} holds text such as"
            f" {shown(text[0].values[0])}. Ids must be of one type in all tables: turn one of the"
            " columns into the other's type."
        )
    return [c.values.cast(pa.string()) for c in columns] if text else as_integers


def _integers(values: Any) -> Any:
    """The ids as int64, or None where one is not written as an integer is."""
    if not pa.types.is_string(values.type):
        return values
    try:
        integers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return integers if integers.cast(pa.string()).equals(values) else None


def is_integers(values: Any) -> bool:
    """Whether each id, in a pyarrow array, is an integer or is written as one is."""
    return _integers(values) is not None


def sorted_distinct(columns: Sequence[Any]) -> Any:
    """Each value of the columns once, ascending."""
    distinct = pa.concat_arrays(list(columns)).unique()
    return distinct.take(pc.array_sort_indices(distinct))


def codes(values: Any, *, distinct: Any) -> Array:
    """The position of each value in `distinct`, int64; -1 where it is not there."""
    return _to_numpy(pc.fill_null(pc.index_in(values, value_set=distinct), -1)).astype(np.int64)


def id_array(values: Any) -> Array:
    """The ids as a NumPy array: int64, or objects (text)."""
    return _to_numpy(values)


def shown(scalar: Any) -> str:
    """A single id as a message shows it."""
    return repr(scalar.as_py())


def similar_id(value: Any, ids: Any) -> Any | None:
    """An id that is written in another way than `value`, such as '8.0', '08' or 'A' for 'a'.

    Args:
        value: an id that is not there, a pyarrow scalar.
        ids: the ids that are there, a pyarrow array.
    """
    wanted = _without_writing(value.as_py())
    similar = (each for each in ids if _without_writing(each.as_py()) == wanted)
    return next((each for each in similar if each.as_py() != value.as_py()), None)


def _without_writing(each: object) -> str:
    """An id as text without what spreadsheets and other programs add to it or take from it."""
    text = re.sub(r"\.0+$", "", str(each).strip("\"' ").casefold())
    return text.lstrip("0")


def _to_numpy(values: Any) -> Array:
    array: Array = values.to_numpy(zero_copy_only=False)
    return array
