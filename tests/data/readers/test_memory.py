"""Small files that ask for much memory are refused before it is allocated."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphlatent.data.column_fitting import fit_column
from graphlatent.data.columns import encode_column
from graphlatent.data.readers.array_files import load_arrays
from graphlatent.data.readers.arrow import LoadedTable, to_array
from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import InputError

MUCH = "needs about .* of memory, and reading may take 1 MB. Read a smaller input"


def refuses(source, message=MUCH, **options):
    with pytest.raises(InputError, match=message):
        read_graphs(source, max_memory="1MB", **options)


def test_a_gzipped_table_that_unpacks_to_much(tmp_path):
    header = b"source,target\n"
    for name, content in {"rows": b"0,1\n" * 10**6, "line": b"a" * 4 * 10**6}.items():
        path = tmp_path / f"{name}.csv.gz"
        path.write_bytes(gzip.compress(header + content, mtime=0))
        assert path.stat().st_size < 10_000
        refuses(path, r"\.csv\.gz, unpacked 1.* MB or more, " + MUCH)
        refuses(pd.DataFrame({"source": [0], "target": [1]}), MUCH, nodes=path)
    small = tmp_path / "small.csv.gz"
    small.write_bytes(gzip.compress(header + b"0,1\n", mtime=0))
    assert read_graphs(small, max_memory="1MB", symmetrize=False).num_edges == 1


def test_a_large_file_and_many_columns(tmp_path):
    (tmp_path / "e.csv").write_bytes(b"source,target\n" + b"0,1\n" * 100_000)
    refuses(tmp_path / "e.csv", r"a file of 400 kB, needs about 1.2 MB")
    (tmp_path / "w.csv").write_text("source,target" + "," * 2000 + "\n")
    refuses(tmp_path / "w.csv", r"a table of 2,002 columns, needs about 2 MB")
    (tmp_path / "g.graphml").write_text("<graphml>" + " " * 200_000 + "</graphml>")
    refuses(tmp_path / "g.graphml", r"a file of 200 kB, needs about 1.2 MB")


def test_a_parquet_file_of_equal_values(tmp_path):
    zeros = np.zeros(100_000, dtype=np.int64)
    pq.write_table(pa.table({"source": zeros, "target": zeros}), tmp_path / "e.parquet")
    assert (tmp_path / "e.parquet").stat().st_size < 10_000
    refuses(tmp_path / "e.parquet", r"a table of 100,000 rows and 2 columns, needs about 1.6 MB")
    long = pa.DictionaryArray.from_arrays(np.zeros(5000, dtype=np.int32), ["x" * 1000])
    table = pa.table({"id": np.arange(5000), "text": long})
    pq.write_table(table, tmp_path / "n.parquet", store_schema=False)
    edges = pd.DataFrame({"source": [0], "target": [1]})
    refuses(
        edges,
        "5,000 rows and 2 columns, 4.* MB in its first rows, " + MUCH,
        nodes=tmp_path / "n.parquet",
    )
    read = read_graphs((edges, tmp_path / "n.parquet"), max_memory="1GB", symmetrize=False)
    assert read.columns["text"].tolist() == ["x" * 1000] * 5000


def npy(shape, dtype="<f8"):
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def npz(path, **arrays):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in arrays.items():
            file.writestr(f"{name}.npy", content)
    return path


def test_arrays_that_unpack_to_much(tmp_path):
    path = npz(tmp_path / "a.npz", x=npy((2 * 10**6,), "|u1") + bytes(2 * 10**6))
    assert path.stat().st_size < 10_000
    graph = {f"adj_{part}": np.zeros(2, dtype=np.int64) for part in ("data", "indices")}
    np.savez(tmp_path / "g.npz", **graph, adj_indptr=np.zeros(10**6), adj_shape=np.ones(2))
    refuses(tmp_path / "g.npz", r"array 'adj_indptr' of shape \(1000000,\) needs about 8 MB")


@pytest.mark.parametrize("shape", [(10**12,), (2**62, 2**62), (-1,)])
def test_arrays_that_state_other_sizes_than_they_have(tmp_path, shape):
    npz(tmp_path / "a.npz", x=npy(shape))
    (tmp_path / "a.npy").write_bytes(npy(shape))
    for name in ("a.npz", "a.npy"):
        with pytest.raises(InputError, match=f"{name} cannot be read as NumPy arrays.*shape"):
            load_arrays(tmp_path / name, role="labels")


def test_empty_texts_take_memory_too(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy((10**12,), "<U0"))
    with pytest.raises(InputError, match="takes 1,000,000,000,000 bytes, and the file has 128"):
        load_arrays(tmp_path / "a.npy", role="labels")


def test_numbers_of_nodes():
    refuses((np.array([[0], [10**12]]), None), r"graph, 1,000,000,000,001 nodes, needs about 32 TB")
    refuses(sp.coo_matrix(([1.0], ([0], [1])), shape=(10**9, 10**9)), "needs about 8 GB")
    refuses(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=10**15), "needs about 32,000 TB")
    with pytest.raises(InputError, match="no more than 3,037,000,499 can be read"):
        read_graphs((np.array([[0], [4 * 10**9]]), None), max_memory="900TB")


def test_numbers_of_graphs(tmp_path):
    (tmp_path / "T_A.txt").write_text("1, 2\n")
    for last in (400_000_000, 2**63 - 1):
        (tmp_path / "T_graph_indicator.txt").write_text(f"1\n{last}\n")
        refuses(tmp_path, f"names graph {last}, but has 2 lines, so some graph has no node")


def test_long_text_is_not_repeated_in_every_row():
    values = np.array(["a", "b" * 200_000] + ["a"] * 5000, dtype=object)
    tracemalloc.start()
    try:
        spec = fit_column("text", values, standardize=True)
        _, codes, _ = encode_column(spec, values)
        # An array of NumPy's text would take 4 GB.
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()
    assert codes.tolist() == [0, 1] + [0] * 5000


def test_text_that_differs_in_a_final_nul_is_two_categories():
    values = np.array(["a", "a\0"], dtype=object)
    assert fit_column("text", values, standardize=True).categories == ("a", "a\0")


def test_names_of_columns_are_listed_once_and_not_for_each_column():
    class Counting:
        listed = 0

        def __init__(self, table):
            self.table = table

        @property
        def column_names(self):
            self.listed += 1
            return self.table.column_names

        def __getattr__(self, name):
            return getattr(self.table, name)

    counting = Counting(pa.table({f"c{i}": [1.0, 2.0] for i in range(50)}))
    table = LoadedTable(counting, "nodes")
    for name in table.columns:
        assert to_array(table, name, option="features").tolist() == [1.0, 2.0]
    assert counting.listed == 1
