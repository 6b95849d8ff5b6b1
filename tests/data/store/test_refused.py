"""Tables that cannot be ingested, and stores that were damaged: what the messages say."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from graphlatent import read_graphs
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.store.ingest import IngestOptions, ingest
from graphlatent.data.store.store import GraphStore
from graphlatent.errors import ConfigError, InputError

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")


def refused(tmp_path, edges, nodes=None, *, suffix=".parquet", matrix=None, **options):
    """The message with which tables are refused; nothing is left behind."""
    paths = []
    for name, table in (("edges", edges), ("nodes", nodes)):
        path = tmp_path / f"{name}{suffix}"
        if isinstance(table, pd.DataFrame):
            table.to_parquet(path) if suffix == ".parquet" else table.to_csv(path, index=False)
        elif isinstance(table, pa.Table):
            pq.write_table(table, path)
        paths.append(None if table is None else path)
    reading = {k: v for k, v in options.items() if k in TableOptions.__dataclass_fields__}
    others = {k: v for k, v in options.items() if k not in reading}
    with pytest.raises((InputError, ConfigError)) as caught:
        ingest(
            paths[0],
            tmp_path / "store",
            nodes=paths[1],
            features=matrix,
            options=IngestOptions(TableOptions(**reading)),
            **others,
        )
    assert not (tmp_path / "store").exists() and not (tmp_path / ".store.ingest").exists()
    return str(caught.value)


def test_nodes_that_are_there_twice(tmp_path, edges, nodes):
    twice = pd.concat([nodes, nodes.iloc[:12]])
    message = refused(tmp_path, edges, twice)
    assert "nodes (nodes.parquet): every node must have one row, and 12 ids have several" in message
    assert "'user 08', 'user 09', 'user 10'" in message and "and 2 more. Drop" in message


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_missing_ids(tmp_path, edges, nodes, suffix):
    gone = edges.copy()
    gone.loc[[3, 5], "target"] = None
    assert "2 ids are missing" in refused(tmp_path, gone, suffix=suffix)
    assert "2 ids are missing" in refused(tmp_path, gone, nodes, suffix=suffix)
    nodes.loc[2, "id"] = None
    message = refused(tmp_path, edges, nodes, suffix=suffix)
    assert "column 'id': 1 id is missing, the first in row" in message


@pytest.mark.parametrize("wrong", [float("nan"), 1.5, 2.0**60, float("inf")])
def test_ids_that_are_no_exact_integers(tmp_path, wrong):
    table = pa.table({"source": [1.0, wrong], "target": [2.0, 3.0]})
    message = refused(tmp_path, table)
    assert "ids must be integers of 64 bits or text, and 1 id is NaN, infinite" in message


def test_ids_of_other_types(tmp_path, edges, nodes):
    numbers = pd.DataFrame({"source": [1, 2], "target": [2, 3]})
    message = refused(tmp_path, numbers, nodes)
    assert "'id' holds text, but edges (edges.parquet) holds integers as ids" in message
    mixed = edges.assign(target=range(len(edges)))
    assert "must be of one type in all tables" in refused(tmp_path, mixed)
    dates = edges.assign(target=pd.Timestamp("2020-01-01"))
    assert "ids must be integers or text. Got values of type timestamp" in refused(tmp_path, dates)
    huge = pa.table({"source": pa.array([2**64 - 1], pa.uint64()), "target": [1]})
    assert "The tables cannot be read" in refused(tmp_path, huge)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_weights_that_are_no_finite_numbers(tmp_path, edges, suffix):
    words = edges.assign(weight="heavy")
    expected = "must hold numbers" if suffix == ".parquet" else "cannot be read as a table"
    assert expected in refused(tmp_path, words, suffix=suffix)
    for value, shown in ((None, "nothing"), (np.inf, "inf")):
        weights = edges.assign(weight=1.0)
        weights.loc[4, "weight"] = value
        message = refused(tmp_path, weights, suffix=suffix)
        assert f"edges{suffix}): the weight column must hold a finite number" in message
        assert f"Got {shown} (1 of 60 rows" in message
    large, small = edges.assign(weight=1e300), edges.assign(weight=1e-300)
    assert "too large for float32" in refused(tmp_path, large, suffix=suffix)
    assert "no value that float32 can hold" in refused(tmp_path, small, suffix=suffix)
    sums = edges.assign(weight=3e38)
    assert "too large for float32" in refused(tmp_path, sums, suffix=suffix, merge="sum")


def test_columns_that_are_not_there_or_cannot_be_used(tmp_path, edges, nodes):
    assert "no column 'from' (option 'source')" in refused(tmp_path, edges, source="from")
    assert "no column 'heavy' (option 'weight')" in refused(tmp_path, edges, weight="heavy")
    assert "no column 'key' (option 'id')" in refused(tmp_path, edges, nodes, id="key")
    assert "no column 'y' (option 'label')" in refused(tmp_path, edges, nodes, label="y")
    message = refused(tmp_path, edges, nodes, features=("x",))
    assert "no column 'x' (option 'features_columns')" in message
    lists = nodes.assign(parts=[[1, 2]] * len(nodes))
    assert "column 'parts' holds values such as [1, 2]" in refused(tmp_path, edges, lists)
    graphs = edges.assign(graph=1)
    assert "a store holds one graph" in refused(tmp_path, graphs)
    assert "name columns of a node table, and none was given" in refused(tmp_path, edges, label="y")
    assert "'bipartite' is not for stores" in refused(tmp_path, edges, bipartite=True)
    assert "there are no rows" in refused(tmp_path, edges.iloc[:0])
    assert "at least one node" in refused(tmp_path, edges, nodes.iloc[:0])


def test_features_that_do_not_match(tmp_path, edges, nodes):
    np.save(tmp_path / "x.npy", np.zeros((19, 3)))
    path = tmp_path / "x.npy"
    message = refused(tmp_path, edges, nodes, matrix=path)
    assert "features must have one row per node. Got 19 rows for 20 nodes in nodes" in message
    assert "ids must be the numbers of rows of the matrix" in refused(tmp_path, edges, matrix=path)
    x = np.zeros((20, 3))
    x[7, 2] = np.nan
    np.save(path, x)
    assert "the first (nan) at row 7, column 2" in refused(tmp_path, edges, nodes, matrix=path)
    np.save(path, np.zeros(20))
    assert "must be a matrix" in refused(tmp_path, edges, nodes, matrix=path)
    path.write_bytes(path.read_bytes()[:100])
    assert "cannot be read as a NumPy array" in refused(tmp_path, edges, nodes, matrix=path)
    np.savez(tmp_path / "x.npz", a=x)
    message = refused(tmp_path, edges, nodes, matrix=tmp_path / "x.npz")
    assert "is no sparse matrix in CSR" in message
    sp.save_npz(tmp_path / "x.npz", sp.coo_matrix(np.eye(20)))
    message = refused(tmp_path, edges, nodes, matrix=tmp_path / "x.npz")
    assert "is no sparse matrix in CSR" in message or "its format is not CSR" in message
    assert "is no matrix that can be read" in refused(
        tmp_path, edges, nodes, matrix=tmp_path / "edges.parquet"
    )


def test_files_that_are_no_tables(tmp_path, edges):
    for place in ("missing.parquet", "none*.csv", "-"):
        with pytest.raises(InputError, match="there is no table that can be read a piece at"):
            ingest(tmp_path / place if place != "-" else "-", tmp_path / "store")
    edges.to_csv(tmp_path / "e.zip", index=False)
    with pytest.raises(InputError, match="Unpack other archives"):
        ingest(tmp_path / "e.zip", tmp_path / "store")
    folder = tmp_path / "both"
    folder.mkdir()
    edges.to_csv(folder / "a.csv", index=False)
    edges.to_parquet(folder / "b.parquet")
    with pytest.raises(InputError, match="holds Parquet and text files"):
        ingest(folder, tmp_path / "store")
    (folder / "b.parquet").write_bytes(b"PAR1" + b"\0" * 50 + b"PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        ingest(folder / "b.parquet", tmp_path / "store")
    edges.to_parquet(folder / "b.parquet")
    content = bytearray((folder / "b.parquet").read_bytes())
    content[4:60] = bytes(56)
    (folder / "b.parquet").write_bytes(content)
    with pytest.raises(InputError, match="The reader says"):
        ingest(folder / "b.parquet", tmp_path / "store")
    assert not (tmp_path / ".store.ingest").exists()


@pytest.mark.parametrize("memory", ["0GB", "much", -3])
def test_amounts_of_memory_that_are_none(tmp_path, edges, memory):
    assert "The 'memory' parameter of ingest must be" in refused(tmp_path, edges, memory=memory)


def test_too_little_memory(tmp_path, edges, nodes, monkeypatch):
    message = refused(tmp_path, edges, memory="50MB")
    assert (
        "The option 'memory' is too small: 50 MB, and to ingest any graph needs at least" in message
    )
    assert "of which" in message and "are Python and its packages. Raise it." in message
    # A graph of 10 million nodes, by its number of nodes alone.
    monkeypatch.setattr("graphlatent.data.store.budget.BYTES_PER_NODE", 10**9)
    message = refused(tmp_path, edges, nodes, memory="8GB")
    # Beside what this process has already.
    assert re.search(r"to ingest 20 nodes needs at least 2\d(\.\d)? GB", message), message


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, 1025, 10**30])
def test_numbers_of_threads_that_are_none(tmp_path, edges, threads):
    assert "The 'threads' parameter of ingest" in refused(tmp_path, edges, threads=threads)


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "ids.parquet", "columns/00000.npy"])
def test_a_damaged_file_is_named_with_its_checksum(tmp_path, tables, name):
    store, _ = ingest(tables[0], tmp_path / "store", nodes=tables[1])
    path, stated = store.path / name, store.about["files"][name]["sha256"]
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    for opened in (GraphStore.open, read_graphs):
        with pytest.raises(InputError) as caught:
            opened(store.path)
        assert f"{path} is damaged: its sha256 is" in str(caught.value)
        assert stated in str(caught.value)
    assert GraphStore.open(store.path, verify=False).num_nodes == 20
    path.write_bytes(content[:-5])
    with pytest.raises(InputError, match=f"{len(content) - 5:,} bytes, and {len(content):,} were"):
        GraphStore.open(store.path, verify=False)
    path.unlink()
    with pytest.raises(InputError, match=f"there is no file {path}"):
        GraphStore.open(store.path)


def test_folders_that_are_no_stores(tmp_path, tables):
    with pytest.raises(InputError, match="is no store"):
        GraphStore.open(tmp_path)
    store, _ = ingest(tables[0], tmp_path / "store")
    manifest = store.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"store": 1', '"store": 2'))
    with pytest.raises(InputError, match="is a store of format 2, and this version reads format 1"):
        GraphStore.open(store.path)
    manifest.write_text("{")
    with pytest.raises(InputError, match="is no store"):
        GraphStore.open(store.path)
