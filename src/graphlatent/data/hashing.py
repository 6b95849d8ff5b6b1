"""Text hashed into a fixed number of features: each word sets one of them to 1.

For text with too many different values for one feature each: names, titles, descriptions. Which
word sets which feature is the same on every machine; different words may share one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

BUCKETS = 256
"""Features that the words of a column share."""
_WORD = re.compile(r"\w+")


def hashed(text: Sequence[str], *, buckets: int) -> tuple[Array, Array]:
    """Row and feature of each 1, both int64; a row without text has none.

    Args:
        text: the values [N].
        buckets: how many features there are.
    """
    known: dict[str, list[int]] = {}
    for value in text:
        if value not in known:
            known[value] = _features(value, buckets)
    found = [known[value] for value in text]
    rows = np.repeat(np.arange(len(text)), [len(each) for each in found])
    cols = [feature for each in found for feature in each]
    return rows.astype(np.int64), np.array(cols, dtype=np.int64)


def _features(value: str, buckets: int) -> list[int]:
    words = set(_WORD.findall(value.lower())) or {value.strip()} - {""}
    digests = (hashlib.blake2b(w.encode("utf-8", "backslashreplace"), digest_size=8) for w in words)
    return sorted({int.from_bytes(each.digest(), "little") % buckets for each in digests})
