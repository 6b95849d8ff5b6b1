"""`graphlatent train` as tests of commands use it."""

from __future__ import annotations

from pathlib import Path

from commands import run

FAST = ["--set", "epochs=3", "--set", "hidden_dim=8", "--set", "device=cpu"]


def train(tables: Path, *more: object, out: str = "run") -> tuple[int, str, str]:
    """Train on the edge and node table of the fixture `tables`, into its folder `out`."""
    return run(
        "train",
        tables / "edges.csv",
        "--nodes",
        tables / "nodes.csv",
        "--label",
        "kind",
        "--out",
        tables / out,
        *FAST,
        *more,
    )
