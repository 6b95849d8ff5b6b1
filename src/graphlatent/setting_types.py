"""What values a setting may have: ranges, and checks against an annotated type."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from torch import nn

from graphlatent.errors import bad_argument

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


def field_hints(cls: type[Any]) -> Mapping[str, Any]:
    """The annotated type of each setting of `cls`, in order."""
    hashable: Any = cls
    return _field_hints(hashable)


@cache
def _field_hints(cls: type[Any]) -> Mapping[str, Any]:
    # Evaluating annotations takes a millisecond, and every check of settings needs them
    hints = get_type_hints(cls, include_extras=True)
    return MappingProxyType({f.name: hints[f.name] for f in dataclasses.fields(cls)})


def check_values(
    settings: Any, *, owner: str, preset: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Check the fields of a dataclass against their annotated types.

    Args:
        settings: whose fields are annotated as those of `Settings` are.
        owner: for messages.
        preset: names of fields that may be None besides.

    Returns:
        The numbers among them as int, float and bool, whatever their type was.

    Raises:
        ConfigError: where a value is not allowed; names the setting, its range and the value.
    """
    for name, hint in field_hints(type(settings)).items():
        value = getattr(settings, name)
        if not fits(value, hint) and not (value is None and name in preset):
            allowed = allowed_values(hint)
            if "inf)" in allowed and is_number(value) and math.inf != value and is_too_large(value):
                allowed += f", and at most {largest(value)}"
            raise bad_argument(name, owner=owner, allowed=allowed, got=value)
    return _plain_numbers(settings)


def _plain_numbers(settings: Any) -> dict[str, Any]:
    """Checked numbers of any type, such as NumPy's, as int, float and bool for writing."""
    plain: dict[str, Any] = {}
    for name, hint in field_hints(type(settings)).items():
        value, types = getattr(settings, name), union_members(hint)
        if value is not None and (int in types or float in types):
            plain[name] = int(value) if int in types else float(value)
        elif bool in types and value is not None:
            plain[name] = bool(value)
    return plain
