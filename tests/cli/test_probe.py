"""`graphlatent probe`: the scores of the probes themselves, on rows matched by ids."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from graphlatent.cli.app import app
from graphlatent.data.splits import random_splits
from graphlatent.embedding import Embeddings
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.results import ProbeResult, paired
from probe_cases import FEW, KINDS, NAMES, fails, labels_with, run, told

FAST = ["--set", "epochs=3", "--set", "hidden_dim=8", "--set", "device=cpu"]


def scores(
    result: dict, who: str = "embeddings", score: str = "accuracy"
) -> list[tuple[float, ...]]:
    """Seed by seed."""
    return [tuple(each["scores"]) for each in result["results"][who][score]]


# --- the same scores as the probes themselves ---


def test_linear_scores_are_those_of_the_probe_on_matched_rows(folder, rows):
    result = told(folder / "e.parquet", "--labels", folder / "labels.csv", "--label", "kind", *FEW)
    splits = random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3)
    direct = linear_probe(rows, KINDS, splits=splits)
    assert ProbeResult.from_dict(result["results"]["embeddings"]["accuracy"][0]) == direct
    summary = result["summary"]["embeddings"]["accuracy"]
    assert summary["mean"] == pytest.approx(direct.mean)
    assert (summary["n"], summary["num_splits"], summary["std_seeds"]) == (3, 3, None)
    assert result["selection"] == direct.selection
    assert result["sizes"] == {"ant": 20, "bee": 20, "cat": 20}


def test_a_table_for_people(folder):
    code, out, err = run(
        folder / "e.parquet", "--labels", folder / "labels.csv", "--label", "kind", *FEW
    )
    assert code == 0, err
    summary = told(
        folder / "e.parquet", "--labels", folder / "labels.csv", "--label", "kind", *FEW
    )["summary"]["embeddings"]["accuracy"]
    line = next(line for line in out.splitlines() if line.startswith("│ embeddings "))
    mean, spread, low, high = (
        f"{100 * summary[name]:.1f}" for name in ("mean", "std_splits", "low", "high")
    )
    assert [cell.strip() for cell in line.split("│")[1:-1]] == [
        "embeddings",
        mean,
        spread,
        f"{low} to {high}",
        "-",
    ]
    assert "Measured on 3 random splits: 30% training, 30% validation, 40% test." in out
    assert (
        "How it was selected: Per split, the preprocessing and L2 strength with the highest"
        " validation accuracy;" in out
    )


def test_from_a_csv_graph_to_a_score(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"source": rng.choice(NAMES, 200), "target": rng.choice(NAMES, 200)}).to_csv(
        tmp_path / "edges.csv", index=False
    )
    nodes = pd.DataFrame(
        {
            "acct": NAMES,
            "age": rng.integers(18, 80, 60),
            "city": rng.choice(["Oslo", "Rome"], 60),
            "kind": KINDS,
        }
    )
    nodes.assign(secret=[1, *np.arange(1, 60) % 3]).to_csv(tmp_path / "nodes.csv", index=False)
    told_of = [
        "--nodes",
        tmp_path / "nodes.csv",
        "--id",
        "acct",
        "--features",
        "age,city",
        "--out",
        tmp_path / "run",
    ]
    trained = CliRunner().invoke(
        app, [*map(str, ["train", tmp_path / "edges.csv", *told_of]), *FAST]
    )
    assert trained.exit_code == 0, trained.stderr
    options = [
        "--labels",
        tmp_path / "nodes.csv",
        "--label",
        "kind",
        "--id",
        "acct",
        "--raw",
        tmp_path / "nodes.csv",
        *FEW,
    ]
    result = told(tmp_path / "run", *options)
    # Those that the run learnt from
    assert result["notes"] == ["raw features: 2 columns: age, city"]
    others = [
        "raw features",
        "propagated features",
        "untrained encoder",
        "raw features appended",
        "majority class",
    ]
    names = ["embeddings", *others, *(f"minus {name}" for name in others)]
    assert list(result["summary"]) == names
    plain = told(tmp_path / "run" / "embeddings.parquet", *options)
    assert plain["notes"][1].startswith("no propagated features, untrained encoder: of embeddings")
    whole = told(tmp_path / "run" / "embeddings.parquet", *options, "--no-baselines")
    assert set(whole["summary"]) == {"embeddings", "raw features", "minus raw features"}
    # A file does not know; the label is never one
    assert whole["notes"] == ["raw features: 3 columns: age, city, secret"]
    # A label that the run learnt from
    seen = ["--labels", tmp_path / "nodes.csv", "--label", "city", "--id", "acct", *FEW]
    assert fails(tmp_path / "run", *seen).startswith(
        f"The column 'city' was a feature of the run {tmp_path / 'run'}, so its embeddings"
    )
    # Whoever wants to know what embeddings keep of a feature
    assert told(tmp_path / "run" / "embeddings.parquet", *seen)["summary"]
    assert (
        whole["summary"]["raw features"]["accuracy"]["mean"]
        > result["summary"]["raw features"]["accuracy"]["mean"] + 0.3
    )


# --- files and ids ---


@pytest.mark.parametrize("form", ["e.csv", "e.npz", "run", "labels.parquet", "labels.npz"])
def test_forms_of_the_same_rows(folder, rows, form):
    expected = told(
        folder / "e.parquet", "--labels", folder / "labels.csv", "--label", "kind", *FEW
    )
    embeddings, labels = folder / "e.parquet", folder / "labels.csv"
    if form == "run":
        embeddings = folder / "run"
        Embeddings(rows, NAMES).save(embeddings / "embeddings.parquet")
    elif form.startswith("e."):
        embeddings = Embeddings(rows, NAMES).save(folder / form)
    elif form == "labels.parquet":
        labels = folder / form
        pd.DataFrame({"id": NAMES[::-1], "kind": pd.Categorical(KINDS[::-1])}).to_parquet(labels)
    else:
        labels = folder / form
        np.savez(labels, ids=NAMES[::-1].astype(str), kind=KINDS[::-1])
    result = told(embeddings, "--labels", labels, "--label", "kind", *FEW)
    assert result["results"] == expected["results"]


@pytest.mark.parametrize("form", ["arrays", "ids are row numbers", "only array"])
def test_rows_without_ids_are_matched_by_number(tmp_path, rows, form):
    np.save(tmp_path / "y.npy", np.arange(60) % 3)
    np.savez(tmp_path / "y.npz", classes=np.arange(60) % 3)
    if form == "ids are row numbers":
        embeddings = Embeddings(rows[::-1], np.arange(60)[::-1]).save(tmp_path / "e.csv")
    else:
        embeddings = tmp_path / "e.npy"
        np.save(embeddings, rows)
    result = told(
        embeddings, "--labels", tmp_path / ("y.npz" if form == "only array" else "y.npy"), *FEW
    )
    order = slice(None, None, -1) if form == "ids are row numbers" else slice(None)
    splits = random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3)
    assert scores(result) == [
        linear_probe(rows[order], (np.arange(60) % 3)[order], splits=splits).scores
    ]


def test_graphs_and_nodes_of_several_graphs(tmp_path, rows):
    graphs = Embeddings(rows, NAMES, id_name="graph").save(tmp_path / "g.parquet")
    pd.DataFrame({"graph": NAMES[::-1], "label": KINDS[::-1]}).to_csv(
        tmp_path / "g.csv", index=False
    )
    of_graphs = told(graphs, "--labels", tmp_path / "g.csv", *FEW)
    # The same ids in both graphs
    which, number = np.repeat(["x", "y"], 30).astype(object), np.tile(np.arange(30), 2)
    nodes = Embeddings(rows, number, graphs=which).save(tmp_path / "n.csv")
    table = pd.DataFrame({"graph": which, "id": number, "label": KINDS}).sample(
        frac=1, random_state=0
    )
    table.to_csv(tmp_path / "n2.csv", index=False)
    assert told(nodes, "--labels", tmp_path / "n2.csv", *FEW)["results"] == of_graphs["results"]
    np.save(tmp_path / "y.npy", np.arange(60) % 3)
    assert (
        fails(nodes, "--labels", tmp_path / "y.npy")
        == "embeddings (n.csv) has rows of several graphs, identified by graph and id, but labels"
        " (y.npy) has row numbers only."
    )


# --- raw features, files ---


def test_raw_features_stand_beside_on_the_same_splits(folder, rows):
    nodes = pd.DataFrame(
        {"id": NAMES, "size": np.arange(60.0) % 7, "kind": KINDS, "city": ["Oslo", "Rome"] * 30}
    )
    nodes.sample(frac=1, random_state=2).to_csv(folder / "nodes.csv", index=False)
    options = [
        "--labels",
        folder / "labels.csv",
        "--label",
        "kind",
        "--raw",
        folder / "nodes.csv",
        "--seeds",
        "2",
        *FEW,
    ]
    result = told(folder / "e.parquet", *options)
    raw = np.column_stack(
        [np.arange(60.0) % 7, np.tile([1.0, 0.0], 30), np.tile([0.0, 1.0], 30)]
    ).astype(np.float32)
    drawn = [
        random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3, seed=seed)
        for seed in range(2)
    ]
    ours, theirs = (
        [linear_probe(x, KINDS, splits=splits) for splits in drawn] for x in (rows, raw)
    )
    assert scores(result, "raw features") == [each.scores for each in theirs]
    expected = paired(ours, theirs)
    found = result["summary"]["minus raw features"]["accuracy"]
    assert (found["mean"], found["low"], found["high"]) == pytest.approx(
        (expected.mean, expected.low, expected.high)
    )
    assert "raw features: 2 columns: size, city" in result["notes"]


def test_the_file_holds_what_json_says_and_is_not_replaced_unasked(folder):
    common = [
        folder / "e.parquet",
        "--labels",
        folder / "labels.csv",
        "--label",
        "kind",
        *FEW,
        "--out",
        folder / "r" / "r.json",
    ]
    result = told(*common)
    assert json.loads((folder / "r" / "r.json").read_text()) == result
    assert (
        fails(*common)
        == f"{folder / 'r' / 'r.json'} exists already. Choose another path, or allow replacing it"
        " with --overwrite."
    )
    code, out, err = run(*common, "--overwrite", "--quiet")
    assert code == 0 and err == ""
    assert f"All scores and choices: {folder / 'r' / 'r.json'}" in out


def test_nothing_to_choose_is_null_in_json(folder):
    text = json.dumps(
        told(
            folder / "e.parquet",
            "--labels",
            folder / "labels.csv",
            "--label",
            "kind",
            "--kind",
            "clusters",
        ),
        allow_nan=False,
    )
    assert json.loads(text)["results"]["embeddings"]["NMI"][0]["choices"][0]["val_score"] is None
    assert math.isfinite(json.loads(text)["summary"]["embeddings"]["NMI"]["std_seeds"])


# --- metrics and regression ---


def test_real_valued_labels_are_regressed(folder, rows):
    result = told(folder / "e.parquet", "--labels", folder / "labels.csv", "--label", "age", *FEW)
    splits = random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3)
    direct = linear_probe(rows, np.arange(60) / 7, splits=splits, metric="R2")
    assert scores(result, score="R2") == [pytest.approx(direct.scores)]
    assert (result["task"], result["metric"], result["sizes"]) == ("regression", "R2", {})
    assert list(result["summary"]) == ["embeddings", "training mean", "minus training mean"]
    out = run(folder / "e.parquet", "--labels", folder / "labels.csv", "--label", "age", *FEW)[1]
    assert "ridge regression of 60 rows" in out and "How it was selected: Per split" in out


def test_a_rare_class_has_auc_and_ap(folder):
    own = labels_with(folder, fraud=["yes" if i % 6 == 0 else "no" for i in range(60)])
    options = [folder / "e.parquet", "--labels", own, "--label", "fraud", "--folds", "3"]
    result = told(*options)
    assert list(result["results"]["embeddings"]) == ["accuracy", "AUC", "AP"]
    assert result["positive"] == "yes"
    assert result["results"]["majority class"]["AUC"][0]["scores"] == [0.5] * 3
    assert "AUC" in result["advice"]
    out = run(*options)[1]
    assert "AUC in %" in out and "What is shown of AUC and AP was chosen by that score." in out
    one = told(*options, "--metric", "ap", "--positive", "no")
    assert list(one["results"]["embeddings"]) == ["AP"] and one["positive"] == "no"
