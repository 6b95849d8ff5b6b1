"""The records beside the source: whole, in order, and of today's recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlatent.bench.fingerprint import define, fingerprint
from graphlatent.bench.ledger import Record, read_ledger
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.recipe_files import cell_names, table_files
from graphlatent.bench.rows import find_row
from graphlatent.bench.tables import absent_sets
from graphlatent.io.jsonl import read_lines

LEDGER = Path(__file__).parents[2] / "results"
pytestmark = pytest.mark.skipif(not LEDGER.is_dir(), reason="there is no ledger beside the source")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read_ledger(LEDGER)


def test_it_is_whole_and_of_packaged_cells(records):
    assert {record.cell for record in records} <= set(cell_names())
    names = {name.split("/")[0] for name in cell_names()}
    assert {path.stem for path in LEDGER.glob("*.jsonl")} <= names
    assert [path.name for path in LEDGER.iterdir() if path.suffix != ".jsonl"] == ["absent.json"]


def test_it_is_compact(records):
    lines = sum(len(read_lines(LEDGER / f"{table.folder}.jsonl")) for table in table_files())
    assert lines == len(records), "run: graphlatent bench compact"


def test_no_set_is_both_measured_and_absent(records):
    assert absent_sets(LEDGER).isdisjoint({load_recipe(r.cell).dataset for r in records})


def test_every_record_was_measured_as_its_recipe_says_today(records):
    today = {
        (cell, row): define(load_recipe(cell), find_row(row))
        for cell, row in {(record.cell, record.row) for record in records}
    }
    stale = [
        record.key
        for record in records
        if fingerprint(record.definition) != fingerprint(today[record.key[:2]])
    ]
    assert not stale, "run these cells again: graphlatent bench run"
