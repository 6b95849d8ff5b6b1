"""The examples of docs/explore.md run as they stand, in their order, and find what was planted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import run

PAGE = (Path(__file__).parents[1] / "docs" / "explore.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def commands():
    """The commands of the page, and those that its text mentions with the run of the page."""
    for language, block in BLOCKS:
        if not language:
            yield from block.strip().splitlines()


@pytest.mark.filterwarnings("ignore::graphlatent.GraphLatentWarning")
def test_the_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, "docs/explore.md", "exec"), names)
            continue
        for line in block.strip().splitlines():
            program, *words = shlex.split(line)
            assert program == "graphlatent"
            code, _, err = run(*words)
            assert code == 0, f"{line}: {err}"
    of_id = pd.read_csv("nodes.csv").set_index("id")["kind"]
    # Clusters are the kinds, neighbours and links of one kind
    table = pd.crosstab(of_id.loc[names["clusters"].index].to_numpy(), names["clusters"].to_numpy())
    assert table.to_numpy().max(axis=1).sum() > 200
    likely = pd.read_csv("likely.csv")
    same = of_id.loc[likely["source"]].to_numpy() == of_id.loc[likely["target"]].to_numpy()
    assert len(likely) == 10 and same.mean() > 0.8
    assert set(pd.read_csv("outliers.csv")["id"][:2]) == {"acct-007", "acct-100"}
    assert names["near"]["id"].tolist() == ["acct-007"] * 5
    assert (Path("run") / "map.png").is_file() and Path("components.svg").is_file()
    assert np.load("small.npz")["embeddings"].dtype == np.float16


def test_every_command_after_training_is_on_the_page():
    used = {line.split()[1] for line in commands()}
    assert {"map", "neighbors", "cluster", "links", "outliers", "export"} <= used
