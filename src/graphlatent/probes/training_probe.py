"""A linear probe while an encoder trains, for those who have some labels.

It sees labels of training and validation rows only. What it measures is for looking at, and for
choosing the number of epochs; a score to report needs rows that chose nothing: `graphlatent.probe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from graphlatent.display import counted
from graphlatent.errors import InputError, bad_argument
from graphlatent.probes.design import PREPROCESSING, Array, Preprocessing, checked_matrix
from graphlatent.probes.fitting import Fit, PreprocessedMatrix, best_fits
from graphlatent.probes.linear import L2_GRID, checked_settings
from graphlatent.probes.metrics import METRICS
from graphlatent.training.hooks import Hooks, Measured

_OWNER = "TrainingProbe"


@dataclass(frozen=True)
class EpochScore:
    """The scores of the embedding after an epoch, on the rows that were fitted and on others."""

    epoch: int
    train: float
    val: float


class TrainingProbe:
    """Probes the embedding at every measured epoch of a training.

    >>> probe = TrainingProbe(labels, train=train_rows, val=val_rows)          # doctest: +SKIP
    >>> NodeLaGraph().fit(graph, hooks=probe.hooks())                          # doctest: +SKIP
    >>> probe.best.epoch                                                       # doctest: +SKIP

    The embedding is that of `transform`, head included. Training is the same with and without it.
    Of a run that was interrupted it has the epochs since it was resumed, of several trainings those
    of the last one.

    Args:
        labels: one class per row of the training set [M]; those of other rows than `train` and
            `val` are not kept, and may be anything, such as -1.
        train: row numbers to fit on.
        val: row numbers to score, and to choose the probe's own settings on.
        metric: one of `METRICS` of classes.
        l2: weights of the L2 term to choose from.
        preprocessing: to choose from, as for `linear_probe`.

    Raises:
        ConfigError: where an argument is out of range.
        InputError: where rows and labels do not fit together.
    """

    def __init__(
        self,
        labels: Array | Tensor | Sequence[Any],
        *,
        train: Array | Sequence[int],
        val: Array | Sequence[int],
        metric: str = "accuracy",
        l2: Sequence[float] = L2_GRID,
        preprocessing: Sequence[Preprocessing] = PREPROCESSING,
    ) -> None:
        if metric not in METRICS or METRICS[metric].of_numbers:
            allowed = f"one of {tuple(n for n, m in METRICS.items() if not m.of_numbers)}"
            raise bad_argument("metric", owner=_OWNER, allowed=allowed, got=metric)
        every = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
        if every.ndim != 1:
            raise InputError(
                f"The labels of {_OWNER} must be one class per row [M]. Got shape {every.shape}."
            )
        self.num_rows, self.metric = len(every), metric
        self._train, self._val = (
            _checked_rows(rows, name=name, num_rows=len(every))
            for name, rows in (("train", train), ("val", val))
        )
        if shared := np.intersect1d(self._train, self._val).tolist():
            raise InputError(
                f"'train' and 'val' of {_OWNER} share"
                f" {counted(len(shared), 'row')}, such as {shared[0]}. A row may be in one of them."
            )
        seen = np.concatenate([every[self._train], every[self._val]])
        _check_labelled(seen)
        # Copies: nothing here refers to the other labels.
        self._train_labels, self._val_labels = every[self._train], every[self._val]
        self._settings = checked_settings(l2, preprocessing, owner=_OWNER)
        self.scores: list[EpochScore] = []

    @property
    def best(self) -> EpochScore:
        """The epoch with the highest validation score; the first of equals.

        Raises:
            InputError: where nothing was probed yet.
        """
        if not self.scores:
            raise InputError(
                f"This {_OWNER} has no scores yet. Train with fit(graph, hooks=probe.hooks()), and"
                " diagnostics=True."
            )
        return max(self.scores, key=lambda score: METRICS[self.metric].utility(score.val))

    def hooks(self, hooks: Hooks | None = None) -> Hooks:
        """Hooks for `fit` that probe, and that still call the functions of `hooks`."""
        others = hooks or Hooks()

        def on_measure(measured: Measured) -> None:
            self._probe(measured)
            if others.on_measure is not None:
                others.on_measure(measured)

        return replace(others, on_measure=on_measure)

    def _probe(self, measured: Measured) -> None:
        rows = checked_matrix(measured.embedding())
        if rows.shape[0] != self.num_rows:
            raise InputError(
                f"{_OWNER} has {self.num_rows} labels, and the training set has {rows.shape[0]}"
                " rows. Give one label per node (or per graph), also where it is unknown."
            )
        if self.scores and measured.epoch <= self.scores[-1].epoch:
            # Another training has begun.
            self.scores = []
        best = best_fits(
            PreprocessedMatrix(rows, "cpu"),
            [Fit(self._train, self._train_labels, self._val)],
            [self._val_labels],
            self._settings,
            test=[self._train],
            classifier="logistic",
            metrics=[self.metric],
        )[self.metric][0]
        fitted = best.predicted.score(METRICS[self.metric], self._train_labels)
        self.scores.append(EpochScore(measured.epoch, float(fitted), float(best.score)))


def _check_labelled(seen: Array) -> None:
    """Raise an `InputError` where labels of training or validation rows are missing."""
    if bool(pd.isna(seen).any()):
        raise InputError(
            f"The labels of {_OWNER} are missing (NaN) for rows of 'train' or 'val'. Leave"
            " those rows out of them."
        )
    marked = np.array([not isinstance(each, str) and each == -1 for each in seen.tolist()])
    # Of two values, such as -1 and 1, both may be classes.
    if bool(marked.any()) and len(set(seen.tolist())) > 2:
        raise InputError(
            f"The labels of {_OWNER} are -1, which marks rows without a label, for"
            f" {counted(int(marked.sum()), 'row')} of 'train' or 'val'. Leave those rows out of"
            " them, or give a class -1 another name."
        )


def _checked_rows(rows: Array | Sequence[int], *, name: str, num_rows: int) -> Array:
    array = np.asarray(rows)
    whole = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iu"
    if not whole or array.min() < 0 or array.max() >= num_rows:
        allowed = f"one or more row numbers from 0 to {num_rows - 1}"
        raise bad_argument(name, owner=_OWNER, allowed=allowed, got=rows)
    return np.unique(array)
