"""Tables that are given to a fitted model are read as those that it was fitted on."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.readers.later import later_options
from graphlatent.data.readers.options import TableOptions

EDGES = pd.DataFrame({"von": [0, 1, 2, 1, 2, 3], "nach": [1, 2, 3, 0, 1, 2]})
NODES = pd.DataFrame(
    {
        "nr": [0, 1, 2, 3],
        "größe": [1.5, 2.5, np.nan, 4.0],
        "ort": ["07", "8a", "07", "9"],
        "gekündigt": [0, 1, 1, 0],
        "name": ["a", "b", "c", "d"],
    }
)
OPTIONS = TableOptions(
    source="von",
    target="nach",
    id="nr",
    label="gekündigt",
    drop=("name",),
    impute="median",
    delimiter="|",
    encoding="latin-1",
)


def estimator(**settings):
    return NodeLaGraph(epochs=2, hidden_dim=8, device="cpu", structure="none", **settings)


def write(folder, nodes, name="n.csv"):
    nodes.to_csv(folder / name, sep="|", encoding="latin-1", index=False)
    EDGES.to_csv(folder / "e.csv", sep="|", index=False)
    return folder / "e.csv", folder / name


@pytest.mark.filterwarnings("ignore:Missing numbers are filled")
def test_a_model_reads_files_as_it_was_fitted(tmp_path):
    paths = write(tmp_path, NODES)
    model = estimator().fit(read_graphs(paths, options=OPTIONS))
    rows = model.transform(paths)
    # New tables need no labels, and codes stay text where all of them are digits.
    later = write(tmp_path, NODES.drop(columns=["gekündigt", "name"]).assign(ort="07"), "later.csv")
    changed = model.transform(later)
    assert changed.shape == rows.shape
    for again in (
        NodeLaGraph.load(model.save(tmp_path / "saved")),
        NodeLaGraph.load(_run(tmp_path / "run", paths)),
    ):
        np.testing.assert_array_equal(again.transform(paths), rows)
        np.testing.assert_array_equal(again.transform(later), changed)
        assert again.reading_ == OPTIONS
    ((_, snapshot),) = estimator().snapshots(read_graphs(paths, options=OPTIONS), epochs=[2])
    np.testing.assert_array_equal(snapshot.transform(paths), rows)
    # A graph that was read has the options it was read with.
    read = read_graphs(later, options=OPTIONS.without_labels())
    with pytest.raises(ValueError, match="'7' in row 0"):
        model.transform(read)


def _run(folder, paths):
    estimator().fit(read_graphs(paths, options=OPTIONS), run=folder)
    return folder


def test_options_by_source(tmp_path):
    fitted = TableOptions(label="y", drop=("d",), features=("a", "k"), source="s", delimiter=";")
    columns = [ColumnSpec("a", "numeric"), ColumnSpec("k", "categorical", ("x",))]
    pair = TableOptions(
        drop=("y", "d"), features=("a", "k"), source="s", delimiter=";", text=("k",)
    )
    alone = TableOptions(source="s", delimiter=";")
    in_graphs = TableOptions(drop=("y", "d"), features=("a", "k"))
    for source, options in (
        ((EDGES, NODES), pair),
        ([("e.csv", "n.csv"), ("f.csv", "m.csv")], pair),
        ("e.csv", alone),
        ("-", alone),
        ((EDGES, None), alone),
        ([EDGES, EDGES], alone),
        (nx.path_graph(3), in_graphs),
        (["a.gml", "b.gml"], in_graphs),
        (tmp_path, None),
        ("Cora", None),
        ("a.npz", None),
        (sp.eye_array(3), None),
        ((np.zeros((2, 0), int), np.eye(3)), None),
        ([], None),
    ):
        assert later_options(source, fitted, columns) == options


def test_edges_alone(tmp_path):
    graph = read_graphs(EDGES, options=TableOptions(source="von", target="nach"))
    model = estimator().fit(graph)
    np.testing.assert_array_equal(model.transform(EDGES), model.transform(graph))


def test_the_last_time_of_the_fitted_edges_is_none_for_later_ones():
    edges = EDGES.assign(day=["2024-01-01", "2024-01-02", "2024-03-01"] * 2)
    options = TableOptions(source="von", target="nach", time="day", until="2024-02-01")
    with pytest.warns(UserWarning, match="4 of 6 are used"):
        graph = read_graphs(edges, options=options)
    model = estimator().fit(graph)
    assert model.reading_ == options
    with pytest.warns(UserWarning, match="edge columns not used: day"):
        assert len(model.transform(edges)) == 4
