"""Graphs out of edge and node tables."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.assemble import assemble
from graphlatent.data.features import encode_features, fit_features
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.tables import read_tables
from graphlatent.errors import GraphLatentWarning, InputError


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def edges_of(raw):
    ids = raw.node_ids
    return [(ids[a], ids[b]) for a, b in raw.edge_index.T]


def frame(**columns):
    return pd.DataFrame(columns)


def test_edges_alone_number_the_nodes_in_order_of_their_ids(tmp_path):
    (raw,) = read_tables(write(tmp_path / "e.csv", "source,target\n10,2\n2,33\n"))
    assert raw.node_ids.tolist() == [2, 10, 33]
    assert raw.edge_index.tolist() == [[1, 0], [0, 2]]
    assert raw.num_nodes == 3
    assert (raw.edge_weight, raw.columns, raw.y, raw.graph_id) == (None, None, None, None)
    assert raw.name == "edges (e.csv)"


def test_text_ids_sort_as_text():
    (raw,) = read_tables(frame(source=["b", "10"], target=["a", "9"]))
    assert raw.node_ids.tolist() == ["10", "9", "a", "b"]


def test_both_tables_by_hand(tmp_path):
    edges = write(tmp_path / "e.tsv", "source\ttarget\tweight\nb\ta\t2.5\nc\tb\t1\n")
    nodes = write(
        tmp_path / "n.csv",
        "id,age,color,alive\nc,3,red,true\na,1,blue,false\nb,2,red,true\nlone,9,red,false\n",
    )
    (raw,) = read_tables(edges, nodes)
    assert raw.node_ids.tolist() == ["c", "a", "b", "lone"]
    assert raw.edge_index.tolist() == [[2, 0], [1, 2]]
    assert raw.edge_weight.tolist() == [2.5, 1]
    assert raw.num_nodes == 4
    assert {name: values.tolist() for name, values in raw.columns.items()} == {
        "age": [3, 1, 2, 9],
        "color": ["red", "blue", "red", "red"],
        "alive": [True, False, True, False],
    }
    assert raw.columns["age"].dtype == np.int64


@pytest.mark.parametrize(
    "kind", ["csv", "tsv", "csv.gz", "tsv.gz", "CSV.GZ", "parquet", "pandas", "arrow"]
)
def test_all_kinds_of_tables_say_the_same(tmp_path, kind):
    edges = frame(source=["x", "y"], target=["y", "z"], weight=[1.0, 2.0])
    nodes = frame(id=["z", "y", "x"], f=[1.5, 2.5, 3.5], label=["p", "q", "p"])

    def store(table, name):
        if kind == "pandas":
            return table
        if kind == "arrow":
            return pa.Table.from_pandas(table)
        path = tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            table.to_parquet(path)
        else:
            packed = "gzip" if kind.lower().endswith(".gz") else None
            table.to_csv(
                path,
                index=False,
                sep="," if kind.lower().startswith("csv") else "\t",
                compression=packed,
            )
        return path

    (raw,) = read_tables(store(edges, "e"), store(nodes, "n"), options=TableOptions(label="label"))
    assert raw.edge_index.tolist() == [[2, 1], [1, 0]]
    assert raw.edge_weight.tolist() == [1, 2]
    assert raw.node_ids.tolist() == ["z", "y", "x"]
    assert raw.y.tolist() == ["p", "q", "p"]
    assert {k: v.tolist() for k, v in raw.columns.items()} == {"f": [1.5, 2.5, 3.5]}


def test_columns_by_other_names():
    options = TableOptions(
        source="from", target="to", weight="w", id="key", label="cls", features=("b",)
    )
    nodes = frame(key=[1, 2], a=[0, 0], b=[5, 6], cls=[7, 8])
    (raw,) = read_tables(frame(**{"from": [1], "to": [2], "w": [3]}), nodes, options=options)
    assert raw.edge_weight.tolist() == [3]
    assert list(raw.columns) == ["b"]
    assert raw.y.tolist() == [7, 8]


def test_no_feature_columns_leaves_degrees():
    (raw,) = read_tables(frame(source=[1], target=[2]), frame(id=[1, 2]))
    assert raw.columns is None
    (raw,) = read_tables(
        frame(source=[1], target=[2]), frame(id=[1, 2], a=[1, 2]), options=TableOptions(features=())
    )
    assert raw.columns is None


def test_node_ids_may_stand_in_the_index_of_a_frame():
    nodes = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["u", "v"], name="id"))
    (raw,) = read_tables(frame(source=["v"], target=["u"]), nodes)
    assert raw.node_ids.tolist() == ["u", "v"]
    assert list(raw.columns) == ["a"]


def test_no_edges_but_nodes(tmp_path):
    nodes = write(tmp_path / "n.csv", "id\n1\n2\n")
    for edges in (
        write(tmp_path / "e.csv", "source,target\n"),
        write(tmp_path / "f.csv", "source,target"),
        frame(source=[], target=[]),
    ):
        (raw,) = read_tables(edges, nodes)
        assert raw.edge_index.shape == (2, 0)
        assert raw.node_ids.tolist() == [1, 2]


def test_one_node_with_a_self_loop_and_duplicate_edges():
    (raw,) = read_tables(frame(source=[7, 7], target=[7, 7]))
    assert raw.node_ids.tolist() == [7]
    assert raw.edge_index.tolist() == [[0, 0], [0, 0]]


def test_text_files_and_their_ids(tmp_path):
    """Ids in text files are integers only where every one of them is written as an integer is."""
    (raw,) = read_tables(write(tmp_path / "e.csv", "source,target\n007,7\n"))
    assert raw.node_ids.tolist() == ["007", "7"]
    nodes = write(tmp_path / "n.csv", "id\n1\n2\nx\n")
    (raw,) = read_tables(write(tmp_path / "f.csv", "source,target\n1,2\n"), nodes)
    assert raw.node_ids.tolist() == ["1", "2", "x"]
    # A byte order mark, and spaces
    (raw,) = read_tables(write(tmp_path / "g.csv", "\ufeffsource, target\n1, 2\n"))
    assert raw.node_ids.tolist() == [1, 2]


def test_text_file_beside_typed_ids(tmp_path):
    nodes = write(tmp_path / "n.csv", "id\n1\n2\n")
    (raw,) = read_tables(frame(source=[1], target=[2]), nodes)
    assert raw.node_ids.tolist() == [1, 2]
    (raw,) = read_tables(frame(source=["1"], target=["2"]), nodes)
    assert raw.node_ids.tolist() == ["1", "2"]


def test_quotes_and_text_that_looks_missing(tmp_path):
    edges = write(tmp_path / "e.csv", 'source,target\n"a,b",NA\nNA,null\n')
    (raw,) = read_tables(edges)
    assert raw.node_ids.tolist() == ["NA", "a,b", "null"]


def test_a_column_is_typed_by_all_of_its_rows(tmp_path):
    rows = "".join(f"{i},{i}\n" for i in range(400_000))
    nodes = write(tmp_path / "n.csv", f"id,code\n{rows}400000,last\n")
    (raw,) = read_tables(frame(source=[0], target=[1]), nodes)
    assert raw.columns["code"][-1] == "last"


def test_several_graphs_with_the_same_node_ids():
    edges = frame(graph=["two", "one", "two"], source=[1, 1, 2], target=[2, 3, 1], weight=[1, 2, 3])
    nodes = frame(
        graph=["two", "one", "two", "one", "two"], id=[2, 3, 1, 1, 5], a=[20, 31, 10, 11, 50]
    )
    two, one = read_tables(edges, nodes)
    assert (two.graph_id, one.graph_id) == ("two", "one")
    assert two.node_ids.tolist() == [2, 1, 5]
    assert one.node_ids.tolist() == [3, 1]
    assert edges_of(two) == [(1, 2), (2, 1)]
    assert edges_of(one) == [(1, 3)]
    assert two.edge_weight.tolist() == [1, 3]
    assert one.columns["a"].tolist() == [31, 11]
    assert one.name == "edges, graph 'one'"


def test_several_graphs_without_a_node_table():
    two, ten = read_tables(frame(graph=[10, 2, 10], source=["a", "a", "b"], target=["b", "c", "d"]))
    assert (two.graph_id, ten.graph_id) == (2, 10)
    assert two.node_ids.tolist() == ["a", "c"]
    assert ten.node_ids.tolist() == ["a", "b", "d"]
    assert edges_of(ten) == [("a", "b"), ("b", "d")]


def test_a_graph_without_edges_is_kept():
    one, two = read_tables(
        frame(graph=[1], source=[1], target=[2]), frame(graph=[1, 1, 2], id=[1, 2, 1])
    )
    assert one.edge_index.tolist() == [[0], [1]]
    assert two.edge_index.shape == (2, 0)
    assert two.num_nodes == 1


@pytest.mark.parametrize("name", ["label", "Class", "y"])
def test_a_column_that_looks_like_a_label_is_pointed_out(name):
    edges, nodes = (
        frame(source=["x"], target=["y"]),
        frame(id=["x", "y"], f=[1.5, 2.5], **{name: [0, 1]}),
    )
    with pytest.warns(
        GraphLatentWarning,
        match=(
            f"nodes: column '{name}' is read as a feature, so embeddings will know it. If it is"
            " what you"
        ),
    ):
        (raw,) = read_tables(edges, nodes)
    assert list(raw.columns) == ["f", name]
    # Told: nothing to say
    for options in (TableOptions(label=name), TableOptions(features=("f", name))):
        read_tables(edges, nodes, options=options)


def test_graph_column_can_be_switched_off():
    (raw,) = read_tables(
        frame(source=[1], target=[2], graph=[5]), frame(id=[1, 2]), options=TableOptions(graph=None)
    )
    assert raw.graph_id is None


def test_categorical_columns_become_text_and_encode():
    nodes = frame(id=[1, 2, 3], c=pd.Categorical([30, 4, 30]), d=pd.Categorical(["x", None, "y"]))
    (raw,) = read_tables(
        frame(source=[1, 2], target=[2, 3]), nodes, options=TableOptions(features=("c",))
    )
    assert raw.columns["c"].tolist() == ["30", "4", "30"]
    graph = assemble([raw, raw], symmetrize=False)
    spec = fit_features(graph, degree_cap=4)
    assert spec.columns[0].categories == ("30", "4")
    assert encode_features(spec, graph).x.tolist() == [[1, 0], [0, 1], [1, 0]] * 2


def test_decimals_and_dictionaries_of_several_chunks():
    decimals = pa.array([Decimal("1.50"), Decimal("2.25"), Decimal("3")])
    chunks = pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
    )
    nodes = pa.table({"id": chunks, "price": decimals, "kind": chunks})
    (raw,) = read_tables(frame(source=["c"], target=["a"]), nodes)
    assert raw.node_ids.tolist() == ["a", "b", "c"]
    assert raw.edge_index.tolist() == [[2], [0]]
    assert raw.columns["price"].tolist() == [1.5, 2.25, 3]
    assert raw.columns["kind"].tolist() == ["a", "b", "c"]


def test_edge_columns_that_are_not_used_are_named():
    edges = frame(source=[1, 2], target=[2, 1], graph=["a", "b"], weight=1.0, amount=2, day="x")
    first, second = read_tables(edges)
    assert list(first.notes.values()) == [
        "edges: edge columns not used: amount, day. For numbers as weights: weight=NAME"
        " (on the command line --weight NAME). As features of edges: edge_features=[NAME]"
        " (on the command line --edge-features NAME)."
    ]
    assert not second.notes
    (raw,) = read_tables(edges, options=TableOptions(weight="amount", graph=None))
    assert list(raw.notes.values()) == [
        "edges: edge columns not used: graph, weight, day. As features of edges:"
        " edge_features=[NAME] (on the command line --edge-features NAME)."
    ]


def test_gaps_in_columns_reach_the_encoder_as_missing(tmp_path):
    nodes = write(tmp_path / "n.csv", "id,number,text,truth\n1,5,,true\n2,,a,\n")
    (raw,) = read_tables(frame(source=[1], target=[2]), nodes)
    assert np.isnan(raw.columns["number"][1])
    assert raw.columns["text"].tolist() == [None, "a"]
    assert raw.columns["truth"].tolist() == [True, None]
    graph = assemble([raw], symmetrize=False)
    with pytest.raises(
        InputError,
        match=r"Column 'number' has 1 missing value, the first in row 1 \(from 0\), node 2",
    ):
        fit_features(graph, degree_cap=4)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(-3, 6), st.integers(-3, 6)),
        min_size=1,
        max_size=15,
    ),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_tables_equal_a_loop(rows, as_text, with_nodes, random):
    name = (lambda i: f"n{i}") if as_text else (lambda i: i)
    edges = frame(
        graph=[g for g, _, _ in rows],
        source=[name(u) for _, u, _ in rows],
        target=[name(v) for _, _, v in rows],
    )
    members = sorted({(g, name(i)) for g, u, v in rows for i in (u, v)})
    nodes = None
    if with_nodes:
        random.shuffle(members)
        nodes = frame(
            graph=[g for g, _ in members],
            id=[i for _, i in members],
            tag=[f"{g}/{i}" for g, i in members],
        )
    graphs = read_tables(edges, nodes)
    assert [raw.graph_id for raw in graphs] == list(dict.fromkeys(g for g, _ in members))
    for raw in graphs:
        assert raw.node_ids.tolist() == [i for g, i in members if g == raw.graph_id]
        assert edges_of(raw) == [(name(u), name(v)) for g, u, v in rows if g == raw.graph_id]
        if with_nodes:
            assert raw.columns["tag"].tolist() == [f"{raw.graph_id}/{i}" for i in raw.node_ids]
