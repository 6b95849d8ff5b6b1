"""The examples of docs/explore.md run as they stand, in their order, and find what was planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from installed import ROOT
from pages import blocks, commands_of, run_page

PAGE = ROOT / "docs" / "explore.md"


@pytest.mark.filterwarnings("ignore::graphlatent.GraphLatentWarning")
def test_the_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(PAGE).names
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
    used = {words[1] for block in blocks(PAGE.read_text(), "") for words in commands_of(block)}
    assert {"map", "neighbors", "cluster", "links", "outliers", "export"} <= used
