"""Which files are read, that results do not depend on how, and when nothing is to be done."""

from __future__ import annotations

import gzip
import os
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from graphlatent import read_graphs
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.ingest import IngestOptions, ingest
from graphlatent.errors import GraphLatentWarning, InputError, OutputError

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")


def checksums(store):
    return {name: file["sha256"] for name, file in store.about["files"].items()}


def test_one_file_many_files_folders_and_patterns_give_the_same_bytes(tmp_path, edges, nodes):
    whole = tmp_path / "whole.parquet"
    edges.to_parquet(whole)
    nodes.to_parquet(tmp_path / "nodes.parquet")
    # As Spark writes a table that is partitioned by columns, with its other files.
    spark = tmp_path / "spark"
    order = np.random.default_rng(0).permutation(len(edges))
    for i, part in enumerate(np.array_split(order, 5)):
        folder = spark / f"year={2020 + i % 2}" / f"country=it's [{i}]"
        folder.mkdir(parents=True)
        edges.iloc[part].to_parquet(folder / f"part-{i}.snappy.parquet")
    (spark / "_SUCCESS").write_text("")
    (spark / "year=2020" / ".part-0.crc").write_bytes(b"\0")
    (spark / "_temporary").mkdir()
    edges.iloc[:5].to_parquet(spark / "_temporary" / "part-9.parquet")
    for number in range(3):
        edges.iloc[number::3].to_csv(tmp_path / f"part{number}.csv", index=False)
    packed = tmp_path / "packed" / "edges.csv.gz"
    packed.parent.mkdir()
    with gzip.open(packed, "wt", encoding="utf-8") as file:
        edges.to_csv(file, index=False)
    found = []
    for i, (source, threads) in enumerate(
        [(whole, 1), (spark, 2), (spark, 1), (tmp_path / "part*.csv", 2), (packed.parent, 3)]
    ):
        store, _ = ingest(
            source, tmp_path / f"store{i}", nodes=tmp_path / "nodes.parquet", threads=threads
        )
        found.append(checksums(store))
    assert all(each == found[0] for each in found)


def test_ids_of_edges_are_ascending_whatever_the_threads(tmp_path, edges):
    edges.to_csv(tmp_path / "edges.csv", index=False)
    one, _ = ingest(tmp_path / "edges.csv", tmp_path / "one", threads=1)
    two, _ = ingest(tmp_path / "edges.csv", tmp_path / "two", threads=2)
    assert checksums(one) == checksums(two)
    assert one.ids().tolist() == sorted({*edges["source"], *edges["target"]})
    assert one.ids(3, 5).tolist() == one.ids().tolist()[3:5]
    assert one.fingerprints() == two.fingerprints()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("# SNAP\n# a graph\n1   2\n 2  3 \n", {"no_header": True}),
        ("% KONECT\n1\t2\n2\t3\n", {"no_header": True}),
        ("1;2\n2;3\n", {"no_header": True, "delimiter": ";"}),
        ("1;2\n2;3\n", {"source": "0", "target": "1"}),
        ("\ufeffsource,target\n1,2\n2,3\n", {}),
        ("\n\nsource|target\n 1 |2\n2|3\n", {}),
    ],
)
def test_text_in_many_forms(tmp_path, text, options):
    (tmp_path / "edges.txt").write_text(text, encoding="utf-8")
    reading = TableOptions(**options)
    store, _ = ingest(tmp_path / "edges.txt", tmp_path / "store", options=IngestOptions(reading))
    assert store.ids().tolist() == [1, 2, 3] and store.ids().dtype == np.int64
    expected = read_graphs(tmp_path / "edges.txt", options=reading)
    assert torch.equal(store.to_graph().edge_index, expected.edge_index)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_text_in_other_encodings(tmp_path, encoding):
    lines = "source,target\n" + "".join(f"ä{i},ö{i}\n" for i in range(200))
    (tmp_path / "edges.csv").write_text(lines, encoding=encoding)
    given = encoding if encoding == "latin-1" else None
    options = IngestOptions(TableOptions(encoding=given))
    store, _ = ingest(tmp_path / "edges.csv", tmp_path / "store", options=options)
    expected = read_graphs(tmp_path / "edges.csv", encoding=given)
    assert store.ids().tolist() == expected.node_ids.tolist()


def test_a_second_run_does_nothing_and_other_input_is_refused(tmp_path, tables, edges):
    source, nodes = tables
    first, written = ingest(source, tmp_path / "store", nodes=nodes)
    assert written
    before = {p: p.stat().st_mtime_ns for p in first.path.rglob("*")}
    _, written = ingest(source, tmp_path / "store", nodes=nodes, memory="4GB", threads=1)
    assert not written
    assert {p: p.stat().st_mtime_ns for p in first.path.rglob("*")} == before
    for changed in (IngestOptions(directed=True), IngestOptions(TableOptions(drop=("age",)))):
        with pytest.raises(OutputError, match="is a store of another input, or of other options"):
            ingest(source, tmp_path / "store", nodes=nodes, options=changed)
    os.utime(source, ns=(1, 1))
    with pytest.raises(OutputError, match=r"overwrite=True"):
        ingest(source, tmp_path / "store", nodes=nodes)
    edges.iloc[:7].to_parquet(source)
    new, written = ingest(source, tmp_path / "store", nodes=nodes, overwrite=True)
    assert written and new.num_edges < first.num_edges
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "edges.parquet",
        "nodes.parquet",
        "store",
    ]


def test_what_is_no_store_is_not_replaced(tmp_path, tables):
    (tmp_path / "store").mkdir()
    ingest(tables[0], tmp_path / "store")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("a")
    for name in ("thesis", "edges.parquet"):
        with pytest.raises(OutputError, match="is no store, so that it is not replaced"):
            ingest(tables[0], tmp_path / name, overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "a"


@pytest.mark.parametrize("form", ["dense", "sparse", "fortran"])
def test_features_in_arrays(tmp_path, tables, form):
    source, nodes = tables
    x = np.random.default_rng(0).random((20, 4)).astype(np.float64)
    x[x < 0.5] = 0
    if form == "sparse":
        sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(x))
        path = tmp_path / "x.npz"
    else:
        np.save(tmp_path / "x.npy", x if form == "dense" else np.asfortranarray(x))
        path = tmp_path / "x.npy"
    options = IngestOptions(TableOptions(label="city"))
    store, _ = ingest(source, tmp_path / "store", nodes=nodes, features=path, options=options)
    graph = store.to_graph()
    kind = "sparse" if form == "sparse" else "dense"
    assert (store.feature_kind, store.feature_dim) == (kind, 4)
    whole = graph.x if kind == "dense" else torch.from_numpy(graph.x.to_scipy().toarray())
    assert torch.equal(whole, torch.from_numpy(x.astype(np.float32)))
    assert graph.columns is None and graph.y.tolist() == pd.read_parquet(nodes)["city"].tolist()
    some = store.features(torch.tensor([3, 1, 19]))
    rows = some.x if kind == "dense" else torch.from_numpy(some.x.to_scipy().toarray())
    assert torch.equal(rows, whole[[3, 1, 19]]) and some.node_ids.tolist() == [3, 1, 19]


def test_without_a_node_table_ids_are_rows_of_the_matrix(tmp_path):
    pd.DataFrame({"source": [0, 4], "target": [1, 0]}).to_csv(tmp_path / "e.csv", index=False)
    np.save(tmp_path / "x.npy", np.eye(6))
    store, _ = ingest(tmp_path / "e.csv", tmp_path / "store", features=tmp_path / "x.npy")
    edge_index = np.array([[0, 4], [1, 0]])
    expected = read_graphs((edge_index, np.eye(6)))
    assert torch.equal(store.to_graph().edge_index, expected.edge_index)
    assert store.ids().tolist() == list(range(6))
    np.save(tmp_path / "x.npy", np.eye(4))
    with pytest.raises(InputError, match="1 edge names nodes that the feature matrix does not"):
        ingest(tmp_path / "e.csv", tmp_path / "less", features=tmp_path / "x.npy")


def test_edges_of_unknown_nodes_can_be_left_out(tmp_path, tables, edges, nodes):
    known = edges.copy()
    for i in range(12):
        edges.loc[len(edges)] = [f"stranger {i:02d}", "user 00"]
    edges.to_parquet(tmp_path / "more.parquet")
    said = r"12 edges name nodes that nodes \(nodes.parquet\) does not have: 'stranger 00', .*"
    with pytest.raises(InputError, match=said + r"'stranger 09' and 2 more\. Add the nodes, or"):
        ingest(tmp_path / "more.parquet", tmp_path / "store", nodes=tables[1])
    assert not (tmp_path / "store").exists()
    with pytest.warns(GraphLatentWarning, match="12 edges left out that name nodes which"):
        store, _ = ingest(
            tmp_path / "more.parquet",
            tmp_path / "store",
            nodes=tables[1],
            options=IngestOptions(unknown="drop"),
        )
    expected = read_graphs(known, nodes=nodes)
    assert torch.equal(store.to_graph().edge_index, expected.edge_index)
    assert any("12 edges left out" in note for note in store.notes)


def test_a_directed_store_is_symmetrised_when_read(tmp_path, tables, edges):
    store, _ = ingest(tables[0], tmp_path / "store", options=IngestOptions(directed=True))
    assert not store.undirected and store.num_distinct_edges == store.num_edges
    for symmetrize in (True, False):
        found = read_graphs(tmp_path / "store", symmetrize=symmetrize)
        expected = read_graphs(edges, symmetrize=symmetrize)
        assert torch.equal(found.edge_index, expected.edge_index)
        assert (found.undirected, found.symmetrized) == (expected.undirected, expected.symmetrized)
    both = read_graphs([tmp_path / "store", tmp_path / "store"])
    assert both.num_graphs == 2 and both.num_nodes == 2 * store.num_nodes


def test_a_store_is_read_with_the_options_of_its_tables(tmp_path, tables, nodes):
    options = TableOptions(label="city")
    ingest(tables[0], tmp_path / "store", nodes=tables[1], options=IngestOptions(options))
    graph = read_graphs(tmp_path / "store", impute="mean", unknown="ignore")
    assert (graph.reading.impute, graph.reading.unknown) == ("mean", "ignore")
    assert graph.reading.label == "city" and list(graph.columns) == ["age"]
    # As commands read the input of a run again.
    for later in (options, options.without_labels(), options.without_nodes()):
        assert read_graphs(tmp_path / "store", options=later).reading.label == "city"
    with pytest.raises(InputError, match="'weight' cannot be changed any more"):
        read_graphs(tmp_path / "store", weight="age")
    with pytest.raises(InputError, match="brings its own nodes"):
        read_graphs(tmp_path / "store", nodes=nodes)


def test_memory_that_the_whole_graph_needs_is_asked_for_first(tmp_path, tables):
    ingest(tables[0], tmp_path / "store")
    with pytest.raises(InputError, match=r"as a whole needs about .* and reading may take 1 kB"):
        read_graphs(tmp_path / "store", max_memory="1kB")


def test_an_empty_graph_of_a_node_table(tmp_path, nodes):
    pd.DataFrame({"source": [], "target": []}).to_csv(tmp_path / "e.csv", index=False)
    nodes.to_csv(tmp_path / "n.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphLatentWarning)
        store, _ = ingest(tmp_path / "e.csv", tmp_path / "store", nodes=tmp_path / "n.csv")
    assert store.num_edges == 0 and store.indptr.tolist() == [0] * 21
    assert store.to_graph().num_edges == 0
    assert "GraphStore(" in repr(store) and "<table>" in store._repr_html_()


def test_a_long_first_row(tmp_path):
    long_id = "y" * 2_000_000
    (tmp_path / "first.csv").write_text(f"source,target\n{long_id},a\na,b\n")
    store, _ = ingest(tmp_path / "first.csv", tmp_path / "first", threads=1)
    assert store.ids().tolist() == ["a", "b", long_id]
    assert store.num_distinct_edges == 2
