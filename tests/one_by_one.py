"""Rows measured step by step, for comparison: estimators and probes called one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.bench.context import CONCAT, FIXED, PLAIN, Measurement
from graphlatent.bench.data import DatasetBundle
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows import find_row
from graphlatent.bench.rows.base import RowOutcome
from graphlatent.probes.design import Preprocessing
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.results import ProbeResult
from graphlatent.probes.svm import SVM_PREPROCESSING, svm_probe

CPU, SEED = torch.device("cpu"), 1
# What the fixture `small_probes` leaves of folds and C of the RBF SVM.
FOLDS, RBF_C = 4, (0.1, 10.0)


def measurement(data: DatasetBundle, **changes: Any) -> Measurement:
    """What rows share, on the same seed."""
    changed = dataclasses.replace(data, **changes)
    return Measurement(changed, seed=SEED, device=CPU, probe_device=CPU)


def measure_row(shared: Measurement, recipe: Recipe, row: str) -> RowOutcome:
    """What a row gives in a cell."""
    return find_row(row).measure(shared.cell(recipe))


def embedded(data: DatasetBundle, values: Any, *, epoch: int, kind: str = PLAIN) -> np.ndarray:
    """Trained by the estimator itself for so many epochs, which also appends the features
    itself.
    """
    values = {**values, "epochs": epoch, "random_state": SEED, "device": "cpu"}
    if data.splits is None:
        return GraphLaGraph(**values).fit(data.train_graph).transform(data.graph)
    return (
        NodeLaGraph(**{**values, "concat_input": kind == CONCAT})
        .fit(data.train_graph)
        .transform(data.graph)
    )


def candidates(
    data: DatasetBundle,
    values: Any,
    *,
    epochs: Sequence[int],
    kinds: Sequence[str] = (PLAIN, CONCAT),
) -> dict[str, np.ndarray]:
    """By the names that a measurement gives them."""
    kinds = (PLAIN,) if data.splits is None else kinds
    return {
        f"epoch {e}, {kind}": embedded(data, values, epoch=e, kind=kind)
        for e in epochs
        for kind in kinds
    }


def probed(
    data: DatasetBundle,
    representations: Any,
    *,
    kernel: str = "linear",
    preprocessing: Sequence[Preprocessing] = SVM_PREPROCESSING,
) -> ProbeResult:
    if data.splits is None:
        return svm_probe(
            representations,
            data.labels,
            seed=SEED,
            kernel=kernel,
            num_folds=FOLDS,
            C=RBF_C,
            preprocessing=preprocessing,
        )
    return linear_probe(representations, data.labels, splits=data.splits, metric=data.metric)


def fixed(result: ProbeResult) -> ProbeResult:
    """The same result where nothing but the probe's settings was chosen."""
    return dataclasses.replace(result, selection=FIXED + result.selection)
