"""Text tables as people have them: delimiters, encodings, packed files, no header, a pipe."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent import read_graphs
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.tables import read_tables
from graphlatent.errors import GraphLatentWarning, InputError

TEXT = "source,target,weight\nzoë,b,1.5\nb,c,2\n"


def read(path, **options):
    (raw,) = read_tables(path, options=TableOptions(**options))
    return raw


def edges_of(raw):
    ids = raw.node_ids.tolist()
    return [(ids[a], ids[b]) for a, b in raw.edge_index.T]


def check(raw, *, weighted=True):
    assert edges_of(raw) == [("zoë", "b"), ("b", "c")]
    assert not weighted or raw.edge_weight.tolist() == [1.5, 2]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz", ".txt.gz"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_delimiters_are_found_or_given(tmp_path, suffix, delimiter):
    path, text = tmp_path / f"e{suffix}", TEXT.replace(",", delimiter).encode()
    path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    found = read(path)
    check(found)
    usual = {".csv": ",", ".tsv": "\t"}.get(suffix.removesuffix(".gz"))
    words = "tabs" if delimiter == "\t" else repr(delimiter)
    said = [text for text in found.notes.values() if f"cells are split at {words}" in text]
    assert len(said) == (usual != delimiter)
    given = read(path, delimiter=delimiter)
    check(given)
    assert not given.notes


def test_the_given_delimiter_goes_before_that_of_the_first_line(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("source;target;a,b\n1;2;x,y\n")
    (raw,) = read_tables(path, options=TableOptions(delimiter=";"))
    assert raw.node_ids.tolist() == [1, 2] and "a,b" in "".join(raw.notes.values())
    with pytest.raises(InputError, match=r"Columns found: 'source;target;a', 'b'"):
        read_tables(path)
    for name in ("tab", "\\t", "\t"):
        assert TableOptions(delimiter=name).delimiter == "\t"


def test_columns_apart_by_any_number_of_spaces(tmp_path):
    path = tmp_path / "e.txt"
    path.write_text("  source  target   weight\r\nzoë  b 1.5  \r\nb\tc   2", encoding="utf-8")
    found = read(path)
    check(found)
    assert "split at spaces" in "".join(found.notes.values())
    check(read(path, delimiter="space"))


def test_comments_and_no_header(tmp_path):
    """As in the collections SNAP and KONECT."""
    path = tmp_path / "e.txt"
    path.write_text("# Nodes: 4 Edges: 3\n# From\tTo\n\n10\t2\n2\t33\n\n33\t7\n")
    found = read(path, no_header=True)
    assert edges_of(found) == [(10, 2), (2, 33), (33, 7)]
    assert "skipped 2 lines of comments at the start" in "".join(found.notes.values())
    # Without the option, the first edge would be lost.
    with pytest.raises(InputError, match=r"'10', '2'\. .* no header, say so \(no_header=True"):
        read(path)
    path.write_text("% sym\n1 2 0.5\n2 3\n")
    with pytest.raises(InputError, match="Expected 3 columns, got 2"):
        read(path, no_header=True)
    path.write_text("% sym\n1 2 0.5\n2 x 1\n,")
    with pytest.raises(InputError, match=r"cannot be read as a table with 3 columns"):
        read(path, no_header=True)
    path.write_text("% sym\n1 2 0.5\n 3 1\n")
    with pytest.raises(InputError, match=r"Expected 3 columns, got 2"):
        read(path, no_header=True)


def test_columns_by_number(tmp_path):
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    edges.write_text("2020,a,b,3\n2021,b,c,4\n")
    nodes.write_text("1.5,a,x\n2.5,c,y\n3.5,b,x\n")
    options = TableOptions(no_header=True, source=1, target="2", weight="3", id="1", label="2")
    (raw,) = read_tables(edges, nodes, options=options)
    assert edges_of(raw) == [("a", "b"), ("b", "c")] and raw.edge_weight.tolist() == [3, 4]
    assert raw.columns["0"].tolist() == [1.5, 2.5, 3.5] and raw.y.tolist() == ["x", "y", "x"]
    assert TableOptions.from_dict(options.to_dict()) == options
    edges.write_text("2020,a,b,3\n2021,b,d,4\n")
    with pytest.raises(
        InputError, match=r"edges \(e.csv\): row 2 \(line 2\) has 'd' in column '2'"
    ):
        read_tables(edges, nodes, options=options)


def test_columns_called_by_their_places_mean_a_file_without_a_header(tmp_path):
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    edges.write_text("a,b,3\nb,c,4\n")
    nodes.write_text("c,1.5\na,2.5\nb,3.5\n")
    for options in ({"source": "0", "target": "1"}, {"source": 0, "target": 1, "id": 0}):
        with_nodes = "id" in options
        (raw,) = read_tables(
            edges, nodes if with_nodes else None, options=TableOptions(weight="2", **options)
        )
        assert edges_of(raw) == [("a", "b"), ("b", "c")] and raw.edge_weight.tolist() == [3, 4]
        notes = "".join(raw.notes.values())
        assert "edges (e.csv): the first line, 'a', 'b', '3', is read as a row" in notes
        assert (
            "nodes (n.csv): the first line, 'c', '1.5', is read as a row" in notes
        ) == with_nodes
    # Names above numbers, columns that are called so, and places that are not there.
    by_place = {"source": "0", "target": "1"}
    edges.write_text("payer,payee,amount\na,b,3\n")
    with pytest.raises(InputError, match=r"there is no column '0'.*found: 'payer', 'payee'"):
        read(edges, **by_place)
    edges.write_text("1,0\na,b\n")
    found = read(edges, **by_place)
    assert edges_of(found) == [("b", "a")]
    assert "'1', '0', is read as a header, as it has" in "".join(found.notes.values())
    edges.write_text("1,2\n0,1\n")
    assert edges_of(read(edges, **by_place)) == [(1, 2), (0, 1)]
    edges.write_text("a,b\nb,c\n")
    with pytest.raises(InputError, match=r"there is no column '0'"):
        read(edges, source="0", target="2")


def test_a_header_that_was_denied(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("source,target\n1,2\n2,3\n")
    with pytest.raises(
        InputError, match=r"looks like a header: 'source', 'target'\. Leave out no_"
    ):
        read(path, no_header=True)
    path.write_text("source,target\na,b\n")
    assert edges_of(read(path, no_header=True)) == [("source", "target"), ("a", "b")]


def test_blank_lines_before_the_header(tmp_path):
    (tmp_path / "e.csv").write_text("\n\r\nsource,target\n1,2\n3,\n")
    with pytest.raises(InputError, match=r"1 id is missing, the first in row 2 \(line 5"):
        read(tmp_path / "e.csv")
    (tmp_path / "e.csv").write_text("\n\n")
    with pytest.raises(InputError, match="has no header"):
        read(tmp_path / "e.csv")


@pytest.mark.parametrize(
    "codec", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252", "utf-16-le"]
)
def test_encodings(tmp_path, codec):
    path = tmp_path / "e.csv"
    path.write_bytes(TEXT.encode(codec))
    check(read(path, encoding=codec))
    if codec in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        check(read(path))
        return
    with pytest.raises(InputError, match=r"(is not UTF-8 text|NUL characters).*encoding="):
        read(path)


def test_big_endian_with_a_mark(tmp_path):
    (tmp_path / "e.csv").write_bytes(codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"))
    check(read(tmp_path / "e.csv"))


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (
            "zoë,b\n".encode("latin-1"),
            None,
            r"is not UTF-8 text \(line 3\)\. .* --encoding latin-1",
        ),
        (b"\xc3", None, r"is not UTF-8 text \(line 3\)"),
        (b"\xff", "ascii", r"is not ASCII text \(line 3\)\. Give the one it was written in"),
    ],
)
def test_what_is_not_in_its_encoding(tmp_path, content, encoding, message):
    (tmp_path / "e.csv").write_bytes(b"source,target\n1,2\n" + content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "e.csv", encoding=encoding)


def test_a_character_between_two_chunks(tmp_path):
    text = "source,target\n" + "a" * (2**20 - 15) + "é,b\n"
    assert text.encode()[2**20 - 1 : 2**20 + 1] == "é".encode()
    (tmp_path / "e.csv").write_text(text, encoding="utf-8")
    assert len(edges_of(read(tmp_path / "e.csv"))[0][0]) == 2**20 - 14
    (tmp_path / "e.csv").write_bytes(text.encode()[: 2**20])
    with pytest.raises(InputError, match=r"is not UTF-8 text \(line 2\)"):
        read(tmp_path / "e.csv")


def test_options_that_cannot_be():
    for delimiter in ("ab", "", '"', "\n", "é", "a", 3):
        with pytest.raises(InputError, match="'delimiter' must be"):
            TableOptions(delimiter=delimiter)
    for encoding in ("utf-7000", "base64", "rot13", 3, "a\0b"):
        with pytest.raises(InputError, match="'encoding' must be one that Python knows"):
            TableOptions(encoding=encoding)
    with pytest.raises(InputError, match=r"'no_header' must be a bool. Got 'yes'"):
        TableOptions(no_header="yes")


def test_another_mark_than_the_encoding_that_was_given(tmp_path):
    (tmp_path / "e.csv").write_bytes(TEXT.encode("utf-8-sig"))
    with pytest.raises(InputError, match=r"byte order mark of utf-8, so that it is not latin-1"):
        read(tmp_path / "e.csv", encoding="latin-1")


def zipped(path, **files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name.replace("_", ".").replace("~", "__"), text)
    return path


def test_the_only_table_in_a_zip_file(tmp_path):
    path = zipped(tmp_path / "a.zip", e_csv=TEXT, README_md="x", **{"~MACOSX/e_csv": "y"})
    check(read(path))
    check(read(zipped(tmp_path / "A.ZIP", e_TSV=TEXT.replace(",", "\t"))))
    several = zipped(tmp_path / "b.zip", e_csv=TEXT, n_csv=TEXT)
    with pytest.raises(
        InputError, match=r"must hold one table .* holds 2 \(e.csv, n.csv\)\. Unpack"
    ):
        read(several)
    with pytest.raises(InputError, match=r"holds none\. Unpack"):
        read(zipped(tmp_path / "c.zip", README_md="x"))
    (tmp_path / "d.zip").write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"cannot be read as a .zip file. The reader says"):
        read(tmp_path / "d.zip")
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 255
    (tmp_path / "d.zip").write_bytes(damaged)
    with pytest.raises(InputError, match=r"cannot be read as a .zip file"):
        read(tmp_path / "d.zip")
    # The flag that a file is encrypted, in its entry of the directory.
    locked = bytearray(path.read_bytes())
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "d.zip").write_bytes(locked)
    with pytest.raises(InputError, match=r"is encrypted. Unpack it"):
        read(tmp_path / "d.zip")


@pytest.mark.parametrize("suffix", [".zip", ".csv.gz", "utf-16"])
def test_packed_tables_keep_to_the_limit_of_memory(tmp_path, suffix):
    text = "source,target\n" + "1,2\n" * 500_000
    if suffix == ".zip":
        path = zipped(tmp_path / "e.zip", e_csv=text)
    elif suffix == ".csv.gz":
        path = tmp_path / "e.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path = tmp_path / "e.csv"
        path.write_text("source,target\n" + "あああ,いいい\n" * 100_000, encoding=suffix)
    with pytest.raises(InputError, match=r"(unpacked|decoded) .* or more, needs about"):
        read_graphs(path, max_memory="5MB" if suffix == "utf-16" else "3MB")
    assert read_graphs(path, symmetrize=False, max_memory="50MB").num_nodes == 2


class Pipe(io.TextIOWrapper):
    """Standard input with a table in it."""

    def __init__(self, text, *, terminal=False):
        super().__init__(io.BytesIO(text))
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def test_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Pipe(TEXT.encode("utf-16")))
    check(read("-"))
    nodes = pd.DataFrame({"id": ["zoë", "b", "c"], "a": [1, 2, 4]})
    monkeypatch.setattr(sys, "stdin", Pipe(TEXT.encode()))
    graph = read_graphs("-", nodes=nodes, symmetrize=False, delimiter=",")
    assert graph.num_nodes == 3
    monkeypatch.setattr(sys, "stdin", Pipe(nodes.to_csv(index=False).encode()))
    edges = pd.DataFrame({"source": ["b"], "target": ["zoë"]})
    assert read_graphs(edges, nodes="-", symmetrize=False, delimiter=",").columns["a"].tolist() == [
        1,
        2,
        4,
    ]
    monkeypatch.setattr(sys, "stdin", Pipe(TEXT.encode()))
    with pytest.warns(
        GraphLatentWarning, match=r"edges \(standard input\): cells are split at ','"
    ):
        read_graphs("-", symmetrize=False)
    for stdin in (None, io.StringIO("no bytes"), Pipe(b"", terminal=True)):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(InputError, match=r"\(standard input\) has no data. Send a table into"):
            read("-")
    with pytest.raises(InputError, match="cannot both come from standard input"):
        read_graphs("-", nodes="-")
    monkeypatch.setattr(sys, "stdin", Pipe(b"source,target\n" + b"1,2\n" * 500_000))
    with pytest.raises(InputError, match=r"\(standard input\).* or more, needs about"):
        read_graphs("-", max_memory="3MB")


def test_a_node_table_gives_the_same_from_every_text_form(tmp_path):
    rng = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": range(50), "a": rng.normal(size=50), "t": ["ä", "b"] * 25})
    edges = pd.DataFrame({"source": range(49), "target": range(1, 50)})
    nodes.to_csv(tmp_path / "n.csv", index=False)
    nodes.to_csv(tmp_path / "m.txt", index=False, sep=";", encoding="latin-1")
    nodes.to_csv(tmp_path / "o.txt", index=False, header=False, sep=" ")
    graphs = [
        read_graphs(edges, nodes=tmp_path / "n.csv", symmetrize=False),
        read_graphs(
            edges, nodes=tmp_path / "m.txt", symmetrize=False, encoding="latin-1", delimiter=";"
        ),
    ]
    assert graphs[0].fingerprint() == graphs[1].fingerprint()
    bare = read_graphs(
        edges.set_axis(["0", "1"], axis=1),
        nodes=tmp_path / "o.txt",
        symmetrize=False,
        delimiter="space",
        no_header=True,
    )
    for old, new in (("a", "1"), ("t", "2")):
        assert bare.columns[new].tolist() == graphs[0].columns[old].tolist()


cells = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(cells, cells), min_size=1, max_size=8),
    st.sampled_from([",", ";", "|", "\t", " "]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    st.booleans(),
    st.sampled_from([".csv", ".txt", ".csv.gz", ".zip"]),
)
def test_any_text_comes_back(tmp_path_factory, rows, delimiter, codec, no_header, suffix):
    rows = [(f"n{a}.", f"n{b}.") for a, b in rows]
    stream = io.StringIO()
    lines = rows if no_header else [("source", "target"), *rows]
    csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(lines)
    data = stream.getvalue().encode(codec)
    path = tmp_path_factory.mktemp("text") / f"e{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("e.csv", data)
    else:
        path.write_bytes(gzip.compress(data) if suffix == ".csv.gz" else data)
    assert edges_of(read(path, delimiter=delimiter, no_header=no_header)) == rows
