"""Embeddings and inputs that a run left are read again, and refused where they have changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from commands import run
from graphlatent import Embeddings, NodeLaGraph, RunFolder, read_embeddings, read_graphs
from graphlatent.errors import InputError, RunFolderError
from graphlatent.saved import node_table, read_input


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
def test_embeddings_come_back_as_they_were_saved(tmp_path, suffix):
    values = np.random.default_rng(0).normal(size=(6, 12)).astype(np.float32)
    for name, more in (
        ("plain", {"ids": np.array(list("abcdef"), dtype=object)}),
        ("numbers", {"ids": np.arange(6) * 7}),
        ("several", {"ids": np.tile(np.arange(3), 2), "graphs": np.repeat([4, 5], 3)}),
    ):
        saved = Embeddings(values, **more)
        found = read_embeddings(saved.save(tmp_path / f"{name}{suffix}"))
        np.testing.assert_array_equal(found.values, values)
        assert found.ids.tolist() == saved.ids.tolist()
        assert (found.graphs is None) == (saved.graphs is None)
        assert saved.graphs is None or found.graphs.tolist() == saved.graphs.tolist()


def test_arrays_without_ids_and_values_that_are_not_finite(tmp_path):
    np.save(tmp_path / "e.npy", np.eye(3))
    assert read_embeddings(tmp_path / "e.npy").ids.tolist() == [0, 1, 2]
    np.save(tmp_path / "n.npy", np.full((3, 2), np.nan))
    with pytest.raises(InputError, match="not finite numbers"):
        read_embeddings(tmp_path / "n.npy")


@pytest.fixture
def trained(tmp_path):
    rng = np.random.default_rng(0)
    edges = pd.DataFrame({"a": rng.integers(0, 20, 60), "b": rng.integers(0, 20, 60)})
    nodes = pd.DataFrame({"key": np.arange(20), "age": rng.normal(size=20)})
    edges.to_csv(tmp_path / "e.csv", index=False)
    nodes.to_csv(tmp_path / "n.csv", index=False)
    columns = ["--source", "a", "--target", "b", "--id", "key"]
    words = ["train", tmp_path / "e.csv", "--nodes", tmp_path / "n.csv", *columns]
    small = ["--set", "epochs=1", "--set", "hidden_dim=4"]
    code, _, err = run(*words, "--out", tmp_path / "run", *small)
    assert code == 0, err
    return RunFolder(tmp_path / "run")


@pytest.mark.filterwarnings("ignore::graphlatent.GraphLatentWarning")
class TestInput:
    def test_it_is_read_as_it_was(self, trained):
        graph = read_input(trained)
        before = trained.read_json("versions.json")["input"]
        assert graph.fingerprints() == before
        assert node_table(trained) == trained.path.parent / "n.csv"

    def test_a_changed_file_is_refused(self, trained):
        path = trained.path.parent / "n.csv"
        table = pd.read_csv(path)
        table.loc[3, "age"] += 1
        table.to_csv(path, index=False)
        with pytest.raises(InputError, match=r"is not as it was when .* \(column 'age': other"):
            read_input(trained)

    def test_a_missing_file_is_named(self, trained):
        (trained.path.parent / "e.csv").unlink()
        with pytest.raises(InputError, match=r"is not at .*e\.csv any more. Give it after RUN"):
            read_input(trained)

    def test_runs_from_python_do_not_know(self, tmp_path):
        graph = read_graphs((np.array([[0, 1], [1, 0]]), np.eye(2)))
        NodeLaGraph(epochs=1, hidden_dim=4).fit(graph, run=tmp_path / "r")
        with pytest.raises(InputError, match="does not say which graph it was trained on"):
            read_input(RunFolder(tmp_path / "r"))
        with pytest.raises(RunFolderError, match="is not a run folder"):
            read_input(RunFolder(tmp_path))
