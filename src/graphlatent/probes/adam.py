"""The node probe of the LaGraph paper: logistic regression, trained by Adam for fixed epochs.

Learning rate 0.01, epochs and weight decay of the paper's Table 6, rows as they are. Nothing is
selected but the representation.

Legend: S splits, n training rows, D columns, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.probes.design import Array, FeatureMatrix, LinearModels, checked_matrix
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.protocol import Protocol, SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice

# Number of float32 values of training rows held at a time on a CPU
_ROOM = 2**27


def adam_predictions(
    candidates: Mapping[str, Any],
    protocol: Protocol,
    *,
    epochs: int,
    weight_decay: float,
    lr: float = 0.01,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> dict[str, tuple[SplitPrediction, ...]]:
    """The predictions of the paper's probe for every candidate and split.

    Args:
        candidates: representations by name.
        protocol: labels and splits; the test labels stay locked. A 0/1 matrix of labels is fitted
            by the mean binary cross-entropy of its entries.
        epochs: full-batch steps of Adam.
        weight_decay: of Adam.
        lr: of Adam.
        seed: of the initial weights (Glorot uniform; the bias starts at 0).
        device: to compute on, in float32.
    """
    found = {}
    settings = {"epochs": epochs, "weight_decay": weight_decay, "lr": lr}
    for name, representation in candidates.items():
        matrix = checked_matrix(representation).to(device)
        predictions = []
        for parts in _groups(protocol.visible(), matrix):
            classes = [_classes(part) for part in parts]
            models = _trained(
                matrix, parts, classes, epochs=epochs, weight_decay=weight_decay, lr=lr, seed=seed
            )
            rows = [np.concatenate([part.val, part.test]) for part in parts]
            outputs = models.logits(matrix, rows)
            for part, of_split, logits in zip(parts, classes, outputs, strict=True):
                predicted = _predicted(logits, of_split, several=part.train_labels.ndim == 2)
                score = (
                    METRICS[protocol.metric](part.val_labels, predicted[: len(part.val)])
                    if len(part.val)
                    else float("nan")
                )
                predictions.append(
                    SplitPrediction(Choice(name, settings, score), predicted[len(part.val) :])
                )
        found[name] = tuple(predictions)
    return found


def _groups(
    parts: tuple[VisibleSplit, ...], matrix: FeatureMatrix
) -> list[tuple[VisibleSplit, ...]]:
    """Splits that are trained together: equal size and number of classes, bounded memory.

    With different numbers of classes the initial weights of a split, hence its predictions, would
    depend on labels of the others.
    """
    room = _ROOM * (16 if matrix.device.type == "cuda" else 1)
    groups = []
    for (size, _), alike in groupby(parts, key=lambda part: (len(part.train), len(_classes(part)))):
        same, at_once = tuple(alike), max(1, room // (size * matrix.shape[1]))
        groups += [same[i : i + at_once] for i in range(0, len(same), at_once)]
    return groups


def _classes(part: VisibleSplit) -> Array:
    """The classes of a split's training rows; for a 0/1 matrix of labels its columns."""
    return (
        np.unique(part.train_labels)
        if part.train_labels.ndim == 1
        else np.arange(part.train_labels.shape[1])
    )


def _predicted(logits: Tensor, classes: Array, *, several: bool) -> Array:
    """A class for each row [M], or a 0/1 matrix of labels [M, K]."""
    predicted: Array = (
        (logits > 0).long().cpu().numpy() if several else classes[logits.argmax(1).cpu().numpy()]
    )
    return predicted


def _loss(logits: Tensor, target: Tensor) -> Tensor:
    """The mean loss of each split, summed over the splits."""
    if target.ndim == 3:
        cells = target.shape[1] * target.shape[2]
        return (
            torch.nn.functional.binary_cross_entropy_with_logits(
                logits, target.float(), reduction="sum"
            )
            / cells
        )
    return (
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
        / target.shape[1]
    )


def _trained(
    matrix: FeatureMatrix,
    parts: tuple[VisibleSplit, ...],
    classes: list[Array],
    *,
    epochs: int,
    weight_decay: float,
    lr: float,
    seed: int,
) -> LinearModels:
    rows = torch.stack([_dense(matrix, part.train) for part in parts])  # [S, n, D]
    labels = [
        part.train_labels if part.train_labels.ndim == 2 else np.searchsorted(c, part.train_labels)
        for c, part in zip(classes, parts, strict=True)
    ]
    target = torch.from_numpy(np.stack(labels)).to(rows.device)  # [S, n], or [S, n, K]
    num_classes, width = len(classes[0]), rows.shape[2]
    bound = (6 / (width + num_classes)) ** 0.5
    generator = torch.Generator().manual_seed(seed)
    first = (
        torch.empty(num_classes, width).uniform_(-bound, bound, generator=generator).to(rows.device)
    )
    weight = first.expand(len(parts), -1, -1).clone().requires_grad_()
    bias = torch.zeros(len(parts), 1, num_classes, device=rows.device, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=lr, weight_decay=weight_decay)
    with torch.enable_grad():
        for _ in range(epochs):
            optimizer.zero_grad()
            loss = _loss(torch.bmm(rows, weight.mT) + bias, target)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return LinearModels(weight.detach().double(), bias.detach().double().squeeze(1))


def _dense(matrix: FeatureMatrix, index: Array) -> Tensor:
    numbers = torch.from_numpy(index).to(matrix.device)
    rows = matrix[numbers] if isinstance(matrix, Tensor) else matrix.rows(numbers).to_dense()
    return rows.float()
