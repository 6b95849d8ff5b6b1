"""`graphlatent denoise`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from commands import fails, run, told
from graphlatent import GraphLatentWarning, load_estimator, read_graphs

FAST = ["--set", "epochs=2", "--set", "hidden_dim=8"]


@pytest.fixture
def trained(tables):
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.loc[[2, 5], "age"] = np.nan
    nodes.to_csv(tables / "gaps.csv", index=False)
    words = ["train", tables / "edges.csv", "--nodes", tables / "gaps.csv", "--label", "kind"]
    code, _, err = run(*words, "--impute", "mean", "--out", tables / "run", *FAST)
    assert code == 0, err
    return tables / "run"


def test_gaps_are_filled_and_the_rest_is_kept(trained, tables):
    out = tables / "latent.csv"
    found = told("denoise", trained, "--sigma", 0, "--out", out)
    assert found == {"rows": 40, "features": 3, "filled": 2, "latent": str(out)}
    table = pd.read_csv(out).set_index("id")
    given = pd.read_csv(tables / "gaps.csv").set_index("id")["age"]
    assert list(table) == ["age", "city=Oslo", "city=Rome"]
    kept = given.dropna().index
    np.testing.assert_allclose(table.loc[kept, "age"], given[kept], rtol=1e-4)
    assert table["age"].notna().all() and given.isna().sum() == 2


def test_a_missing_category_is_one_value_of_several_features(tables):
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes.loc[[1, 2, 6], "city"] = np.nan
    nodes.loc[2, "age"] = np.nan
    nodes.to_csv(tables / "gaps.csv", index=False)
    words = ["train", tables / "edges.csv", "--nodes", tables / "gaps.csv", "--label", "kind"]
    assert run(*words, "--impute", "indicator", "--out", tables / "run", *FAST)[0] == 0
    found = told("denoise", tables / "run", "--sigma", 0, "--out", tables / "latent.csv")
    assert found["filled"] == 4
    table = pd.read_csv(tables / "latent.csv").set_index("id")
    given = pd.get_dummies(nodes.set_index("id")["city"]).astype(float)
    kept = nodes.set_index("id")["city"].dropna().index
    shown = table.loc[kept, ["city=Oslo", "city=Rome"]]
    np.testing.assert_array_equal(shown, given.loc[kept])
    np.testing.assert_array_equal(table["city is missing"], given.sum(axis=1) == 0)


def test_it_is_what_python_predicts(trained, tables):
    out = tables / "latent.parquet"
    code, shown, err = run("denoise", trained, "--sigma", 2, "--out", out)
    assert code == 0, err
    assert "3 features of 40 nodes" in shown and "2 missing values filled" in shown
    options = {"label": "kind", "impute": "mean"}
    with pytest.warns(GraphLatentWarning):
        graph = read_graphs(tables / "edges.csv", nodes=tables / "gaps.csv", **options)
    expected = load_estimator(trained).predict_latent(graph, sigma=2)
    np.testing.assert_allclose(
        pd.read_parquet(out).iloc[:, 1:].to_numpy(), expected, rtol=1e-4, atol=1e-4
    )
    assert "--overwrite" in fails("denoise", trained, "--out", out)


def test_mistakes(trained, tables):
    out = tables / "latent.csv"
    assert "--sigma must be" in fails("denoise", trained, "--sigma", -1, "--out", out)
    assert "written as .csv or .parquet" in fails("denoise", trained, "--out", tables / "a.txt")
    train = ["train", tables / "edges.csv", "--method", "dgi", *FAST]
    assert run(*train, "--out", tables / "dgi")[0] == 0
    message = fails("denoise", tables / "dgi", "--out", out)
    assert "only node-level models of 'lagraph' predict latent features" in message
