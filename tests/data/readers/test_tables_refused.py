"""Tables and files that cannot be read, each with the message that says why."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.tables import read_tables
from graphlatent.errors import InputError

EDGES, NODES = {"source": [1], "target": [2]}, {"id": [1, 2]}


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def frame(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "message"),
    [
        (
            {"a": [1], "b": [2]},
            None,
            {},
            (
                r"edges: there is no column 'source' \(option 'source'\). Columns found: 'a', 'b'."
                r" Name the"
            ),
        ),
        (
            EDGES,
            {"key": [1]},
            {},
            r"nodes: there is no column 'id' \(option 'id'\). Columns found: 'key'",
        ),
        (EDGES, None, {"weight": "w"}, r"edges: there is no column 'w' \(option 'weight'\)"),
        (
            EDGES,
            NODES,
            {"features": ("f",)},
            r"nodes: there is no column 'f' \(option 'features'\)",
        ),
        (EDGES, NODES, {"label": "l"}, r"nodes: there is no column 'l' \(option 'label'\)"),
        (
            EDGES,
            None,
            {"label": "l"},
            "'label', 'features', 'text' and 'hash' name columns of a node table, and none",
        ),
        (
            EDGES,
            None,
            {"features": ("f",)},
            "'label', 'features', 'text' and 'hash' name columns of a node table, and none",
        ),
        (
            EDGES,
            {"id": ["1", "2"]},
            {},
            (
                r"edges, column 'source' holds integers, but nodes, column 'id' holds text such as"
                r" '1'. Ids"
            ),
        ),
        (
            {"source": ["1"], "target": ["2"]},
            NODES,
            {},
            r"nodes, column 'id' holds integers, but edges, column 'source' holds text",
        ),
        (
            EDGES,
            {"id": [1, 3]},
            {},
            (
                r"edges: row 0 \(from 0\) has 2 in column 'target', but nodes has no node of that"
                r" id. Add the"
            ),
        ),
        (
            EDGES,
            {"id": [1, 2, 1]},
            {},
            (
                r"nodes: every node must have one row. Id 1 has another in row 2 \(from"
                r" 0\) \(1"
            ),
        ),
        (EDGES, {"id": []}, {}, "nodes: there are no rows. A graph needs at least one node"),
        (
            {"source": [], "target": []},
            None,
            {},
            "edges: there are no rows, and no node table names the nodes",
        ),
        (
            {"source": [1, None], "target": [2, 3]},
            None,
            {},
            r"column 'source': 1 id is missing, the first in row 1 \(from 0\)",
        ),
        (
            {"source": [1, 2], "target": ["a", None]},
            None,
            {},
            r"column 'target': 1 id is missing, the first in row 1 \(from 0\)",
        ),
        (
            {"source": [1.5], "target": [2]},
            None,
            {},
            "column 'source': ids must be integers of 64 bits or text. Got values of type double",
        ),
        (
            {"source": [True], "target": [2]},
            None,
            {},
            "column 'source': ids must be integers or text. Got values of type bool",
        ),
        (
            {**EDGES, "weight": ["x"]},
            None,
            {},
            "weight column 'weight' must hold numbers. Got values such as 'x'",
        ),
        (
            {"source": [1] * 4, "target": [2] * 4, "weight": [1, np.nan, 2, np.nan]},
            None,
            {},
            "weight column 'weight' must hold a finite number in every row. Got nothing in row 1"
            r" \(from 0\), and no finite number in 2 of 4 rows\. Fill in their weights, or drop",
        ),
        (
            {**EDGES, "w": [np.inf]},
            None,
            {"weight": "w"},
            r"weight column 'w' must hold a finite number in every row. Got inf in row 0",
        ),
        (
            {**EDGES, "graph": [1]},
            NODES,
            {},
            "edges has a column 'graph' that names graphs, but nodes has not. Add it there",
        ),
        (
            EDGES,
            {**NODES, "graph": [1, 1]},
            {},
            "nodes has a column 'graph' that names graphs, but edges has not",
        ),
        (
            {**EDGES, "graph": [1]},
            {**NODES, "graph": [1, 2]},
            {},
            "has 2 in column 'target', but nodes has no node of that id in its",
        ),
        (
            {**EDGES, "graph": [9]},
            {**NODES, "graph": [1, 1]},
            {},
            "has 1 in column 'source', but nodes has no node of that id in its",
        ),
        (
            EDGES,
            {**NODES, "d": pd.to_datetime(["2020", "2021"])},
            {"label": "d"},
            r"nodes: column 'd' has the type timestamp.*which cannot be used",
        ),
        (EDGES, None, {"hash": ("a",)}, "'text' and 'hash' name columns of a node table, and none"),
        (
            EDGES,
            {**NODES, "m": [1, "a"]},
            {},
            "nodes: the DataFrame has a column of mixed or unknown types",
        ),
    ],
)
def test_tables_that_cannot_be_used(edges, nodes, options, message):
    with pytest.raises(InputError, match=message):
        read_tables(
            pd.DataFrame(edges),
            None if nodes is None else pd.DataFrame(nodes),
            options=TableOptions(**options),
        )


def test_the_line_of_a_text_file_is_named(tmp_path):
    nodes = write(tmp_path / "n.csv", "id\n1\n2\n")
    with pytest.raises(
        InputError,
        match=r"edges \(e.csv\): row 2 \(line 3 with the header\) has 9 in column 'source'",
    ):
        read_tables(write(tmp_path / "e.csv", "source,target\n1,2\n9,2\n"), nodes)
    with pytest.raises(
        InputError,
        match=(r"edges \(f.csv\), column 'target': 1 id is missing, the first in row 2 \(line 3"),
    ):
        read_tables(write(tmp_path / "f.csv", "source,target\n1,2\n9,\n"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "e.csv",
            b"source target\n1 2\n",
            "Columns found: 'source target'. A single column often means another delimiter",
        ),
        (
            "e.tsv",
            b"source:target\n1:2\n",
            r"A single column .* name it with the option 'delimiter' \(--delimiter",
        ),
        ("e.csv", b"", "has no header. The first line must name the columns"),
        (
            "e.csv",
            b"source,target\n1,2,3\n",
            "cannot be read as a table with 2 columns split at ','.*Expected 2 columns, got 3",
        ),
        ("e.csv", b"s,t\n\xff\xfe,s", r"is not UTF-8 text \(line 2\). Give the encoding it was"),
        (
            "e.csv",
            b"source,source\n1,2\n",
            r"columns must have different names. \['source'\] occur more than once",
        ),
        ("e.parquet", b"not parquet at all", "cannot be read as Parquet. The reader says: "),
        ("e.parquet", b"", "cannot be read as Parquet"),
        (
            "e.dat",
            b"1 2",
            (
                "is no table that can be read. Accepted are files ending in .csv, .tsv, .txt,"
                " .csv.gz, .tsv.gz, .txt.gz, .zip, .parquet"
            ),
        ),
        ("e.gz", b"1 2", "is no table that can be read"),
        (
            "e.csv.gz",
            b"source,target\n1,2\n",
            "cannot be read as gzipped text. The reader says: Not a gzipped file",
        ),
        ("e.csv.gz", b"", "has no header"),
        (
            "e.csv.gz",
            gzip.compress(b"source:target\n1:2\n", mtime=0),
            "A single column often means another delimiter",
        ),
        (
            "e.csv.gz",
            gzip.compress(b"s,t\xff\xfe\x00s", mtime=0),
            r"is not UTF-8 text \(line 1\)",
        ),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_tables(tmp_path / name)


def test_a_truncated_parquet_file(tmp_path):
    pq.write_table(
        pa.table({"source": list(range(1000)), "target": list(range(1000))}), tmp_path / "e.parquet"
    )
    whole = (tmp_path / "e.parquet").read_bytes()
    (tmp_path / "e.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        InputError, match=r"edges \(e.parquet\): .*e.parquet cannot be read as Parquet"
    ):
        read_tables(tmp_path / "e.parquet")


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.999])
def test_a_truncated_gzipped_file(tmp_path, kept):
    rng = np.random.default_rng(0)
    text = "source,target\n" + "".join(
        f"{a},{b}\n" for a, b in rng.integers(0, 10**9, (200_000, 2))
    )
    whole = gzip.compress(text.encode())
    (tmp_path / "e.csv.gz").write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(InputError, match=r"edges \(e.csv.gz\): .*e.csv.gz cannot be read as"):
        read_tables(tmp_path / "e.csv.gz")


def test_missing_files_and_other_things(tmp_path):
    with pytest.raises(InputError, match=r"edges: there is no file .*none.csv. Check the path"):
        read_tables(tmp_path / "none.csv")
    with pytest.raises(
        InputError, match=r"edges must be a path, a pandas or polars DataFrame or a pyarrow Table"
    ):
        read_tables(3)
    doubled = pd.DataFrame([[1, 2, 3]], columns=["source", "target", "target"])
    with pytest.raises(InputError, match=r"edges: columns must have different names. \['target'\]"):
        read_tables(doubled)


@pytest.mark.parametrize(
    ("edge_id", "node_id"), [("8", "8.0"), ("8.0", "8"), ("007", "7"), ("Ann", "ANN"), ("x", '"x')]
)
def test_an_id_that_is_written_in_another_way_is_named(edge_id, node_id):
    edges = pd.DataFrame({"source": ["a"], "target": [edge_id]})
    nodes = pd.DataFrame({"id": ["a", node_id, "b"]})
    with pytest.raises(
        InputError,
        match=rf"has no node of that id, only {re.escape(repr(node_id))}: write ids in one way",
    ):
        read_tables(edges, nodes)


def test_another_id_is_not_named():
    edges = pd.DataFrame({"source": ["a"], "target": ["80"]})
    with pytest.raises(InputError, match=r"no node of that id\. Add the node, or drop the edge"):
        read_tables(edges, pd.DataFrame({"id": ["a", "8", "08.01"]}))
