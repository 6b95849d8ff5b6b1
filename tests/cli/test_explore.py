"""Commands on what a run left: neighbours, clusters."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from commands import fails, run, told
from graphlatent import Embeddings, read_embeddings

FAST = ["--set", "epochs=2", "--set", "hidden_dim=8"]


@pytest.fixture
def trained(tables):
    words = ["train", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--label", "kind"]
    code, _, err = run(*words, "--out", tables / "run", *FAST)
    assert code == 0, err
    return tables / "run"


def test_neighbors_of_a_run_and_of_a_file(trained):
    found = told("neighbors", trained, "--id", "user 03", "--id", "user 10", "--k", 3)
    expected = read_embeddings(trained).most_similar(["user 03", "user 10"], 3)
    assert pd.DataFrame(found["neighbours"]).equals(expected)
    out = trained.parent / "near.csv"
    code, shown, err = run(
        "neighbors", trained / "embeddings.parquet", "--id", "user 03", "--out", out
    )
    assert code == 0, err
    assert expected["neighbour_id"][0] in shown and len(pd.read_csv(out)) == 10
    assert "neighbour_id" in shown and "more" not in shown and f"Written to {out}" in shown
    message = fails("neighbors", trained, "--id", "user 03", "--out", out)
    assert "exists already" in message and "--overwrite" in message


def test_integer_ids_are_given_as_text(tmp_path):
    values = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    path = Embeddings(values, np.arange(8)).save(tmp_path / "e.csv")
    assert told("neighbors", path, "--id", 5)["neighbours"][0]["id"] == 5
    graphs = np.repeat(np.array(["A", "B"], dtype=object), 4)
    several = Embeddings(values, np.tile(np.arange(4), 2), graphs=graphs)
    path = several.save(tmp_path / "several.parquet")
    assert told("neighbors", path, "--id", 2, "--graph", "B")["neighbours"][0]["graph"] == "B"
    assert "Name the graph of --id" in fails("neighbors", path, "--id", 2)
    assert "Leave --graph out" in fails("neighbors", tmp_path / "e.csv", "--id", 2, "--graph", "B")


def test_mistakes(trained, tmp_path):
    assert "There is no file or folder" in fails("neighbors", tmp_path / "nix", "--id", "a")
    assert "no embedding of the id 'nobody'" in fails("neighbors", trained, "--id", "nobody")
    bad = ["cluster", trained, "--k", 3, "--out", tmp_path / "c.txt"]
    assert "written as .csv or .parquet" in fails(*bad)
    (trained / "embeddings.parquet").write_bytes(b"no table")
    assert "embeddings" in fails("neighbors", trained, "--id", "user 03")


def test_clusters_are_written_with_ids(trained, tmp_path):
    found = told("cluster", trained, "--k", 4, "--out", tmp_path / "c.parquet")
    table = pd.read_parquet(tmp_path / "c.parquet").set_index("id")["cluster"]
    assert table.equals(read_embeddings(trained).cluster(4))
    assert found["sizes"] == np.bincount(table, minlength=4).tolist()
    code, shown, _ = run("cluster", trained, "--k", 4, "--out", tmp_path / "c.csv")
    assert code == 0 and found["typical"]["0"][0] in shown


def test_clusters_are_written_beside_the_embeddings(trained, tmp_path):
    assert told("cluster", trained, "--k", 2)["out"] == str(trained / "clusters.csv")
    assert "exists already" in fails("cluster", trained, "--k", 2)
    assert len(pd.read_csv(trained / "clusters.csv")) == len(read_embeddings(trained).ids)
    copied = tmp_path / "rows.parquet"
    copied.write_bytes((trained / "embeddings.parquet").read_bytes())
    assert told("cluster", copied, "--k", 2)["out"] == str(tmp_path / "rows-clusters.csv")


def test_later_tables_have_the_column_of_ids_of_the_run(tables):
    nodes = pd.read_csv(tables / "nodes.csv").rename(columns={"id": "member"})
    nodes.to_csv(tables / "members.csv", index=False)
    words = ["train", tables / "edges.csv", "--nodes", tables / "members.csv", "--id", "member"]
    code, _, err = run(*words, "--label", "kind", "--out", tables / "run", "--no-map", *FAST)
    assert code == 0, err
    given = ["--labels", tables / "members.csv"]
    few = ["--label", "kind", "--splits", "2", "--raw", tables / "members.csv"]
    found = told("probe", tables / "run", *given, *few)
    assert found == told("probe", tables / "run", *given, *few, "--id", "member")
    told("map", tables / "run", *given, "--color", "city", "--method", "pca")
    nodes.rename(columns={"member": "who"}).to_csv(tables / "members.csv", index=False)
    assert "there is no column 'id'" in fails("probe", tables / "run", *given, "--label", "kind")


def test_a_run_says_where_its_input_was(trained):
    about = json.loads((trained / "results.json").read_text())["input"]
    assert about["source"] == str(trained.parent / "edges.csv")
    assert about["node_table"] == str(trained.parent / "nodes.csv")


def test_links_of_a_run_need_no_second_naming_of_the_graph(trained, tmp_path):
    found = told("links", trained, "--predict", 7)
    table = pd.read_csv(trained.parent / "edges.csv")
    linked = set(map(tuple, table[["source", "target"]].to_numpy().tolist()))
    linked |= {(b, a) for a, b in linked}
    pairs = [(row["source"], row["target"]) for row in found["links"]]
    assert len(set(pairs)) == 7 and not linked & set(pairs) and found["exact"]
    out = tmp_path / "likely.csv"
    code, shown, err = run("links", trained, "--predict", 7, "--out", out)
    assert code == 0 and "pairs without an edge were scored: all" in err
    assert pairs[0][0] in shown and len(pd.read_csv(out)) == 7
    words = ["links", trained / "embeddings.parquet", trained.parent / "edges.csv"]
    assert told(*words, "--predict", 7)["links"] == found["links"]


def test_mistakes_about_links(trained, tables):
    assert "Leave out --set" in fails("links", trained, "--predict", 3, "--set", "epochs=1")
    assert "goes with --predict only" in fails("links", tables / "edges.csv", tables / "edges.csv")
    message = fails("links", trained / "embeddings.parquet", "--predict", 3)
    assert "it is not known which graph" in message
    edges = pd.read_csv(tables / "edges.csv")
    edges.iloc[1:].to_csv(tables / "edges.csv", index=False)
    assert "is not as it was when" in fails("links", trained, "--predict", 3)
    message = fails("links", trained, "--predict", 3, "--nodes", tables / "nodes.csv")
    assert "name it after RUN" in message


def test_the_first_of_many_links_are_printed_and_all_are_written(trained, tmp_path):
    out = tmp_path / "likely.csv"
    _, shown, _ = run("links", trained, "--predict", 40, "--out", out)
    table = pd.read_csv(out)
    assert len(table) == 40 and shown.count("│") == 10 * (len(table.columns) + 1)
    assert all(name in shown for name in table.columns)
    assert f"... and 30 more. All 40 rows: {out}" in shown
    _, shown, _ = run("links", trained, "--predict", 40)
    assert shown.count("│") == 40 * (len(table.columns) + 1) and "more" not in shown
    _, shown, _ = run("links", trained, "--predict", 60)
    assert "... and 10 more: write them with --out FILE.csv." in shown
    assert "The likeliest missing link\n" in run("links", trained, "--predict", 1)[1]


def test_outliers_of_a_run_and_of_a_file(trained, tmp_path):
    out = tmp_path / "all.parquet"
    found = told("outliers", trained, "--top", 3, "--out", out)
    table = pd.read_parquet(out)
    assert len(table) == 40 and table["distance"].is_monotonic_decreasing
    assert [row["id"] for row in found["outliers"]] == table["id"][:3].tolist()
    expected = read_embeddings(trained).outliers().set_index("id")["distance"]
    pd.testing.assert_series_equal(table.set_index("id")["distance"], expected)
    by_error = told("outliers", trained, "--by", "error", "--top", 40)["outliers"]
    errors = [row["reconstruction_error"] for row in by_error]
    assert errors == sorted(errors, reverse=True) and errors[0] > errors[-1]
    code, shown, err = run("outliers", trained / "embeddings.parquet")
    assert code == 0 and "note: without reconstruction errors: " in err
    assert "reconstruction error" not in shown
    message = fails("outliers", trained / "embeddings.parquet", "--by", "error")
    assert "the decoder is in a run folder" in message
    assert "must be 'distance' or 'error'" in fails("outliers", trained, "--by", "size")
