"""Text columns that are mostly numbers: numbers with something else between them, or codes.

A table's column is text as soon as one of its values is, so that a single '?' would turn a column
of numbers into one-hot categories. Such a column is refused; docs/inputs.md has the rule. Codes
such as house numbers ('2', '2b') and postal codes are text, with a warning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from graphlatent.data.places import place_of
from graphlatent.errors import InputError, warn

Array: TypeAlias = np.ndarray[Any, Any]

_SPREADSHEET_ERRORS = ("#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!", "#n/a")
MISSING_SIGNS = frozenset(
    ["?", "??", "-", "--", ".", "..", "*", "na", "n/a", "n.a.", "nan", "null", *_SPREADSHEET_ERRORS]
)
"""How people and spreadsheets write that a value is missing, in small letters."""
# Digits in groups or a decimal comma; a bound such as '<5'; an amount with its unit.
_OTHER_NUMBER = re.compile(
    r"[+-]?(\d{1,3}([ ,.'’_]\d{3})+([.,]\d*)?|\d+,\d+)|[<>~≤≥≈]=?\s*[+-]?\d+([.,]\d+)?"
    r"|[+-]?[$€£¥]\s*\d+([.,]\d+)*|[+-]?\d+([.,]\d+)*\s*[%$€£¥]"
)
# '314,88', '1.314,88' and '1,314': of most countries, and between thousands.
_WITH_COMMA = re.compile(r"[+-]?(\d+,\d+|\d{1,3}(\.\d{3})+,\d+|\d{1,3}(,\d{3})+(\.\d+)?)")
_MANY_DECIMALS, _MANY_INTEGERS = 10, 50
# So few numbers beside text are no sign of a column of numbers.
_FEW = 5
# Values that a message shows.
_SHOWN = 3


def check_not_numbers(
    name: str, text: Iterable[str], *, node_ids: Array | None = None, rows: Array | None = None
) -> None:
    """Raise, or warn, where a text column is mostly numbers.

    Args:
        name: the column.
        text: the values [N], or those of `rows`.
        node_ids: names of all nodes, for messages.
        rows: the rows of the values, where some are left out.

    Raises:
        InputError: where it is a column of numbers with something else in it, or of numbers with
            a decimal comma.
    """
    values = [str(value) for value in text]
    counts = Counter(values)
    distinct = sorted(counts)
    numeral = are_numerals(distinct).tolist()
    numbers = [value for value, is_number in zip(distinct, numeral, strict=True) if is_number]
    others = [value for value, is_number in zip(distinct, numeral, strict=True) if not is_number]
    count = sum(counts[value] for value in numbers)
    places = range(len(values)) if rows is None else rows
    commas = [value for value in others if _WITH_COMMA.fullmatch(value.strip())]
    if len(commas) == len(others) > _MANY_DECIMALS:
        raise InputError(
            f"Column '{name}' holds numbers with a decimal comma, or with commas between thousands:"
            f" {_listed(values, commas, node_ids, places)}. Write them with a decimal point and"
            " nothing between thousands, or leave the column out (drop, --drop on the command"
            " line). If its values are names rather than amounts, read it as text (text, --text)."
        )
    if not others or 2 * count < len(values):
        return
    found = _listed(values, others, node_ids, places)
    if _are_signs(others) or _are_amounts(numbers, others, count):
        raise InputError(
            f"Column '{name}' holds numbers in {count:,} of {len(values):,} rows, and text in the"
            f" others: {found}. Correct or fill these values, drop those nodes, or leave the column"
            " out (drop, --drop on the command line). Signs for missing values can be filled"
            " (impute='mean', --impute mean). If its values are names rather than amounts, read it"
            " as text (text, --text)."
        )
    if count < _FEW:
        return
    warn(
        f"Column '{name}' is read as text, with one feature for each value: {count:,} of"
        f" {len(values):,} rows hold numbers, the others text: {found}."
        " If it is a column of numbers, correct these values."
    )


def are_numerals(text: Iterable[str]) -> Array:
    """Which values are written as a number, bool [N]."""
    values = pd.Series(list(text), dtype=object)
    return np.asarray(pd.notna(pd.to_numeric(values, errors="coerce")))


def _are_signs(others: list[str]) -> bool:
    """Whether the values beside numbers are signs for a missing value, or numbers themselves."""
    plain = [value.strip() for value in others]
    return all(v.lower() in MISSING_SIGNS or not v or _OTHER_NUMBER.fullmatch(v) for v in plain)


def _are_amounts(numerals: list[str], others: list[str], rows: int) -> bool:
    """Whether numbers in so many rows vary as amounts do, and not as codes."""
    if any(re.search(r"[.eE]", value) for value in numerals):
        return len(numerals) > _MANY_DECIMALS
    if any(re.search(r"\d", v) and not _OTHER_NUMBER.fullmatch(v.strip()) for v in others):
        # As in '2b'.
        return False
    vary = len(numerals) > _MANY_INTEGERS or 2 * len(numerals) > rows
    return vary and len(numerals) > _MANY_DECIMALS


def _listed(
    values: list[str], others: list[str], node_ids: Array | None, rows: Sequence[int] | Array
) -> str:
    shown = [f"{v!r} {place_of(int(rows[values.index(v)]), node_ids)}" for v in others[:_SHOWN]]
    more = f" and {len(others) - _SHOWN:,} more" if len(others) > _SHOWN else ""
    return "; ".join(shown) + more
