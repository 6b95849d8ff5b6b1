"""Numbers in the docs come from records, and links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def between(text: str) -> str:
    return text.split("<!-- table -->")[1].split("<!-- end -->")[0].strip()


def test_the_table_of_the_defaults_is_its_records():
    page = load(ROOT / "benchmarks" / "defaults.py").page(ROOT / "benchmarks" / "results" / "defaults.jsonl")
    assert between((ROOT / "docs" / "defaults.md").read_text()) == page.strip()


@pytest.mark.parametrize("name", ["README.md", "benchmarks/README.md"])
def test_the_tables_of_speed_are_their_records(name):
    text = (ROOT / name).read_text()
    assert load(ROOT / "benchmarks" / "pages.py").filled(text) == text
    assert "<!-- speed -->" in text or "<!-- steps -->" in text


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []
