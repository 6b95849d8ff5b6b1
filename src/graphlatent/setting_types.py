"""What values a setting may have: ranges, and checks against an annotated type."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import numpy as np
from torch import nn

# Larger ones overflow in torch, or in float32 where they are squared.
LARGEST_INT = 2**31 - 1
LARGEST_FLOAT = 1e18


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; with `open_low`, without `low` itself."""

    low: float
    high: float = math.inf
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and value <= self.high and not is_too_large(value)

    def __str__(self) -> str:
        right = "inf)" if math.isinf(self.high) else f"{self.high:g}]"
        return f"in the range {'(' if self.open_low else '['}{self.low:g}, {right}"


@dataclass(frozen=True)
class Doc:
    """The description of a setting, in one line."""

    text: str


def is_too_large(value: Any) -> bool:
    """Whether a number is larger than any setting may be."""
    return bool(value > (LARGEST_INT if isinstance(value, numbers.Integral) else LARGEST_FLOAT))


def largest(value: Any) -> str:
    """The largest allowed number of the kind of `value`, in words."""
    return f"{LARGEST_INT:,}" if isinstance(value, numbers.Integral) else f"{LARGEST_FLOAT:g}"


def is_number(value: Any) -> bool:
    """Whether a value is a real number, True and False excluded."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def union_members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of an annotated union type, or the one type of another hint."""
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return get_args(inner) if get_origin(inner) in (Union, UnionType) else (inner,)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is allowed by an annotated type."""
    limits = [m for m in hint.__metadata__ if isinstance(m, Range)]
    for member in union_members(hint):
        if get_origin(member) is Literal:
            if isinstance(value, str) and value in get_args(member):
                return True
        elif member in (int, float):
            abstract = numbers.Real if member is float else numbers.Integral
            number = isinstance(value, abstract) and not isinstance(value, bool)
            if number and all(value in limit for limit in limits):
                return True
        elif isinstance(value, (bool, np.bool_) if member is bool else member):
            return True
    return False


_TYPE_NAMES: Mapping[Any, str] = {
    int: "an int",
    float: "a float",
    bool: "True or False",
    str: "a string",
    nn.Module: "a torch.nn.Module",
}


def allowed_values(hint: Any) -> str:
    """The values that an annotated type allows, in words."""
    limits = " ".join(str(m) for m in hint.__metadata__ if isinstance(m, Range))
    words = []
    for member in union_members(hint):
        if get_origin(member) is Literal:
            words += [repr(v) for v in get_args(member)]
        elif member is type(None):
            words.append("None")
        else:
            name = _TYPE_NAMES[member]
            words.append(f"{name} {limits}".strip() if member in (int, float) else name)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


Diagnostics: TypeAlias = Annotated[
    bool, Doc("measure the embedding during training, without labels (effective rank and others)")
]
OnCollapse: TypeAlias = Annotated[
    Literal["warn", "stop", "ignore"],
    Doc("where training damages the embedding: warn, or also stop and keep the weights before"),
]
Select: TypeAlias = Annotated[
    Literal["last", "effective_rank", "objective", "before_collapse"],
    Doc(
        "epoch whose weights are kept, chosen without labels: the last one, that of the highest"
        " effective rank or lowest loss, or the last one without a sign of collapse"
    ),
]
