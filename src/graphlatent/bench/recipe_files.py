"""Recipe files: the packaged ones by name, and what a file says on top of those it extends."""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphlatent.errors import ConfigError, bad_argument

if TYPE_CHECKING:  # Python 3.10 has it elsewhere
    from importlib.resources.abc import Traversable

_SIBLING = re.compile(r"[\w-][\w.-]*\.toml")


@cache
def packaged() -> Mapping[str, Traversable]:
    """The packaged files by name, "table1/MUTAG" for recipes/table1/MUTAG.toml, sorted by name."""
    folders = [
        item for item in files("graphlatent.bench").joinpath("recipes").iterdir() if item.is_dir()
    ]
    found = {
        f"{folder.name}/{item.name[:-5]}": item
        for folder in folders
        for item in folder.iterdir()
        if item.name.endswith(".toml")
    }
    return dict(sorted(found.items()))


def packaged_file(name: str) -> Traversable:
    """The packaged file of that name, looked up among those that are there: a name is never made
    into a path.

    Raises:
        ConfigError: where there is none; the message names the nearest.
    """
    known = packaged()
    if name in known:
        return known[name]
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), lower, n=1)
    hint = (
        f"Did you mean '{lower[near[0]]}'?"
        if near
        else f"A name is a folder and a cell, such as '{next(iter(known))}'."
    )
    raise ConfigError(
        f"There is no recipe {name!r}. {hint} A recipe of your own is a file, such as own.toml (in"
        " Python: read_recipe)."
    )


def read_values(
    file: Traversable,
    *,
    name: str,
    folder: Path | None,
    known: Iterable[str],
    below: tuple[str, ...] = (),
) -> dict[str, Any]:
    """What a file says on top of what it extends, tables merged key by key. [published] stays with
    its own file.

    Args:
        file: TOML.
        name: what it is called in messages, and in the `extends` of other files.
        folder: where files that it extends may be, beside the packaged ones; None: nowhere.
        known: keys that may stand at the top, beside `extends`.
        below: names of the files that extend this one.

    Raises:
        ConfigError: where a file is missing, is not TOML or has an unknown key at the top, or files
            extend each other in a circle.
    """
    values = _parsed(file)
    check_keys(values, known=("extends", *known), where=called(name))
    if "extends" not in values:
        return values
    parent, chain = values.pop("extends"), (*below, name)
    if not isinstance(parent, str):
        raise bad_argument(
            "extends", owner=called(name), allowed="the name of a recipe", got=parent
        )
    if parent in chain:
        raise ConfigError(
            f"Recipes must not extend each other in a circle: {' -> '.join((*chain, parent))}."
            " Leave out one 'extends'."
        )
    beside = folder is not None and _SIBLING.fullmatch(parent) is not None
    source = folder / parent if beside and folder is not None else packaged_file(parent)
    return _merged(
        read_values(
            source, name=parent, folder=folder if beside else None, known=known, below=chain
        ),
        values,
    )


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


def called(name: str) -> str:
    """How messages call a recipe."""
    return f"recipe '{name.removesuffix('.toml')}'"


def _merged(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    merged = {key: value for key, value in parent.items() if key != "published"}
    for key, value in child.items():
        old = merged.get(key)
        merged[key] = (
            {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged


def _parsed(file: Traversable) -> dict[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        values: dict[str, Any] = toml.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {file}: {error.strerror}.") from error
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from error
    return values
