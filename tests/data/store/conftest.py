"""Small tables of which stores are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def edges() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = np.array([f"user {i:02d}" for i in range(20)])
    ends = rng.integers(0, 20, (2, 60))
    return pd.DataFrame({"source": names[ends[0]], "target": names[ends[1]]})


@pytest.fixture
def nodes() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    names = [f"user {i:02d}" for i in reversed(range(20))]
    return pd.DataFrame(
        {"id": names, "age": rng.integers(9, 90, 20), "city": rng.choice(["Oslo", "Rome"], 20)}
    )


@pytest.fixture
def tables(tmp_path, edges, nodes) -> tuple[Path, Path]:
    """Paths of the edge table and of the node table."""
    edges.to_parquet(tmp_path / "edges.parquet")
    nodes.to_parquet(tmp_path / "nodes.parquet")
    return tmp_path / "edges.parquet", tmp_path / "nodes.parquet"
