"""Which columns are features and which are labels, in every format that has columns."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.readers.options import TableOptions, stack_labels
from graphlatent.errors import GraphLatentWarning, InputError

COLUMNS = {"age": [3, 4, 5], "churned": [0, 1, 0], "plan": ["a", "b", "a"]}


@pytest.fixture(params=["tables", "csv", "networkx", "graphml"])
def read(request, tmp_path):
    """A function that reads a graph of three nodes with the attributes `COLUMNS`."""
    edges = pd.DataFrame({"source": [0, 1, 1, 2], "target": [1, 0, 2, 1]})
    nodes = pd.DataFrame({"id": range(3), **COLUMNS})
    graph = nx.path_graph(3)
    for name, values in COLUMNS.items():
        nx.set_node_attributes(graph, dict(enumerate(values)), name)
    if request.param == "tables":
        return lambda **options: read_graphs(edges, nodes=nodes, **options)
    if request.param == "networkx":
        return lambda **options: read_graphs(graph, **options)
    if request.param == "graphml":
        nx.write_graphml_xml(graph, tmp_path / "g.graphml")
        return lambda **options: read_graphs(tmp_path / "g.graphml", **options)
    edges.to_csv(tmp_path / "e.csv", index=False)
    nodes.to_csv(tmp_path / "n.csv", index=False)
    return lambda **options: read_graphs(tmp_path / "e.csv", nodes=tmp_path / "n.csv", **options)


def test_labels_are_no_features(read):
    whole = read()
    assert sorted(whole.columns) == ["age", "churned", "plan"] and whole.y is None
    one = read(label="churned")
    assert sorted(one.columns) == ["age", "plan"] and one.y.tolist() == [0, 1, 0]
    for several in (["churned", "plan"], ("churned", "plan")):
        graph = read(label=several)
        assert sorted(graph.columns) == ["age"]
        assert graph.y.tolist() == [[0, "a"], [1, "b"], [0, "a"]]
    assert read(label=["age", "churned"]).y.tolist() == [[3, 0], [4, 1], [5, 0]]
    chosen = read(label="plan", node_attributes=["age"])
    assert sorted(chosen.columns) == ["age"] and chosen.y.tolist() == ["a", "b", "a"]
    again = read(options=TableOptions(label="churned"), label="plan")
    assert sorted(again.columns) == ["age", "churned"]


def test_a_label_must_be_there_and_what_is_dropped_need_not(read):
    with pytest.raises(InputError, match=r"(no|an) (column|attribute) 'churn'"):
        read(label=["age", "churn"])
    dropped = read(options=TableOptions(drop=("churned", "nowhere")))
    assert sorted(dropped.columns) == ["age", "plan"] and dropped.y is None


def test_a_column_to_drop_may_be_misspelt():
    edges = pd.DataFrame({"source": [0, 1, 1, 2], "target": [1, 0, 2, 1]})
    nodes = pd.DataFrame({"id": range(3), **COLUMNS, "age2": 1, "any": [object(), [1], "a"]})
    with pytest.warns(
        GraphLatentWarning, match=r"^nodes: there is no column 'plann' to drop. Is '"
    ):
        read_graphs(edges, nodes=nodes, drop=["plann", "any"])
    # 'age' is there, and 'elsewhere' like no other.
    graph = read_graphs(edges, nodes=nodes, drop=["age", "any", "elsewhere"])
    assert sorted(graph.columns) == ["age2", "churned", "plan"]


def test_options_that_contradict_themselves():
    with pytest.raises(
        InputError, match=r"'source' and 'target' must name two columns. Got 'a' for both"
    ):
        TableOptions(source="a", target="a")
    for name in ("features", "drop"):
        with pytest.raises(
            InputError,
            match=rf"'{name}' must be a list of column names. Got the text 'ab'; write \['ab'\]",
        ):
            TableOptions(**{name: "ab"})
    for label in ("a", ["b", "a"]):
        with pytest.raises(InputError, match="Column 'a' is a label and cannot be a feature too"):
            TableOptions(label=label, features=("a",))
    assert TableOptions(features=["a"]).features == ("a",)
    assert TableOptions(label=[]).labels == ()


@pytest.mark.parametrize(
    "options",
    [
        TableOptions(),
        TableOptions(graph=None, weight="w", label="y"),
        TableOptions(source="a", target="b", id="c", label=("y", "z"), features=(), drop=("d",)),
    ],
)
def test_plain_values_there_and_back(options):
    assert TableOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"label": 5}, "'label'"),
        ({"features": [1]}, "'features'"),
        ({"source": ["a"]}, "'source'"),
        ({"new": "a"}, "'new'"),
    ],
)
def test_values_that_are_no_options(change, wrong):
    with pytest.raises(InputError, match=rf"{wrong} must be the name of a column"):
        TableOptions.from_dict({**TableOptions().to_dict(), **change})
    with pytest.raises(InputError, match=r"'target', 'id' must be the name of a column"):
        TableOptions.from_dict({"source": "a"})


def test_labels_side_by_side():
    assert stack_labels([]) is None
    assert stack_labels([np.array([1, 2])]).tolist() == [1, 2]
    assert stack_labels([np.array([1, 2]), np.array([True, False])]).dtype == np.int64


@pytest.mark.parametrize("option", ["features", "label", "drop"])
@pytest.mark.parametrize("value", [7, 1.5, np.array(1), len])
def test_names_that_are_no_list(option, value):
    with pytest.raises(InputError) as caught:
        TableOptions(**{option: value})
    assert str(caught.value) == (
        f"The option '{option}' must be a list of column names. Got {value!r}."
    )


def test_columns_of_both_tables_by_their_own_arguments():
    edges = pd.DataFrame({"payer": ["a", "b", "b", "c"], "payee": ["b", "a", "c", "b"]})
    nodes = pd.DataFrame({"account": ["c", "b", "a"], "plan": [1.0, 2.0, 3.0]})
    graph = read_graphs(edges, nodes=nodes, source="payer", target="payee", id="account")
    options = TableOptions(source="payer", target="payee", id="account")
    assert graph.node_ids.tolist() == ["c", "b", "a"]
    assert sorted(zip(*graph.edge_index.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert graph.reading == options
    replaced = read_graphs(edges, nodes=nodes, source="payer", options=options)
    assert replaced.fingerprints() == graph.fingerprints()


@pytest.mark.parametrize("name", ["source", "target", "id"])
def test_columns_of_tables_that_are_none(name):
    for data in ((np.array([[0], [1]]), None), read_graphs([(0, 1), (1, 0)]), "Photo"):
        with pytest.raises(
            InputError,
            match=rf"^The option '{name}' is for tables of edges and nodes; an? .* is no table",
        ):
            read_graphs(data, **{name: "node"})


@pytest.fixture
def graph_files(tmp_path):
    """The paths of a graph in each format that has names of its own for nodes, by its format."""
    graph = nx.path_graph(3)
    (tmp_path / "folder").mkdir()
    nx.write_graphml(graph, tmp_path / "g.graphml")
    nx.write_graphml(graph, tmp_path / "folder" / "g.graphml")
    nx.write_gml(graph, tmp_path / "g.gml")
    files = {name: tmp_path / name for name in ("g.graphml", "folder", "g.gml")}
    return {"networkx": graph, **files}


@pytest.mark.parametrize("kind", ["networkx", "g.graphml", "folder", "g.gml"])
def test_options_of_tables_for_graphs_with_names_of_their_own(graph_files, kind):
    data = graph_files[kind]
    with pytest.raises(InputError) as caught:
        read_graphs(data, source="payer", id="account")
    where = "a NetworkX graph" if kind == "networkx" else data
    assert str(caught.value) == (
        "The options 'source', 'id' are for tables of edges and nodes; "
        f"{where} is no table. Leave them out."
    )
    for option in ({"target": "payee"}, {"delimiter": ";"}, {"no_header": True}):
        with pytest.raises(InputError, match=rf"^The option '{next(iter(option))}' is for tables"):
            read_graphs(data, **option)
    assert read_graphs(data, source="source", encoding="utf-8").num_nodes == 3


def test_a_graph_file_for_a_model_of_tables(graph_files):
    """Names of columns that are remembered from tables do not count for other formats."""
    edges = pd.DataFrame({"payer": list("abbccd"), "payee": list("bacbdc")})
    graph = read_graphs(edges, source="payer", target="payee")
    model = NodeLaGraph(epochs=1, hidden_dim=4, structure="none").fit(graph)
    assert model.transform(edges).shape[0] == 4
    for kind in ("networkx", "g.graphml"):
        assert model.transform(graph_files[kind]).shape[0] == 3
