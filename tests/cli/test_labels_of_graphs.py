"""Labels of whole graphs out of tables: a column of the node table, or a table with their ids."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from commands import fails, run, told

FAST = ["--epochs", 1, "--set", "hidden_dim=4", "--device", "cpu"]
SHARES = ["--train", 0.5, "--val", 0.25, "--splits", 2, "--no-baselines"]


@pytest.fixture
def shapes(tmp_path, monkeypatch) -> Path:
    """Twenty paths and rings of 4 to 7 nodes; a node has a size, its graph a shape."""
    rng = np.random.default_rng(0)
    edges, nodes = [], []
    for g in range(20):
        n, shape = 4 + g % 4, ("path", "ring")[g % 2]
        edges += [(f"m{g:02d}", i, (i + 1) % n) for i in range(n if shape == "ring" else n - 1)]
        nodes += [(f"m{g:02d}", i, rng.normal() + 9 * (g % 2), i % 2, shape) for i in range(n)]
    columns = ["graph", "id", "size", "side", "shape"]
    pd.DataFrame(edges, columns=["graph", "source", "target"]).to_csv(tmp_path / "e.csv")
    frame = pd.DataFrame(nodes, columns=columns)
    frame.to_csv(tmp_path / "n.csv", index=False)
    per_graph = frame.drop_duplicates("graph")[["graph", "shape"]]
    per_graph.rename(columns={"graph": "id"}).to_csv(tmp_path / "by_id.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(*more: object) -> tuple[int, str, str]:
    return run("train", "e.csv", "--nodes", "n.csv", "--level", "graph", *more, *FAST)


def test_the_suggested_probe_of_graphs_works(shapes):
    code, out, err = trained("--label", "shape", "--drop", "side", "--out", "run", "--no-map")
    assert code == 0, err
    (line,) = [line for line in out.splitlines() if "graphlatent probe" in line]
    command = shlex.split(line.partition("graphlatent ")[2])
    assert told(*command, *SHARES)["sizes"] == {"path": 10, "ring": 10}
    assert told("probe", "run", *SHARES)["rows"] == 20


def test_fine_tuning_takes_the_label_of_the_nodes_of_a_graph(shapes):
    trained("--label", "shape", "--drop", "side", "--out", "run", "--no-map")
    given = ["run", "e.csv", "--nodes", "n.csv", "--label", "shape", "--out", "tuned"]
    found = told("finetune", *given, "--epochs", 2, "--ratio", 0.5)
    assert (found["classes"], found["labelled"], found["held_out"]) == (["path", "ring"], 10, 10)


@pytest.mark.parametrize("column", ["shape", "graph"])
def test_a_map_of_graphs_is_coloured_by_a_column_of_the_node_table(shapes, column):
    trained("--label", "shape", "--drop", "side", "--out", "run", "--no-map")
    assert told("map", "run", "--color", column, "--out", "m.png")["points"] == 20


def test_another_name_of_the_graph_column(shapes):
    for name in ("e.csv", "n.csv"):
        pd.read_csv(name).rename(columns={"graph": "mol"}).to_csv(name, index=False)
    given = ["--graph-column", "mol", "--label", "shape", "--drop", "side", "--no-map"]
    code, _, err = trained(*given, "--out", "run")
    assert code == 0, err
    assert told("probe", "run", "--labels", "n.csv", "--label", "shape", *SHARES)["rows"] == 20
    assert told("map", "run", "--color", "shape", "--out", "m.png")["points"] == 20


def test_the_map_of_training_has_a_legend(shapes):
    trained("--label", "shape", "--drop", "side", "--out", "run")
    trained("--drop", "shape", "--drop", "side", "--out", "plain")
    with_legend, without = (imread(f"{out}/map.png").shape for out in ("run", "plain"))
    assert with_legend[1] > without[1]


def test_a_label_that_differs_in_a_graph_is_refused(shapes):
    differs = (
        "column 'side' differs between the nodes of graph 'm00', which have 0 and 1, so it is no"
        " label of whole graphs. Give all nodes of a graph the same one, or name another column."
        " What is only to be kept out of the features is named with --drop."
    )
    given = ["train", "e.csv", "--nodes", "n.csv", "--level", "graph", "--label", "side"]
    assert fails(*given, "--out", "run", *FAST) == f"labels: {differs}"
    trained("--label", "shape", "--drop", "side", "--out", "run", "--no-map")
    given = ["run", "e.csv", "--nodes", "n.csv", "--label", "side", "--out", "tuned"]
    assert fails("finetune", *given) == f"labels: {differs}"
    probe = ["probe", "run", "--labels", "n.csv", "--label", "side"]
    assert fails(*probe) == f"labels (n.csv): {differs}"
    assert differs in fails("map", "run", "--color", "side")


def test_a_table_whose_ids_are_those_of_graphs(shapes):
    trained("--label", "shape", "--drop", "side", "--out", "run", "--no-map")
    found = told("probe", "run", "--labels", "by_id.csv", "--label", "shape", *SHARES)
    assert found["sizes"] == {"path": 10, "ring": 10}
    # Ids of nodes are none of graphs.
    pd.DataFrame({"id": [0, 1, 2], "shape": list("aba")}).to_csv("wrong.csv", index=False)
    assert "Are these the ids of the same rows?" in fails("probe", "run", "--labels", "wrong.csv")


def test_nodes_of_several_graphs_are_embedded_with_a_note(shapes):
    note = "note: every node gets an embedding; for one row per graph: --level graph"
    given = ["train", "e.csv", "--nodes", "n.csv", "--no-map", *FAST]
    _, _, err = run(*given, "--out", "nodes")
    assert note in err.splitlines()
    # Those who say what they want are told nothing.
    for level in ("node", "graph"):
        assert note not in run(*given, "--level", level, "--out", level)[2]
    pd.DataFrame({"source": [0, 1], "target": [1, 2]}).to_csv("one.csv", index=False)
    assert note not in run("train", "one.csv", "--no-map", *FAST, "--out", "one")[2]


def test_a_graph_column_in_one_table_only(shapes):
    one = pd.read_csv("n.csv").query("graph == 'm03'")
    one.to_csv("n.csv", index=False)
    edges = pd.read_csv("e.csv").query("graph == 'm03'")
    edges[["source", "target"]].to_csv("e.csv", index=False)
    given = ["e.csv", "--nodes", "n.csv", "--drop", "graph"]
    assert fails("info", *given) == (
        "nodes (n.csv) has a column 'graph' that names graphs, but edges (e.csv) has not. Add it"
        " there for several graphs, or say that there is one graph (--graph-column '')."
    )
    assert told("info", *given, "--graph-column", "")["graphs"] == 1
    fast = ["--no-map", *FAST, "--out", "run"]
    told("train", *given, "--graph-column", "", *fast)
    # The run remembers it.
    assert told("embed", "run", *given[:3], "--out", "again.csv")["rows"] == len(one)
