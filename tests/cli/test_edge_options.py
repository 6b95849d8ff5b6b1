"""`--weight`, `--merge`, `--time` and `--until`, from `train` over the run folder to `embed`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from commands import fails, run, told
from training_commands import FAST

COLUMNS = ["--source", "payer", "--target", "payee"]


@pytest.fixture
def payments(tmp_path):
    rng = np.random.default_rng(0)
    ends = np.array([rng.choice(12, 2, replace=False) for _ in range(60)])
    days = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    table = pd.DataFrame({"payer": ends[:, 0], "payee": ends[:, 1], "amount": 1 + np.arange(60.0)})
    table.assign(when=days, kind="card").to_csv(tmp_path / "pay.csv", index=False)
    return tmp_path / "pay.csv"


def test_unused_columns_and_undirected_edges_are_told(payments):
    code, _, err = run("train", payments, "--out", payments.parent / "run", *COLUMNS, *FAST)
    assert code == 0, err
    assert "note: edges (pay.csv): edge columns not used: amount, when, kind." in err
    pairs = {frozenset(pair) for pair in pd.read_csv(payments)[["payer", "payee"]].to_numpy()}
    assert f"12 nodes, {len(pairs)} undirected edges, features" in err
    facts = told("info", payments, *COLUMNS, "--weight", "amount", "--merge", "sum")
    assert facts["edges"] == len(pairs) and facts["weighted"]
    merged = 60 - len(pd.read_csv(payments)[["payer", "payee"]].drop_duplicates())
    assert f"{merged} repeated edges were merged: weights are added up." in facts["notes"]
    code, _, err = run(
        *("train", payments, "--out", payments.parent / "kept", *COLUMNS, *FAST),
        *("--set", "symmetrize=false", "--set", "encoder=gin"),
    )
    assert code == 0 and f"{60 - merged} directed edges" in err, err


def test_a_run_is_trained_on_the_past_and_embeds_the_present(payments):
    out, new = payments.parent / "run", payments.parent / "new.csv"
    options = ["--weight", "amount", "--merge", "sum", "--time", "when", "--until", "2024-02-09"]
    code, _, err = run("train", payments, "--out", out, *COLUMNS, *options, *FAST)
    assert code == 0, err
    assert "edges until 2024-02-09, inclusive: 40 of 60 are used." in err
    code, _, err = run("embed", out, payments, "--out", new)
    assert code == 0, err
    assert "note: The run was trained on edges until 2024-02-09; here all edges are read." in err
    assert "edge columns not used: when, kind." in err and "weights are added up" in err
    present = pd.read_csv(new)
    code, _, err = run("embed", out, payments, "--out", new, "--overwrite", "--until", "2024-02-09")
    assert code == 0 and "40 of 60 are used" in err and "all edges are read" not in err, err
    past, trained = pd.read_csv(new), pd.read_parquet(out / "embeddings.parquet")
    np.testing.assert_allclose(past.to_numpy(), trained.to_numpy(), rtol=1e-4, atol=1e-5)
    assert np.abs(present.to_numpy() - past.to_numpy()).max() > 0.01


def test_an_interrupted_run_goes_on_with_the_same_edges(payments):
    out = payments.parent / "run"
    options = ["--time", "when", "--until", "2024-02-09", "--merge", "count"]
    assert run("train", payments, "--out", out, *COLUMNS, *options, *FAST)[0] == 0
    (out / "embeddings.parquet").unlink()
    code, _, err = run("train", payments, "--out", out, *COLUMNS, "--resume", "--set", "device=cpu")
    assert code == 0 and "40 of 60 are used" in err, err


def test_wrong_options(payments):
    info = ["info", payments, *COLUMNS]
    assert "--merge must be one of 'max', 'sum', 'mean', 'count'. Got 'median'" in fails(
        *info, "--merge", "median"
    )
    assert "Leave out one of --merge and --weight" in fails(
        *info, "--merge", "count", "--weight", "amount"
    )
    assert "--until needs the column of times" in fails(*info, "--until", "2024")
    assert "no date and no number" in fails(*info, "--time", "when", "--until", "May")
    assert "the first is from 2024-01-01" in fails(*info, "--time", "when", "--until", "2023")


def test_users_and_items_of_equal_ids(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"user": rng.integers(0, 20, 60), "item": rng.integers(0, 10, 60)})
    table.to_csv(tmp_path / "e.csv", index=False)
    columns = ["--source", "user", "--target", "item"]
    code, _, err = run("train", tmp_path / "e.csv", *columns, "--out", tmp_path / "one", *FAST)
    assert code == 0 and "note: edges (e.csv): columns 'user' and 'item' share" in err, err
    assert "--bipartite" in err
    command = ["train", tmp_path / "e.csv", *columns, "--bipartite", "--out", tmp_path / "run"]
    code, _, err = run(*command, *FAST)
    assert code == 0 and "'user' and 'item'" not in err, err
    ids = pd.read_parquet(tmp_path / "run" / "embeddings.parquet")["id"]
    expected = [
        *(f"item:{i}" for i in set(table["item"])),
        *(f"user:{i}" for i in set(table["user"])),
    ]
    assert list(ids) == sorted(expected)
    # The run remembers it, and labels are found by these ids.
    code, _, err = run("embed", tmp_path / "run", tmp_path / "e.csv", "--out", tmp_path / "new.csv")
    assert code == 0 and list(pd.read_csv(tmp_path / "new.csv")["id"]) == list(ids), err
    kinds = pd.DataFrame({"id": ids, "kind": [each.split(":")[0] for each in ids]})
    kinds.to_csv(tmp_path / "kinds.csv", index=False)
    scores = told(
        *("probe", tmp_path / "run", "--labels", tmp_path / "kinds.csv", "--label", "kind"),
        *("--splits", "2", "--train", "0.4", "--val", "0.2"),
    )
    assert scores["rows"] == len(ids)
