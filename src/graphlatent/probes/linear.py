"""The linear probe: logistic regression on frozen rows, its settings chosen without the test labels.

The classifier itself is in logistic.py; here is the protocol, and what came of it.
Legend: M rows, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.sparse import SparseMatrix
from graphlatent.data.splits import Split
from graphlatent.errors import InputError, bad_argument
from graphlatent.probes.logistic import Array, Design, Preprocessing, Scaler, Table, logistic_path

STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PREPROCESSING: tuple[Preprocessing, ...] = get_args(Preprocessing)
SELECTION = (
    "Per split, the preprocessing and L2 strength with the highest validation accuracy; among equals the preprocessing named first, "
    "then the larger strength. The test labels of a split are read once, after its choice."
)
REFITTED = " Then fitted once more on its training and validation rows together."
_CHUNK = 2**16  # rows predicted at a time


@dataclass(frozen=True)
class ProbeChoice:
    """What one split's validation rows chose.

    Args:
        preprocessing: how the rows were prepared.
        strength: weight of the L2 term.
        val_accuracy: share of the validation rows that the classifier gets right, between 0 and 1.
    """

    preprocessing: Preprocessing
    strength: float
    val_accuracy: float


@dataclass(frozen=True)
class ProbeResult:
    """Test accuracy over several splits, and how it came about.

    Args:
        accuracies: share of right answers on each split's test rows, between 0 and 1.
        choices: the settings that each split chose.
        selection: in words, how they were chosen.
    """

    accuracies: tuple[float, ...]
    choices: tuple[ProbeChoice, ...]
    selection: str = SELECTION

    @property
    def mean(self) -> float:
        """Mean test accuracy over the splits."""
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float:
        """Standard deviation of the test accuracy over the splits (divided by their number, as benchmark tables do)."""
        return float(np.std(self.accuracies))


def linear_probe(
    representation: Any,
    labels: Array | Tensor | Sequence[Any],
    *,
    splits: Sequence[Split],
    strengths: Sequence[float] = STRENGTHS,
    preprocessing: Sequence[Preprocessing] = PREPROCESSING,
    refit: bool = False,
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Test accuracies of a linear classifier on a representation, every setting chosen on validation rows of the same split.

    Args:
        representation: one row per node or graph [M, D]: array, tensor, SciPy sparse matrix or `SparseMatrix`.
        labels: one class per row [M], numbers or names.
        splits: which rows train, choose and test; see `graphlatent.data.splits`.
        strengths: L2 strengths to choose from. They are meant for rows of mean squared norm 1, to which the training rows are
            scaled, so the same ones fit any representation.
        preprocessing: ways to prepare the rows to choose from. "none": as they are; "row": each row divided by its length;
            "standard": each column divided by its standard deviation over the training rows.
        refit: after the choice, fit once more on training and validation rows together, as cross-validation over folds does.
        device: where to compute; in float64.

    Raises:
        ConfigError: where `strengths` or `preprocessing` hold something else.
        InputError: where rows, labels and splits do not fit together.
    """
    strengths, preprocessing = _checked_settings(strengths, preprocessing)
    table = _checked_table(representation).to(device)
    classes = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if classes.shape != (table.shape[0],):
        raise InputError(f"Labels must be one class per row of the representation, shape ({table.shape[0]},). Got shape {classes.shape}.")
    if not splits:
        raise InputError("There are no splits to probe on. Make some with random_splits or fold_splits.")
    accuracies, choices = [], []
    for k, split in enumerate(splits):
        _check_split(split, number=k, num_rows=table.shape[0])
        probe = _choose(table, split, classes[split.train], classes[split.val], strengths=strengths, preprocessing=preprocessing)
        if refit:
            rows = np.concatenate([split.train, split.val])
            probe = _refitted(table, rows, classes[rows], probe.choice)
        predicted = probe.predict(table, split.test)
        accuracies.append(float(np.mean(predicted == classes[split.test])))
        choices.append(probe.choice)
    return ProbeResult(tuple(accuracies), tuple(choices), SELECTION + (REFITTED if refit else ""))


@dataclass(frozen=True, eq=False)
class _Probe:
    """A fitted classifier and the choice that led to it."""

    choice: ProbeChoice
    scaler: Scaler
    weights: Tensor
    classes: Array

    def predict(self, table: Table, rows: Array) -> Array:
        """The class of each of the rows, [len(rows)]."""
        parts = [_predict(self.scaler.prepare(table, rows[i : i + _CHUNK]), self.weights) for i in range(0, len(rows), _CHUNK)]
        predicted: Array = self.classes[np.concatenate(parts)]
        return predicted


def _choose(
    table: Table,
    split: Split,
    train_labels: Array,
    val_labels: Array,
    *,
    strengths: Sequence[float],
    preprocessing: Sequence[Preprocessing],
) -> _Probe:
    """The classifier that is best on the validation rows. The test labels are not among what it is given."""
    classes, numbers = np.unique(train_labels, return_inverse=True)
    target = torch.from_numpy(numbers.astype(np.int64)).to(table.device)
    candidates = []
    for how in preprocessing:
        scaler = Scaler.fit(table, split.train, how)
        train, val = scaler.prepare(table, split.train), scaler.prepare(table, split.val)
        path = logistic_path(train, target, num_classes=len(classes), strengths=strengths)
        for strength, weights in zip(strengths, path, strict=True):
            accuracy = float(np.mean(classes[_predict(val, weights)] == val_labels))
            candidates.append(_Probe(ProbeChoice(how, strength, accuracy), scaler, weights, classes))
    return max(candidates, key=lambda probe: probe.choice.val_accuracy)  # the first of equals


def _refitted(table: Table, rows: Array, labels: Array, choice: ProbeChoice) -> _Probe:
    """The chosen classifier, fitted on these rows."""
    classes, numbers = np.unique(labels, return_inverse=True)
    target = torch.from_numpy(numbers.astype(np.int64)).to(table.device)
    scaler = Scaler.fit(table, rows, choice.preprocessing)
    (weights,) = logistic_path(scaler.prepare(table, rows), target, num_classes=len(classes), strengths=(choice.strength,))
    return _Probe(choice, scaler, weights, classes)


def _predict(design: Design, weights: Tensor) -> Array:
    predicted: Array = design.logits(weights).argmax(0).cpu().numpy()
    return predicted


def _checked_settings(
    strengths: Sequence[float], preprocessing: Sequence[Preprocessing]
) -> tuple[tuple[float, ...], tuple[Preprocessing, ...]]:
    """Both as tuples, the strengths from the largest to the smallest."""
    if len(strengths) == 0 or not all(0 < s < float("inf") for s in strengths):
        raise bad_argument("strengths", owner="linear_probe", allowed="one or more floats in the range (0.0, inf)", got=strengths)
    if isinstance(preprocessing, str) or not preprocessing or not set(preprocessing) <= set(PREPROCESSING):
        raise bad_argument("preprocessing", owner="linear_probe", allowed=f"one or more of {PREPROCESSING}", got=preprocessing)
    return tuple(sorted(map(float, strengths), reverse=True)), tuple(preprocessing)


def _checked_table(representation: Any) -> Table:
    table: Table
    if isinstance(representation, SparseMatrix):
        table = representation
    elif hasattr(representation, "tocsr"):
        table = SparseMatrix.from_scipy(representation, dtype=torch.float64)
    elif isinstance(representation, Tensor):
        table = representation.detach()
    else:
        array = np.asarray(representation)
        if array.dtype.kind not in "biuf":
            raise InputError(f"The representation must hold numbers. Got values of type {array.dtype}.")
        table = torch.from_numpy(np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64))
    if len(table.shape) != 2 or 0 in table.shape:
        raise InputError(f"The representation must be a 2-D array, one row per node or graph. Got shape {tuple(table.shape)}.")
    if not bool(torch.isfinite(table.value if isinstance(table, SparseMatrix) else table).all()):
        raise InputError("The representation holds NaN or infinite values. Look at the training history before probing it.")
    return table


def _check_split(split: Split, *, number: int, num_rows: int) -> None:
    parts = {"train": split.train, "val": split.val, "test": split.test}
    for name, rows in parts.items():
        if len(rows) == 0 or rows.min() < 0 or rows.max() >= num_rows:
            raise InputError(f"Split {number}: '{name}' must hold one or more row numbers from 0 to {num_rows - 1}.")
    if len(np.unique(np.concatenate(list(parts.values())))) < sum(len(rows) for rows in parts.values()):
        raise InputError(f"Split {number}: its parts share rows. A row may be in one of train, val and test, once.")
