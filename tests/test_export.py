"""Embeddings in every format, with fewer columns and fewer digits, and back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from commands import fails, run, told
from graphlatent import Embeddings, read_embeddings
from graphlatent.errors import OutputError
from graphlatent.io.half import as_half, short_decimals
from graphlatent.io.word2vec import check_names


def embeddings(num_rows=50, width=8):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_rows, width)) * 10.0 ** rng.integers(-3, 3, size=(num_rows, 1))
    ids = np.array([f"n{i}" for i in range(num_rows)], dtype=object)
    return Embeddings(values.astype(np.float32), ids)


def read_word2vec(path):
    """As gensim reads it: names and numbers divided by spaces."""
    lines = path.read_text().splitlines()
    count, width = map(int, lines[0].split(" "))
    rows = [line.split(" ") for line in lines[1:]]
    assert len(rows) == count and all(len(row) == width + 1 for row in rows)
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float32)


def test_word2vec_text_holds_names_and_all_digits(tmp_path):
    made = embeddings()
    names, values = read_word2vec(made.save(tmp_path / "e.vec"))
    assert names == made.ids.tolist()
    np.testing.assert_array_equal(values, made.values)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a b", "c"], r"^The id 'a b' cannot be written in word2vec's format"),
        (["a", ""], r"^The id '' cannot be written"),
    ],
)
def test_names_that_word2vec_cannot_hold(tmp_path, ids, message):
    made = Embeddings(np.eye(2, dtype=np.float32), np.array(ids, dtype=object))
    with pytest.raises(OutputError, match=message):
        made.save(tmp_path / "e.vec")
    assert not list(tmp_path.iterdir())


def test_ids_of_mixed_types_have_different_names(tmp_path):
    made = Embeddings(np.eye(2, dtype=np.float32), np.array([1, "1"], dtype=object))
    assert read_word2vec(made.save(tmp_path / "e.vec"))[0] == ["1", "'1'"]
    with pytest.raises(OutputError, match="written as the same text"):
        check_names(["a", "a"])


def test_nodes_of_several_graphs_have_no_single_name(tmp_path):
    made = Embeddings(np.eye(2, dtype=np.float32), np.arange(2), graphs=np.arange(2))
    with pytest.raises(OutputError, match="Nodes of several graphs have two ids"):
        made.save(tmp_path / "e.vec")


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv", ".vec"])
def test_half_precision_comes_back_in_every_format(tmp_path, suffix):
    made = embeddings()
    half = made.save(tmp_path / f"half{suffix}", float16=True)
    found = read_word2vec(half)[1] if suffix == ".vec" else read_embeddings(half).values
    # Text holds the shortest decimal that rounds to the same float16
    np.testing.assert_array_equal(found.astype(np.float16), made.values.astype(np.float16))
    full = made.save(tmp_path / f"full{suffix}")
    assert half.stat().st_size < full.stat().st_size
    if suffix == ".parquet":
        assert pd.read_parquet(half)["e0"].dtype == np.float16


def test_every_half_has_a_short_decimal():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    short = short_decimals(finite)
    np.testing.assert_array_equal(short.astype(np.float16), finite)
    assert str(short_decimals(np.array([0.1], dtype=np.float16))[0]) == "0.1"


def test_values_that_half_precision_cannot_hold(tmp_path):
    with pytest.raises(OutputError, match=r"beyond 65504, which float16 cannot hold"):
        as_half(np.array([[1e5]], dtype=np.float32))


class TestCommand:
    def test_fewer_columns(self, tmp_path):
        made = embeddings()
        path = made.save(tmp_path / "mine.parquet")
        found = told("export", path, "--dim", 3, "--float16", "--format", "npz")
        assert found["embeddings"] == str(tmp_path / "mine-3-float16.npz")
        reduced = read_embeddings(tmp_path / "mine-3-float16.npz")
        expected = made.reduced(3).values.astype(np.float16)
        np.testing.assert_array_equal(reduced.values.astype(np.float16), expected)
        variance = np.var(made.values.astype(np.float64), axis=0).sum()
        kept = np.var(made.reduced(3).values.astype(np.float64), axis=0).sum()
        assert found["kept_variance"] == pytest.approx(kept / variance, rel=1e-4)

    def test_formats_by_name_and_by_ending(self, tmp_path):
        path = embeddings().save(tmp_path / "e.parquet")
        for form, name in (("word2vec", "e.vec"), ("csv", "e.csv")):
            assert told("export", path, "--format", form)["embeddings"] == str(tmp_path / name)
        code, out, _ = run("export", path, "--out", tmp_path / "o.npz")
        assert code == 0 and "50 embeddings of width 8" in out
        assert "exists already" in fails("export", path, "--out", tmp_path / "o.npz")

    def test_mistakes(self, tmp_path):
        path = embeddings().save(tmp_path / "e.parquet")
        before = path.read_bytes()
        assert "is the file that is read" in fails("export", path, "--dim", 2, "--out", path)
        assert "is the file that is read" in fails("export", path, "--overwrite")
        assert path.read_bytes() == before
        assert "must be one of parquet" in fails("export", path, "--format", "hdf5")
        message = fails("export", path, "--format", "csv", "--out", tmp_path / "a.npz")
        assert "Leave one of them out" in message
        assert "at most the width" in fails("export", path, "--dim", 9, "--format", "csv")
        assert "are written as" in fails("export", path, "--out", tmp_path / "a.txt")


def test_parquet_takes_little_more_than_the_numbers(tmp_path):
    made = embeddings(num_rows=4000, width=64)
    assert made.save(tmp_path / "e.parquet").stat().st_size < 1.1 * made.values.nbytes
    half = made.save(tmp_path / "h.parquet", float16=True)
    assert half.stat().st_size < 0.6 * made.values.nbytes
