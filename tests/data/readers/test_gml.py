"""GML files."""

from __future__ import annotations

import sys

import networkx as nx
import pytest

from graphlatent import read_graphs
from graphlatent.errors import InputError, MissingDependencyError

TEXT = """Creator "a graph [ of three"
graph
[
  directed 0
  node [ id 7 label "Zürich" value 3 ]
  node [ id 8 label "Bern" value 4.5 ]
  node [ id 9 label "Genf" value 4 ]
  edge [ source 7 target 8 km 120 ]
  edge [ source 9 target 8 km 150 ]
]
"""


def write(tmp_path, text, **options):
    path = tmp_path / "g.gml"
    path.write_text(text, **{"encoding": "utf-8", **options})
    return path


def test_by_hand(tmp_path):
    graph = read_graphs(write(tmp_path, TEXT), weight="km")
    assert graph.node_ids.tolist() == ["Zürich", "Bern", "Genf"]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.edge_weight.tolist() == [120, 120, 150, 150]
    assert {k: v.tolist() for k, v in graph.columns.items()} == {"value": [3, 4.5, 4]}
    assert read_graphs(tmp_path / "g.gml", weight="km", label="value").y.tolist() == [3, 4.5, 4]
    latin = read_graphs(write(tmp_path, TEXT, encoding="latin-1"), weight="km", encoding="latin-1")
    assert latin.fingerprint() == graph.fingerprint()


def test_labels_that_name_no_node_are_features(tmp_path):
    same = TEXT.replace("Genf", "Bern")
    graph = read_graphs(write(tmp_path, same), weight="km")
    assert graph.node_ids.tolist() == [7, 8, 9]
    assert graph.columns["label"].tolist() == ["Zürich", "Bern", "Bern"]
    asked = read_graphs(write(tmp_path, TEXT), weight="km", label="label")
    assert asked.node_ids.tolist() == [7, 8, 9] and asked.y.tolist()[0] == "Zürich"
    without = read_graphs(write(tmp_path, TEXT.replace("label", "town")), weight="km")
    assert without.node_ids.tolist() == [7, 8, 9] and "town" in without.columns


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_what_networkx_writes(tmp_path, kind):
    graph = kind([("a", "b"), ("b", "c"), ("a", "b")])
    nx.write_gml(graph, tmp_path / "g.gml")
    read, given = (read_graphs(each, symmetrize=False) for each in (tmp_path / "g.gml", graph))
    assert read.fingerprint() == given.fingerprint()


@pytest.mark.parametrize("flag", ["", "multigraph 0", "\tmultigraph 1 "])
def test_edges_that_are_there_twice(tmp_path, flag):
    text = (
        TEXT.replace("  directed 0", f"  directed 0\n{flag}")
        .replace("source 9", "source 7")
        .replace("km 120", "km 150")
    )
    graph = read_graphs(write(tmp_path, text), weight="km", merge="max")
    assert graph.edge_weight.tolist() == [150, 150]
    assert graph.node_ids.tolist() == ["Zürich", "Bern", "Genf"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as GML. The reader says: "),
        (TEXT[:-3], r"cannot be read as GML\. The reader says: "),
        (TEXT.replace("target 8", "target 88"), "cannot be read as GML.*88"),
        (TEXT.replace("id 8", "id 7"), "cannot be read as GML.*7"),
        ("graph [ a [" + " b [" * 5000, "cannot be read as GML"),
        ("graph [ directed 0 ]", "has no nodes"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_graphs(write(tmp_path, text))


def test_text_and_memory(tmp_path):
    write(tmp_path, TEXT, encoding="latin-1")
    with pytest.raises(InputError, match=r"g.gml is not UTF-8 text \(line 5\)"):
        read_graphs(tmp_path / "g.gml")
    with pytest.raises(InputError, match=r"g.gml, a file of \d+ bytes, needs about"):
        read_graphs(tmp_path / "g.gml", max_memory=1000)
    with pytest.raises(InputError, match="A node table goes with an edge table"):
        read_graphs(tmp_path / "g.gml", nodes=tmp_path / "n.csv")


def test_without_networkx(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match="needs the package 'networkx'"):
        read_graphs(write(tmp_path, TEXT))
