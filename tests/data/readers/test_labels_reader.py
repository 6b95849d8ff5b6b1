"""Label and feature columns out of files, joined to embeddings by id."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.ids import IdColumn
from graphlatent.data.readers.labels import (
    RowKeys,
    match_rows,
    read_feature_columns,
    read_labels,
)
from graphlatent.errors import InputError

NAMES = list("hgfedcba")
NUMBERS = [7, 3, 100, -2, 0, 5, 6, 9]


def keys_of(*ids, names=("id",), where="embeddings (e.parquet)"):
    """Keys of rows with the ids in one or more columns."""
    named = zip(names or ("row number",), ids, strict=True)
    columns = [
        IdColumn(pa.array(each), f"{where}, column '{n}'", open_type=False) for n, each in named
    ]
    return RowKeys(tuple(columns), tuple(names), where)


def labels_of(tmp_path, frame, rows, *, label=(), id_column=None, name="labels.csv"):
    path = tmp_path / name
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    return read_labels(path, label=label, id_column=id_column, rows=rows)


def message_of(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


@settings(deadline=None)
@given(
    st.permutations(range(8)),
    st.sampled_from(["text", "numbers"]),
    st.sampled_from(["csv", "parquet"]),
)
def test_rows_are_joined_whatever_the_order(tmp_path_factory, order, kind, suffix):
    ids = np.array(NAMES if kind == "text" else NUMBERS)
    frame = pd.DataFrame({"id": ids[list(order)], "place": np.arange(8)[list(order)]})
    rows = keys_of(ids.tolist())
    table = labels_of(tmp_path_factory.mktemp("joined"), frame, rows, name=f"labels.{suffix}")
    np.testing.assert_array_equal(table.joined_to(rows)["place"], np.arange(8))


def test_ids_that_do_not_match(tmp_path):
    rows, full = keys_of(NAMES), pd.DataFrame({"id": NAMES, "y": 1})

    def message(frame, rows=rows):
        return message_of(lambda: match_rows(rows, labels_of(tmp_path, frame, rows).keys))

    assert (
        message(full[2:])
        == "labels (labels.csv) has no row for 2 of the 8 embeddings, the first of id 'h'. Add"
        " them."
    )
    assert (
        message(full.assign(id=[f"other {i}" for i in range(8)]))
        == "labels (labels.csv) has no row for 8 of the 8 embeddings, the first of id 'h'. Are"
        " these the ids of the same rows? Name their column with the option 'id'."
    )
    assert (
        message(pd.concat([full, full[:3]]))
        == "labels (labels.csv): 3 ids occur more than once, the first 'h'. An id must identify"
        " one row."
    )
    assert (
        message(full.assign(id=["a", None, *"bcdefg"]))
        == "labels (labels.csv), column 'id': 1 id is missing, the first in row 2 (line 3 with"
        " the header). Fill them or drop the rows."
    )
    assert (
        message(full, keys_of(NUMBERS))
        == "embeddings (e.parquet), column 'id' holds integers, but labels (labels.csv), column"
        " 'id' holds text such as 'h'. Ids must be of one type in all tables: turn one of the"
        " columns into the other's type."
    )
    assert message_of(lambda: keys_of([], where="t")) == "t: there are no rows."
    twice = message_of(lambda: keys_of(list("xyxyxa"), where="t"))
    assert twice == "t: 2 ids occur more than once, the first 'x'. An id must identify one row."


def test_a_table_of_some_of_the_rows(tmp_path):
    rows = keys_of(NAMES)
    frame = pd.DataFrame({"id": NAMES, "y": range(8), "z": np.arange(8) / 2, "t": list("abcdefgh")})
    columns = ("y", "z", "t")
    table = labels_of(tmp_path, frame[::-2], rows, label=columns)
    found = table.joined_to(rows, partial=True)
    assert found["y"].tolist() == [None, 1, None, 3, None, 5, None, 7]
    assert found["t"].tolist() == [None, "b", None, "d", None, "f", None, "h"]
    np.testing.assert_array_equal(found["z"], [np.nan, 0.5, np.nan, 1.5, np.nan, 2.5, np.nan, 3.5])
    whole = labels_of(tmp_path, frame, rows, label=columns)
    assert whole.joined_to(rows, partial=True)["y"].tolist() == list(range(8))
    wrong = frame.replace({"id": {NAMES[5]: "other"}})[2:]
    misspelt = labels_of(tmp_path, wrong, rows, label="y")
    assert (
        message_of(lambda: misspelt.joined_to(rows, partial=True))
        == "labels (labels.csv) has no row for 3 of the 8 embeddings, the first of id 'h', but"
        " rows of other ids, the first 'other'. Remove those rows, or add the missing ones with"
        " empty labels."
    )
    strangers = frame.assign(id=[f"other {i}" for i in range(8)])
    nothing = labels_of(tmp_path, strangers, rows, label="y")
    with pytest.raises(InputError, match="no row for 8 of the 8 embeddings"):
        nothing.joined_to(rows, partial=True)


def test_text_that_looks_like_numbers_is_compared_as_text(tmp_path):
    ids = ["007", "7", "07", "1e3"]
    rows, frame = keys_of(ids), pd.DataFrame({"id": ids[::-1], "y": range(4)})
    for name in ("l.csv", "l.parquet"):
        table = labels_of(tmp_path, frame, rows, name=name)
        assert table.joined_to(rows)["y"].tolist() == [3, 2, 1, 0]


def test_nodes_of_several_graphs_are_identified_by_graph_and_id(tmp_path):
    graphs, ids = np.repeat(["x", "y"], 4).tolist(), np.tile(np.arange(4), 2).tolist()
    rows = keys_of(graphs, ids, names=("graph", "id"))
    frame = pd.DataFrame({"graph": graphs, "acct": ids, "y": np.arange(8)})
    table = labels_of(tmp_path, frame[::-1], rows, id_column="acct")
    np.testing.assert_array_equal(table.joined_to(rows)["y"], np.arange(8))
    short = labels_of(tmp_path, frame[frame.index != 5], rows, id_column="acct")
    assert (
        message_of(lambda: short.joined_to(rows))
        == "labels (labels.csv) has no row for 1 of the 8 embeddings, the first of id 'y' / 1. Add"
        " them."
    )
    twice = message_of(lambda: keys_of(["x", "x", "y"], [1, 1, 1], names=("graph", "id")))
    assert "1 id occurs more than once, the first 'x' / 1" in twice
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    array = read_labels(tmp_path / "y.npy", label=(), id_column=None, rows=rows)
    assert (
        message_of(lambda: array.joined_to(rows))
        == "embeddings (e.parquet) has rows of several graphs, identified by graph and id, but"
        " labels (y.npy) has row numbers only."
    )


def test_files_without_ids_have_row_numbers(tmp_path):
    rows = keys_of(list(range(8)), names=(), where="embeddings (e.npy)")

    def read(labels):
        np.save(tmp_path / "y.npy", labels)
        return read_labels(tmp_path / "y.npy", label=(), id_column=None, rows=rows)

    np.testing.assert_array_equal(match_rows(rows, read(np.arange(8)).keys), np.arange(8))
    assert (
        message_of(lambda: match_rows(rows, read(np.arange(9)).keys))
        == "embeddings (e.npy) has no ids, so labels (y.npy) must have the same rows in the same"
        " order: 8. Got 9."
    )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"one": np.arange(8), "two": np.arange(8)},
            "which array holds the labels? Name it with the option 'label'. Arrays found: 'one',"
            " 'two'.",
        ),
        (
            {},
            "which array holds the labels? Name it with the option 'label'. Arrays found: none.",
        ),
        (
            {"y": np.zeros((2, 2, 2))},
            "labels must be one per row [M], or a 0/1 matrix [M, K]. Got shape (2, 2, 2) of"
            " float64.",
        ),
        (
            {"y": np.zeros((8, 0))},
            "labels must be one per row [M], or a 0/1 matrix [M, K]. Got shape (8, 0) of float64.",
        ),
        ({"y": np.arange(8), "ids": np.arange(7)}, "its arrays must all have one entry per row."),
    ],
)
def test_arrays_that_are_no_labels(tmp_path, arrays, message):
    np.savez(tmp_path / "y.npz", **arrays)
    said = message_of(
        lambda: read_labels(tmp_path / "y.npz", label=(), id_column=None, rows=keys_of(NUMBERS))
    )
    assert said == f"labels (y.npz): {message}"


def test_columns_of_a_matrix_and_of_named_arrays(tmp_path):
    np.savez(tmp_path / "y.npz", ids=NUMBERS, y=np.eye(8)[:, :2], z=np.arange(8))
    rows = keys_of(NUMBERS)
    table = read_labels(tmp_path / "y.npz", label=(), id_column=None, rows=rows)
    assert list(table.columns) == ["y 0", "y 1"]
    named = read_labels(tmp_path / "y.npz", label=("z",), id_column=None, rows=rows)
    assert named.joined_to(rows)["z"].tolist() == list(range(8))


def test_which_column_holds_the_labels(tmp_path):
    rows = keys_of([1, 2])
    assert list(labels_of(tmp_path, pd.DataFrame({"id": [1, 2], "a": 0}), rows).columns) == ["a"]
    frame = pd.DataFrame({"id": [1, 2], "a": 0, "y": 1})
    assert list(labels_of(tmp_path, frame, rows).columns) == ["y"]
    assert list(labels_of(tmp_path, frame, rows, label=["a", "y"]).columns) == ["a", "y"]
    assert (
        message_of(lambda: labels_of(tmp_path, frame.rename(columns={"y": "b"}), rows))
        == "labels (labels.csv): which column holds the labels? Name it with the option 'label'."
        " Columns found: 'a', 'b'."
    )


def test_features_are_all_columns_but_ids_and_labels(tmp_path):
    path = tmp_path / "nodes.csv"
    pd.DataFrame({"id": NAMES, "y": 1, "size": np.arange(8), "city": "Oslo"}).to_csv(
        path, index=False
    )

    def read(drop, features=None):
        return read_feature_columns(
            path, drop=drop, features=features, id_column=None, rows=keys_of(NAMES)
        )

    assert list(read(["y"]).columns) == ["size", "city"]
    assert list(read(["y"], ["city", "y"]).columns) == ["city"]
    for drop, features in ((["y", "size", "city"], None), (["y"], [])):
        assert (
            message_of(lambda drop=drop, features=features: read(drop, features))
            == "nodes (nodes.csv): there are no feature columns beside ids and labels."
        )
