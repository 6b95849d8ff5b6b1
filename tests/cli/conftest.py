"""Fixtures of the tests of commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


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
