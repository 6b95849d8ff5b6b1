"""Embeddings and labels out of files: matched by id whatever the order, and refused in full
sentences.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_probe import fails, told

import commands
from graphlatent.cli.labelled import match_rows, read_embeddings, read_features, read_labels
from graphlatent.cli.targets import Target, as_target, refuse_label
from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError

ROWS = np.arange(24, dtype=np.float32).reshape(8, 3)
NAMES = np.array(list("hgfedcba"), dtype=object)
NUMBERS = np.array([7, 3, 100, -2, 0, 5, 6, 9])


def labels_of(tmp_path, frame, *, like, labels=(), id_column=None, name="labels.csv"):
    path = tmp_path / name
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    return read_labels(path, labels=labels, id_column=id_column, like=like)


def message_of(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


# --- embeddings ---


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz"])
@pytest.mark.parametrize(
    "ids", [NAMES, NUMBERS, np.array(["007", "7", "07", "1e3", "z", "é", "x", "y"], dtype=object)]
)
def test_embeddings_come_back_as_they_were_saved(tmp_path, suffix, ids):
    found = read_embeddings(Embeddings(ROWS, ids).save(tmp_path / f"e{suffix}"))
    np.testing.assert_array_equal(found.values, ROWS)
    assert [str(v) for v in found.keys[0].values.to_pylist()] == [str(v) for v in ids]
    assert found.key_names == ("id",)


def test_columns_are_in_the_order_of_their_numbers(tmp_path):
    wide = np.arange(24, dtype=np.float32).reshape(2, 12)
    path = Embeddings(wide, np.array([1, 2])).save(tmp_path / "e.csv")
    frame = pd.read_csv(path)
    frame[sorted(frame.columns)].to_csv(path, index=False)  # e0, e1, e10, e11, e2, ...
    np.testing.assert_array_equal(read_embeddings(path).values, wide)


def test_files_that_are_no_embeddings(tmp_path):
    def message(name):
        return message_of(lambda: read_embeddings(tmp_path / name))

    assert (
        message("none.parquet")
        == f"embeddings: there is no file {tmp_path / 'none.parquet'}. Check the path."
    )
    assert (
        message("none.npy")
        == f"embeddings: there is no file {tmp_path / 'none.npy'}. Check the path."
    )
    assert (
        message("")
        == f"The folder {tmp_path} holds no embeddings.parquet. Give a run folder of a finished"
        " 'graphlatent train', or a file."
    )
    assert (
        message("e.txt")
        == "Embeddings are read from a run folder or a file ending in .parquet, .npz, .csv, .npy."
        " Got 'e.txt'."
    )
    pd.DataFrame({"id": [1], "x": [2.0]}).to_csv(tmp_path / "x.csv", index=False)
    assert (
        message("x.csv")
        == "embeddings (x.csv) must have a column 'id' or 'graph' and columns e0, e1, ..., as"
        " 'graphlatent embed' writes them. Columns found: 'id', 'x'."
    )
    pd.DataFrame({"id": [1], "e0": ["a"]}).to_csv(tmp_path / "text.csv", index=False)
    assert (
        message("text.csv")
        == "embeddings (text.csv): the columns e0, e1, ... must hold numbers. Got values such as"
        " 'a'."
    )
    pd.DataFrame({"id": [], "e0": []}).to_parquet(tmp_path / "empty.parquet")
    assert message("empty.parquet") == "embeddings (empty.parquet): there are no rows."
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    assert message("broken.npz").startswith(
        f"embeddings: {tmp_path / 'broken.npz'} cannot be read as NumPy arrays. The reader says: "
    )
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    assert message("objects.npy").startswith(
        f"embeddings: {tmp_path / 'objects.npy'} cannot be read as NumPy arrays. The reader says: "
    )
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    assert (
        message("other.npz")
        == "embeddings (other.npz) must hold a 2-D array of numbers (in an .npz, named"
        " 'embeddings'). Found: x (3,)."
    )
    np.savez(tmp_path / "short.npz", embeddings=ROWS, ids=np.arange(7))
    assert message("short.npz") == "embeddings (short.npz): there must be one id per row, 8. Got 7."
    Embeddings(ROWS, np.array(list("xyxyxabc"), dtype=object)).save(tmp_path / "twice.parquet")
    assert (
        message("twice.parquet")
        == "embeddings (twice.parquet): 2 id(s) stand there more than once, the first 'x'. An id"
        " must name one row."
    )


# --- matching ---


@given(
    st.permutations(range(8)),
    st.sampled_from(["text", "numbers"]),
    st.sampled_from(["csv", "parquet"]),
)
def test_rows_are_matched_whatever_the_order(tmp_path_factory, order, kind, suffix):
    folder = tmp_path_factory.mktemp("matched")
    ids = NAMES if kind == "text" else NUMBERS
    rows = read_embeddings(Embeddings(ROWS, ids).save(folder / "e.csv"))
    frame = pd.DataFrame({"id": ids[list(order)], "place": np.arange(8)[list(order)]})
    table = labels_of(folder, frame, like=rows, name=f"labels.{suffix}")
    np.testing.assert_array_equal(table.columns["place"][match_rows(rows, table)], np.arange(8))


def test_ids_that_do_not_match(tmp_path):
    rows = read_embeddings(Embeddings(ROWS, NAMES).save(tmp_path / "e.parquet"))
    full = pd.DataFrame({"id": NAMES, "y": 1})

    def message(frame):
        return message_of(lambda: match_rows(rows, labels_of(tmp_path, frame, like=rows)))

    assert (
        message(full[2:])
        == "labels (labels.csv) has no row for 2 of the 8 embeddings, the first of id 'h'. Add"
        " them, their labels empty."
    )
    assert (
        message(full.assign(id=[f"other {i}" for i in range(8)]))
        == "labels (labels.csv) has no row for 8 of the 8 embeddings, the first of id 'h'. Are"
        " these the ids of the same rows? Name their column with --id."
    )
    assert (
        message(pd.concat([full, full[:3]]))
        == "labels (labels.csv): 3 id(s) stand there more than once, the first 'h'. An id must name"
        " one row."
    )
    assert (
        message(full.assign(id=["a", None, *"bcdefg"]))
        == "labels (labels.csv), column 'id': 1 id(s) are missing, the first in row 2 (line 3 with"
        " the header). Fill them or drop the rows."
    )
    numbers = read_embeddings(Embeddings(ROWS, NUMBERS).save(tmp_path / "n.parquet"))
    assert (
        message_of(lambda: match_rows(numbers, labels_of(tmp_path, full, like=numbers)))
        == "embeddings (n.parquet), column 'id' holds integers, but labels (labels.csv), column"
        " 'id' holds text such as 'h'. Ids must be of one type in all tables: turn one of the"
        " columns into the other's type."
    )


def test_nodes_of_several_graphs_are_known_by_graph_and_id(tmp_path):
    graphs, ids = np.repeat(["x", "y"], 4).astype(object), np.tile(np.arange(4), 2)
    rows = read_embeddings(Embeddings(ROWS, ids, graphs=graphs).save(tmp_path / "e.parquet"))
    assert rows.key_names == ("graph", "id")
    frame = pd.DataFrame({"graph": graphs, "acct": ids, "y": np.arange(8)})
    table = labels_of(tmp_path, frame[::-1], like=rows, id_column="acct")
    np.testing.assert_array_equal(table.columns["y"][match_rows(rows, table)], np.arange(8))
    short = labels_of(tmp_path, frame[frame.index != 5], like=rows, id_column="acct")
    assert (
        message_of(lambda: match_rows(rows, short))
        == "labels (labels.csv) has no row for 1 of the 8 embeddings, the first of id 'y' / 1. Add"
        " them, their labels empty."
    )


def test_files_without_ids(tmp_path):
    np.save(tmp_path / "e.npy", ROWS)
    rows = read_embeddings(tmp_path / "e.npy")
    np.save(tmp_path / "y.npy", np.arange(8))
    table = read_labels(tmp_path / "y.npy", labels=(), id_column=None, like=rows)
    np.testing.assert_array_equal(match_rows(rows, table), np.arange(8))
    np.save(tmp_path / "y.npy", np.arange(9))
    longer = read_labels(tmp_path / "y.npy", labels=(), id_column=None, like=rows)
    assert (
        message_of(lambda: match_rows(rows, longer))
        == "embeddings (e.npy) has no ids, so labels (y.npy) must have the same rows in the same"
        " order: 8. Got 9."
    )


def test_arrays_that_are_no_labels(tmp_path):
    rows = read_embeddings(Embeddings(ROWS, NUMBERS).save(tmp_path / "e.npz"))

    def message(**arrays):
        np.savez(tmp_path / "y.npz", **arrays)
        return message_of(
            lambda: read_labels(tmp_path / "y.npz", labels=(), id_column=None, like=rows)
        )

    choose = "labels (y.npz): which array holds the labels? Name it with --label. Arrays found: "
    assert message(one=np.arange(8), two=np.arange(8)) == choose + "'one', 'two'."
    assert message() == choose + "none."
    cube = (
        "labels (y.npz): labels must be one per row [M], or a 0/1 table [M, K]. Got shape (2, 2, 2)"
        " of float64."
    )
    assert message(y=np.zeros((2, 2, 2))) == cube
    assert (
        message(y=np.arange(8), ids=np.arange(7))
        == "labels (y.npz): its arrays must all have one entry per row."
    )
    none = (
        "labels (y.npz): labels must be one per row [M], or a 0/1 table [M, K]. Got shape (8, 0) of"
        " float64."
    )
    assert message(y=np.zeros((8, 0))) == none
    np.savez(tmp_path / "y.npz", y=np.zeros((8, 0)))
    assert fails(tmp_path / "e.npz", "--labels", tmp_path / "y.npz") == none


NO_IDS = [
    (
        np.arange(16).reshape(8, 2),
        "one id per row [M], integers or text. Got shape (8, 2) of int64.",
    ),
    (np.array(3), "one id per row [M], integers or text. Got shape () of int64."),
    (np.arange(8) / 2, "one id per row [M], integers or text. Got shape (8,) of float64."),
    (np.arange(8) > 3, "one id per row [M], integers or text. Got shape (8,) of bool."),
    (
        np.array([b"\xff", *b"abcdefg"], dtype="S1"),
        (
            "integers of 64 bits or text in UTF-8. The reader says: 'utf-8' codec can't decode byte"
            " 0xff in position 0: invalid start byte."
        ),
    ),
    (
        np.arange(8, dtype=np.uint64) + 2**63,
        "integers of 64 bits or text in UTF-8. The reader says: ",
    ),
]


@pytest.mark.parametrize(("ids", "message"), NO_IDS)
def test_arrays_that_are_no_ids(tmp_path, ids, message):
    np.savez(tmp_path / "y.npz", y=np.arange(8) % 2, ids=ids)
    np.savez(tmp_path / "bad.npz", embeddings=ROWS, ids=ids)
    np.save(tmp_path / "e.npy", ROWS)
    said = fails(tmp_path / "e.npy", "--labels", tmp_path / "y.npz")
    assert said.startswith(f"labels (y.npz), array 'ids', must hold {message}")
    assert fails(tmp_path / "bad.npz", "--labels", tmp_path / "y.npz") == said.replace(
        "labels (y.npz)", "embeddings (bad.npz)"
    )


@pytest.mark.parametrize(
    "ids",
    [np.array(["é", *"abcdefg"]), np.char.encode(["é", *"abcdefg"], "utf-8"), np.arange(8.0) - 3],
)
def test_ids_of_arrays_in_other_types(tmp_path, ids):
    np.savez(tmp_path / "e.npz", embeddings=ROWS, ids=ids)
    rows = read_embeddings(tmp_path / "e.npz")
    names = list(range(-3, 5)) if ids.dtype.kind == "f" else ["é", *"abcdefg"]
    assert rows.keys[0].values.to_pylist() == names
    table = labels_of(tmp_path, pd.DataFrame({"id": names[::-1], "y": range(8)}), like=rows)
    np.testing.assert_array_equal(match_rows(rows, table), np.arange(8)[::-1])


def test_features_are_all_columns_but_ids_and_labels(tmp_path):
    rows = read_embeddings(Embeddings(ROWS, NAMES).save(tmp_path / "e.parquet"))
    path = tmp_path / "nodes.csv"
    pd.DataFrame({"id": NAMES, "y": 1, "size": np.arange(8), "city": "Oslo"}).to_csv(
        path, index=False
    )
    assert list(
        read_features(path, leave_out=["y"], only=None, id_column=None, like=rows).columns
    ) == ["size", "city"]
    assert list(
        read_features(path, leave_out=["y"], only=["city", "y"], id_column=None, like=rows).columns
    ) == ["city"]
    assert (
        message_of(
            lambda: read_features(
                path, leave_out=["y", "size", "city"], only=None, id_column=None, like=rows
            )
        )
        == "nodes (nodes.csv): there are no feature columns beside ids and labels."
    )
    # A run told to use none
    none = message_of(
        lambda: read_features(path, leave_out=["y"], only=[], id_column=None, like=rows)
    )
    assert none == "nodes (nodes.csv): there are no feature columns beside ids and labels."


# --- raw features are not the label ---


def run_folder(tmp_path, *options):
    """The folder of a run on a node table that holds the label in other words (team), and the
    options to probe it.
    """
    rng = np.random.default_rng(0)
    edges = pd.DataFrame({"source": rng.integers(0, 40, 90), "target": rng.integers(0, 40, 90)})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    table = pd.DataFrame(
        {
            "id": range(40),
            "y": np.arange(40) % 2,
            "size": np.arange(40) % 7,
            "team": ["red", "blue"] * 20,
        }
    )
    table.drop(columns="y").to_csv(tmp_path / "nodes.csv", index=False)
    table[["id", "y"]].to_csv(tmp_path / "labels.csv", index=False)
    settings = ("epochs=1", "hidden_dim=3", "device=cpu")
    commands.told(
        "train",
        tmp_path / "edges.csv",
        "--out",
        tmp_path / "run",
        *(part for setting in settings for part in ("--set", setting)),
        *options,
    )
    return (
        tmp_path / "run",
        "--labels",
        tmp_path / "labels.csv",
        "--raw",
        tmp_path / "nodes.csv",
        "--splits",
        "2",
        "--train",
        "0.4",
    )


@pytest.mark.parametrize("choice", [("--label", "team"), ("--features", "size")])
def test_raw_features_are_those_of_the_run(tmp_path, choice):
    run = run_folder(tmp_path, "--nodes", tmp_path / "nodes.csv", *choice)
    assert told(*run)["notes"] == ["raw features: 1 column(s): size"]


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("kind", ["linear", "knn", "svm", "clusters"])
def test_raw_features_are_encoded_as_the_run_encoded_them(tmp_path, standardize, kind):
    choice = ("--label", "team", "--set", f"standardize={str(standardize).lower()}")
    where, *options = run_folder(tmp_path, "--nodes", tmp_path / "nodes.csv", *choice)
    drawn = [] if kind in ("svm", "clusters") else options[-4:]
    found = told(where, *options[:-4], *drawn, "--kind", kind, "--seeds", "1")
    size = (np.arange(40) % 7)[:, None].astype(np.float32)
    given = (size - size.mean()) / size.std() if standardize else size
    np.save(tmp_path / "given.npy", given.astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(40) % 2)
    alone = told(
        tmp_path / "given.npy", "--labels", tmp_path / "y.npy", *drawn, "--kind", kind, "--seeds", 1
    )
    assert found["results"]["raw features"] == alone["results"]["embeddings"]
    # A file of embeddings says nothing of the run: numbers are as they are in the table
    saved = where / "embeddings.parquet"
    (tmp_path / "nodes.csv").write_text(
        pd.read_csv(tmp_path / "nodes.csv").drop(columns="team").to_csv(index=False)
    )
    np.save(tmp_path / "given.npy", size)
    bare = told(saved, *options[:-4], *drawn, "--kind", kind, "--seeds", "1")
    alone = told(
        tmp_path / "given.npy", "--labels", tmp_path / "y.npy", *drawn, "--kind", kind, "--seeds", 1
    )
    assert bare["results"]["raw features"] == alone["results"]["embeddings"]


@pytest.mark.parametrize("with_nodes", [True, False])
def test_a_raw_column_that_is_the_label_in_other_words(tmp_path, with_nodes):
    run = run_folder(tmp_path, *(("--nodes", tmp_path / "nodes.csv") if with_nodes else ()))
    assert (
        fails(*run)
        == "nodes (nodes.csv): the values of column 'team' correspond one to one to those of the"
        " label 'y', so it is the label in other words and no feature to compare with. Take the"
        " column out of the table given by --raw."
    )


@pytest.mark.parametrize("reading", [5, None, [], "size", {"label": 5}])
def test_a_run_that_does_not_say_what_it_was_told(tmp_path, reading):
    run = run_folder(tmp_path)
    (tmp_path / "run" / "results.json").write_text(json.dumps({"reading": reading}))
    said = fails(*run)
    assert said.startswith(f"{tmp_path / 'run' / 'results.json'} is damaged: Options of reading: ")
    assert said.endswith("Copy the file again, or give embeddings.parquet instead of the folder.")


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6), st.booleans()
)
def test_one_to_one_is_what_a_slow_comparison_of_all_pairs_says(pairs, text):
    column, classes = (np.array(each) for each in zip(*pairs, strict=True))
    same = (
        all((a[0] == b[0]) == (a[1] == b[1]) for a in pairs for b in pairs)
        and len(set(classes)) > 1
    )
    values = np.array([f"team {value}" for value in column], dtype=object) if text else column / 2
    values, kept = np.append(values, values[:1]), np.arange(len(pairs))  # the last row has no label
    if same:
        assert "column 'c' correspond one to one" in message_of(
            lambda: refuse_label(values, Target(classes, kept, ("y",)), name="c", where="t")
        )
    else:
        refuse_label(values, Target(classes, kept, ("y",)), name="c", where="t")


def test_a_raw_column_that_is_one_of_several_labels():
    target = Target(np.array([[0, 1], [1, 1], [0, 0], [0, 1]]), np.arange(4), ("a", "b"))
    assert "column 'c' correspond one to one to those of the label 'b'" in message_of(
        lambda: refuse_label(
            np.array(["x", "x", "y", "x"], dtype=object), target, name="c", where="t"
        )
    )
    refuse_label(np.array([1, 1, 0, 0]), target, name="c", where="t")


# --- what labels mean ---


@pytest.mark.parametrize(
    ("values", "classes", "kept"),
    [
        (np.array(["b", None, "a", "b"], dtype=object), ["b", "a", "b"], [0, 2, 3]),
        (np.array([2.0, np.nan, 1.0, 2.0]), [2, 1, 2], [0, 2, 3]),
        (np.array([0.5, 1.0, 0.5, 1.5] * 5), [0.5, 1.0, 0.5, 1.5] * 5, list(range(20))),
        (np.array([True, False]), [True, False], [0, 1]),
        (np.arange(20), list(range(20)), list(range(20))),
    ],
)
def test_classes(values, classes, kept):
    target = as_target({"y": values}, where="t")
    assert (target.values.tolist(), target.kept.tolist(), target.several) == (classes, kept, False)
    assert sum(target.sizes.values()) == len(kept)


def test_several_columns_are_a_table():
    columns = {
        "a": np.array([1, 0, 1]),
        "b": np.array([1.0, np.nan, 0.0]),
        "c": np.array([True, False, True]),
    }
    target = as_target(columns, where="t")
    assert (target.values.tolist(), target.kept.tolist(), target.sizes) == (
        [[1, 1, 1], [1, 0, 1]],
        [0, 2],
        {"a": 2, "b": 1, "c": 2},
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"age": np.arange(40) / 8},
            (
                "t: column 'age' holds numbers such as 0 and 4.875 (40 different values in 40"
                " rows), which are no classes. Probes predict classes; regression is not offered."
                " Cut the numbers into classes, or name another column with --label."
            ),
        ),
        (
            {"age": np.tile(np.arange(11) / 8, 9)},
            (
                "t: column 'age' holds numbers such as 0 and 1.25 (11 different values in 99 rows),"
                " which are no classes. Probes predict classes; regression is not offered. Cut the"
                " numbers into classes, or name another column with --label."
            ),
        ),
        (
            {"number": np.arange(21)},
            (
                "t: column 'number' has 21 different values in 21 rows, such as '0': it names or"
                " measures rows more than it sorts them into classes. Name another column with"
                " --label."
            ),
        ),
        (
            {"y": np.array([3, 3])},
            "t: every label in column 'y' is '3'. A probe needs two classes or more.",
        ),
        ({"y": np.array([None, None])}, "t: no row has a label in column 'y'."),
        (
            {"y": np.array([1, 0]), "z": np.array([np.nan, np.nan])},
            "t: no row has a label in all of the columns 'y', 'z'.",
        ),
        (
            {"y": np.array([1, 0]), "z": np.array([0, 2])},
            (
                "t: with several --label columns each must hold 0 and 1 only, but 'z' holds 2. Name"
                " one column for classes, or turn them into columns of 0 and 1."
            ),
        ),
    ],
)
def test_columns_that_are_no_labels(columns, message):
    assert message_of(lambda: as_target(columns, where="t")) == message


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (np.array([0, 1, np.inf, 1]), "inf"),
        (np.array([0, 1, -np.inf, 1], dtype=np.float16), "-inf"),
        (np.array([0, 1, 1e300, 1]), "1e+300"),
        (np.array([0, 1, 2.0**63, 1], dtype=np.float32), "9.223372036854776e+18"),
        (np.array([0, 1, 2**63, 1], dtype=np.uint64), "9223372036854775808"),
    ],
)
def test_numbers_that_no_class_can_have(tmp_path, values, shown):
    np.save(tmp_path / "e.npy", ROWS[:4])
    np.save(tmp_path / "y.npy", values)
    assert (
        fails(tmp_path / "e.npy", "--labels", tmp_path / "y.npy")
        == f"labels (y.npy): column 'label' holds {shown}, and classes given as numbers must be"
        " finite and fit into 64 bits. Write the classes as text or as smaller numbers, or"
        " leave the cell empty where a label is missing."
    )


def test_the_largest_and_smallest_whole_numbers_are_classes():
    assert as_target({"y": np.array([-(2.0**63), 1.0])}, where="t").values.tolist() == [-(2**63), 1]
    assert as_target(
        {"y": np.array([2**63 - 1, 1], dtype=np.uint64)}, where="t"
    ).values.tolist() == [2**63 - 1, 1]


def test_classes_as_bytes():
    assert as_target({"y": np.array(["é".encode(), b"a"])}, where="t").values.tolist() == ["é", "a"]
    assert (
        message_of(lambda: as_target({"y": np.array([b"\xff", b"a"])}, where="t"))
        == "t: column 'y' holds bytes that are not UTF-8, b'\\xff'. Save the labels as text."
    )
