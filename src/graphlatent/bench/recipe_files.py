"""Recipe files in TOML: packaged tables and their cells, and what a file inherits from others.

A packaged file is one table. `[all]` holds what its cells share, `[cells.NAME]` what is particular
to one. A table of variants has `[columns.NAME]` and `[lines.NAME]` instead, and a cell COLUMN-LINE
for each pair. `[shared.NAME]` is merged wherever a part says `shares = ["NAME"]`. Later layers go
before earlier ones: the recipe that is extended, all, column, line, cell.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from graphlatent.bench.methods import LAGRAPH
from graphlatent.bench.recipe import CHOICES, called
from graphlatent.errors import ConfigError, bad_argument
from graphlatent.io.config_file import read_toml
from graphlatent.methods.registry import estimator_class

# Python 3.10 has `Traversable` elsewhere.
if TYPE_CHECKING:
    pass

Values: TypeAlias = dict[str, Any]
_SIBLING = re.compile(r"[\w-][\w.-]*\.toml")
_PARTS = ("all", "shared", "columns", "lines", "cells")
_LAST = 10**6


@dataclass(frozen=True)
class TableFile:
    """A packaged table.

    Args:
        name: as in `graphlatent bench table NAME`.
        title: in words.
        folder: first part of the names of its cells, "table1" for "table1/MUTAG".
        position: tables are listed in this order.
        memory: whether peak memory is shown beside the scores.
        variants: whether a line is a variant of the settings; else it is a registered row.
        layers: by name of a cell what it is merged from, first to last.
    """

    name: str
    title: str
    folder: str
    position: int
    memory: bool
    variants: bool
    layers: Mapping[str, tuple[Values, ...]]


@cache
def table_files() -> tuple[TableFile, ...]:
    """Every packaged table, in the order of their positions."""
    found = [
        read_table(read_toml(item), folder=item.name.removesuffix(".toml"))
        for item in files("graphlatent.bench").joinpath("recipes").iterdir()
        if item.name.endswith(".toml")
    ]
    return tuple(sorted(found, key=lambda table: (table.position, table.name)))


def read_table(values: Mapping[str, Any], *, folder: str) -> TableFile:
    """A table out of what its file says.

    Raises:
        ConfigError: where a part is unknown, or a cell is of no column and line.
    """
    where = f"the table file {folder}.toml"
    keys = ("table", "title", "position", "memory")
    check_keys(values, known=(*keys, *_PARTS), where=where)
    columns, lines, cells = (values.get(key, {}) for key in ("columns", "lines", "cells"))
    if lines:
        pairs = {f"{column}-{line}": (column, line) for column in columns for line in lines}
    else:
        pairs = {column: (column, "") for column in cells}
    check_keys(cells, known=pairs, where=f"[cells] of {where}")
    shared = values.get("shared", {})
    layers = {}
    for cell, (column, line) in pairs.items():
        first = {"table": values["table"], "column": column, "dataset": column}
        parts = (values.get("all", {}), columns.get(column, {}), lines.get(line, {}))
        own = (first, *parts, cells.get(cell, {}))
        layers[f"{folder}/{cell}"] = tuple(
            layer for part in own for layer in _with_shared(part, shared, where=where)
        )
    return TableFile(
        name=values["table"],
        title=values.get("title", values["table"]),
        folder=folder,
        position=values.get("position", _LAST),
        memory=values.get("memory", False),
        variants=bool(lines),
        layers=layers,
    )


def cell_names() -> tuple[str, ...]:
    """The names of all packaged cells, table by table."""
    return tuple(_layers())


def packaged_values(name: str, *, below: tuple[str, ...] = ()) -> Values:
    """All values of a packaged cell, those of the recipe that it extends included.

    Args:
        name: such as "table1/MUTAG".
        below: names of the recipes that extend it.

    Raises:
        ConfigError: where there is no such cell; the message names the nearest.
    """
    known = _layers()
    if name not in known:
        raise _unknown(name, known)
    values: Values = {}
    for layer in known[name]:
        values = merged(values, layer)
    if "extends" in values:
        parent = str(values.pop("extends")).format(column=values["column"])
        _refuse_circle((*below, name), parent)
        inherited = packaged_values(parent, below=(*below, name))
        values = merged(_without_number(inherited), values)
    return _about_the_cell(values)


def file_values(
    path: Path, *, name: str, known: Iterable[str], below: tuple[str, ...] = ()
) -> Values:
    """What a file of one recipe says on top of what it extends, tables merged key by key.

    Args:
        path: TOML.
        name: what it is called in messages, and in the `extends` of other files.
        known: keys allowed at the top level, besides `extends`.
        below: names of the files that extend this one.

    Raises:
        ConfigError: where a file is missing, is not TOML or has an unknown key at the top, or files
            extend each other in a circle.
    """
    values = read_toml(path)
    known = tuple(known)
    check_keys(values, known=("extends", *known), where=called(name))
    if "extends" not in values:
        return values
    parent, chain = values.pop("extends"), (*below, name)
    if not isinstance(parent, str):
        raise bad_argument(
            "extends", owner=called(name), allowed="the name of a recipe", got=parent
        )
    _refuse_circle(chain, parent)
    if _SIBLING.fullmatch(parent):
        inherited = file_values(path.parent / parent, name=parent, known=known, below=chain)
    else:
        inherited = packaged_values(parent, below=chain)
    return merged(_without_number(inherited), values)


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Values:
    """Both merged; the second overrides the first, and nested tables are merged likewise."""
    both = dict(first)
    for key, value in second.items():
        old = both.get(key)
        both[key] = (
            merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return both


def check_keys(table: Iterable[str], *, known: Iterable[str], where: str) -> None:
    """Raise a `ConfigError` that names the nearest known key where one is not known."""
    allowed = list(known)
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = (
                f"Did you mean '{near[0]}'?"
                if near
                else f"Known keys: {', '.join(sorted(set(allowed)))}."
            )
            raise ConfigError(f"Unknown key '{key}' in {where}. {hint}")


@cache
def _layers() -> Mapping[str, tuple[Values, ...]]:
    return {name: layers for table in table_files() for name, layers in table.layers.items()}


def _with_shared(part: Values, shared: Mapping[str, Values], *, where: str) -> list[Values]:
    """The shared parts that a part names, then the part itself."""
    names = part.get("shares", [])
    check_keys(names, known=shared, where=f"'shares' of {where}")
    own = {key: value for key, value in part.items() if key != "shares"}
    return [*(shared[name] for name in names), own]


def _about_the_cell(values: Values) -> Values:
    """The merged parts without what a table says for other cells.

    Removed are [published] and [best.NAME] without a mean, and reasons under [ours] for settings
    that the cell does not give.
    """
    kept = {**values, "ours": values.get("ours", {})}
    if "mean" not in kept.get("published", {}):
        kept.pop("published", None)
    if "best" in kept:
        kept["best"] = {key: best for key, best in kept["best"].items() if "mean" in best}
    known = {f.name for f in fields(estimator_class(LAGRAPH, values["level"]).settings_class)}
    elsewhere = known - {*values["settings"], *values["evaluation"], *CHOICES}
    kept["ours"] = {key: text for key, text in kept["ours"].items() if key not in elsewhere}
    return kept


def _without_number(values: Values) -> Values:
    """A published number belongs to one cell and is not inherited."""
    numbers = ("published", "best", "methods")
    kept = {key: value for key, value in values.items() if key not in numbers}
    methods = {
        name: {key: value for key, value in table.items() if key != "published"}
        for name, table in values.get("methods", {}).items()
    }
    return {**kept, "methods": methods} if methods else kept


def _refuse_circle(chain: tuple[str, ...], parent: str) -> None:
    if parent in chain:
        raise ConfigError(
            f"Recipes must not extend each other in a circle: {' -> '.join((*chain, parent))}."
            " Leave out one 'extends'."
        )


def _unknown(name: object, known: Iterable[str]) -> ConfigError:
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), lower, n=1)
    hint = (
        f"Did you mean '{lower[near[0]]}'?"
        if near
        else f"A name is a table and a cell, such as '{next(iter(lower.values()))}'."
    )
    return ConfigError(
        f"There is no recipe {name!r}. {hint} A recipe of your own is a file, such as own.toml (in"
        " Python: read_recipe)."
    )
