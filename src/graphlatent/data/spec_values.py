"""Parts of a feature encoding out of the values that a file holds."""

from __future__ import annotations

from typing import Any

from graphlatent.data.columns import ColumnSpec
from graphlatent.errors import InputError


def column_specs(name: str, values: Any) -> tuple[ColumnSpec, ...]:
    """Encodings of columns. Raises `InputError` where the values are none."""
    if not isinstance(values, list | tuple):
        raise InputError(f"Feature spec: {name} must be a list. Got {values!r}.")
    return tuple(ColumnSpec.from_dict(value) for value in values)


def number_pairs(name: str, values: Any) -> tuple[tuple[float, float], ...]:
    """Pairs of numbers. Raises `InputError` where the values are none."""
    try:
        return tuple((float(mean), float(std)) for mean, std in values)
    except (TypeError, ValueError) as error:
        message = f"Feature spec: {name} must be a list of pairs of numbers. Got {values!r}."
        raise InputError(message) from error
