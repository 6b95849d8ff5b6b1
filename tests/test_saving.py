"""Saving and loading of estimators and embeddings."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from cases import random_graph
from fuzz.folders import write_checksums
from graphlatent import GraphLaGraph, NodeDGI, NodeLaGraph, load_estimator
from graphlatent.config import to_mapping
from graphlatent.errors import OutputError, RunFolderError

SMALL = {"hidden_dim": 8, "epochs": 3, "device": "cpu"}
SIZES = [5, 4, 3, 6, 2, 7, 4, 3, 5, 6]


def node(**values) -> NodeLaGraph:
    return NodeLaGraph(**{**SMALL, **values})


def graph(**values) -> GraphLaGraph:
    return GraphLaGraph(**{**SMALL, **values})


class TestSaving:
    @pytest.mark.parametrize("make", [node, graph])
    def test_loaded_equals_saved(self, make, tmp_path):
        data = random_graph(SIZES)
        fitted = make(alpha=1.5, num_layers=3).fit(data)
        loaded = type(fitted).load(fitted.save(tmp_path / "model"))
        assert to_mapping(loaded.settings_) == to_mapping(fitted.settings_)
        assert loaded.alpha == 1.5 and loaded.num_layers == 3
        assert loaded.history_ == fitted.history_ and loaded.embedding_dim_ == fitted.embedding_dim_
        np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))

    def test_a_folder_has_these_files(self, tmp_path):
        folder = node().fit(random_graph([6])).save(tmp_path / "model")
        names = sorted(p.name for p in folder.iterdir())
        assert names == [
            "config.toml",
            "features.json",
            "history.csv",
            "manifest.json",
            "model.safetensors",
            "versions.json",
        ]

    @pytest.mark.parametrize(("setting", "value"), [("hidden_dim", 3000), ("num_layers", 2000)])
    def test_larger_settings_than_the_weights_are_refused_before_the_model_is_built(
        self, setting, value, tmp_path, monkeypatch
    ):
        fitted = node(num_layers=3).fit(random_graph([6]))
        folder = fitted.save(tmp_path / "model")
        config = folder / "config.toml"
        now = getattr(fitted.settings_, setting)
        text = config.read_text()
        assert f"{setting} = {now}\n" in text
        config.write_text(text.replace(f"{setting} = {now}\n", f"{setting} = {value}\n"))
        write_checksums(folder)
        monkeypatch.setattr(NodeLaGraph.method, "build", None)
        with pytest.raises(RunFolderError, match="features need more than there are"):
            NodeLaGraph.load(folder)

    def test_an_existing_folder_is_rejected(self, tmp_path):
        fitted = node().fit(random_graph([6]))
        fitted.save(tmp_path / "model")
        with pytest.raises(
            OutputError, match=r"exists already. Choose another path, or allow replacing it"
        ):
            fitted.save(tmp_path / "model")
        assert fitted.save(tmp_path / "model", overwrite=True).is_dir()

    def test_a_path_that_cannot_be_written_is_reported(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(OutputError, match="Cannot write"):
            node().fit(random_graph([6])).save(tmp_path / "file" / "model")

    def test_load_estimator_finds_method_and_level(self, tmp_path):
        graphs = random_graph([6, 5])
        for estimator in (node(), GraphLaGraph(hidden_dim=4, epochs=1, device="cpu")):
            folder = estimator.fit(graphs).save(tmp_path / type(estimator).__name__)
            loaded = load_estimator(folder)
            assert type(loaded) is type(estimator)
            np.testing.assert_array_equal(loaded.transform(graphs), estimator.transform(graphs))

    def test_the_other_level_is_rejected(self, tmp_path):
        folder = node().fit(random_graph([6])).save(tmp_path / "model")
        with pytest.raises(
            RunFolderError,
            match=r"node-level model of the method 'lagraph', which GraphLaGraph is not",
        ):
            GraphLaGraph.load(folder)


class TestEmbeddingFiles:
    @pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
    def test_files_read_back(self, suffix, tmp_path):
        names = np.array(list("abcdef"), dtype=object)
        data = dataclasses.replace(random_graph([6]), node_ids=names)
        embedded = node().fit(data).embed(data)
        path = embedded.save(tmp_path / f"e{suffix}")
        if suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                ids, values = file["ids"], file["embeddings"]
        else:
            frame = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)
            ids, values = frame["id"], frame.drop(columns="id").to_numpy()
        assert list(ids) == list("abcdef")
        np.testing.assert_allclose(values, embedded.values, rtol=1e-6)
        with pytest.raises(OutputError, match="exists already"):
            embedded.save(path)
        with pytest.raises(
            OutputError, match=r"Embeddings are written as .parquet, .npz, .csv, .vec. Got 'e.xlsx'"
        ):
            embedded.save(tmp_path / "e.xlsx")


def test_none_is_saved_where_it_is_not_the_default(tmp_path):
    graph = random_graph([8])
    fitted = NodeDGI(patience=None, epochs=2, device="cpu").fit(graph)
    assert fitted.settings_.patience is None
    folder = fitted.save(tmp_path / "model")
    assert 'patience = "none"' in (folder / "config.toml").read_text()
    assert load_estimator(folder).patience is None
    default = NodeDGI(epochs=2, device="cpu").fit(graph).save(tmp_path / "other")
    assert load_estimator(default).patience == 20
