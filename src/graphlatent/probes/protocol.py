"""The protocol that locks the test labels until all settings are chosen.

A `Protocol` owns labels and splits. Selection gets one `VisibleSplit` per split, with copies of the
training and validation labels and nothing else; it returns one `SplitPrediction` per split; `final`
then unlocks the test labels, once. So the choice of a split cannot depend on its test labels, and
never on a score pooled over splits, whose validation parts together cover most rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from graphlatent.data.splits import Split
from graphlatent.display import counted
from graphlatent.errors import InputError, ProtocolError, bad_argument
from graphlatent.probes.metrics import METRICS, OF_ENTRIES, ClassScores
from graphlatent.probes.results import Choice, ProbeResult

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class VisibleSplit:
    """What selection may see of one split.

    Args:
        number: of the split.
        train: row numbers to fit on.
        train_labels: their labels, copied.
        val: row numbers to select on; empty where selection makes its own folds of `train`.
        val_labels: their labels, copied.
        test: row numbers to predict, without their labels.
    """

    number: int
    train: Array
    train_labels: Array
    val: Array
    val_labels: Array
    test: Array


@dataclass(frozen=True, eq=False)
class SplitPrediction:
    """The choice of one split and its predictions.

    Args:
        choice: the chosen settings.
        predicted: a label for every test row, in the order of `VisibleSplit.test`.
        scores: of the classes for every test row, where the metric needs them.
    """

    choice: Choice
    predicted: Array
    scores: ClassScores | None = None


class Protocol:
    """Labels and splits, with locked test labels.

    Args:
        labels: one class per row [M], or a 0/1 matrix of several labels per row [M, K].
        splits: training, validation and test rows.
        metric: the score of a result, one of `METRICS`; for a 0/1 matrix of labels accuracy and
            micro-F1 are reported too.

    Raises:
        InputError: where labels and splits do not fit together.
    """

    def __init__(
        self,
        labels: Array | Tensor | Sequence[Any],
        splits: Sequence[Split],
        *,
        metric: str = "accuracy",
    ) -> None:
        if metric not in METRICS:
            raise bad_argument(
                "metric", owner="Protocol", allowed=f"one of {tuple(METRICS)}", got=metric
            )
        self.__labels = _checked_labels(labels)
        if not splits:
            raise InputError(
                "There are no splits to probe on. Make some with random_splits or fold_splits."
            )
        for number, split in enumerate(splits):
            _check_split(split, number=number, num_rows=len(self.__labels))
        self.splits, self.metric = tuple(splits), metric
        self.opened = False

    @property
    def num_rows(self) -> int:
        """M."""
        return len(self.__labels)

    @property
    def fingerprint(self) -> str:
        """A hash of the number of rows and the parts of every split."""
        digest = hashlib.sha256(str(self.num_rows).encode())
        for split in self.splits:
            for part in (split.train, split.val, split.test):
                digest.update(b"|" + np.ascontiguousarray(part, dtype=np.int64).tobytes())
        return digest.hexdigest()[:16]

    def visible(self) -> tuple[VisibleSplit, ...]:
        """What selection may see of every split."""
        return tuple(
            VisibleSplit(
                k,
                s.train.copy(),
                self.__labels[s.train],
                s.val.copy(),
                self.__labels[s.val],
                s.test.copy(),
            )
            for k, s in enumerate(self.splits)
        )

    def choose(
        self, select: Callable[[VisibleSplit], SplitPrediction]
    ) -> tuple[SplitPrediction, ...]:
        """The prediction of `select` for each split."""
        return tuple(select(part) for part in self.visible())

    def final(self, predictions: Sequence[SplitPrediction], *, selection: str) -> ProbeResult:
        """Unlock the test labels and score the predictions.

        A second call is an error, so that nothing can be selected on the test labels.

        Args:
            predictions: one per split, in their order.
            selection: in words, how they were chosen.

        Raises:
            ProtocolError: where the labels were unlocked before, or predictions are missing.
        """
        self._open()
        return self._scored(predictions, selection)

    def _open(self) -> None:
        if self.opened:
            raise ProtocolError(
                "The test labels of this protocol were opened already, and choices made since would"
                " not be blind. Start a new Protocol for a new question, and report every result"
                " you looked at."
            )
        self.opened = True

    def _scored(self, predictions: Sequence[SplitPrediction], selection: str) -> ProbeResult:
        if len(predictions) != len(self.splits):
            raise ProtocolError(
                f"final() needs one prediction per split, {len(self.splits)}. Got"
                f" {len(predictions)}."
            )
        names = (self.metric, *(OF_ENTRIES if self.__labels.ndim == 2 else ()))
        scores: dict[str, list[float]] = {name: [] for name in names}
        for number, (split, prediction) in enumerate(zip(self.splits, predictions, strict=True)):
            truth = self.__labels[split.test]
            if prediction.predicted.shape != truth.shape:
                raise ProtocolError(
                    f"A prediction must have the shape of the test labels, {truth.shape}. Got"
                    f" {prediction.predicted.shape}."
                )
            for name, values in scores.items():
                values.append(METRICS[name](truth, prediction.predicted, prediction.scores))
            if np.isnan(scores[self.metric][-1]):
                raise InputError(
                    f"{self.metric} cannot be computed for split {number}, since"
                    f" its test part, {counted(len(split.test), 'row')}, holds one class only. Use"
                    " folds, larger test parts or another metric."
                )
        others = {name: tuple(values) for name, values in scores.items() if name != self.metric}
        choices = tuple(prediction.choice for prediction in predictions)
        return ProbeResult(
            tuple(scores[self.metric]), choices, selection, self.metric, others, self.fingerprint
        )


class ReleasedProtocol(Protocol):
    """The selection of the paper's released scripts: the best mean TEST score is reported.

    For comparison with published numbers only.
    """

    def best_on_test(
        self, predictions: Mapping[str, Sequence[SplitPrediction]], *, selection: str
    ) -> ProbeResult:
        """The result of the candidate with the highest mean test score; the first of equals.

        Args:
            predictions: by candidate, one per split.
            selection: in words, what a candidate is.
        """
        self._open()
        words = (
            f"Chosen on the TEST labels: {selection} with the highest mean test score over the"
            " splits, as in the released scripts."
        )
        return max(
            (self._scored(each, words) for each in predictions.values()),
            key=lambda result: result.mean,
        )


def _checked_labels(labels: Array | Tensor | Sequence[Any]) -> Array:
    array: Array = (
        labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    )
    if array.ndim not in (1, 2) or len(array) == 0:
        raise InputError(
            f"Labels must be one class per row [M], or a 0/1 table [M, K]. Got shape {array.shape}."
        )
    if array.ndim == 2 and not bool(np.isin(array, (0, 1)).all()):
        raise InputError("A table of labels must hold 0 and 1 only, one column per label.")
    if array.dtype.kind == "f" and not bool(np.isfinite(array).all()):
        raise InputError(
            "The labels hold NaN or infinite values. Leave out rows without a label, or give them a"
            " class of their own."
        )
    return array.copy()


def _check_split(split: Split, *, number: int, num_rows: int) -> None:
    parts = {"train": split.train, "val": split.val, "test": split.test}
    for name, rows in parts.items():
        if (len(rows) == 0 and name != "val") or (
            len(rows) and (rows.min() < 0 or rows.max() >= num_rows)
        ):
            raise InputError(
                f"Split {number}: '{name}' must hold one or more row numbers from 0 to"
                f" {num_rows - 1}."
            )
    if len(np.unique(np.concatenate(list(parts.values())))) < sum(
        len(rows) for rows in parts.values()
    ):
        raise InputError(
            f"Split {number}: its parts share rows. A row may be in one of train, val and test,"
            " once."
        )
