"""Cells of the tables measured by separate calls of estimators and probes, for comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.bench.material import Material
from graphlatent.bench.measure import CONCAT, FIXED, PLAIN, Measurement
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.results import ProbeResult
from graphlatent.probes.svm import svm_probe

CPU, SEED = torch.device("cpu"), 1


def measurement(material: Material, **changes: Any) -> Measurement:
    """The measurement that the bench makes, with the same seed."""
    return Measurement(dataclasses.replace(material, **changes), SEED, CPU, CPU)


def embedded(material: Material, values: Any, *, epoch: int, kind: str = PLAIN) -> np.ndarray:
    """The embeddings of an estimator trained for `epoch` epochs."""
    values = {**values, "epochs": epoch, "random_state": SEED, "device": "cpu"}
    if material.splits is None:
        return GraphLaGraph(**values).fit(material.seen).transform(material.graph)
    estimator = NodeLaGraph(**{**values, "concat_input": kind == CONCAT})
    return estimator.fit(material.seen).transform(material.graph)


def candidates(
    material: Material,
    values: Any,
    *,
    epochs: Sequence[int],
    kinds: Sequence[str] = (PLAIN, CONCAT),
) -> dict[str, np.ndarray]:
    """The candidate representations, under the names that a measurement gives them."""
    kinds = (PLAIN,) if material.splits is None else kinds
    return {
        f"epoch {e}, {kind}": embedded(material, values, epoch=e, kind=kind)
        for e in epochs
        for kind in kinds
    }


def probed(material: Material, representations: Any, *, kernel: str = "linear") -> ProbeResult:
    if material.splits is None:
        return svm_probe(representations, material.labels, seed=SEED, kernel=kernel)
    return linear_probe(
        representations, material.labels, splits=material.splits, metric=material.metric
    )


def fixed(result: ProbeResult) -> ProbeResult:
    """The result with the note that only the probe's settings were selected."""
    return dataclasses.replace(result, selection=FIXED + result.selection)
