"""Damaged files and values of odd types: one sentence that says what is wrong."""

from __future__ import annotations

import inspect
import io
import re
import zipfile
from decimal import Decimal

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import InputError
from graphlatent.ops.sparse import to_dense

ADJACENCY = {"data": [1.0, 1.0], "indices": [1, 0], "indptr": [0, 1, 2], "shape": [2, 2]}


def refuses(source, message, **options):
    with pytest.raises(InputError, match=message) as caught:
        read_graphs(source, **options)
    assert "\n" not in str(caught.value)


def packed(method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for part, values in ADJACENCY.items():
            array = io.BytesIO()
            np.save(array, np.array(values))
            archive.writestr(f"adj_{part}.npy", array.getvalue())
    return bytearray(file.getvalue())


def test_npz(tmp_path):
    path, whole = tmp_path / "g.npz", packed()
    path.write_bytes(whole)
    assert read_graphs(path).num_edges == 2
    encrypted = bytearray(whole)
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = encrypted.find(mark)
        while at >= 0:
            encrypted[at + offset] |= 1
            at = encrypted.find(mark, at + 1)
    cut, flipped = whole[:-50], bytearray(whole)
    flipped[whole.find(b"NUMPY") + 130] ^= 1
    lzma = packed(zipfile.ZIP_LZMA)
    lzma[70:100] = bytes(30)
    for content in (encrypted, cut, flipped, lzma):
        path.write_bytes(content)
        refuses(path, "g.npz cannot be read as a gnn-benchmark .npz file. The reader says: ")


@pytest.mark.parametrize("shape", [[np.inf, 2], [-2, -2], [2**62, 2**62], 3, [2], [np.nan, 2]])
def test_npz_of_an_odd_shape(tmp_path, shape):
    parts = {f"adj_{part}": np.array(values) for part, values in ADJACENCY.items()}
    np.savez(tmp_path / "g.npz", **{**parts, "adj_shape": np.array(shape)})
    refuses(tmp_path / "g.npz", "g.npz cannot be read as a gnn-benchmark .npz file")


SPARSE = {
    **{"data": np.ones(4), "indices": np.arange(4), "indptr": np.arange(5)},
    "shape": np.array([4, 4]),
}


@pytest.mark.parametrize("prefix", ["adj", "attr"])
@pytest.mark.parametrize(
    ("part", "array", "message"),
    [
        ("data", np.ones(4, "S3"), "_data must hold real numbers. Got values of type |S3."),
        ("data", np.ones(4, complex), "_data must hold real numbers. Got values of type complex"),
        ("data", np.zeros(4, "M8[s]"), "_data must hold real numbers. Got values of type datetime"),
        ("indices", np.arange(4.0) / 2, "_indices must hold integers. Got float64 values."),
        ("indptr", np.array(list("abcde")), "_indptr must hold integers. Got <U1 values."),
        ("indices", np.arange(2), "The reader says: indices and data should have the same size."),
    ],
)
def test_npz_with_arrays_of_odd_types(tmp_path, prefix, part, array, message):
    parts = {f"{p}_{k}": v for p in ("adj", "attr") for k, v in SPARSE.items()}
    np.savez(tmp_path / "g.npz", **{**parts, f"{prefix}_{part}": array})
    refuses(tmp_path / "g.npz", re.escape(message))


def test_npz_in_half_precision(tmp_path):
    half = {"data": np.full(4, 0.5, np.float16)}
    parts = {f"{p}_{k}": v for p in ("adj", "attr") for k, v in {**SPARSE, **half}.items()}
    np.savez(tmp_path / "g.npz", **parts)
    graph = read_graphs(tmp_path / "g.npz")
    assert graph.edge_weight.tolist() == [0.5] * 4
    assert float(to_dense(graph.x).sum()) == 2


@pytest.mark.parametrize(
    "encoding", ["utf-7", "utf-16", "utf-32", "rot13", "idna", "shift_jis", "undefined", "nosuch"]
)
def test_graphml_in_odd_encodings(tmp_path, encoding):
    path = tmp_path / "g.graphml"
    path.write_text(f"<?xml version='1.0' encoding='{encoding}'?><graphml><graph/></graphml>")
    refuses(path, "g.graphml cannot be read as GraphML. The reader says: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<graph id='g'/><graph id='g'/>", "two graphs with the id 'g'. Give every graph an id"),
        ("<node id='a'/>", "a <node> element outside <graph>. Move it into the graph"),
        ("<graph/><node id='a'/>", "a <node> element outside <graph>"),
        ("<graph/><edge source='a' target='a'/>", "has a <edge> element outside <graph>"),
        ("<graph><node id='a'><node id='b'/></node></graph>", "a <node> element outside <graph>"),
        ("<graph edgedefault='Directed'/>", "'edgedefault' must be one of .*Got 'Directed'"),
        (
            "<graph><node id='a'/><edge source='a' target='a' directed='yes'/></graph>",
            "the attribute 'directed' must be one of 'true', '1', 'false', '0'. Got 'yes'",
        ),
        (
            "<key id='k' attr.name='x'/><key id='k' attr.name='y'/>",
            "two <key> elements with the id 'k'",
        ),
        (
            "<graph><node id='a'><data key='k'>1</data><data key='k'>2</data></node></graph>",
            "a node has two values of key 'k'. Drop one",
        ),
    ],
)
def test_graphml_that_says_two_things(tmp_path, content, message):
    (tmp_path / "g.graphml").write_text(f"<graphml>{content}</graphml>")
    refuses(tmp_path / "g.graphml", message)


def test_graphml_with_directions_of_its_edges(tmp_path):
    edges = "".join(
        f"<edge source='{s}' target='{t}' directed='{d}'/>"
        for s, t, d in (("a", "b", "1"), ("b", "c", "0"), ("c", "d", "true"))
    )
    nodes = "".join(f"<node id='{each}'/>" for each in "abcd")
    (tmp_path / "g.graphml").write_text(f"<graphml><graph>{nodes}{edges}</graph></graphml>")
    graph = read_graphs(tmp_path / "g.graphml", symmetrize=False)
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 2], [2, 1], [2, 3]]


def test_parquet_damaged_in_the_middle(tmp_path):
    path = tmp_path / "e.parquet"
    frame = pd.DataFrame({"source": ["n1", "n2"] * 50, "target": ["n3", "n4"] * 50})
    frame.to_parquet(path, compression=None)
    whole = path.read_bytes()
    # Text that is not UTF-8 is found when the file is read, not where a name is shown.
    path.write_bytes(whole.replace(b"n2", b"n\xff"))
    refuses(path, "e.parquet cannot be read as Parquet. The reader says: .*UTF8")
    path.write_bytes(whole[:20] + bytes(40) + whole[60:])
    refuses(path, "e.parquet cannot be read as Parquet. The reader says: ")


def test_parquet_with_checksums(tmp_path):
    path, table = tmp_path / "e.parquet", pa.table({"source": ["n1", "n2"], "target": ["n2", "n1"]})
    if "write_page_checksum" not in inspect.signature(pq.write_table).parameters:
        pytest.skip("this version of pyarrow writes no checksums")
    pq.write_table(table, path, compression="none", write_page_checksum=True)
    assert read_graphs(path, symmetrize=False).num_edges == 2
    checked = bytearray(path.read_bytes())
    checked[checked.find(b"n2") + 1] = ord("9")
    path.write_bytes(checked)
    refuses(path, "e.parquet cannot be read as Parquet. The reader says: .*CRC")


def test_a_first_weight_that_is_missing_and_a_later_text(tmp_path):
    (tmp_path / "e.csv").write_text("source,target,weight\n0,1,\n1,2,much\n")
    refuses(
        tmp_path / "e.csv", "weight column 'weight' must hold numbers. Got values such as 'much'"
    )


def test_a_header_over_several_lines(tmp_path):
    (tmp_path / "e.csv").write_text('"sou\nrce",target\n0,1\n')
    refuses(tmp_path / "e.csv", "a line break in the name of a column")


@pytest.mark.parametrize("labels", [(2**63 - 1, -(2**63)), (-(2**63), 2**63 - 1)])
def test_tu_labels_at_the_limits_of_64_bits(tmp_path, labels):
    (tmp_path / "T_A.txt").write_text("1, 2\n2, 1\n")
    (tmp_path / "T_graph_indicator.txt").write_text("1\n1\n")
    (tmp_path / "T_node_labels.txt").write_text("{}\n{}\n".format(*labels))
    first = int(labels[0] > 0)
    assert read_graphs(tmp_path).x.tolist() == [[1 - first, first], [first, 1 - first]]
    (tmp_path / "T_graph_indicator.txt").write_text(f"1\n{2**63}\n")
    refuses(tmp_path, "must have one graph number, from 1, in each line")


class Incomparable:
    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


@pytest.mark.parametrize(
    "weight", [10**400, None, "1", 1j, Decimal(1), np.complex64(1), [1], float("inf")]
)
def test_networkx_weights_of_odd_types(weight):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=2.0)
    graph.add_edge(1, 2, cost=weight)
    graph[0][1]["cost"] = 1
    message = r"edge attribute 'cost' must be a number everywhere. Edge \(1, 2\) has .{1,60}. Give"
    refuses(graph, message, weight="cost")
    # Python does not write so many digits.
    graph[1][2]["cost"] = 10**5000
    refuses(graph, "has an integer of thousands of digits. Give it", weight="cost")


@pytest.mark.parametrize(
    "weight", [Incomparable(), np.ones((3, 3)), pd.Series([1, 2]), np.timedelta64(1, "s")]
)
def test_networkx_weights_that_cannot_be_compared(weight):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=weight)
    refuses(graph, "edge attribute 'weight' must be a number everywhere")


def test_networkx_vectors_that_are_ragged():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, [[1, 2], [3]], "x")
    refuses(graph, "attribute 'x' must be a vector on every node")


def test_networkx_features_that_are_too_large():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: 1, 1: 10**400}, "x")
    refuses(graph, "attribute 'x' of node 1 is 10+[.]{3}, too large for a feature")


def test_sparse_matrices_that_hold_no_real_numbers():
    matrix = sp.coo_matrix(([1j], ([0], [1])), shape=(2, 2))
    refuses(matrix, "an adjacency must hold real numbers. Got values of type complex128")
    broken = sp.csr_matrix((np.ones(2), [0, 1], [0, 1, 2]), shape=(2, 2))
    broken.indices = np.array([0, 99])
    refuses(broken, "graph: the adjacency is inconsistent. The reader says: ")
