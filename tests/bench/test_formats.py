from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlatent.bench.formats import (
    FIELDS,
    FORMATS,
    Block,
    Cell,
    Line,
    Table,
    csv_text,
    html_page,
    markdown,
    rows,
)

MEASURED = Cell(
    "80.0 ± 7.1",
    "95 % [55.8, 104.2], 2 seeds x 2 splits",
    {"state": "measured", "mean": 80.00004, "low": float("nan"), "seeds": 2},
)
NONE = Cell("not measured", values={"state": "not measured"})
TABLE = Table(
    "1",
    "Table 1",
    (
        Block("", ("A", "B"), (Line("raw", (MEASURED, NONE)),)),
        Block("More", ("A",), (Line("x", (NONE,)),)),
    ),
    ("Note.",),
)
VOID = {"meta", "br"}
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


class Reader(HTMLParser):
    """Cells of a page by row, and whether every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.grid: list[list[str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert not {"src", "href"} & {name for name, _ in attrs}  # nothing from elsewhere
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.grid.append([])
        if tag in ("td", "th"):
            self.grid[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "tr" in self.open:
            self.grid[-1][-1] += data


def table_of(text: str) -> Table:
    return Table(
        "1",
        text,
        (
            Block(
                text, (text, "B"), (Line(text, (Cell(text, text, {"selection": text}), Cell("y"))),)
            ),
        ),
        (text,),
    )


class TestMarkdown:
    def test_by_hand(self):
        assert (
            markdown(TABLE)
            == "**Table 1**\n\n|  | A | B |\n| --- | --- | --- |\n| raw | 80.0 ± 7.1 | not measured"
            " |\n\n*More*\n\n|  | A |\n| --- | --- |\n| x | not measured |\n\n- Note."
        )

    def test_a_column_ends_only_where_it_should(self):
        made = markdown(table_of("a|b\nc <!-- end --> <b>"))
        assert "| a\\|b c &lt;!-- end --> &lt;b> | a\\|b c &lt;!-- end --> &lt;b> | y |" in made
        assert "<" not in made

    @given(texts)
    def test_every_line_has_as_many_columns(self, text):
        grid = [
            line.replace("\\|", "")
            for line in markdown(table_of(text)).split("\n")
            if line.startswith("|")
        ]
        assert len(grid) == 3 and {line.count("|") for line in grid} == {4}


class TestCsv:
    def test_by_hand(self):
        head, first, second, third = csv_text(TABLE).split("\n")
        assert head == "table,block,line,column," + ",".join(FIELDS)
        assert first == "1,,raw,A,measured,,,,80.0,,,,,2,,,"  # 4 decimals; NaN is left out
        assert second == "1,,raw,B,not measured,,,,,,,,,,,,"
        assert third.startswith("1,More,x,A,not measured,")

    @given(texts)
    def test_it_is_read_back(self, text):
        first, _ = csv.DictReader(io.StringIO(csv_text(table_of(text)), newline=""))
        assert (first["line"], first["column"], first["selection"]) == (text, text, text)


def test_rows_say_everything_there_is_to_say():
    first = rows(TABLE)[0]
    assert {name: value for name, value in first.items() if value is not None} == {
        "table": "1",
        "block": "",
        "line": "raw",
        "column": "A",
        "state": "measured",
        "mean": 80.0,
        "seeds": 2,
    }
    assert set(first) == {"table", "block", "line", "column", *FIELDS}


class TestHtml:
    def test_by_hand(self):
        page = html_page(TABLE)
        assert Reader(page).grid == [
            ["", "A", "B"],
            ["raw", "80.0 ± 7.195 % [55.8, 104.2]2 seeds x 2 splits", "not measured"],
            ["", "A"],
            ["x", "not measured"],
        ]
        assert (
            '<td class="none">not measured</td>' in page and "<td>80.0 ± 7.1<small>95 % [" in page
        )
        assert page.startswith("<!DOCTYPE html>\n") and "<li>Note.</li>" in page

    def test_printed_and_measured_stand_on_two_lines(self):
        assert ">79.9 published /<br>80.0 &lt; 81<" in html_page(
            table_of("79.9 published / 80.0 < 81")
        )

    @given(texts.filter(lambda text: " published / " not in text))
    def test_whatever_it_says_is_escaped(self, text):
        found = Reader(html_page(table_of(text))).grid
        # Details stand on two lines
        assert found == [["", text, "B"], [text, text + "".join(text.rsplit(", ", 1)), "y"]]

    def test_a_script_is_text(self):
        assert "<script" not in html_page(table_of("<script>alert('x')</script>"))


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_without_notes(form):
    made = FORMATS[form](Table("1", "T", (Block("", ("A",), (Line("raw", (NONE,)),)),), ()))
    assert "not measured" in made and "Note" not in made and "<ul>" not in made
