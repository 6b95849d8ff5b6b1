"""`graphlatent links`: the scores of the probe itself on edges that training never saw, and clear
words where they cannot be had.
"""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

import commands
from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.features import encode_features
from graphlatent.probes.links import hold_out_edges, link_probe
from graphlatent.probes.results import ProbeResult, paired
from graphlatent.training import duration
from graphlatent.training.encoding import fit_encoding

FAST = ["--set", "epochs=3", "--set", "hidden_dim=8", "--set", "device=cpu"]


run, told, fails = (
    partial(each, "links") for each in (commands.run, commands.told, commands.fails)
)


@pytest.fixture
def files(tmp_path):
    """Two communities of 20 nodes with a feature that knows them, as edge and node tables."""
    rng = np.random.default_rng(0)
    pairs = [
        (i, j)
        for i in range(40)
        for j in range(i)
        if rng.random() < (0.4 if i % 2 == j % 2 else 0.03)
    ]
    pairs += [(j, i) for i, j in pairs]
    pd.DataFrame(pairs, columns=["source", "target"]).to_csv(tmp_path / "edges.csv", index=False)
    side = np.arange(40) % 2
    pd.DataFrame(
        {"id": np.arange(40), "a": side + rng.normal(size=40), "b": rng.normal(size=40)}
    ).to_csv(tmp_path / "nodes.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("with_nodes", [True, False])
def test_scores_are_those_of_the_probe_on_what_is_left(files, with_nodes):
    options = ["--nodes", files / "nodes.csv"] if with_nodes else []
    result = told(files / "edges.csv", *options, *FAST, "--seeds", 2, "--test", 0.2)
    graph = read_graphs(files / "edges.csv", nodes=files / "nodes.csv" if with_nodes else None)
    for seed in range(2):
        split = hold_out_edges(graph, test_ratio=0.2, seed=seed)
        for who, epochs in (("embeddings", 3), ("untrained encoder", 0)):
            rows = NodeLaGraph(
                epochs=epochs, hidden_dim=8, device="cpu", random_state=seed
            ).fit_transform(split.graph)
            direct = link_probe(rows, split, seed=seed)
            found = result["results"][who]
            assert (found["AUC"][seed]["scores"], found["AP"][seed]["scores"]) == (
                [direct.auc],
                [direct.ap],
            )
            assert found["AUC"][seed]["choices"][0]["settings"] == direct.choice.settings
    assert result["test_edges"] == direct.num_edges and result["selection"] == direct.selection


def test_raw_features_are_those_of_the_node_table(files):
    result = told(files / "edges.csv", "--nodes", files / "nodes.csv", *FAST, "--seeds", 1)
    table = pd.read_csv(files / "nodes.csv")[["a", "b"]].to_numpy()
    split = hold_out_edges(read_graphs(files / "edges.csv", nodes=files / "nodes.csv"), seed=0)
    rows = ((table - table.mean(0)) / table.std(0)).astype(np.float32)
    assert result["results"]["raw features"]["AUC"][0]["scores"][0] == pytest.approx(
        link_probe(rows, split).auc, abs=1e-6
    )


def test_raw_features_are_those_that_the_encoder_is_given(files):
    options = ["--set", "standardize=false", "--set", "row_normalize=true", "--seeds", 1]
    result = told(files / "edges.csv", "--nodes", files / "nodes.csv", *FAST, *options)
    table = pd.read_csv(files / "nodes.csv")[["a", "b"]].to_numpy(np.float32)
    split = hold_out_edges(read_graphs(files / "edges.csv", nodes=files / "nodes.csv"), seed=0)
    rows = table / np.abs(table).sum(1, keepdims=True)
    assert result["results"]["raw features"]["AUC"][0]["scores"][0] == pytest.approx(
        link_probe(rows, split).auc, abs=1e-6
    )


@pytest.mark.parametrize("preset", ["plus", "paper"])
def test_without_features_those_of_the_edges_that_are_left_are_used(files, preset):
    """Coordinates by default, degrees in the paper; none see the edges that are held out."""
    result = told(files / "edges.csv", *FAST, "--set", f"preset={preset}", "--seeds", 1)
    split = hold_out_edges(read_graphs(files / "edges.csv"), seed=0)
    rows = np.eye(200)[split.graph.degree.numpy().astype(int)]
    if preset == "plus":
        spec = fit_encoding(split.graph, NodeLaGraph()._resolved())
        assert spec.kind == "structure"
        rows = encode_features(spec, split.graph).x.numpy()
    assert result["results"]["raw features"]["AUC"][0]["scores"][0] == pytest.approx(
        link_probe(rows, split).auc
    )


def test_differences_are_paired(files):
    result = told(files / "edges.csv", *FAST, "--seeds", 3)
    ours, theirs = (
        [ProbeResult.from_dict(r) for r in result["results"][who]["AUC"]]
        for who in ("embeddings", "untrained encoder")
    )
    assert result["summary"]["minus untrained encoder"]["AUC"]["mean"] == pytest.approx(
        paired(ours, theirs).mean
    )
    assert set(result["summary"]) == {
        "embeddings",
        "untrained encoder",
        "raw features",
        "minus untrained encoder",
        "minus raw features",
    }


def test_a_table_for_people_and_a_file(files):
    code, out, err = run(files / "edges.csv", *FAST, "--seeds", 1, "--out", files / "links.json")
    assert code == 0 and "AUC in %" in out and "Both are 50 by guessing." in out
    assert "40 nodes, " in err and "each set beside as many pairs without an edge; 1 time" in err
    saved = json.loads((files / "links.json").read_text(), parse_constant=pytest.fail)
    assert saved["input"]["nodes"] == 40 and saved["summary"]["embeddings"]["AUC"]["n"] == 1
    assert "exists already" in fails(files / "edges.csv", *FAST, "--out", files / "links.json")
    assert (
        run(
            files / "edges.csv",
            *FAST,
            "--seeds",
            1,
            "--out",
            files / "links.json",
            "--overwrite",
            "--quiet",
        )[0]
        == 0
    )


def test_settings_from_a_file(files):
    (files / "own.toml").write_text('level = "node"\nepochs = 2\nhidden_dim = 8\n')
    result = told(
        files / "edges.csv", "--config", files / "own.toml", "--set", "device=cpu", "--seeds", 1
    )
    split = hold_out_edges(read_graphs(files / "edges.csv"), seed=0)
    rows = NodeLaGraph(epochs=2, hidden_dim=8, device="cpu", random_state=0).fit_transform(
        split.graph
    )
    assert result["results"]["embeddings"]["AUC"][0]["scores"] == [link_probe(rows, split).auc]


def test_a_file_without_a_level_is_of_node_level(files):
    (files / "own.toml").write_text("epochs = 2\n")
    assert (
        told(files / "edges.csv", "--config", files / "own.toml", *FAST[2:], "--seeds", 1)[
            "settings"
        ]["epochs"]
        == 2
    )


def test_another_random_state_is_another_draw(files):
    first, second = (
        told(files / "edges.csv", *FAST, "--seeds", 2, "--set", f"random_state={seed}")
        for seed in (0, 1)
    )
    assert (first["seeds"], second["seeds"]) == ([0, 1], [1, 2])
    assert first["results"]["embeddings"]["AUC"][1] == second["results"]["embeddings"]["AUC"][0]
    assert first["settings"]["hidden_dim"] == 8 and first["version"]


@pytest.mark.parametrize("out", ["folder", "edges.csv/x.json", "."])
def test_a_path_that_cannot_be_written_is_refused_before_anything_is_trained(
    files, out, monkeypatch
):
    (files / "folder").mkdir()
    monkeypatch.chdir(files)
    monkeypatch.setattr(NodeLaGraph, "fit", lambda *_: pytest.fail("trained in vain"))
    assert fails("edges.csv", *FAST, "--out", out, "--overwrite").startswith(
        f"Cannot write {out}: "
    )


def test_names_are_told_as_they_are(files):
    odd = files / ":bug: [red]é.csv"
    odd.write_bytes((files / "edges.csv").read_bytes())
    assert told(odd, *FAST, "--seeds", 1)["input"]["source"] == str(odd)


def test_no_score_is_said_to_be_above_a_hundred(files):
    out = run(files / "edges.csv", *FAST, "--seeds", 2)[1]
    intervals = [
        line.split("│")[4]
        for line in out.splitlines()
        if line.startswith("│ ") and line.count("│") > 4
    ]
    ends = [
        float(each)
        for interval in intervals
        for each in interval.split(" to ")
        if interval.strip() not in ("", "-")
    ]
    assert ends and max(ends) <= 100.0


def test_failures(files):
    (files / "graph.toml").write_text('level = "graph"\n')
    assert "has settings of graph level. Links join nodes" in fails(
        files / "edges.csv", "--config", files / "graph.toml"
    )
    shares = (
        "'val' and 'test' are shares of the edges: both must be above 0 and their sum below 1. Got"
        " 0.5 and 0.6."
    )
    # Before anything is read
    assert fails(files / "nowhere.csv", *FAST, "--val", 0.5, "--test", 0.6) == shares
    assert "epoch" in fails(files / "edges.csv", "--set", "epoch=3")
    assert "nowhere.csv" in fails(files / "nowhere.csv", *FAST)
    pd.DataFrame({"source": [0], "target": [1]}).to_csv(files / "one.csv", index=False)
    assert "too few edges to hold out" in fails(files / "one.csv", *FAST)


def test_the_time_is_said_once_for_all_seeds(files, monkeypatch):
    for name in ("MEASURED_SECONDS", "WORTH_SAYING"):
        monkeypatch.setattr(duration, name, 0.0)
    code, _, err = run(files / "edges.csv", *FAST, "--seeds", 3)
    assert code == 0, err
    (line,) = [line for line in err.splitlines() if "training takes" in line]
    assert line.endswith("(3 epochs), 3 times")
