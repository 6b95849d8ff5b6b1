"""Classifier files with right checksums whose content no classifier has: one error each."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cases import random_graph
from graphlatent import GraphLaGraph, GraphLaGraphClassifier, load_classifier
from graphlatent.errors import GraphLatentError, InputError, RunFolderError
from graphlatent.io.tensors import load_tensors, save_tensors

DATA = random_graph([5, 4, 3, 6, 2, 7])
START = GraphLaGraph(hidden_dim=4, epochs=1, device="cpu")
NAME = "classifier.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    fitted = GraphLaGraphClassifier(pretraining=START, epochs=1).fit(DATA, ["a", "b", "c"] * 2)
    return fitted.save(tmp_path_factory.mktemp("classifier") / "model")


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def rewrite(folder: Path, *, tensors=(), about=(), text=None) -> None:
    """Replace tensors (None: leave out) and values of the text, with new checksums."""
    values, old = load_tensors(folder / NAME)
    values = {k: v for k, v in {**values, **dict(tensors)}.items() if v is not None}
    text = json.dumps({**json.loads(old or ""), **dict(about)}) if text is None else text
    save_tensors(folder / NAME, values, text)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][NAME] = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def refused(folder: Path) -> str:
    with pytest.raises(RunFolderError) as caught:
        load_classifier(folder)
    assert f"{NAME} is damaged: " in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def test_the_unchanged_one_is_read(folder):
    rewrite(folder)
    assert load_classifier(folder).predict_proba(DATA).shape == (6, 3)


@pytest.mark.parametrize(
    "name",
    ["linear.weight", "linear.bias", "standard.mean", "standard.scale", "temperature"],
)
def test_every_tensor_has_its_shape_and_type_and_is_finite(folder, name):
    value = load_tensors(folder / NAME)[0][name]
    twice = torch.cat([value.reshape(-1)] * 2)
    for other in (twice, value.reshape(-1)[:0], value[None], value.double(), value.long()):
        rewrite(folder, tensors={name: other})
        assert f"its {name} must be torch.float32 of shape" in refused(folder)
    for number in (float("nan"), float("inf")):
        rewrite(folder, tensors={name: torch.full_like(value, number)})
        assert f"its {name} holds numbers that are not finite" in refused(folder)
    rewrite(folder, tensors={name: None})
    assert f"it lacks {name}" in refused(folder)
    rewrite(folder, tensors={name: value, "more": torch.ones(2)})
    assert "it has the unknown more" in refused(folder)


def test_temperatures_that_turn_probabilities_around(folder):
    for number in (0.0, -1.0):
        rewrite(folder, tensors={"temperature": torch.tensor(number)})
        assert f"its temperature is {number:g}, not above 0" in refused(folder)


@pytest.mark.parametrize(
    "classes",
    [None, [], "abc", {"a": 1}, [1, "b", "c"], [1.5, 2, 3], [{}, {}, {}], [["a"], ["b"], ["c"]]],
)
def test_classes_that_are_none(folder, classes):
    rewrite(folder, about={"classes": classes})
    assert "its classes must be a list of texts or of integers" in refused(folder)


def test_other_numbers_of_classes(folder):
    rewrite(folder, about={"classes": ["a", "b"]})
    assert "its linear.weight must be torch.float32 of shape (2," in refused(folder)
    rewrite(folder, about={"classes": ["a", "b", "a"]})
    assert "one of its classes is there twice" in refused(folder)


@pytest.mark.parametrize(
    "about",
    [
        *({"multilabel": value} for value in (None, 1, "yes")),
        *({"settings": value} for value in (None, "x", {}, {"epochs": 1}, {"pretraining": "/"})),
        *({"history": value} for value in (None, 5, "x", [1], [{}])),
        {"history": [{"epoch": float("inf"), "loss": 1, "val_loss": 1}]},
        {"history": [{"epoch": 1, "loss": 10**400, "val_loss": 1}]},
        {"format": 2},
    ],
)
def test_values_of_the_text(folder, about):
    rewrite(folder, about=about)
    refused(folder)


def test_settings_out_of_range(folder):
    settings = json.loads(load_tensors(folder / NAME)[1] or "")["settings"]
    for other in ({"epochs": -1}, {"lr": "x"}, {"class_weight": 5}, {"random_state": 10**400}):
        rewrite(folder, about={"settings": {**settings, **other}})
        with pytest.raises(GraphLatentError, match=f"'{next(iter(other))}' parameter"):
            load_classifier(folder)


@pytest.mark.parametrize("text", ["", "null", "5", "{", "[" * 100_000, '{"a":' * 50_000])
def test_texts_that_are_no_json_object(folder, text):
    rewrite(folder, text=text)
    refused(folder)


class TestClassesThatCannotBeSaved:
    """They are refused before fine-tuning, not after it."""

    @pytest.mark.parametrize(
        ("y", "got"),
        [
            (np.array([b"a", b"b"] * 3), "b'a'"),
            (np.array(["2020-01-01", "2021-01-01"] * 3, dtype="datetime64[D]"), "datetime.date"),
            (np.array([1.0, np.inf] * 3), "inf"),
            # Above 2^53 a float stands for several integers.
            (np.array([1.0, 1e300] * 3), "1e\\+300"),
        ],
    )
    def test_refused(self, y, got):
        with pytest.raises(InputError, match=rf"classes: whole numbers or names. Got {got}"):
            GraphLaGraphClassifier(pretraining=START).fit(DATA, y)

    def test_numpy_numbers_among_objects_are_saved(self, tmp_path):
        y = np.array([np.int64(3), 4.0, None, np.float32(3), 4, 3], dtype=object)
        fitted = GraphLaGraphClassifier(pretraining=START, epochs=1).fit(DATA, y)
        loaded = load_classifier(fitted.save(tmp_path / "model"))
        assert loaded.classes_.tolist() == [3, 4] and loaded.classes_.dtype == np.int64
