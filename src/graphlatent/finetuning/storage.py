"""Saving and loading of fine-tuned classifiers: a run folder with classifier.safetensors in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from graphlatent.errors import RunFolderError
from graphlatent.estimator import Estimator
from graphlatent.estimator_files import saving
from graphlatent.finetuning.head import ClassifierHead
from graphlatent.finetuning.settings import FineTuneSettings
from graphlatent.finetuning.tuner import EpochRecord
from graphlatent.io.layout import CLASSIFIER
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.tensor_forms import TensorForm, check_tensors
from graphlatent.io.tensors import load_tensors, save_tensors
from graphlatent.methods.registry import load_estimator

Array = np.ndarray[Any, Any]
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class FineTuned:
    """What a classifier is besides its encoder and the weights of its head.

    Args:
        classifier: name of the class.
        classes: in the order of probabilities.
        multilabel: whether a row may have several labels.
        settings: of fine-tuning, by name.
        history: losses of each epoch.
    """

    classifier: str
    classes: Array
    multilabel: bool
    settings: Mapping[str, Any]
    history: tuple[EpochRecord, ...]

    def to_text(self) -> str:
        """One line of JSON."""
        settings = dict(self.settings)
        weight = settings.get("class_weight")
        if isinstance(weight, dict):
            # JSON has text keys only.
            settings["class_weight"] = [[_plain(k), float(v)] for k, v in weight.items()]
        return json.dumps(
            {
                "format": _FORMAT,
                "classifier": self.classifier,
                "classes": self.classes.tolist(),
                "multilabel": self.multilabel,
                "settings": settings,
                "history": [
                    {k: None if v != v else v for k, v in asdict(each).items()}
                    for each in self.history
                ],
            }
        )

    @classmethod
    def from_text(cls, text: str) -> FineTuned:
        """What `to_text` wrote.

        Raises:
            ValueError: where it did not; says what is wrong. Also KeyError, TypeError and
                OverflowError, of values of other types.
        """
        try:
            values = json.loads(text)
        except RecursionError as error:
            raise ValueError("its text is nested too deeply") from error
        if values["format"] != _FORMAT:
            raise ValueError(f"it has format {values['format']!r}, this version reads {_FORMAT}")
        if type(values["multilabel"]) is not bool:
            raise ValueError("its 'multilabel' is not true or false")
        settings = dict(values["settings"])
        if isinstance(settings.get("class_weight"), list):
            settings["class_weight"] = dict(settings["class_weight"])
        names = {field.name for field in fields(FineTuneSettings)} | {"class_weight"}
        if set(settings) != names:
            odd = ", ".join(sorted(names.symmetric_difference(settings)))
            raise ValueError(f"some of its settings are missing or unknown: {odd}")
        history = [
            EpochRecord(int(each["epoch"]), _number(each["loss"]), _number(each["val_loss"]))
            for each in values["history"]
        ]
        return cls(
            values["classifier"],
            _read_classes(values["classes"]),
            values["multilabel"],
            settings,
            tuple(history),
        )


def write_fine_tuned(
    run: RunFolder,
    estimator: Estimator,
    head: Mapping[str, Tensor],
    about: FineTuned,
    *,
    fingerprints: Mapping[str, str] | None = None,
) -> None:
    """Write a run of the fine-tuned encoder, complete only with the classifier in it.

    `fingerprints` are those of the graph that the run names in results.json, if it does.
    """
    with saving(estimator, run, fingerprints=fingerprints):
        save_tensors(run.path / CLASSIFIER, head, about.to_text())


def read_fine_tuned(
    folder: str | Path, *, wanted: str, device: str | None
) -> tuple[Estimator, ClassifierHead, FineTuned]:
    """The fine-tuned encoder, the head, and what the classifier is.

    Raises:
        RunFolderError: where there is no classifier, it is of another class than `wanted`, or its
            files were changed.
    """
    run = RunFolder(folder)
    estimator = load_estimator(folder, device=device)
    path = run.path / CLASSIFIER
    if CLASSIFIER not in run.read_json("manifest.json").get("sha256", {}):
        raise RunFolderError(
            f"{run.path} holds embeddings and no classifier. Fine-tune it first: 'graphlatent"
            f" finetune {run.path} INPUT --label COLUMN --out NEW', or"
            f" {wanted}.from_pretrained({str(run.path)!r}).fit(X, y)."
        )
    tensors, text = load_tensors(path)
    try:
        about = FineTuned.from_text(text or "")
        head = _read_head(tensors, estimator.embedding_dim_, len(about.classes))
    except KeyError as error:
        raise RunFolderError(f"{path} is damaged: it lacks {error}. Copy it again.") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise RunFolderError(f"{path} is damaged: {error}. Copy it again.") from error
    if about.classifier != wanted:
        raise RunFolderError(
            f"{run.path} holds a {about.classifier}, which {wanted} is not. Load it with"
            " graphlatent.load_classifier."
        )
    return estimator, head, about


def _read_head(tensors: Mapping[str, Tensor], width: int, num_classes: int) -> ClassifierHead:
    """The head with these weights. Raises a ValueError where they are not those of one."""
    head = ClassifierHead(width, num_classes)
    check_tensors(tensors, {name: TensorForm.of(v) for name, v in head.state_dict().items()})
    if not float(tensors["temperature"]) > 0:
        raise ValueError(f"its temperature is {float(tensors['temperature']):g}, not above 0")
    head.load_state_dict(tensors)
    return head


def _read_classes(values: Any) -> Array:
    """Names or numbers of classes, all of one type. Raises a ValueError where they are none."""
    found = isinstance(values, list) and len(values) > 0
    if not found or not any(all(type(v) is kind for v in values) for kind in (str, int, bool)):
        raise ValueError("its classes must be a list of texts or of integers")
    if len(set(values)) < len(values):
        raise ValueError("one of its classes is there twice")
    return np.array(values)


def _plain(value: Any) -> Any:
    """A class name as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value


def _number(value: float | None) -> float:
    """A number; NaN, which JSON does not have, is written as null."""
    return math.nan if value is None else float(value)
