"""Saving and loading of fine-tuned classifiers: a run folder with classifier.safetensors in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from graphlatent.errors import RunFolderError
from graphlatent.estimator import Estimator
from graphlatent.finetuning.tuner import EpochRecord
from graphlatent.io.layout import CLASSIFIER
from graphlatent.io.runfolder import RunFolder
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
        """What `to_text` wrote. Raises KeyError, TypeError or ValueError where it did not."""
        values = json.loads(text)
        if values["format"] != _FORMAT:
            raise ValueError(f"it has format {values['format']!r}, this version reads {_FORMAT}")
        settings = dict(values["settings"])
        if isinstance(settings.get("class_weight"), list):
            settings["class_weight"] = dict(settings["class_weight"])
        history = [
            EpochRecord(int(each["epoch"]), _number(each["loss"]), _number(each["val_loss"]))
            for each in values["history"]
        ]
        return cls(
            values["classifier"],
            np.array(values["classes"]),
            bool(values["multilabel"]),
            settings,
            tuple(history),
        )


def write_fine_tuned(
    folder: str | Path,
    estimator: Estimator,
    head: Mapping[str, Tensor],
    about: FineTuned,
    *,
    overwrite: bool,
) -> Path:
    """Write a run folder of the fine-tuned encoder, with the classifier in it; returns its path.

    Between the two the folder holds a complete run without a classifier.
    """
    path = estimator.save(folder, overwrite=overwrite)
    run = RunFolder(path, reading=estimator.reading_.to_dict())
    with run.writing():
        save_tensors(path / CLASSIFIER, head, about.to_text())
        # Once more, with the checksum of the classifier.
        run.finish(estimator.model_.state_dict(), estimator.history_)
    return path


def read_fine_tuned(
    folder: str | Path, *, wanted: str, device: str | None
) -> tuple[Estimator, dict[str, Tensor], FineTuned]:
    """The fine-tuned encoder, the weights of the head, and what the classifier is.

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
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{path} is damaged: {error}. Copy it again.") from error
    if about.classifier != wanted:
        raise RunFolderError(
            f"{run.path} holds a {about.classifier}, which {wanted} is not. Load it with"
            " graphlatent.load_classifier."
        )
    return estimator, tensors, about


def _plain(value: Any) -> Any:
    """A class name as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value


def _number(value: float | None) -> float:
    """A number; NaN, which JSON does not have, is written as null."""
    return math.nan if value is None else float(value)
