"""`graphlatent bound`."""

from __future__ import annotations

import re

import pandas as pd

from commands import fails, run, told

FAST = ["--num-nodes", 60, "--masks", 6, "--draws", 3, "--points", 2, "--seeds", 2]
SMALL = ["--epochs", 80, "--set", "hidden_dim=32", "--lr", 0.005, "--set", "mask_ratio=0.01"]


def test_it_holds_as_corrected_and_fails_as_printed(tmp_path):
    plot, out = tmp_path / "bounds.png", tmp_path / "bounds.csv"
    code, shown, err = run("bound", *FAST, *SMALL, "--plot", plot, "--out", out)
    assert code == 0, err
    assert "Theorem 1, printed: holds at every logged epoch in 0 of 2 seeds" in shown
    assert "Theorem 1, corrected: holds at every logged epoch in 2 of 2 seeds" in shown
    assert "Corollary 2" not in shown
    assert plot.read_bytes().startswith(b"\x89PNG")
    table = pd.read_csv(out)
    assert table[["seed", "epoch"]].to_numpy().tolist() == [[0, 0], [0, 80], [1, 0], [1, 80]]
    assert (table["theorem1_corrected"] > table["left"]).all()
    assert "--overwrite" in fails("bound", *FAST, *SMALL, "--plot", plot)


def test_it_fails_where_a_mask_shows_what_it_hides():
    found = told("bound", *FAST, *SMALL, "--leak", 1, "--seed", 3)
    assert found["holds"]["theorem1"] == {"printed": 0, "corrected": 0}
    assert [point["seed"] for point in found["points"]] == [3, 3, 4, 4]


def test_graph_level_reports_the_constant_of_the_readout():
    words = ["bound", "--level", "graph", *FAST, "--epochs", 2, "--set", "hidden_dim=4"]
    code, shown, err = run(*words)
    assert code == 0, err
    assert "Corollary 2, corrected: holds at every logged epoch in 2 of 2 seeds" in shown
    assert "Corollary 2 assumes a constant k of the readout" in shown
    # Headings of seven columns in 80 characters, none of them broken within a word.
    names = "│ *epoch *┃ *of F *┃ *side *┃ *printed *┃ *corrected *┃ *corrected *┃ *corrected *┃"
    assert re.search(names.replace("│ ", "┃ "), shown), shown
    table = [line for line in shown.splitlines() if line[:1] in "┏┃┡│└"]
    assert {len(line) for line in table} == {len(table[0])} and len(table[0]) <= 80


def test_mistakes(tmp_path):
    message = fails("bound", *FAST, "--compared", "some")
    assert "--compared must be 'masked', 'unmasked' or 'all'. Got 'some'" in message
    assert "must be 'node' or 'graph'" in fails("bound", "--level", "edge")
    assert "from 0 to 1. Got 2.0" in fails("bound", *FAST, "--leak", 2)
    assert "homophily" in fails("bound", *FAST, "--homophily", 2)
    assert ".png, .pdf or .svg" in fails("bound", "--plot", tmp_path / "a.txt")
    swap = fails("bound", *FAST, "--set", "mask_value=swap")
    assert "masks that do not depend on the features" in swap
    few = ["--level", "graph", "--set", "mask_rounding=floor", "--set", "mask_ratio=0.01"]
    message = fails("bound", *FAST, *few, "--epochs", 1)
    assert "none is masked. Use --set mask_rounding=round, or a larger" in message
