"""The commands of docs/scale.md run as they stand; its memory of METIS is that of the code."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from graphlatent.data.pieces.partition import metis_bytes
from installed import ROOT
from pages import run_page

PAGE = ROOT / "docs" / "scale.md"


@pytest.mark.filterwarnings("ignore::graphlatent.GraphLatentWarning")
def test_from_parquet_to_embeddings(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    pytest.importorskip("pymetis")
    monkeypatch.chdir(tmp_path)
    run_page(PAGE, replace={"--rows 100000": "--rows 1500"})
    table = pd.read_parquet("embeddings.parquet")
    ids = pd.read_parquet("devices.parquet")["id"]
    assert table["id"].tolist() == ids.tolist()
    rows = np.load("embeddings.npy")
    assert rows.shape == (1500, table.shape[1] - 1) and np.isfinite(rows).all()


def test_the_memory_of_metis_is_not_underestimated():
    rows = re.findall(
        r"^\| ([\d.]+) M, ([\d.]+) M, \d+ \| ([\d.]+) GB", PAGE.read_text(), re.MULTILINE
    )
    assert len(rows) == 3
    for row in rows:
        edges, nodes, measured = map(float, row)
        assert 1 <= metis_bytes(int(1e6 * nodes), int(1e6 * edges)) / (1e9 * measured) < 1.5
