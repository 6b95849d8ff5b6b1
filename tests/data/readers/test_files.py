from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from graphlatent.data.assemble import assemble
from graphlatent.data.readers.files import read_path
from graphlatent.data.readers.options import TableOptions
from graphlatent.errors import InputError

GRAPHML = (
    '<graphml><graph id="{0}"><node id="{0}1"/><node id="{0}2"/><edge source="{0}1"'
    ' target="{0}2"/></graph></graphml>'
)


def test_tables_by_suffix(tmp_path):
    (tmp_path / "e.CSV").write_text("from,to\n1,2\n")
    (raw,) = read_path(tmp_path / "e.CSV", options=TableOptions(source="from", target="to"))
    assert raw.edge_index.tolist() == [[0], [1]]
    pd.DataFrame({"source": [1], "target": [2]}).to_parquet(tmp_path / "e.parquet")
    (raw,) = read_path(str(tmp_path / "e.parquet"), nodes=pd.DataFrame({"id": [2, 1]}))
    assert raw.edge_index.tolist() == [[1], [0]]


def test_graphml_and_a_folder_of_them(tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.graphml").write_text(GRAPHML.format(name))
    (tmp_path / "notes.md").write_text("not a graph")
    (raw,) = read_path(tmp_path / "a.graphml")
    assert raw.graph_id is None
    graphs = read_path(tmp_path)
    assert [g.graph_id for g in graphs] == ["a", "b", "c"]
    assert assemble(graphs).node_ids.tolist() == ["a1", "a2", "b1", "b2", "c1", "c2"]


def test_several_graphs_in_a_file_of_a_folder(tmp_path):
    (tmp_path / "two.graphml").write_text(
        '<graphml><graph id="x"><node id="1"/></graph><graph id="y"><node'
        ' id="1"/></graph></graphml>'
    )
    assert [g.graph_id for g in read_path(tmp_path)] == ["two/x", "two/y"]


def test_npz_and_tu_folder(tmp_path):
    csr = sp.csr_matrix(np.array([[0, 1], [1, 0]]))
    np.savez(
        tmp_path / "g.npz",
        adj_data=csr.data,
        adj_indices=csr.indices,
        adj_indptr=csr.indptr,
        adj_shape=csr.shape,
    )
    (raw,) = read_path(tmp_path / "g.npz")
    assert raw.num_nodes == 2
    raw_folder = tmp_path / "TOY" / "raw"
    raw_folder.mkdir(parents=True)
    (raw_folder / "TOY_A.txt").write_text("1, 2\n2, 1\n")
    (raw_folder / "TOY_graph_indicator.txt").write_text("1\n1\n2\n")
    for folder in (tmp_path / "TOY", raw_folder):
        assert [g.num_nodes for g in read_path(folder)] == [2, 1]
    (raw_folder / "TOY_edge_labels.txt").write_text("1\n2\n")
    first, second = read_path(raw_folder)
    assert first.notes["files"].startswith("TOY: TOY_edge_labels.txt is not used. The option")
    assert not second.notes


def test_options_for_columns_where_there_are_none(tmp_path):
    np.savez(tmp_path / "g.npz", x=np.ones(1))
    (tmp_path / "TOY").mkdir()
    (tmp_path / "TOY" / "TOY_A.txt").write_text("1, 2\n")
    for path in (tmp_path / "g.npz", tmp_path / "TOY"):
        with pytest.raises(
            InputError,
            match=(
                r"The options 'label', 'features' name attributes or columns of NetworkX graphs,"
                r" GraphML files and tables; .* has none"
            ),
        ):
            read_path(path, options=TableOptions(label="y", features=("a",)))


def test_what_is_not_accepted(tmp_path):
    accepted = "Accepted are edge tables .* and folders in the TU layout"
    with pytest.raises(
        InputError, match=f"There is no file or folder .*nothing.csv. Check the path. {accepted}"
    ):
        read_path(tmp_path / "nothing.csv")
    (tmp_path / "g.txt").write_text("1 2")
    with pytest.raises(InputError, match=f"g.txt is of no kind that can be read. {accepted}"):
        read_path(tmp_path / "g.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=f"The folder .*empty holds nothing that can be read. {accepted}"
    ):
        read_path(tmp_path / "empty")
    (tmp_path / "a.graphml").write_text(GRAPHML.format("a"))
    with pytest.raises(
        InputError,
        match=(
            r"A node table goes with an edge table \(.csv, .tsv, .csv.gz, .tsv.gz, .parquet\) only,"
            r" but .*a.graphml is none"
        ),
    ):
        read_path(tmp_path / "a.graphml", nodes=pd.DataFrame({"id": [1]}))
