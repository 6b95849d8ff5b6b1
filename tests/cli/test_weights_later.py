"""What a run remembers of the weights and the tables that it was trained on."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from commands import run
from graphlatent import GraphLatentWarning, NodeLaGraph, RunFolder, load_estimator
from graphlatent.saved import read_embeddings

FAST = ("--epochs", 2, "--set", "hidden_dim=8", "--no-map")
WARNING = "trained on edges with weights, and these have none"


def succeeds(*args: object) -> str:
    """Standard error of a command that must succeed."""
    code, _, err = run(*args)
    assert code == 0, err
    return err


@pytest.fixture
def payments(tmp_path):
    """The edge table of a store, `pay.csv`, the store, and a run that was trained on it."""
    rng = np.random.default_rng(1)
    names = [f"p{i}" for i in range(30)]
    edges = pd.DataFrame({"payer": rng.choice(names, 90), "payee": rng.choice(names, 90)})
    edges["amount"] = rng.integers(1, 500, 90)
    edges.to_csv(tmp_path / "pay.csv", index=False)
    people = pd.DataFrame({"who": names, "age": rng.integers(18, 80, 30)})
    people["city"] = rng.choice(["Oslo", "Rome"], 30)
    people.to_csv(tmp_path / "people.csv", index=False)
    columns = ("--source", "payer", "--target", "payee", "--weight", "amount", "--id", "who")
    tables = (tmp_path / "pay.csv", "--nodes", tmp_path / "people.csv")
    succeeds("ingest", *tables, *columns, "--out", tmp_path / "store")
    return tmp_path


@pytest.mark.parametrize("batching", ["full", "nodes"])
def test_a_run_of_a_store_reads_later_tables_as_the_store_was_read(payments, batching):
    of_run = payments / "run"
    succeeds("train", payments / "store", "--out", of_run, *FAST, "--batching", batching)
    reading = RunFolder(of_run).read_config().reading
    assert [reading[name] for name in ("source", "target", "weight", "id")] == [
        "payer",
        "payee",
        "amount",
        "who",
    ]
    tables = (payments / "pay.csv", "--nodes", payments / "people.csv")
    err = succeeds("embed", of_run, *tables, "--out", payments / "later.parquet")
    assert WARNING not in err
    first, later = read_embeddings(of_run), read_embeddings(payments / "later.parquet")
    assert first.ids.tolist() == later.ids.tolist()
    np.testing.assert_allclose(first.values, later.values, rtol=1e-4, atol=1e-5)


def test_a_store_of_other_columns_is_embedded_by_a_run_of_a_store(payments):
    succeeds("train", payments / "store", "--out", payments / "run", *FAST)
    columns = {"payer": "a", "payee": "b", "amount": "w"}
    pd.read_csv(payments / "pay.csv").rename(columns=columns).to_csv(payments / "o.csv")
    words = ("--source", "a", "--target", "b", "--weight", "w", "--id", "who")
    tables = (payments / "o.csv", "--nodes", payments / "people.csv")
    succeeds("ingest", *tables, *words, "--out", payments / "other")
    # Not in blocks, as into .parquet.
    succeeds("embed", payments / "run", payments / "other", "--out", payments / "e.csv")
    first, other = read_embeddings(payments / "run"), read_embeddings(payments / "e.csv")
    np.testing.assert_allclose(first.values, other.values, rtol=1e-4, atol=1e-5)


def test_a_graph_without_weights_is_told_to_a_model_of_weights(tables):
    succeeds("train", tables / "edges.csv", "--out", tables / "run", *FAST)
    edges = pd.read_csv(tables / "edges.csv")
    edges.drop(columns="weight").to_csv(tables / "plain.csv", index=False)
    out = ("--out", tables / "e.csv", "--overwrite")
    assert WARNING in succeeds("embed", tables / "run", tables / "plain.csv", *out)
    assert WARNING not in succeeds("embed", tables / "run", tables / "edges.csv", *out)
    succeeds("ingest", tables / "plain.csv", "--out", tables / "store")
    assert WARNING in succeeds("embed", tables / "run", tables / "store", *out)
    blocks = ("--out", tables / "e.parquet")
    assert WARNING in succeeds("embed", tables / "run", tables / "store", *blocks)
    # A model of edges without weights has nothing to miss.
    succeeds("train", tables / "plain.csv", "--out", tables / "other", *FAST)
    assert WARNING not in succeeds("embed", tables / "other", tables / "plain.csv", *out)


def test_saved_models_know_whether_edges_had_weights(tables):
    table = pd.DataFrame({"source": range(12), "target": [*range(1, 12), 0]})
    model = NodeLaGraph(epochs=1, hidden_dim=8, progress=False, symmetrize=False)
    model.fit(table.assign(weight=np.arange(12) + 1.0))
    with pytest.warns(GraphLatentWarning, match=WARNING):
        model.embed(table)
    saved = model.save(tables / "model")
    with pytest.warns(GraphLatentWarning, match=WARNING):
        load_estimator(saved).embed(table)
    # A model of an earlier version does not say it.
    about = json.loads((saved / "versions.json").read_text())
    assert about.pop("weighted") is True
    (saved / "versions.json").write_text(json.dumps(about))
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphLatentWarning)
        load_estimator(saved).embed(table)
