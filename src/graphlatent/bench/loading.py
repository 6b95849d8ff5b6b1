"""Recipes by name, by table, and out of a file of your own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from graphlatent.bench.recipe import Recipe
from graphlatent.bench.recipe_files import (
    TableFile,
    cell_names,
    file_values,
    packaged_values,
    table_files,
)
from graphlatent.bench.recipe_parsing import KEYS, parse_recipe
from graphlatent.errors import bad_argument


@cache
def load_recipe(name: str) -> Recipe:
    """The packaged recipe of that name, such as "table1/MUTAG".

    Raises:
        ConfigError: where there is none; the message names the nearest.
    """
    return parse_recipe(packaged_values(name), name=name)


@cache
def all_recipes() -> tuple[Recipe, ...]:
    """Every packaged recipe: table by table, each in the order of its file."""
    return tuple(load_recipe(name) for name in cell_names())


def recipes_of(table: str) -> list[Recipe]:
    """The packaged recipes of a table, in the order of its file."""
    return [recipe for recipe in all_recipes() if recipe.table == table]


def find_table(name: str, *, argument: str, owner: str) -> TableFile:
    """The packaged table of that name.

    Raises:
        ConfigError: about `argument` of `owner`, where there is none.
    """
    tables = {table.name: table for table in table_files()}
    if name not in tables:
        raise bad_argument(argument, owner=owner, allowed=f"one of {tuple(tables)}", got=name)
    return tables[name]


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a TOML file of your own.

    It may extend a packaged recipe (`extends = "table1/MUTAG"`) or a file beside it (`extends =
    "base.toml"`).

    Raises:
        ConfigError: where the file cannot be read, or anything in it is unknown, missing, of a
            wrong type or out of range.
    """
    path = Path(path)
    return parse_recipe(file_values(path, name=path.name, known=KEYS), name=path.stem)
