"""The highest published numbers: in recipes, in tables, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlatent.bench.loading import all_recipes, load_recipe, read_recipe
from graphlatent.bench.recipe import BEST, Published
from graphlatent.errors import ConfigError
from ledgers import note, table, text

ANY, HONEST = BEST.values()
GRAPHS = ("NCI1", "PROTEINS", "DD", "MUTAG", "COLLAB", "IMDB-B", "RDT-B", "RDT-M5K")
NUMBERS = {
    ("2", "any"): dict(
        zip(("Computers", "Photo", "CS", "Physics"), (90.56, 95.32, 94.98, 96.35), strict=True)
    ),
    ("2", "honest"): dict(
        zip(("Computers", "Photo", "CS", "Physics"), (90.34, 93.17, 93.31, 95.73), strict=True)
    ),
    ("1", "any"): dict(
        zip(GRAPHS, (81.80, 76.37, 79.73, 91.68, 81.72, 77.40, 91.99, 56.73), strict=True)
    ),
    ("1", "honest"): {
        "NCI1": 80.4,
        "PROTEINS": 75.3,
        "MUTAG": 88.2,
        "COLLAB": 80.3,
        "IMDB-B": 75.5,
        "RDT-B": 88.0,
    },
}


def own(folder: Path, more: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(f'extends = "table1/DD"\ntable = "own"\n{more}')
    return path


@pytest.mark.parametrize(("name", "key"), NUMBERS)
def test_the_numbers_and_their_source(name, key):
    found = {r.column: r.best[key] for r in all_recipes() if r.table == name and key in r.best}
    assert {column: number.mean for column, number in found.items()} == NUMBERS[name, key]
    assert all(n.source.startswith("Collected from the literature") for n in found.values())


def test_the_honest_ones_of_nodes_are_those_of_bgrl():
    for column in ("Computers", "Photo", "CS", "Physics"):
        recipe = load_recipe(f"table2/{column}")
        assert recipe.best["honest"].mean == recipe.published_of("bgrl").mean


def test_no_other_table_has_them():
    assert {recipe.table for recipe in all_recipes() if recipe.best} == {"1", "2"}
    assert load_recipe("table2/PPI-small").best == {}


def test_lines_and_notes(tmp_path):
    one, two, other = (table(tmp_path, name) for name in ("1", "2", "binarized"))
    for block in range(3):
        assert text(one, ANY, "NCI1", block) == "81.8"
        assert text(one, HONEST, "RDT-B", block) == "88.0"
        assert text(one, HONEST, "DD", block) == "none known"
    assert (text(two, ANY, "CS"), text(two, HONEST, "CS")) == ("94.98", "93.31")
    assert text(two, ANY, "PPI") == "none known"
    assert note(two, f"{ANY}: ") == (
        f"{ANY}: Collected from the literature by the project: SIGNA, DDM and others, number of"
        " runs not given; any."
    )
    assert [line.label for line in other.blocks[0].lines][:2] == ["published", "raw features"]


def test_a_file_of_ones_own_has_its_own(tmp_path):
    assert read_recipe(own(tmp_path, "")).best == {}
    mine = read_recipe(own(tmp_path, "[best.honest]\nmean = 70\nsource = 'here'\n"))
    assert mine.best == {"honest": Published(70, "here")}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            "[best.worst]\nmean = 1",
            "Unknown key 'worst' in [best] of recipe 'mine'. Known keys: any, honest.",
        ),
        (
            "[best]\nany = 3",
            (
                "The 'any' parameter of [best] of recipe 'mine' must be a table [best.any]. Got 3"
                " instead."
            ),
        ),
        (
            "[best.any]\nmean = 1",
            (
                "Missing in [best.any] of recipe 'mine': 'source'. Give it there: a published"
                " number is not inherited."
            ),
        ),
        (
            "[best.any]\nmean = 101\nsource = 'x'",
            (
                "The 'mean' parameter of [best.any] of recipe 'mine' must be a number from 0 to"
                " 100. Got 101 instead."
            ),
        ),
    ],
)
def test_mistakes(tmp_path, more, message):
    with pytest.raises(ConfigError) as error:
        read_recipe(own(tmp_path, more))
    assert str(error.value) == message
