"""`graphlatent probe RUN` without a table: the labels are those of the run's own graph."""

from __future__ import annotations

from functools import partial

import networkx as nx
import pandas as pd
import pytest

import commands

FEW = ["--splits", "3", "--train", "0.3", "--val", "0.3", "--no-baselines"]
run, told, fails = (
    partial(each, "probe") for each in (commands.run, commands.told, commands.fails)
)


def train(*arguments):
    fast = ["--epochs", "2", "--dim", "8", "--set", "device=cpu", "--no-map", "--quiet"]
    commands.run("train", *arguments, *fast)


@pytest.fixture
def trained(tables):
    """A run of tables whose column 'kind' is the label."""
    nodes = tables / "nodes.csv"
    train(tables / "edges.csv", "--nodes", nodes, "--label", "kind", "--out", tables / "run")
    return tables / "run"


def test_the_node_table_and_its_label_columns(trained, tables):
    named = told(trained, "--labels", tables / "nodes.csv", "--label", "kind", *FEW)
    found = told(trained, *FEW)
    assert found == named and found["results"]
    # Another column of the same table
    assert fails(trained, "--label", "city").startswith(
        "The column 'city' was a feature of the run"
    )


def test_labels_in_the_graph_itself(tmp_path):
    graph = nx.karate_club_graph()
    nx.write_graphml(graph, tmp_path / "g.graphml")
    train(tmp_path / "g.graphml", "--label", "club", "--out", tmp_path / "run")
    clubs = [(str(node), graph.nodes[node]["club"]) for node in graph]
    pd.DataFrame(clubs, columns=["id", "club"]).to_csv(tmp_path / "clubs.csv", index=False)
    named = told(tmp_path / "run", "--labels", tmp_path / "clubs.csv", *FEW)
    found = told(tmp_path / "run", *FEW)
    assert found["results"] == named["results"]
    assert found["labels"] == f"the graph of {tmp_path / 'run'}"
    assert fails(tmp_path / "run", "--label", "age") == (
        f"the graph of {tmp_path / 'run'} has no labels 'age', but 'club'. For other labels give a"
        " table by --labels."
    )


def test_no_labels_to_be_had(trained, tables):
    file = trained / "embeddings.parquet"
    assert fails(file) == (
        f"Which labels? {file} is no run folder, so name a table of labels by --labels."
    )
    train(tables / "edges.csv", "--out", tables / "bare")
    assert fails(tables / "bare") == (
        f"The graph of {tables / 'bare'} has no labels. Give a table by --labels."
    )
