"""`ColumnSpec`: how one named column becomes numbers, fixed at fit time and stored with a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

from graphlatent.errors import InputError

ColumnKind: TypeAlias = Literal["numeric", "categorical", "boolean", "date", "time", "hashed"]
Impute: TypeAlias = Literal["mean", "median", "indicator"]
Unknown: TypeAlias = Literal["ignore", "error"]
# Kinds that are one number, which may be standardised and filled.
_NUMBERS = ("numeric", "boolean", "date", "time")
# What stands in a file only where it is not the default.
_OPTIONAL = ("impute", "fill", "indicator", "buckets", "unknown", "median", "spread")


@dataclass(frozen=True)
class ColumnSpec:
    """How one named column becomes numbers.

    Args:
        name: the column.
        kind: 'numeric' (`(value - mean) / scale`), 'date' and 'time' (the same of a number of days,
            dates since 1970-01-01), 'boolean' (0 or 1), 'categorical' (one-hot) or 'hashed' (each
            word of the text sets one of `buckets` features to 1).
        categories: the known values as text, sorted; for 'categorical' only.
        mean: subtracted; for numbers, dates and times only.
        scale: divided by; for numbers, dates and times only.
        impute: how missing values are filled; empty where they are refused. Text is not filled: a
            missing value sets none of its features.
        fill: what a missing number is replaced by, in the unit of the column.
        indicator: one more feature, the last, is 1 where the value is missing.
        buckets: how many features the words of a text share; for 'hashed' only.
        unknown: what to do with columns and categories that were not there when the model was
            fitted; empty for the default, which refuses categories and leaves out columns.
        median: of the fitted values, where `spread` is not 0; for warnings only.
        spread: the distance between their quartiles; 0 where it is not known.
    """

    name: str
    kind: ColumnKind
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    impute: Impute | Literal[""] = ""
    fill: float = 0.0
    indicator: bool = False
    buckets: int = 0
    unknown: Unknown | Literal[""] = ""
    median: float = field(default=0.0, compare=False)
    spread: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        where = f"Feature spec, column {self.name!r}"
        if not isinstance(self.name, str):
            raise InputError(f"{where}: the name must be text.")
        for name, allowed in (
            ("kind", get_args(ColumnKind)),
            ("impute", ("", *get_args(Impute))),
            ("unknown", ("", *get_args(Unknown))),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{where}: {name} must be one of {allowed}. Got {getattr(self, name)!r}."
                )
        if (self.kind == "categorical") != bool(self.categories):
            raise InputError(
                f"{where}: kind '{self.kind}' does not go with categories {self.categories!r}."
            )
        if not all(isinstance(c, str) for c in self.categories) or list(self.categories) != sorted(
            set(self.categories)
        ):
            raise InputError(
                f"{where}: categories must be text, sorted, each once. Got {self.categories!r}."
            )
        for name in ("mean", "fill", "median", "spread"):
            if not _is_finite(value := getattr(self, name)):
                raise InputError(f"{where}: {name} must be a finite number. Got {value!r}.")
        if not _is_finite(self.scale) or self.scale <= 0:
            raise InputError(f"{where}: scale must be a finite number above 0. Got {self.scale!r}.")
        if type(self.buckets) is not int or (self.kind == "hashed") != (self.buckets > 0):
            raise InputError(
                f"{where}: kind '{self.kind}' does not go with buckets {self.buckets!r}."
            )
        if type(self.indicator) is not bool or (self.indicator and self.impute != "indicator"):
            raise InputError(
                f"{where}: indicator {self.indicator!r} does not go with impute {self.impute!r}."
            )

    @property
    def is_number(self) -> bool:
        """Whether the column becomes one number, and maybe an indicator beside it."""
        return self.kind in _NUMBERS

    @property
    def width(self) -> int:
        """How many features the column becomes."""
        return (len(self.categories) or self.buckets or 1) + self.indicator

    @property
    def names(self) -> list[str]:
        """A name for each of those features."""
        names = [self.name]
        if self.kind == "categorical":
            names = [f"{self.name}={c}" for c in self.categories]
        elif self.kind == "hashed":
            names = [f"{self.name}#{i}" for i in range(self.buckets)]
        return [*names, f"{self.name} is missing"] if self.indicator else names

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain values that JSON can hold; `from_dict` reads it back."""
        values: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "categories": list(self.categories),
            "mean": self.mean,
            "scale": self.scale,
        }
        return values | {key: getattr(self, key) for key in _OPTIONAL if getattr(self, key)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ColumnSpec:
        """The spec out of what `to_dict` wrote. Raises `InputError` where that is not one."""
        allowed = {f.name for f in fields(cls)}
        if not isinstance(values, Mapping) or not {"name", "kind"} <= set(values) <= allowed:
            raise InputError(
                "Feature spec: a column needs 'name' and 'kind', and keys out of"
                f" {sorted(allowed)}. Got {values!r}."
            )
        categories = values.get("categories", ())
        if not isinstance(categories, list | tuple):
            raise InputError(
                f"Feature spec, column {values['name']!r}: categories must be a list. Got"
                f" {categories!r}."
            )
        return cls(**{**values, "categories": tuple(categories)})


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
