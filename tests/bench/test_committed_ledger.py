"""The records beside the source: whole, of today's recipes, and what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlatent.bench.ledger import read_ledger
from graphlatent.bench.measure import measured_with
from graphlatent.bench.recipe import load_recipe
from graphlatent.bench.recipe_files import packaged
from graphlatent.bench.tables import absent_sets, filled, recipes_of

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "results"
pytestmark = pytest.mark.skipif(not LEDGER.is_dir(), reason="there is no ledger beside the source")


@pytest.mark.parametrize("name", ["README.md", "docs/evidence.md"])
def test_pages_are_what_it_gives(name):
    old = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- bench table" in old
    assert filled(old, LEDGER) == old, f"run: graphlatent bench fill {name}"


def test_it_is_whole_and_of_packaged_cells():
    assert {record.cell for record in read_ledger(LEDGER)} <= set(packaged())
    assert absent_sets(LEDGER) <= {recipe.dataset for recipe in recipes_of(None)}


def test_every_record_was_measured_with_the_recipe_and_the_grids_of_today():
    today = {name: measured_with(load_recipe(name)) for name in packaged()}
    stale = [
        f"{r.cell} {r.row} {r.seed}"
        for r in read_ledger(LEDGER)
        if r.about["recipe"] != today[r.cell]
    ]
    assert not stale, "run these cells again: graphlatent bench run"
