"""docs/molecules.md runs as it stands: its files, its commands and its Python."""

from __future__ import annotations

import pandas as pd
import pytest

from installed import ROOT
from pages import run_page

pytest.importorskip("rdkit")


@pytest.mark.filterwarnings("ignore::graphlatent.GraphLatentWarning")
def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_page(ROOT / "docs" / "molecules.md")
    assert pd.read_parquet("new.parquet")["graph"].tolist() == ["butanol", "xylene"]
    first, second, third = done.printed[-1].strip().splitlines()
    assert first == "(12, 676) [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]"
    assert (second, third) == ("['butanol', 'xylene']", "(12, 676)")
