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
        *sorted((ROOT / "docs").glob("*.md")),
    ],
    ids=lambda p: p.name,
)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []
