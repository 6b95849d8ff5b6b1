"""The settings of fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from graphlatent.config import LearningRate, WeightDecay
from graphlatent.finetuning.labels import ClassWeight
from graphlatent.setting_types import Doc, Range


@dataclass(kw_only=True, repr=False, eq=False)
class FineTuneSettings:
    """The settings of fine-tuning at both levels."""

    epochs: Annotated[
        int, Range(0), Doc("passes over the labelled rows, at most; 0 keeps the encoder as it is")
    ] = 50
    lr: LearningRate = 1e-3
    weight_decay: WeightDecay = 0.0
    batch_size: Annotated[
        int, Range(1), Doc("labelled graphs in a mini-batch; a graph's nodes are one batch")
    ] = 32
    linear_probe: Annotated[
        bool, Doc("fit the head alone first, exactly; otherwise it starts at 0")
    ] = True
    validation_ratio: Annotated[
        float, Range(0, 0.9), Doc("share of the labelled rows that stops training; 0: none")
    ] = 0.2
    patience: Annotated[
        int | None,
        Range(1),
        Doc("stop after this many epochs without a lower validation loss; None: never"),
    ] = 10
    calibrate: Annotated[
        bool, Doc("divide logits by a temperature fitted to the validation part")
    ] = True
    random_state: Annotated[
        int, Range(0, 2**31 - 1), Doc("seed of the validation part and of batches")
    ] = 0


@dataclass(kw_only=True, repr=False, eq=False)
class ClassifierSettings(FineTuneSettings):
    """The parameters of a classifier: those of fine-tuning, what it starts from, and weights."""

    pretraining: Any = None
    class_weight: ClassWeight = None
