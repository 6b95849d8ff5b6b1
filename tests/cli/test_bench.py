"""`graphlatent bench`: the tables of the paper on the command line."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from commands import error_output as fails
from commands import run
from graphlatent.bench.fingerprint import define
from graphlatent.bench.formats import html_page, markdown
from graphlatent.bench.ledger import Record, append_record, read_ledger
from graphlatent.bench.loading import all_recipes, load_recipe, recipes_of
from graphlatent.bench.rows import find_row, method_rows
from graphlatent.bench.tables import make_table
from ledgers import measure, probe_result
from standins import write_mutag

NAME = "linear/validation"
FIRST, SECOND = [[0.8, 0.9], [0.7, 0.8]], [[0.7, 0.7], [0.7, 0.6]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    """An empty folder to be in, and no data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHLATENT_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def ledger(elsewhere) -> Path:
    root = elsewhere / "results"
    measure(root, "table1/MUTAG", "paper", {NAME: FIRST, "linear/fixed": SECOND})
    measure(root, "table1/MUTAG", "random", {NAME: SECOND})
    return root


class TestList:
    def test_every_cell(self):
        code, out, err = run("bench", "list")
        assert (
            code == 0 and [recipe.name for recipe in all_recipes() if recipe.name not in out] == []
        )
        assert (
            err
            == "note: there is no folder 'results' here, so nothing is measured; --results names"
            " another\n"
        )

    def test_what_is_published_available_and_measured(self, ledger, elsewhere):
        write_mutag(elsewhere / "data")
        measure(ledger, "table1/MUTAG", "raw", {NAME: [[0.5]] * 7})
        code, out, err = run("bench", "list", "--table", "1")
        assert code == 0 and err == "" and out.count("table1/") == 8 and "table2/" not in out
        (line,) = [line for line in out.splitlines() if "table1/MUTAG" in line]
        # 5 of 7 seeds of raw count, 2 of paper, 2 of random; 5 of each of 8 rows are the goal
        assert [part.strip() for part in line.strip("│").split("│")] == [
            "table1/MUTAG",
            "MUTAG",
            "90.2 ± 1.1",
            "yes",
            "9 of 40",
        ]

    def test_json(self, ledger):
        code, out, _ = run("bench", "list", "--table", "2", "--json")
        found = json.loads(out)
        assert code == 0 and [cell["cell"] for cell in found["cells"]] == [
            recipe.name for recipe in recipes_of("2")
        ]
        cell = found["cells"][0]
        # raw and propagated features know no seed where splits do not
        assert (
            cell["published"],
            cell["spread"],
            cell["available"],
            cell["measured"],
            cell["goal"],
        ) == (88.0, 0.3, False, 0, 22 + 5 * len(method_rows()))
        assert set(cell["seeds_by_row"]) == set(recipes_of("2")[0].rows)

    def test_where_nothing_is_printed(self):
        out = json.loads(run("bench", "list", "--table", "alpha", "--json", "--quiet")[1])
        assert {
            (cell["published"], cell["published_text"], cell["goal"]) for cell in out["cells"]
        } == {(None, "none", 5)}

    def test_failures(self):
        assert "--table must be one of ('1', " in fails("bench", "list", "--table", "4")
        assert (
            fails("bench", "list", "--results", "nowhere")
            == "error: There is no folder nowhere. Give the folder of the records by --results.\n"
        )


class TestTable:
    def test_markdown_as_it_is(self, ledger):
        code, out, err = run("bench", "table", "9")
        made = make_table(
            "9",
            read_ledger(ledger),
            absent=[recipe.dataset for recipe in all_recipes() if recipe.dataset != "MUTAG"],
        )
        assert (code, out, err) == (0, markdown(made) + "\n", "")
        assert "79.9 published / data not available" in out
        # Other cells of MUTAG are measured: somebody has the data
        assert "90.1 published / not measured" in out

    def test_measured_numbers(self, ledger, elsewhere):
        write_mutag(elsewhere / "data")
        out = run("bench", "table", "1", "--data", elsewhere / "data")[1]
        (line,) = [
            line
            for line in out.splitlines()
            if line.startswith("| LaGraph as in the paper, fixed epochs |")
        ]
        assert line.split(" | ")[4] == "67.5 ± 5.0"
        assert (
            "| raw features | data not available | data not available | data not available | not"
            " measured |" in out
        )

    def test_formats_by_option_or_by_ending(self, ledger, elsewhere):
        out = run("bench", "table", "1", "--format", "csv")[1]
        cells = {(r["block"], r["line"], r["column"]): r for r in csv.DictReader(io.StringIO(out))}
        assert (
            cells["Linear SVM", "LaGraph as in the paper, chosen on validation", "MUTAG"]["mean"]
            == "80.0"
        )
        code, said, _ = run("bench", "table", "1", "--out", "one.html")
        assert (
            code == 0
            and said == "Table 1: graph classification (accuracy in %): written to one.html\n"
        )
        made = make_table(
            "1",
            read_ledger(ledger),
            absent=[recipe.dataset for recipe in all_recipes() if recipe.dataset != "MUTAG"],
        )
        assert Path("one.html").read_text() == html_page(made) + "\n"
        run("bench", "table", "1", "--out", "one.txt")
        assert Path("one.txt").read_text() == markdown(made) + "\n"

    def test_json(self, ledger):
        found = json.loads(run("bench", "table", "1", "--json")[1])
        assert (found["table"], found["out"]) == ("1", None) and found["notes"]
        assert [cell["mean"] for cell in found["cells"] if cell["state"] == "paired"] == [12.5]

    def test_failures(self, ledger):
        assert fails("bench", "table", "4").startswith("error: TABLE must be one of ('1', '2',")
        assert (
            fails("bench", "table", "1", "--format", "pdf")
            == "error: --format must be one of ('md', 'csv',"
            " 'html'). Got 'pdf' instead.\n"
        )
        Path("one.md").write_text("mine")
        assert "one.md exists already." in fails("bench", "table", "1", "--out", "one.md")
        assert Path("one.md").read_text() == "mine"
        assert run("bench", "table", "1", "--out", "one.md", "--overwrite")[0] == 0
        assert Path("one.md").read_text().startswith("**Table 1")

    @pytest.mark.parametrize(
        "damage",
        [
            lambda line: line[: len(line) // 2],
            lambda line: "",
            lambda line: line.replace("0.8", "80"),
        ],
    )
    def test_a_damaged_record(self, ledger, damage):
        path = ledger / "table1.jsonl"
        first, *others = path.read_text().splitlines()
        path.write_text("\n".join([damage(first), *others, ""]))
        message = fails("bench", "table", "1")
        assert message.startswith(
            "error: Line 1 of results/table1.jsonl is not a record of the ledger ("
        )
        assert message.endswith("Delete the line and run its cell again.\n")
        assert "Line 1 of results/table1.jsonl is not a record" in fails("bench", "list")
        code, _, err = run("bench", "table", "1", "--debug")
        assert code == 2 and "Traceback" in err


class TestCompare:
    def test_in_words(self, ledger):
        code, out, err = run("bench", "compare", "table1/MUTAG", "paper", "random")
        assert (code, err) == (0, "")
        lines = [
            [part.strip() for part in line.strip("│").split("│")]
            for line in out.splitlines()
            if line.startswith("│")
        ]
        assert lines == [["0", "85.00", "70.00", "+15.00"], ["1", "75.00", "65.00", "+10.00"]]
        difference, words = out.splitlines()[-2:]
        # splits of their own: seeds differ by 15 and 10 points, so that the mean's error is 2.5,
        # times 12.706 (t, 1 degree of freedom)
        assert (
            difference
            == "table1/MUTAG:paper minus table1/MUTAG:random: +12.50 points, 95 % interval [-19.27,"
            " +44.27], 2 seeds x 2 splits, paired."
        )
        assert (
            words == "The interval includes 0: it is not shown which of table1/MUTAG:paper and"
            " table1/MUTAG:random scores higher."
        )

    def test_across_cells_and_with_seeds_left_out(self, ledger):
        measure(ledger, "table9/MUTAG-ce-embed", "paper", {NAME: [*SECOND, [0.5, 0.5]]})
        code, out, err = run(
            "bench", "compare", "table1/MUTAG:paper", "table9/MUTAG-ce-embed:paper", "--json"
        )
        found = json.loads(out)
        assert (
            code == 0
            and err == "note: left out: seeds that only one of the two was measured with, 2\n"
        )
        assert (
            found["difference"]["mean"] == pytest.approx(12.5)
            and found["seeds"] == [0, 1]
            and found["left_out"] == [2]
        )
        assert (found["splits"], found["metric"], found["excludes_zero"]) == (2, "accuracy", False)
        assert found["first_means"] == pytest.approx([85, 75]) and found[
            "second_means"
        ] == pytest.approx([70, 65])

    def test_another_result(self, ledger):
        measure(ledger, "table1/MUTAG", "defaults", {"linear/fixed": [[0.9, 0.9], [0.9, 0.9]]})
        out = run(
            "bench",
            "compare",
            "table1/MUTAG",
            "defaults",
            "paper",
            "--result",
            "linear/fixed",
            "--json",
        )[1]
        assert json.loads(out)["difference"]["mean"] == pytest.approx(22.5)

    def test_one_score_gives_no_interval(self, elsewhere):
        for row in ("paper", "random"):
            measure(elsewhere / "own", "table1/MUTAG", row, {NAME: [[0.5]]})
        code, out, _ = run(
            "bench", "compare", "table1/MUTAG", "paper", "random", "--results", "own"
        )
        assert (
            code == 0
            and "+0.00 points, 95 % interval (no interval), 1 seed x 1 split, paired." in out
        )
        words = ["bench", "compare", "table1/MUTAG", "paper", "random", "--results", "own"]
        assert json.loads(run(*words, "--json")[1])["difference"] == {
            "mean": 0.0, "low": None, "high": None, "std_splits": None, "std_seeds": None
        }  # fmt: skip

    def test_failures(self, ledger):
        assert "A comparison is CELL ROW ROW" in fails("bench", "compare", "table1/MUTAG", "paper")
        assert "There is no recipe 'table1/MUTAK'. Did you mean 'table1/MUTAG'?" in fails(
            "bench", "compare", "table1/MUTAK", "raw", "paper"
        )
        assert "'linear/validation' of table1/MUTAG:raw was not measured." in fails(
            "bench", "compare", "table1/MUTAG", "paper", "raw"
        )


class TestFill:
    PAGE = "# Page\n<!-- table alpha -->\n<!-- end -->\n"

    def test_written_then_checked(self, ledger):
        page, other = Path("page.md"), Path("other.md")
        page.write_text(self.PAGE)
        other.write_text("no table")
        assert run("bench", "fill", page, other, "--check")[:2] == (
            1,
            "page.md: differs from the records\nother.md: as the records say\n",
        )
        assert page.read_text() == self.PAGE  # only checked
        assert run("bench", "fill", page, other)[:2] == (
            0,
            "page.md: updated\nother.md: as the records say\n",
        )
        assert "| alpha 5 | not measured | " in page.read_text() and other.read_text() == "no table"
        assert run("bench", "fill", page, other, "--check")[0] == 0
        measure(ledger, "alpha/CS-5", "paper", {"linear/fixed": FIRST})
        code, out, _ = run("bench", "fill", page, "--check", "--json")
        assert code == 1 and json.loads(out) == {"changed": ["page.md"], "checked": ["page.md"]}

    def test_nothing_is_written_where_one_page_fails(self, ledger):
        good, bad = Path("good.md"), Path("bad.md")
        good.write_text(self.PAGE)
        bad.write_text("<!-- table alpha -->")
        assert (
            fails("bench", "fill", good, bad)
            == "error: '<!-- table alpha -->' has no '<!-- end -->' after it.\n"
        )
        assert good.read_text() == self.PAGE

    def test_failures(self, elsewhere):
        assert (
            fails("bench", "fill", "page.md")
            == "error: There is no folder results. Give the folder of the records by --results.\n"
        )
        (elsewhere / "results").mkdir()
        assert (
            fails("bench", "fill", "page.md")
            == "error: Cannot read the page page.md: No such file or directory.\n"
        )
        Path("page.md").write_bytes(b"\xff")
        assert "Cannot read the page page.md: 'utf-8' codec can't decode" in fails(
            "bench", "fill", "page.md"
        )


class TestCompact:
    def test_replaced_records_are_dropped(self, ledger):
        measure(ledger, "table1/MUTAG", "paper", {NAME: SECOND})
        before = read_ledger(ledger)
        assert run("bench", "compact")[:2] == (
            0,
            "results/table1.jsonl: 2 replaced records dropped\n",
        )
        assert read_ledger(ledger) == before
        assert json.loads(run("bench", "compact", "--json")[1]) == {"results/table1.jsonl": 0}

    def test_stale_records_are_dropped_when_asked_for(self, elsewhere):
        root = elsewhere / "results"
        today = define(load_recipe("table1/MUTAG"), find_row("raw"))
        other = {**today, "candidates": {"epochs": [3]}}
        definitions = {0: today, 1: other, 2: {}}
        for seed, definition in definitions.items():
            found = {NAME: probe_result([0.5])}
            kept = Record("table1/MUTAG", "raw", seed, found, {}, {}, definition)
            append_record(root, kept)
            append_record(root, replace(kept, cell="mine"))
            append_record(root, replace(kept, row="of a plugin"))
        everything = read_ledger(root)
        assert run("bench", "compact")[0] == 0 and read_ledger(root) == everything
        assert run("bench", "compact", "--stale")[:2] == (
            0,
            "results/own.jsonl: 0 replaced or stale records dropped\n"
            "results/table1.jsonl: 1 replaced or stale records dropped\n",
        )
        # What cannot be compared with a recipe stays
        gone = ("table1/MUTAG", "raw", 1)
        assert read_ledger(root) == [each for each in everything if each.key != gone]

    def test_no_ledger(self):
        assert "There is no folder results." in fails("bench", "compact")
