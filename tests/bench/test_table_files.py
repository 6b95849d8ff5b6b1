"""Files of whole tables: what their parts share, and which goes before which."""

from __future__ import annotations

import sys

import pytest

from graphlatent.bench import recipe_files
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.recipe import Published
from graphlatent.bench.recipe_files import read_table
from graphlatent.bench.recipe_parsing import parse_recipe
from graphlatent.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class TestTableFiles:
    """The parts of a table, and which goes before which."""

    FILE = """
table = "own"
title = "Widths"
[all]
extends = "table1/{column}"
rows = ["paper"]
settings = { alpha = 1, lr = 0.1 }
ours = { alpha = "All.", noise_std = "Not of this cell." }
published = { source = "Table 0", runs = 3 }
[shared.slow]
settings = { lr = 0.01, mask_ratio = 0.2 }
[columns.MUTAG]
settings = { alpha = 2, hidden_dim = 5 }
[columns.DD]
shares = ["slow"]
settings = { mask_ratio = 0.4 }
[lines.narrow]
line = "narrow"
settings = { alpha = 3 }
[lines.wide]
line = "wide"
[cells.MUTAG-wide]
settings = { alpha = 4 }
published = { mean = 50 }
"""

    @pytest.fixture
    def cells(self, monkeypatch):
        """The cells of the file, as if it were packaged as widths.toml."""
        made, known = read_table(tomllib.loads(self.FILE), folder="widths"), recipe_files._layers()
        assert made.variants and made.title == "Widths" and not made.memory
        monkeypatch.setattr(recipe_files, "_layers", lambda: {**known, **made.layers})
        return {
            name: parse_recipe(recipe_files.packaged_values(name), name=name)
            for name in made.layers
        }

    def test_a_cell_for_every_column_and_line(self, cells):
        assert list(cells) == [
            "widths/MUTAG-narrow",
            "widths/MUTAG-wide",
            "widths/DD-narrow",
            "widths/DD-wide",
        ]
        assert [recipe.line for recipe in cells.values()] == ["narrow", "wide"] * 2
        assert [recipe.dataset for recipe in cells.values()] == ["MUTAG"] * 2 + ["DD"] * 2

    def test_later_parts_go_before_earlier_ones(self, cells):
        found = {
            name.removeprefix("widths/"): (recipe.paper["alpha"], recipe.paper["lr"])
            for name, recipe in cells.items()
        }
        assert found == {
            "MUTAG-narrow": (3, 0.1),
            "MUTAG-wide": (4, 0.1),
            "DD-narrow": (3, 0.01),
            "DD-wide": (1, 0.01),
        }
        wide = cells["widths/MUTAG-wide"].paper
        assert wide == {
            **load_recipe("table1/MUTAG").paper,
            **{"alpha": 4, "lr": 0.1, "hidden_dim": 5},
        }
        assert cells["widths/DD-wide"].paper["mask_ratio"] == 0.4  # before what it shares

    def test_a_number_is_of_its_cell_and_takes_the_rest_from_the_table(self, cells):
        numbers = {name: recipe.published for name, recipe in cells.items()}
        assert numbers.pop("widths/MUTAG-wide") == Published(50, "Table 0", runs=3)
        assert set(numbers.values()) == {None}

    def test_a_reason_about_what_a_cell_does_not_give_is_left_out(self, cells):
        assert cells["widths/DD-wide"].ours["alpha"] == "All."
        assert "noise_std" in cells["widths/DD-wide"].ours  # given by table1/DD
        mutag = packaged("[all.ours]\nbatching = 'Of nodes.'", "cells.MUTAG")
        with pytest.raises(ConfigError, match=r"^Unknown key 'batching' in \[ours\] of recipe"):
            parse_recipe(mutag, name="x/MUTAG")
        physics = load_recipe("table3/Physics-all")
        assert "nodes_per_step" not in {**physics.paper, **physics.ours}
        assert "nodes_per_step" in load_recipe("table3/Physics-100").ours

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[al]", "Unknown key 'al' in the table file widths.toml. Did you mean 'all'?"),
            (
                "[columns.DD]\n[lines.a]\n[cells.DD-b]",
                "Unknown key 'DD-b' in [cells] of the table file widths.toml. Did you mean 'DD-a'?",
            ),
            (
                "[shared.slow]\n[cells.DD]\nshares = ['slo']",
                "Unknown key 'slo' in 'shares' of the table file widths.toml. Did you mean 'slow'?",
            ),
        ],
    )
    def test_failures(self, text, message):
        with pytest.raises(ConfigError) as error:
            read_table(tomllib.loads(f"table = 'own'\n{text}"), folder="widths")
        assert str(error.value) == message


def packaged(text: str, cell: str) -> dict[str, object]:
    """The values of a cell of a table that says `text`."""
    file = f"table = 'own'\n[all]\nextends = 'table1/{{column}}'\n{text}\n[{cell}]\n"
    made = read_table(tomllib.loads(file), folder="x")
    with pytest.MonkeyPatch.context() as patch:
        known = recipe_files._layers()
        patch.setattr(recipe_files, "_layers", lambda: {**known, **made.layers})
        return recipe_files.packaged_values("x/MUTAG")
