"""Classifiers in folders: the same bits come back, and what is no classifier is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cases import random_graph
from classifier_cases import SMALL, graph_classifier, graphs_and_classes, node_classifier
from graphlatent import (
    GraphLaGraph,
    GraphLaGraphClassifier,
    NodeLaGraph,
    NodeLaGraphClassifier,
    RunFolder,
    load_classifier,
    load_estimator,
)
from graphlatent.errors import ConfigError, RunFolderError
from graphlatent.finetuning import storage


class TestFolders:
    def test_a_saved_classifier_predicts_the_same_bits(self, tmp_path):
        data, y = graphs_and_classes()
        names = np.array(["b", "a"])[y]
        weight = {"a": 2.0, "b": 1.0}
        fitted = graph_classifier(class_weight=weight).fit(data, names)
        folder = fitted.save(tmp_path / "model")
        assert not [p for p in folder.rglob("*") if b"pickle" in p.read_bytes()[:200]]
        for loaded in (GraphLaGraphClassifier.load(folder), load_classifier(folder)):
            np.testing.assert_array_equal(loaded.predict_proba(data), fitted.predict_proba(data))
            np.testing.assert_array_equal(loaded.predict(data), fitted.predict(data))
            assert loaded.class_weight == weight and loaded.best_epoch_ == fitted.best_epoch_
            assert repr(loaded.history_) == repr(fitted.history_)
            assert loaded.pretraining.hidden_dim == 6

    def test_several_labels_and_nodes(self, tmp_path):
        data, y = graphs_and_classes()
        y = y[data.graph_of_node.numpy()]
        fitted = node_classifier().fit(data, np.stack([y, 1 - y], axis=1))
        loaded = load_classifier(fitted.save(tmp_path / "model"))
        assert isinstance(loaded, NodeLaGraphClassifier) and loaded.multilabel_
        np.testing.assert_array_equal(loaded.predict(data), fitted.predict(data))

    def test_it_is_a_run_of_the_fine_tuned_encoder(self, tmp_path):
        data, y = graphs_and_classes()
        fitted = graph_classifier(validation_ratio=0.0).fit(data, y)
        estimator = load_estimator(fitted.save(tmp_path / "model"))
        np.testing.assert_array_equal(estimator.transform(data), fitted.estimator_.transform(data))

    def test_from_a_run_folder(self, tmp_path):
        data, y = graphs_and_classes()
        pretrained = GraphLaGraph(**SMALL).fit(data)
        folder = pretrained.save(tmp_path / "run")
        values = {"epochs": 4}
        a = GraphLaGraphClassifier.from_pretrained(folder).set_params(**values).fit(data, y)
        b = GraphLaGraphClassifier.from_pretrained(pretrained).set_params(**values).fit(data, y)
        np.testing.assert_array_equal(a.predict_proba(data), b.predict_proba(data))
        # The folder survives cloning, so that grid search does not train again.
        assert clone(a).pretraining == folder

    def test_from_pretrained_refuses_at_once(self, tmp_path):
        folder = GraphLaGraph(**SMALL).fit(random_graph([5, 4])).save(tmp_path / "run")
        with pytest.raises(
            ConfigError, match=r"embeds graphs, and NodeLaGraphClassifier classifies nodes"
        ):
            NodeLaGraphClassifier.from_pretrained(folder)
        with pytest.raises(RunFolderError, match="is not a run folder"):
            NodeLaGraphClassifier.from_pretrained(tmp_path / "none")
        with pytest.raises(
            ConfigError,
            match=r"'run' .*from_pretrained must be a run folder or a fitted estimator, such as the"
            " estimator_ of a classifier. Got NodeLaGraphClassifier",
        ):
            NodeLaGraphClassifier.from_pretrained(NodeLaGraphClassifier())
        with pytest.raises(NotFittedError, match="This NodeLaGraph is not fitted yet"):
            NodeLaGraphClassifier.from_pretrained(NodeLaGraph())

    def test_what_is_no_classifier_is_refused(self, tmp_path):
        data, y = graphs_and_classes()
        folder = GraphLaGraph(**SMALL).fit(data).save(tmp_path / "run")
        with pytest.raises(RunFolderError, match=r"holds embeddings and no classifier. Fine-tune"):
            load_classifier(folder)
        tuned = graph_classifier(epochs=0).fit(data, y).save(tmp_path / "tuned")
        with pytest.raises(RunFolderError, match="holds a GraphLaGraphClassifier, which Node"):
            NodeLaGraphClassifier.load(tuned)
        # One of another run
        (folder / "classifier.safetensors").write_bytes(
            (tuned / "classifier.safetensors").read_bytes()
        )
        with pytest.raises(RunFolderError, match="holds embeddings and no classifier"):
            load_classifier(folder)
        # A whole file, of another classifier on the same run
        other = graph_classifier(epochs=0).fit(data, 1 - y).save(tmp_path / "other")
        whole = (tuned / "classifier.safetensors").read_bytes()
        (tuned / "classifier.safetensors").write_bytes(
            (other / "classifier.safetensors").read_bytes()
        )
        with pytest.raises(RunFolderError, match="is not as it was saved: its checksum differs"):
            load_classifier(tuned)
        (tuned / "classifier.safetensors").write_bytes(whole)
        assert load_classifier(tuned).classes_.tolist() == [0, 1]
        damaged = bytearray((tuned / "classifier.safetensors").read_bytes())
        damaged[-1] ^= 1
        (tuned / "classifier.safetensors").write_bytes(bytes(damaged))
        with pytest.raises(RunFolderError, match="is not as it was saved: its checksum differs"):
            load_classifier(tuned)

    def test_a_run_is_complete_only_with_its_classifier(self, tmp_path, monkeypatch):
        data, y = graphs_and_classes()
        fitted = graph_classifier(epochs=0).fit(data, y)
        monkeypatch.setattr(storage, "save_tensors", None)
        with pytest.raises(TypeError):
            fitted.save(tmp_path / "model")
        assert (tmp_path / "model" / "config.toml").exists()
        assert not RunFolder(tmp_path / "model").complete

    def test_a_new_run_in_the_folder_has_no_old_classifier(self, tmp_path):
        data, y = graphs_and_classes()
        folder = graph_classifier(epochs=0).fit(data, y).save(tmp_path / "model")
        GraphLaGraph(**SMALL).fit(data).save(folder, overwrite=True)
        assert not (folder / "classifier.safetensors").exists()
