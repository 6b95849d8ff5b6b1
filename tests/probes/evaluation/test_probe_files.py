"""Embeddings, labels and raw features out of files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import commands
from graphlatent.embedding import Embeddings
from graphlatent.errors import InputError
from graphlatent.probes.evaluation.files import read_embeddings, read_task

ROWS = np.arange(24, dtype=np.float32).reshape(8, 3)
NAMES = np.array(list("hgfedcba"), dtype=object)
NUMBERS = np.array([7, 3, 100, -2, 0, 5, 6, 9])


def message_of(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz"])
@pytest.mark.parametrize(
    "ids", [NAMES, NUMBERS, np.array(["007", "7", "07", "1e3", "z", "é", "x", "y"], dtype=object)]
)
def test_embeddings_come_back_as_they_were_saved(tmp_path, suffix, ids):
    found = read_embeddings(Embeddings(ROWS, ids).save(tmp_path / f"e{suffix}"))
    np.testing.assert_array_equal(found.values, ROWS)
    assert [str(v) for v in found.keys.columns[0].values.to_pylist()] == [str(v) for v in ids]
    assert found.keys.names == ("id",)


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
    assert message("nix") == f"There is no file or folder {tmp_path / 'nix'}. Check the path."
    (tmp_path / "e.txt").write_text("")
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
    (tmp_path / "empty.csv").write_text("id,e0\n")
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    for name in ("empty.parquet", "empty.csv", "empty.npy"):
        assert message(name) == f"embeddings ({name}): there are no rows."
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
        == "embeddings (twice.parquet): 2 ids occur more than once, the first 'x'. An id must"
        " identify one row."
    )


def train_run(tmp_path, *options):
    """Train on a node table that holds the label under another name (team)."""
    rng = np.random.default_rng(0)
    edges = pd.DataFrame({"source": rng.integers(0, 40, 90), "target": rng.integers(0, 40, 90)})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    table = pd.DataFrame(
        {
            "id": range(40),
            "y": np.arange(40) % 2,
            "size": np.arange(40) % 7,
            "load": 31 * np.arange(40) % 23,
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


def raw_task(tmp_path, embeddings="run"):
    """What a probe of the run, with raw features beside it, is given."""
    return read_task(tmp_path / embeddings, tmp_path / "labels.csv", raw=tmp_path / "nodes.csv")


@pytest.mark.parametrize("choice", [("--label", "team"), ("--features", "size,load")])
def test_raw_features_are_those_of_the_run(tmp_path, choice):
    train_run(tmp_path, "--nodes", tmp_path / "nodes.csv", *choice)
    task = raw_task(tmp_path)
    assert task.notes == ("raw features: 2 columns: size, load",)
    assert set(task.representations) == {"embeddings", "raw features"}


@pytest.mark.parametrize("standardize", [True, False])
def test_raw_features_are_encoded_as_the_run_encoded_them(tmp_path, standardize):
    choice = ("--label", "team", "--set", f"standardize={str(standardize).lower()}")
    train_run(tmp_path, "--nodes", tmp_path / "nodes.csv", *choice)
    table = np.stack([np.arange(40) % 7, 31 * np.arange(40) % 23], axis=1).astype(np.float64)
    given = (table - table.mean(0)) / table.std(0) if standardize else table
    np.testing.assert_allclose(raw_task(tmp_path).representations["raw features"], given, rtol=1e-6)
    # A file of embeddings says nothing of the run: numbers are as they are in the table
    nodes = pd.read_csv(tmp_path / "nodes.csv").drop(columns="team")
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    alone = raw_task(tmp_path, "run/embeddings.parquet").representations["raw features"]
    np.testing.assert_array_equal(alone, table)


def test_raw_features_are_row_normalised_as_the_run_did(tmp_path):
    choice = ("--label", "team", "--set", "standardize=false", "--set", "row_normalize=true")
    train_run(tmp_path, "--nodes", tmp_path / "nodes.csv", *choice)
    table = np.stack([np.arange(40) % 7, 31 * np.arange(40) % 23], axis=1)[1:]
    raw = raw_task(tmp_path).representations["raw features"][1:]
    np.testing.assert_allclose(raw, table / table.sum(1, keepdims=True), rtol=1e-6)


def test_raw_features_of_a_run_without_columns_follow_its_settings(tmp_path):
    train_run(tmp_path, "--set", "standardize=false")
    nodes = pd.read_csv(tmp_path / "nodes.csv").drop(columns="team")
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    task = raw_task(tmp_path)
    assert task.representations["raw features"][:8, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]


def test_wide_raw_features_stay_sparse(tmp_path):
    np.save(tmp_path / "e.npy", ROWS)
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    words = pd.DataFrame((np.arange(8 * 300).reshape(8, 300) % 17 == 0).astype(int))
    words.rename_axis("id").reset_index().to_csv(tmp_path / "words.csv", index=False)
    task = read_task(tmp_path / "e.npy", tmp_path / "y.npy", raw=tmp_path / "words.csv")
    assert sp.issparse(task.representations["raw features"])
    np.testing.assert_array_equal(task.representations["raw features"].toarray(), words)


@pytest.mark.parametrize("with_nodes", [True, False])
def test_a_raw_column_that_is_the_label_under_another_name(tmp_path, with_nodes):
    train_run(tmp_path, *(("--nodes", tmp_path / "nodes.csv") if with_nodes else ()))
    assert (
        message_of(lambda: raw_task(tmp_path))
        == "nodes (nodes.csv): the values of column 'team' correspond one to one to those of the"
        " label 'y', so the column is the label under another name and no feature to compare"
        " with. Take it out of the table of raw features."
    )


def test_a_label_that_was_a_feature(tmp_path):
    train_run(tmp_path, "--nodes", tmp_path / "nodes.csv")
    said = message_of(lambda: read_task(tmp_path / "run", tmp_path / "nodes.csv", label=["team"]))
    assert said.startswith(
        f"The column 'team' was a feature of the run {tmp_path / 'run'}, so its embeddings have"
    )
    # Whoever wants to know what embeddings keep of a feature
    saved = tmp_path / "run" / "embeddings.parquet"
    assert read_task(saved, tmp_path / "nodes.csv", label=["team"]).labels.names == ("team",)


def test_rows_without_a_label_are_left_out_and_counted(tmp_path):
    np.save(tmp_path / "e.npy", ROWS)
    frame = pd.DataFrame(
        {"id": range(10), "y": [None, "a", "b", "a", "b", None, "a", "b", "a", "b"]}
    )
    Embeddings(ROWS, np.arange(8)).save(tmp_path / "e.parquet")
    frame.to_csv(tmp_path / "y.csv", index=False)
    task = read_task(tmp_path / "e.parquet", tmp_path / "y.csv")
    assert task.notes == (
        "2 of 8 rows have no label and are left out",
        "2 rows of the labels have no embedding, and are not used",
    )
    np.testing.assert_array_equal(task.representations["embeddings"], ROWS[[1, 2, 3, 4, 6, 7]])
    assert task.labels.rows.tolist() == [1, 2, 3, 4, 6, 7]
