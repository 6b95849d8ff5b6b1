"""Links of the docs lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "path",
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name)
def test_links_to_sections_name_a_heading(path):
    for name, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", path.read_text()):
        there = (path.parent / name if name else path).read_text()
        headings = re.findall(r"^#+ (.*)$", there, re.MULTILINE)
        assert anchor in {anchor_of(heading) for heading in headings}, f"{name}#{anchor}"


def anchor_of(heading: str) -> str:
    """The name that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_the_index_lists_every_page():
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert [str(page) for page in pages if f"({page})" not in index] == ["README.md"]
