"""Fixtures of the tests of commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from graphlatent.embedding import Embeddings
from probe_cases import KINDS, NAMES


@pytest.fixture
def tables(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    names = [f"user {i:02d}" for i in range(40)]
    edges = pd.DataFrame(
        {
            "source": rng.choice(names, 150),
            "target": rng.choice(names, 150),
            "weight": rng.integers(1, 9, 150),
        }
    )
    nodes = pd.DataFrame(
        {
            "id": names,
            "age": rng.integers(18, 80, 40),
            "city": rng.choice(["Oslo", "Rome"], 40),
            "kind": ["a", "b"] * 20,
        }
    )
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    return tmp_path


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(3, 4))[np.arange(60) % 3] + rng.normal(size=(60, 4))).astype(
        np.float32
    )


@pytest.fixture
def folder(tmp_path, rows):
    """Embeddings by name in e.parquet, and a label table in another order."""
    Embeddings(rows, NAMES).save(tmp_path / "e.parquet")
    table = pd.DataFrame(
        {
            "id": NAMES,
            "kind": KINDS,
            "age": np.arange(60) / 7,
            "a": np.arange(60) % 2,
            "b": (np.arange(60) % 5 == 0) * 1,
        }
    )
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path
