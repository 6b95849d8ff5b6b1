"""Tables made from small ledgers: cells by hand, notes, and a slow rewrite of all numbers."""

from __future__ import annotations

import csv
import io
import math
import random
import re

import numpy as np
import pytest
from scipy import stats

from graphlatent.bench.formats import FORMATS, csv_text, rows
from graphlatent.bench.ledger import Record, append_record, read_ledger
from graphlatent.bench.loading import recipes_of
from graphlatent.bench.recipe import BEST, Recipe
from graphlatent.bench.recipe_files import table_files
from graphlatent.bench.rows import method_rows
from graphlatent.bench.rows.base import EITHER_SVM, SVM_BLOCK, TableRow
from graphlatent.bench.tables import (
    block_title,
    differences_of,
    lines_of,
    make_table,
    shortened,
)
from graphlatent.errors import ConfigError, InputError
from ledgers import FIRST, GRAPH_SETS, NAME, SECOND, measure, note, probe_result, table, text

TABLES = [table.name for table in table_files()]
NODE_SETS = ("Computers", "Photo", "CS", "Physics", "PPI", "PPI-small", "Flickr", "Reddit")
PAPER, RAW, RANDOM = (
    "LaGraph as in the paper, chosen on validation",
    "raw features",
    "random-initialised encoder",
)
ON_TEST = "released preset, released protocol: chosen on TEST"


def fails(message: str):
    return pytest.raises((InputError, ConfigError), match=f"^{re.escape(message)}$")


def own_lines(recipes: list[Recipe]) -> list[TableRow]:
    """Those of the registered rows; another method has lines of its own."""
    return [line for line in lines_of(recipes) if line.row not in method_rows()]


def by_block(recipes: list[Recipe]) -> dict[str, list[TableRow]]:
    found: dict[str, list[TableRow]] = {}
    for line in own_lines(recipes):
        found.setdefault(block_title(recipes[0].level, line), []).append(line)
    return found


class TestMainTables:
    def test_a_cell_by_hand(self, tmp_path):
        measure(tmp_path, "table1/MUTAG", "paper", {NAME: FIRST})
        made = table(tmp_path, "1")
        # mean of 0.8 0.9 0.7 0.8; variance over two splits 0.005 in both seeds
        assert text(made, PAPER, "MUTAG") == "80.0 ± 7.1"
        (cell,) = [c for each in made.blocks[0].lines for c in each.cells if c.text == "80.0 ± 7.1"]
        # every seed has splits of its own: means 0.85 and 0.75, variance of the mean 0.005 / 2, 1
        # degree of freedom (t: 12.706)
        half = 100 * stats.t.ppf(0.975, 1) * math.sqrt(0.0025)
        assert cell.detail == "95 % [16.5, 143.5], 2 seeds x 2 splits"
        assert (cell.values["low"], cell.values["high"]) == pytest.approx((80 - half, 80 + half))
        assert note(made, f"Linear SVM, {PAPER}: ").endswith(": On validation.")
        assert "Every score: 2 seeds x 2 splits." in made.notes

    def test_one_split_spreads_over_seeds_and_one_score_does_not(self, tmp_path):
        measure(tmp_path, "table2/Flickr", "paper", {NAME: [[0.5], [0.7]]})
        measure(tmp_path, "table2/Flickr", "random", {NAME: [[0.5]]})
        made = table(tmp_path, "2")
        assert (
            text(made, PAPER, "Flickr") == "60.0 ± 14.1" and text(made, RANDOM, "Flickr") == "50.0"
        )
        (cell,) = [c for each in made.blocks[0].lines for c in each.cells if c.text == "50.0"]
        assert cell.detail == "1 seed x 1 split"

    def test_columns_and_published_numbers_are_the_papers(self, tmp_path):
        one, two = table(tmp_path, "1"), table(tmp_path, "2")
        assert one.blocks[0].columns == GRAPH_SETS and two.blocks[0].columns == NODE_SETS
        assert (
            text(one, "published", "MUTAG") == "90.2 ± 1.1"
            and text(one, "published", "MUTAG", 1) == "90.2 ± 1.1"
        )
        assert text(two, "published", "PPI") == "74.6 ± 0.0"
        assert one.title == "Table 1: graph classification (accuracy in %)"
        assert (
            two.title
            == "Table 2: node classification (accuracy in %; PPI, PPI-small, Flickr, Reddit:"
            " micro-F1)"
        )
        assert (
            note(two, "published: ")
            == "published: Table 2, 20 runs; epoch with the best test score (released scripts); the"
            " paper does not say."
        )
        assert "accuracy of the 0/1 label table" in note(two, "published, PPI: ")

    def test_every_line_of_the_two_levels(self):
        node, graph = (by_block(recipes_of(name)) for name in ("2", "1"))
        assert [(w.row, w.result) for w in node[""]] == [
            ("raw", "linear/validation"),
            ("propagated", "linear/validation"),
            ("random", "linear/validation"),
            ("random", "linear/fixed"),
            ("paper", "linear/validation"),
            ("paper", "linear/fixed"),
            ("paper", "paper-probe/validation"),
            ("released", "paper-probe/test"),
            ("released", "paper-probe/validation"),
            ("defaults", "linear/fixed"),
            ("defaults", "linear/untrained"),
            ("defaults", "linear/representation"),
        ]
        assert [w.row for w in graph["Linear SVM"]] == [
            "raw",
            "propagated",
            "random",
            "wl",
            "paper",
            "paper",
            "tuned",
            "defaults",
            "defaults",
        ]
        assert [w.row for w in graph["RBF SVM"]] == [
            "raw",
            "random",
            "wl",
            "paper",
            "released",
            "released",
            "defaults",
            "defaults",
        ]
        assert {w.result.split("/")[0] for w in graph["RBF SVM"]} == {"rbf"}
        assert [(w.label, w.result) for w in graph[SVM_BLOCK]] == [
            (f"raw features, {EITHER_SVM}", "svm/validation"),
            ("propagated features, linear SVM alone", "linear/validation"),
            (f"random-initialised encoder, {EITHER_SVM}", "svm/validation"),
            (f"Weisfeiler-Lehman subtree kernel, {EITHER_SVM}", "svm/validation"),
            (f"LaGraph as in the paper, {EITHER_SVM}", "svm/validation"),
            (f"LaGraph with our defaults, {EITHER_SVM}", "svm/fixed"),
            (f"the encoder of our defaults, random-initialised, {EITHER_SVM}", "svm/untrained"),
        ]
        assert EITHER_SVM == "linear or RBF chosen in inner folds"
        for lines in (*node.values(), *graph.values()):
            assert len({w.label for w in lines}) == len(lines)
            # What looked at test labels says so
            assert all(("TEST" in w.label) == w.result.endswith("/test") for w in lines)

    def test_the_two_svms_do_not_mix(self, tmp_path):
        measure(tmp_path, "table1/NCI1", "raw", {NAME: [[0.5]], "rbf/validation": [[0.6]]})
        measure(tmp_path, "table1/NCI1", "released", {"rbf/test": [[0.7]]})
        made = table(tmp_path, "1")
        assert (
            text(made, RAW, "NCI1"),
            text(made, RAW, "NCI1", 1),
            text(made, ON_TEST, "NCI1", 1),
        ) == ("50.0", "60.0", "70.0")

    def test_selection_is_told_by_column_where_columns_differ(self, tmp_path):
        measure(tmp_path, "table2/CS", "paper", {NAME: FIRST}, selection="By one way.")
        measure(tmp_path, "table2/Photo", "paper", {NAME: FIRST}, selection="By one way.")
        measure(tmp_path, "table2/Physics", "paper", {NAME: FIRST[:1]}, selection="By another.")
        measure(tmp_path, "table2/CS", "raw", {NAME: FIRST}, selection="By one way.")
        measure(tmp_path, "table2/CS", "random", {NAME: FIRST}, selection="By one way.")
        made = table(tmp_path, "2")
        assert note(made, f"{PAPER}: ") == f"{PAPER}: [Photo, CS] By one way. [Physics] By another."
        assert note(made, f"{RAW}; {RANDOM}: ").endswith(": By one way.")
        assert (
            note(made, "Every score: ")
            == f"Every score: 2 seeds x 2 splits; but 1 seed x 2 splits: {PAPER} (Physics)."
        )

    def test_amounts_that_differ_are_told_once_per_amount(self, tmp_path):
        for name in ("CS", "Photo"):
            measure(tmp_path, f"table2/{name}", "paper", {NAME: FIRST, "linear/fixed": FIRST})
        for name, row in (("CS", "raw"), ("Photo", "raw"), ("CS", "random")):
            measure(tmp_path, f"table2/{name}", row, {NAME: FIRST[:1]})
        measure(tmp_path, "table2/Physics", "raw", {NAME: [FIRST[0][:1]]})
        said = note(table(tmp_path, "2"), "Every score: ")
        assert (
            said == f"Every score: 2 seeds x 2 splits; but 1 seed x 2 splits: {RAW} (Photo, CS);"
            f" {RANDOM} (CS). 1 seed x 1 split: {RAW} (Physics)."
        )

    def test_the_short_form_has_the_measured_columns_and_no_notes(self, tmp_path):
        measure(tmp_path, "table2/CS", "paper", {NAME: FIRST, "linear/fixed": SECOND})
        measure(tmp_path, "table2/Photo", "raw", {NAME: FIRST})
        short = shortened(table(tmp_path, "2"))
        (block,) = short.blocks
        others = [row.label for row in method_rows().values()]
        assert [line.label for line in block.lines] == [
            "LaGraph, published",
            *BEST.values(),
            "raw features",
            "propagated features",
            RANDOM,
            PAPER,
            "LaGraph with our defaults",
            "the encoder of our defaults, random-initialised",
            *others,
        ]
        assert block.columns == ("Photo", "CS") and short.notes == ()
        assert text(short, PAPER, "CS") == "80.0 ± 7.1"

    def test_the_short_form_of_graphs_has_the_better_svm(self, tmp_path):
        measure(tmp_path, "table1/DD", "raw", {NAME: FIRST, "rbf/validation": SECOND})
        measure(tmp_path, "table1/DD", "propagated", {NAME: SECOND})
        measure(tmp_path, "table1/MUTAG", "defaults", {"svm/fixed": FIRST, "rbf/fixed": SECOND})
        (block,) = shortened(table(tmp_path, "1")).blocks
        assert (block.title, block.columns) == (SVM_BLOCK, ("DD", "MUTAG"))
        assert [line.label for line in block.lines] == [
            "LaGraph, published",
            *BEST.values(),
            f"raw features, {EITHER_SVM}",
            "propagated features, linear SVM alone",
            f"random-initialised encoder, {EITHER_SVM}",
            f"Weisfeiler-Lehman subtree kernel, {EITHER_SVM}",
            f"LaGraph as in the paper, {EITHER_SVM}",
            f"LaGraph with our defaults, {EITHER_SVM}",
            f"the encoder of our defaults, random-initialised, {EITHER_SVM}",
        ]
        shown = {line.label: [cell.text for cell in line.cells] for line in block.lines}
        # Equal scores in inner folds: the linear one
        assert shown[f"raw features, {EITHER_SVM}"] == ["80.0 ± 7.1", "not measured"]
        assert shown["propagated features, linear SVM alone"] == ["70.0 ± 7.1", "not measured"]
        assert shown[f"LaGraph with our defaults, {EITHER_SVM}"] == ["not measured", "80.0 ± 7.1"]

    def test_a_set_that_is_not_the_papers_is_marked(self, tmp_path):
        made = table(tmp_path, "2")
        assert text(made, "published", "PPI-small") == "not printed"
        assert "not the 24 graphs of the paper" in note(made, "PPI-small: ")

    def test_where_and_when(self, tmp_path):
        measure(
            tmp_path,
            "table2/CS",
            "paper",
            {NAME: FIRST},
            about={"date": "2026-03-01", "hardware": "a GPU"},
        )
        measure(tmp_path, "table2/CS", "raw", {NAME: FIRST[:1]})
        measure(
            tmp_path,
            "table1/DD",
            "defaults",
            {NAME: FIRST[:1]},
            about={"hardware": "of another table"},
        )
        said = (
            "3 records, 2026-01-02 to 2026-03-01; a CPU, a GPU. Each names its command, seed and"
            " commit."
        )
        assert table(tmp_path, "2").notes[-1] == said
        measure(tmp_path, "table9/DD-ce-embed", "paper", {NAME: FIRST[:1]}, about={"command": ""})
        assert (
            table(tmp_path, "9")
            .notes[-1]
            .startswith("1 records, date not noted; hardware not noted.")
        )

    def test_results_that_do_not_match_are_named(self, tmp_path):
        measure(tmp_path, "table1/DD", "paper", {NAME: [[0.5], [0.5, 0.6]]})
        message = (
            "table1/DD, row paper, linear/validation, seeds 0, 1: A summary needs one or more"
            " results of the same metric, all over the same number of splits. Delete the records"
            " that differ and run the cell again."
        )
        with fails(message):
            table(tmp_path, "1")


@pytest.mark.parametrize("shared", [True, False])
def test_the_csv_of_a_whole_table_against_a_slow_rewrite(tmp_path, shared):
    rng = np.random.default_rng(0)
    scores = {}
    for data in NODE_SETS[:4]:
        for row in ("raw", "propagated", "random", "paper"):
            scores[data, row] = rng.uniform(0.5, 0.9, size=(3, 4))
            for seed, line in enumerate(scores[data, row].tolist()):
                result = probe_result(line, splits="all" if shared else f"of seed {seed}")
                append_record(tmp_path, Record(f"table2/{data}", row, seed, {NAME: result}, {}))
    found = {
        (r["line"], r["column"]): r
        for r in csv.DictReader(io.StringIO(csv_text(table(tmp_path, "2"))))
    }
    recipes = recipes_of("2")
    labels = {line.row: line.label for line in lines_of(recipes) if line.result == NAME}
    minus = {
        m.second.row: m.label
        for m in differences_of(recipes)
        if (m.first.row, m.second.result) == ("paper", NAME)
    }
    for (data, row), values in scores.items():
        _check(found[labels[row], data], values, shared=shared)
        if row in minus:
            _check(found[minus[row], data], scores[data, "paper"] - values, shared=shared)


def _check(found: dict[str, str], values: np.ndarray, *, shared: bool) -> None:
    """Mean, spreads and interval of [seeds, splits], written out by the formulas of the docs."""
    seeds, splits = values.shape
    of_splits = sum(stats.tvar(line) for line in values) / seeds
    of_seeds = stats.tvar([sum(line) / splits for line in values])
    one = stats.tvar([sum(line) / seeds for line in values.T]) / splits if shared else 0.0
    other = of_seeds / seeds
    freedom = (one + other) ** 2 / (one**2 / (splits - 1) + other**2 / (seeds - 1))
    low, high = stats.t.interval(0.95, freedom, values.sum() / values.size, (one + other) ** 0.5)
    expected = {
        "mean": values.sum() / values.size,
        "std_splits": of_splits**0.5,
        "std_seeds": of_seeds**0.5,
        "low": low,
        "high": high,
    }
    assert {name: float(found[name]) for name in expected} == pytest.approx(
        {name: 100 * v for name, v in expected.items()}, abs=1e-4
    )
    assert (found["seeds"], found["splits"]) == (str(seeds), str(splits))


class TestEveryTable:
    @pytest.mark.parametrize("name", TABLES)
    def test_nothing_measured_leaves_no_cell_blank(self, tmp_path, name):
        made = table(tmp_path, name, absent=["PPI", "RDT-M5K"])
        cells = [cell for block in made.blocks for line in block.lines for cell in line.cells]
        assert cells and all(cell.text.strip() and cell.values["state"] for cell in cells)
        assert {c.values["state"] for c in cells} <= {
            "published",
            "not printed",
            "none known",
            "not measured",
            "data not available",
        }
        absent = {"1": "RDT-M5K", "2": "PPI", "9": "RDT-M5K", "10": "PPI"}
        absent = {**absent, "plus-graphs": "RDT-M5K", "7": "RDT-M5K", "8": "RDT-M5K"}.get(name)
        assert {r["column"] for r in rows(made) if r["state"] == "data not available"} == (
            {absent} if absent else set()
        )
        for write in FORMATS.values():
            assert write(made)

    def test_the_order_of_records_does_not_matter(self, tmp_path):
        for row in ("paper", "raw", "random"):
            measure(
                tmp_path,
                "table2/CS",
                row,
                {NAME: np.random.default_rng(len(row)).uniform(size=(4, 3)).tolist()},
            )
        records = read_ledger(tmp_path)
        mixed = random.Random(0).sample(records, len(records))
        assert mixed != records and make_table("2", mixed) == make_table("2", records)

    def test_what_was_measured_is_shown_though_its_data_is_gone(self, tmp_path):
        measure(tmp_path, "table2/PPI", "paper", {NAME: FIRST})
        assert text(table(tmp_path, "2", absent=["PPI"]), PAPER, "PPI") == "80.0 ± 7.1"

    def test_an_unknown_one(self, tmp_path):
        message = f"The 'table' parameter of bench must be one of {tuple(TABLES)}. Got '4' instead."
        with fails(message):
            table(tmp_path, "4")
