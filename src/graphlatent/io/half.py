"""Numbers of 16 bits, which take half the space and keep three digits."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np

from graphlatent.errors import OutputError

Array: TypeAlias = np.ndarray[Any, Any]


def as_half(values: Array) -> Array:
    """The values rounded to float16.

    Raises:
        OutputError: where one is beyond the largest float16.
    """
    largest = float(np.finfo(np.float16).max)
    if values.size and float(np.abs(values).max()) > largest:
        raise OutputError(
            f"There are values beyond {largest:g}, which float16 cannot hold. Save them as float32."
        )
    return values.astype(np.float16)


def short_decimals(values: Array) -> Array:
    """Values of float16 as float32 with as few digits as identify the float16, for text files.

    The float16 nearest to a tenth is 0.09997559; as text it is 0.1, which rounds to the same.
    """
    short: Array = _decimals()[np.ascontiguousarray(values).view(np.uint16)]
    return short


@cache
def _decimals() -> Array:
    """The shortest decimal of every float16, by its bits, float32 [65536]."""
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    return every.astype(str).astype(np.float32)
