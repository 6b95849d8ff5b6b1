"""`graphlatent info`, `settings`, `data list` and `--version`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from commands import fails, run
from graphlatent import __version__
from graphlatent.data.datasets import DATASETS
from training_commands import FAST, train


def test_of_an_input(tables):
    code, out, err = run("info", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--json")
    facts = json.loads(out)
    assert code == 0 and err == ""
    assert (
        facts["nodes"] == 40
        and facts["weighted"] is True
        and facts["features"] == "3 columns: age, city, kind"
    )
    assert any("read as undirected" in note for note in facts["notes"]) and facts["problems"] == []


def test_edge_columns_that_are_not_used_are_named(tables):
    edges = pd.read_csv(tables / "edges.csv")
    edges.assign(amount=1.5, day="Monday").to_csv(tables / "more.csv", index=False)
    note = "edge columns not used: amount, day."
    (found,) = [
        text
        for text in json.loads(run("info", tables / "more.csv", "--json")[1])["notes"]
        if note in text
    ]
    _, _, err = run("train", tables / "more.csv", "--out", tables / "run", *FAST)
    assert f"note: {found}\n" in err
    chosen = ["--weight", "amount", "--out", tables / "run", "--overwrite"]
    _, _, err = run("train", tables / "more.csv", *chosen, *FAST)
    assert "edge columns not used: weight, day." in err


def test_problems_are_found(tables):
    nodes, edges = pd.read_csv(tables / "nodes.csv"), pd.read_csv(tables / "edges.csv")
    nodes.loc[3, "age"] = np.nan
    edges.loc[0, "weight"] = -1
    nodes.to_csv(tables / "bad.csv", index=False)
    edges.to_csv(tables / "worse.csv", index=False)
    problems = json.loads(
        run("info", tables / "worse.csv", "--nodes", tables / "bad.csv", "--json")[1]
    )["problems"]
    assert len(problems) == 2 and "age" in problems[0] and "negative" in problems[1]


def test_of_a_run(tables):
    train(tables)
    code, out, _ = run("info", tables / "run")
    assert code == 0 and "epochs done" in out and "hidden_dim=8" in out
    facts = json.loads(run("info", tables / "run", "--json")[1])
    assert (facts["features"], facts["nodes"]) == ("2 columns: age, city", 40)
    assert facts["source"] == str(tables / "edges.csv")
    (tables / "run" / "model.safetensors").write_bytes(b"x")
    assert "is not as it was saved" in fails("info", tables / "run")


def test_of_a_store(tables):
    edges = pd.read_csv(tables / "edges.csv").assign(amount=1.5)
    edges.to_csv(tables / "more.csv", index=False)
    assert run("ingest", tables / "more.csv", "--out", tables / "store")[0] == 0
    code, out, _ = run("info", tables / "store", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["nodes"] == 40 and facts["weighted"] is True
    notes = "".join(facts["notes"])
    assert "not used: amount. For numbers as weights: --weight NAME." in notes
    assert "To choose: --merge sum, or mean, count, max." in notes


def test_settings_and_data():
    assert "mask_ratio = 0.75" in run("settings")[1]
    assert "batch_size = 128" in run("settings", "--level", "graph")[1]
    assert json.loads(run("settings", "--json")[1])["alpha"]["default"] == 0.0
    assert len(json.loads(run("data", "list", "--json")[1])["datasets"]) == len(DATASETS)
    assert "NCI1" in run("data", "list")[1]


def test_version():
    assert run("--version")[1].strip() == f"graphlatent {__version__}"
