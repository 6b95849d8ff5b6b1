"""`graphlatent map`, and the map that `train` leaves."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest

from commands import fails, run, told
from graphlatent import Embeddings, read_embeddings
from graphlatent.report.values import values_of

FAST = ["--set", "epochs=2", "--set", "hidden_dim=8"]
PLOTLY = importlib.util.find_spec("plotly") is not None


def train(tables, *more):
    words = ["train", tables / "edges.csv", "--nodes", tables / "nodes.csv", "--label", "kind"]
    code, out, err = run(*words, "--out", tables / "run", *FAST, *more)
    assert code == 0, err
    return out


def test_training_leaves_a_map_that_goes_with_the_run(tables):
    assert "Map: " in train(tables)
    assert (tables / "run" / "map.png").read_bytes().startswith(b"\x89PNG")
    message = fails("map", tables / "run")
    assert "'train' draws it. Choose another colour by --color COLUMN" in message
    assert len(told("map", tables / "run", "--overwrite")["maps"]) == 1 + PLOTLY
    assert "Map: " not in train(tables, "--no-map", "--overwrite")
    assert not (tables / "run" / "map.png").exists()


def test_of_several_labels_the_first_gives_the_colours(tables):
    train(tables, "--label", "city")
    drawn = []
    for color in ("kind", "city"):
        path = tables / f"{color}.png"
        code, _, err = run("map", tables / "run", "--color", color, "--out", path)
        assert code == 0, err
        drawn.append(path.read_bytes())
    assert drawn[0] == (tables / "run" / "map.png").read_bytes() != drawn[1]


def test_the_map_of_a_run(tables):
    train(tables, "--no-map")
    found = told("map", tables / "run", "--color", "age", "--method", "tsne")
    names = ["map-age-tsne.png"] + ["map-age-tsne.html"] * PLOTLY
    assert found["maps"] == [str(tables / "run" / name) for name in names]
    assert found["points"] == 40 and found["method"] == "tsne"
    again = ["map", tables / "run", "--color", "age", "--method", "tsne"]
    assert "exists already" in fails(*again)
    assert told(*again, "--overwrite")["maps"] == found["maps"]
    out = tables / "own.svg"
    assert told("map", tables / "run", "--out", out)["maps"] == [str(out)]
    assert b"<svg" in out.read_bytes()


def test_another_colour_does_not_lay_out_the_points_again(tables, monkeypatch):
    train(tables)

    def again(rows, *, seed):
        raise AssertionError("laid out again")

    monkeypatch.setattr("graphlatent.explore.projection._tsne", again)
    for color in ("age", "city"):
        assert told("map", tables / "run", "--color", color)["method"] == "tsne"
    with pytest.raises(AssertionError, match="laid out again"):
        run("map", tables / "run", "--seed", 1, "--overwrite")


def test_colours_are_joined_by_id(tables):
    train(tables, "--no-map")
    nodes = pd.read_csv(tables / "nodes.csv")
    assert values_of(tables / "run", "age").tolist() == nodes["age"].tolist()
    shuffled = nodes.sample(frac=1, random_state=0).rename(columns={"id": "who"})
    shuffled.to_csv(tables / "other.csv", index=False)
    found = values_of(tables / "run", "city", table=tables / "other.csv", id_column="who")
    assert found.tolist() == nodes["city"].tolist()
    shuffled.head(20).to_csv(tables / "half.csv", index=False)
    words = ["map", tables / "run", "--color", "city", "--labels", tables / "half.csv"]
    assert told(*words, "--id", "who")["points"] == 40
    half = values_of(tables / "run", "city", table=tables / "half.csv", id_column="who")
    assert sum(value is None for value in half) == 20
    misspelt = shuffled.assign(who=["x", *shuffled["who"][1:]])
    misspelt.to_csv(tables / "half.csv", index=False)
    assert "has no row for 1 of the 40" in fails(*words, "--id", "who", "--overwrite")


def test_dates_give_colours(tables):
    nodes = pd.read_csv(tables / "nodes.csv")
    nodes["joined"] = pd.date_range("2020-01-01", periods=40).strftime("%Y-%m-%d")
    nodes.to_csv(tables / "nodes.csv", index=False)
    train(tables, "--no-map")
    found = told("map", tables / "run", "--color", "joined")
    assert len(found["maps"]) == 1 + PLOTLY
    if PLOTLY:
        page = (tables / "run" / "map-joined.html").read_text(encoding="utf-8")
        assert "joined: 2020-02-09" in page and '"ticktext":["2020-01-01"' in page
    half = nodes.assign(who=nodes["id"]).head(20)
    half.to_csv(tables / "half.csv", index=False)
    dates = values_of(tables / "run", "joined", table=tables / "half.csv", id_column="who")
    assert dates.astype("M8[D]").astype(str).tolist() == [*half["joined"], *["NaT"] * 20]


def test_labels_of_a_graph_without_a_node_table(tmp_path):
    nx = pytest.importorskip("networkx")
    graph = nx.cycle_graph(12)
    nx.set_node_attributes(graph, {node: f"c{node % 3}" for node in graph}, "group")
    nx.set_node_attributes(graph, {node: node / 7 for node in graph}, "age")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    words = ["train", tmp_path / "g.graphml", "--label", "group", "--out", tmp_path / "run"]
    code, _, err = run(*words, *FAST, "--no-map")
    assert code == 0, err
    found = dict(
        zip(
            read_embeddings(tmp_path / "run").ids.tolist(),
            values_of(tmp_path / "run", "label").tolist(),
            strict=True,
        )
    )
    assert {str(node): name for node, name in found.items()} == {
        str(node): f"c{node % 3}" for node in range(12)
    }
    ages = values_of(tmp_path / "run", "age").tolist()
    ids = read_embeddings(tmp_path / "run").ids.tolist()
    assert ages == [int(node) / 7 for node in ids]
    message = fails("map", tmp_path / "run", "--color", "size")
    assert "has no column 'size'. Columns found: 'age'." in message and "--color label" in message


def test_the_columns_of_a_store_are_colours(tables):
    words = [tables / "edges.csv", "--nodes", tables / "nodes.csv", "--label", "kind"]
    assert run("ingest", *words, "--out", tables / "store")[0] == 0
    code, _, err = run("train", tables / "store", "--out", tables / "run", *FAST, "--no-map")
    assert code == 0, err
    nodes = pd.read_csv(tables / "nodes.csv").set_index("id")
    ids = read_embeddings(tables / "run").ids
    for name in ("city", "age", "kind"):
        assert values_of(tables / "run", name).tolist() == nodes[name][ids].tolist()
    assert told("map", tables / "run", "--color", "city", "--method", "pca")["points"] == 40
    message = fails("map", tables / "run", "--color", "size")
    assert "has no column 'size'. Columns found: 'age', 'city'." in message


def test_mistakes(tables, monkeypatch):
    train(tables, "--no-map")
    folder = tables / "run"
    assert "there is no column 'size' (--color)" in fails("map", folder, "--color", "size")
    assert "must be one of tsne" in fails("map", folder, "--method", "mds")
    assert "by --color" in fails("map", folder, "--labels", tables / "nodes.csv")
    assert "ends in .png, .pdf, .svg or .html" in fails("map", folder, "--out", tables / "a.gif")
    message = fails("map", folder / "embeddings.parquet", "--color", "age")
    assert "name the table by --labels" in message
    monkeypatch.setitem(sys.modules, "umap", None)
    assert "pip install 'graphlatent[umap]'" in fails("map", folder, "--method", "umap")


def test_a_file_of_embeddings(tmp_path):
    values = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    path = Embeddings(values, np.arange(20)).save(tmp_path / "mine.npz")
    assert told("map", path)["maps"][0] == str(tmp_path / "mine-map.png")
