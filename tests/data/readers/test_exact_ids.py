"""Ids come back exactly as they were given, or are refused."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from graphlatent.data.ids import exact_ids
from graphlatent.data.readers.array_files import ids_of_array
from graphlatent.data.readers.read import read_graphs
from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError, OutputError

NUL = ["a", "a\0", "\0a", "a\0b"]


def edges(ids, others=None):
    return pd.DataFrame({"source": ids, "target": ids if others is None else others})


def embeddings(ids):
    return Embeddings(np.zeros((len(ids), 1), dtype=np.float32), exact_ids(ids))


def test_text_with_nul_characters(tmp_path):
    ids = sorted(NUL)
    assert read_graphs(edges(NUL)).node_ids.tolist() == ids
    edges(NUL).to_parquet(tmp_path / "e.parquet")
    assert read_graphs(tmp_path / "e.parquet").node_ids.tolist() == ids
    assert read_graphs(nx.Graph([NUL[:2], NUL[2:]])).node_ids.tolist() == NUL
    several = edges([0] * 4).assign(graph=NUL)
    assert read_graphs(several).graph_ids.tolist() == ids


def test_text_with_nul_characters_is_saved_or_refused(tmp_path):
    for path in (tmp_path / "a.parquet", tmp_path / "a.csv"):
        embeddings(NUL).save(path)
    assert pd.read_parquet(tmp_path / "a.parquet")["id"].tolist() == NUL
    with pytest.raises(OutputError, match=r"ends with a NUL.* Save the embeddings as .parquet"):
        embeddings(NUL).save(tmp_path / "a.npz")
    embeddings(["b", "c\0d"]).save(tmp_path / "b.npz")
    assert np.load(tmp_path / "b.npz")["ids"].tolist() == ["b", "c\0d"]


def test_integers_of_more_than_64_bits(tmp_path):
    graph = nx.Graph([(-1, 2**63), (2**63, 2**63 + 1)])
    ids = read_graphs(graph).node_ids
    assert ids.tolist() == [-1, 2**63, 2**63 + 1]
    Embeddings(np.zeros((3, 1), dtype=np.float32), ids).save(tmp_path / "a.parquet")
    stored = pd.read_parquet(tmp_path / "a.parquet")["id"].tolist()
    assert stored == [str(each) for each in ids]
    assert read_graphs(nx.Graph([(2**53, 2**53 + 1)])).node_ids.dtype == np.int64
    assert read_graphs(nx.Graph([(2**53 + 1, 0.5)])).node_ids.tolist() == [2**53 + 1, 0.5]
    with pytest.raises(InputError, match="ids must be integers of 64 bits or text"):
        read_graphs(edges(np.array([0, 2**63], dtype=np.uint64)))


def test_labels_of_more_than_53_bits_stay_different():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, dict(enumerate([2**63, 2**63 + 1, -1])), "y")
    assert read_graphs(graph, label="y").y.tolist() == [2**63, 2**63 + 1, -1]


def test_names_that_are_not_found_again_are_refused():
    for name in (float("nan"), np.float32("nan"), torch.tensor(1)):
        graph = nx.Graph()
        graph.add_node(name)
        with pytest.raises(InputError, match=r"is not equal to a copy of itself. Name the nodes"):
            read_graphs(graph)


def test_the_integer_1_and_the_text_1_are_different_ids():
    assert read_graphs(nx.Graph([("1", 1)])).node_ids.tolist() == ["1", 1]
    with pytest.raises(InputError, match="a column of mixed or unknown types"):
        read_graphs(edges(pd.Series([1, "1"], dtype=object)))
    with pytest.raises(InputError, match="Ids must be of one type in all tables"):
        read_graphs(edges([1, 2], ["1", "2"]))


def test_whole_floats_are_integers_and_truth_values_are_no_ids():
    assert read_graphs(edges([1.0, 2.0], [2, 1])).node_ids.tolist() == [1, 2]
    with pytest.raises(InputError, match=r"must be integers or text. Got values of type bool"):
        read_graphs(edges([True, False]))
    # For Python, and so for NetworkX, these are one name.
    assert len(nx.Graph([(1, 1.0), (1, True)])) == 1


@pytest.mark.parametrize(("kind", "bits"), [("float64", 53), ("float32", 24), ("float16", 11)])
def test_floats_that_may_have_been_other_integers_are_refused(kind, bits):
    largest = np.array([0, 2**bits - 1], dtype=kind)
    assert read_graphs(pa.table({"source": largest, "target": largest})).node_ids.tolist() == [
        0,
        2**bits - 1,
    ]
    rounded = np.array([0, 2**bits], dtype=kind)
    with pytest.raises(InputError, match="different integers may be the same float"):
        read_graphs(pa.table({"source": rounded, "target": rounded}))
    assert ids_of_array(largest, name="ids", where="f").values.to_pylist() == largest.tolist()
    with pytest.raises(InputError, match="different ones may have become one"):
        ids_of_array(rounded, name="ids", where="f")


def test_ids_that_are_written_alike_are_refused():
    class Twin:
        def __repr__(self):
            return "twin"

    with pytest.raises(OutputError, match="Different ids are written as the same text"):
        embeddings([Twin(), Twin()]).to_arrow()
    assert embeddings([(1, 2), "a", 1]).to_arrow()["id"].to_pylist() == ["(1, 2)", "'a'", "1"]


def test_masked_values_are_refused():
    pair, x = np.array([[0, 1], [1, 0]]), np.eye(2)
    masked = np.ma.array(pair, mask=[[0, 1], [0, 0]])
    message = r"{}: 1 value masked, which means missing. Fill it"
    for source, what in (
        ((masked, x), "edge_index"),
        ((masked, None), "edge_index"),
        (([masked[0], masked[1]], x), "edge_index"),
        ((pair, np.ma.array(x, mask=np.eye(2) * [0, 1])), "features"),
        ((pair, x, np.ma.array([1.0, 2.0], mask=[0, 1])), "edge_weight"),
    ):
        with pytest.raises(InputError, match=message.format(what)):
            read_graphs(source)
    assert read_graphs((np.ma.array(pair), np.ma.array(x))).num_edges == 2


def test_ids_of_graphs_in_a_folder(tmp_path):
    one = "<graph{}><node id='a'/><node id='b'/><edge source='a' target='b'/></graph>"

    def save(name, *ids):
        (tmp_path / name).write_text(f"<graphml>{''.join(map(one.format, ids))}</graphml>")

    save("x.graphml", "", " id='g'")
    save("y.graphml", "")
    assert read_graphs(tmp_path).graph_ids.tolist() == ["x/0", "x/g", "y"]
    save("x.graphml", "", " id='0'")
    with pytest.raises(InputError, match="2 graphs that would have the id 'x/0'"):
        read_graphs(tmp_path)
