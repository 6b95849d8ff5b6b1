"""Generated blocks of pages: made from records alone, and up to date in every page."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from graphlatent.bench.formats import markdown
from graphlatent.bench.ledger import ledger_file
from graphlatent.bench.pages import fill_page, fill_pages, table_maker
from graphlatent.bench.tables import absent_sets, shortened
from graphlatent.errors import ConfigError, InputError
from ledgers import FIRST, NAME, SECOND, measure, table

ROOT = Path(__file__).parents[2]
PAGE = (
    "# Results\n<!-- speed -->\nfast\n<!-- end -->\n\n"
    "<!-- table alpha -->\nold\n<!-- end -->\nlast <!-- table 9 --><!-- end -->"
)


def fill(page: str, root: Path) -> str:
    return fill_page(page, {"table": table_maker(root)})


def fails(message: str):
    return pytest.raises((InputError, ConfigError), match=f"^{re.escape(message)}$")


@pytest.fixture(scope="module")
def script():
    path = ROOT / "benchmarks" / "pages.py"
    if not path.is_file():
        pytest.skip("there are no pages beside the source")
    spec = importlib.util.spec_from_file_location("pages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        # As of a script: what lies beside it can be imported.
        patch.syspath_prepend(path.parent)
        spec.loader.exec_module(module)
    return module


class TestEveryPage:
    def test_is_what_the_records_give(self, script):
        assert list(script.outdated_pages()) == [], "run: python benchmarks/pages.py"

    def test_every_kind_of_block_is_used(self, script):
        """And so would be filled, were a record changed."""
        pages = "\n".join(page.read_text() for page in script.PAGES)
        used = {mark.split()[0] for mark in re.findall(r"<!-- ([\w -]+) -->", pages)}
        assert used == {*script.MAKERS, "end"}

    def test_a_changed_record_is_seen(self, script, tmp_path, monkeypatch):
        path = tmp_path / "defaults.jsonl"
        old = (script.RESULTS / "defaults.jsonl").read_text()
        path.write_text(re.sub(r'"test": [\d.]+', '"test": 12.3', old, count=1))
        monkeypatch.setattr(script, "RESULTS", tmp_path)
        page = ROOT / "docs" / "defaults.md"
        ((before, after),) = fill_pages([page], {"defaults": script.MAKERS["defaults"]}).values()
        assert before != after and "| 12.3 ± " in after


class TestSearchTables:
    """Tables of the search for the defaults: cells are single records."""

    def test_every_row_has_a_cell(self, script):
        """A selection that agrees with no record would be a row of minus signs."""
        for name in ("nodes", "graphs", "features"):
            _, _, *rows = script.search_tables(name).splitlines()
            assert rows and [row for row in rows if re.search(r"\d / \d", row) is None] == []

    def test_a_cell_is_the_record_with_the_whole_configuration(self, script, tmp_path, monkeypatch):
        record = {"round": 3, "level": "graph", "set": "RDT-B", "form": "root", "epoch": 10}
        config = {"num_layers": 3, "variance_of": "rows", "degree_cap": 128, "local_structure": 0.5}
        found = {**record, "config": config, "val": 12.34, "test": 56.78}
        other = {**record, "config": {**config, "lr": 1.0}, "val": 0.0, "test": 0.0}
        lines = "\n".join(json.dumps(line) for line in (found, other))
        (tmp_path / "search.jsonl").write_text(lines)
        monkeypatch.setattr(script, "RESULTS", tmp_path)
        table = script.search_tables("graphs").splitlines()
        assert "| variance of the rows as they are | - | - | 12.3 / 56.8 | - | - |" in table
        assert "".join(table).count(" / ") == 1

    def test_an_unknown_table(self, script):
        with fails("'<!-- search edges -->' must name one of: nodes, graphs, features."):
            script.search_tables("edges")


class TestBlocks:
    def test_arguments_are_handed_to_the_maker(self):
        made = fill_page(
            "a <!-- sum 1 2 -->old<!-- end --> <!-- other -->", {"sum": lambda args: "+".join(args)}
        )
        assert made == "a <!-- sum 1 2 -->\n1+2\n<!-- end --> <!-- other -->"

    def test_other_comments_are_left_alone(self):
        page = (
            "<!-- note --> text <!-- end --> <!-- a: b --> <!-- x --><!-- sum -->\n\n<!-- end -->"
        )
        assert fill_page(page, {"sum": lambda args: ""}) == page

    @pytest.mark.parametrize("after", ["", "text", PAGE, "<!-- table 9 --><!-- end -->"])
    def test_no_end(self, tmp_path, after):
        with fails("'<!-- table 1 -->' has no '<!-- end -->' after it."):
            fill(f"{PAGE}<!-- table 1 -->{after}", tmp_path)

    def test_a_page_that_cannot_be_read(self, tmp_path):
        with fails(f"Cannot read the page {tmp_path / 'no.md'}: No such file or directory."):
            fill_pages([tmp_path / "no.md"], {})


class TestTables:
    def test_blocks_hold_the_tables_and_the_rest_stays(self, tmp_path):
        measure(tmp_path, "alpha/CS-5", "paper", {"linear/fixed": SECOND})
        made = fill(PAGE, tmp_path)
        alpha, nine = markdown(table(tmp_path, "alpha")), markdown(table(tmp_path, "9"))
        assert (
            made == "# Results\n<!-- speed -->\nfast\n<!-- end -->\n\n<!-- table alpha"
            f" -->\n{alpha}\n<!-- end -->\nlast <!-- table 9 -->\n{nine}\n<!-- end -->"
        )
        assert fill(made, tmp_path) == made

    def test_the_short_form(self, tmp_path):
        measure(tmp_path, "table2/CS", "paper", {NAME: FIRST})
        made = fill("<!-- table 2 short --><!-- end -->", tmp_path)
        short = markdown(shortened(table(tmp_path, "2")))
        assert made == f"<!-- table 2 short -->\n{short}\n<!-- end -->"
        assert fill(made, tmp_path) == made

    def test_selections_cannot_end_a_block(self, tmp_path):
        measure(
            tmp_path,
            "alpha/CS-5",
            "paper",
            {"linear/fixed": SECOND},
            selection="a <!-- end --> b <!-- table 9 -->",
        )
        made = fill(PAGE, tmp_path)
        assert fill(made, tmp_path) == made and made.count("<!-- end -->") == 3

    def test_a_page_without_tables_needs_no_ledger(self, tmp_path):
        (tmp_path / "table1.jsonl").write_text("damaged\n")
        page = "# Results\n<!-- speed --><!-- end --> tables"
        assert fill(page, tmp_path) == page

    def test_absent_sets_are_the_ledgers(self, tmp_path):
        (tmp_path / "absent.json").write_text(json.dumps({"reddit-multi-5k": "why", "PPI": "why"}))
        assert absent_sets(tmp_path) == {"RDT-M5K", "PPI"}
        assert "| 56.4 published / data not available |" in fill(PAGE, tmp_path)

    @pytest.mark.parametrize(
        "start",
        ["<!-- table 4 -->", "<!-- table -->", "<!-- table 1 2 -->", "<!-- table short -->"],
    )
    def test_no_table(self, tmp_path, start):
        allowed = "1, 2, 3, 7, 8, 9, 10, figure2, alpha, invariance, binarized, plus, plus-graphs"
        allowed += ", label-budgets"
        with fails(
            f"'{start}' names no table. It must be '<!-- table NAME -->' or '<!-- table NAME short"
            f" -->', NAME one of {allowed}."
        ):
            fill(f"{PAGE}{start}<!-- end -->", tmp_path)

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            ("[", "Expecting value: line 1 column 2 (char 1)"),
            ("3", "'int' object is not iterable"),
            ('{"PPPI": ""}', None),
        ],
    )
    def test_a_damaged_list_of_absent_sets(self, tmp_path, content, why):
        (tmp_path / "absent.json").write_text(content)
        with pytest.raises(InputError) as caught:
            fill(PAGE, tmp_path)
        start = (
            f"{tmp_path / 'absent.json'} must be a JSON object that gives a reason for each data"
            " set that is not available. "
        )
        assert str(caught.value).startswith(start)
        assert str(caught.value).endswith(why or "Did you mean 'PPI'?")

    def test_a_damaged_record(self, tmp_path):
        measure(tmp_path, "alpha/CS-5", "paper", {"linear/fixed": SECOND[:1]})
        path = ledger_file(tmp_path, "alpha/CS-5")
        path.write_text(path.read_text()[:50] + "\n")
        with pytest.raises(
            InputError, match=f"^Line 1 of {re.escape(str(path))} is not a record of the ledger"
        ):
            fill(PAGE, tmp_path)
