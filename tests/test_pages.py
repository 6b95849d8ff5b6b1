"""Running a page notices what is wrong with it."""

from __future__ import annotations

import pytest

from pages import blocks, commands_of, difference, run_page

PRINTED = """note: one
│ a │ 90.4 │
│ b │ 10 │
similar 0.412, 1,234 rows
last
"""


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        "note: one\n...\nsimilar 0.412, 1,234 rows\nlast\n",
        "...\nlast\n",
        "note: one\n│  a  │ 91.2 │\n...\nsimilar 0.42, 1,234 rows\n...\n".replace(
            "0.42,", "0.430,"
        ),
    ],
)
def test_what_a_page_may_show(shown):
    assert difference(shown, PRINTED) is None


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        ("note: two\n...\n", "'note: two' is not printed as line 1"),
        ("note: one\nlast\n", "'last' is not printed as line 2"),
        ("...\n│ b │ 11 │\n...\n", "'│ b │ 11 │' is not printed"),
        ("...\n│ a │ 94.4 │\n...\n", "'│ a │ 94.4 │' is not printed"),
        ("...\nsimilar 0.512, 1,234 rows\n...\n", "'similar 0.512, 1,234 rows' is not printed"),
        ("note: one\n", "'│ a │ 90.4 │' is printed too"),
        ("...\nlast\nnote: one\n", "'note: one' is not printed as line 6"),
    ],
)
def test_what_it_may_not_show(shown, problem):
    assert difference(shown, PRINTED) == problem


def test_numbers_and_ids_that_vary():
    shown = "...\n│ a │ 3 │\n│ b │ x-7 │\nsimilar 0.9, 8 rows\n...\n"
    assert difference(shown, PRINTED, varies=True) is None
    assert difference(shown, PRINTED) == "'│ a │ 3 │' is not printed"
    other = shown.replace("rows", "columns")
    problem = "'similar 0.9, 8 columns' is not printed as line 4"
    assert difference(other, PRINTED, varies=True) == problem
    assert difference("note: one\n", PRINTED, varies=True) == "'│ a │ 90.4 │' is printed too"


def test_blocks_and_commands():
    page = "a\n```csv e.csv\nx\n```\nb\n```\ngraphlatent info e.csv  # why\n```\n"
    first = blocks(page)[0]
    assert (first.language, first.info, first.text) == ("csv", "e.csv", "x\n")
    assert commands_of(blocks(page, "")[0]) == [["graphlatent", "info", "e.csv"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "'2' is not printed as line 1"),
        ("```\ngraphlatent info nothing.csv\n```\n", "There is no file"),
        ("```\nrm -r nothing\n```\n", "unknown program: rm"),
        (
            "```python\nopen('a.csv', 'w').write('x\\n')\n```\n```csv a.csv\ny\n...\n```\n",
            "a.csv begins with 'x",
        ),
    ],
)
def test_a_page_that_is_wrong_fails(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(AssertionError, match=message):
        run_page(tmp_path / "page.md")
