"""The paper's own node probe: logistic regression trained by Adam for a fixed number of epochs
(learning rate 0.01, epochs and weight decay of its Table 6), on rows as they are. Nothing is chosen
in it but the representation.

Legend: S splits, n training rows, D columns, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent.probes.design import Array, Linear, Table, checked_table
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.protocol import Answer, Protocol, Visible
from graphlatent.probes.results import Choice

_ROOM = 2**27  # float32 values of training rows held at a time on a CPU


def adam_answers(
    candidates: Mapping[str, Any],
    protocol: Protocol,
    *,
    epochs: int,
    weight_decay: float,
    lr: float = 0.01,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> dict[str, tuple[Answer, ...]]:
    """For every candidate and split the answers of the paper's probe, with its validation score
    beside them.

    Args:
        candidates: representations by name.
        protocol: labels and splits; the test labels stay closed. A 0/1 table of labels is fitted by
            the mean cross-entropy of its cells.
        epochs: full-batch steps of Adam.
        weight_decay: Adam's.
        lr: its learning rate.
        seed: of the initial weights (Glorot's uniform ones; the bias starts at 0).
        device: where to compute, in float32.
    """
    found = {}
    settings = {"epochs": epochs, "weight_decay": weight_decay, "lr": lr}
    for name, representation in candidates.items():
        table = checked_table(representation).to(device)
        answers = []
        for parts in _groups(protocol.visible(), table):
            classes = [_classes(part) for part in parts]
            linear = _trained(
                table, parts, classes, epochs=epochs, weight_decay=weight_decay, lr=lr, seed=seed
            )
            given = linear.logits(table, [np.concatenate([part.val, part.test]) for part in parts])
            for part, of_split, logits in zip(parts, classes, given, strict=True):
                predicted = _decided(logits, of_split, several=part.train_labels.ndim == 2)
                score = (
                    METRICS[protocol.metric](part.val_labels, predicted[: len(part.val)])
                    if len(part.val)
                    else float("nan")
                )
                answers.append(Answer(Choice(name, settings, score), predicted[len(part.val) :]))
        found[name] = tuple(answers)
    return found


def _groups(parts: tuple[Visible, ...], table: Table) -> list[tuple[Visible, ...]]:
    """Splits that are trained together: of one size and number of classes, and no more than fit
    into memory.

    With other numbers of classes the initial weights of a split, hence its answers, would depend on
    labels of the others.
    """
    room = _ROOM * (16 if table.device.type == "cuda" else 1)
    groups = []
    for (size, _), alike in groupby(parts, key=lambda part: (len(part.train), len(_classes(part)))):
        same, at_once = tuple(alike), max(1, room // (size * table.shape[1]))
        groups += [same[i : i + at_once] for i in range(0, len(same), at_once)]
    return groups


def _classes(part: Visible) -> Array:
    """The classes of a split's training rows; of a table of labels its columns."""
    return (
        np.unique(part.train_labels)
        if part.train_labels.ndim == 1
        else np.arange(part.train_labels.shape[1])
    )


def _decided(logits: Tensor, classes: Array, *, several: bool) -> Array:
    """A class for each row [M], or a 0/1 table [M, K]."""
    answer: Array = (
        (logits > 0).long().cpu().numpy() if several else classes[logits.argmax(1).cpu().numpy()]
    )
    return answer


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
    table: Table,
    parts: tuple[Visible, ...],
    classes: list[Array],
    *,
    epochs: int,
    weight_decay: float,
    lr: float,
    seed: int,
) -> Linear:
    rows = torch.stack([_dense(table, part.train) for part in parts])  # [S, n, D]
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
    return Linear(weight.detach().double(), bias.detach().double().squeeze(1))


def _dense(table: Table, index: Array) -> Tensor:
    picked = torch.from_numpy(index).to(table.device)
    rows = table[picked] if isinstance(table, Tensor) else table.rows(picked).to_dense()
    return rows.float()
