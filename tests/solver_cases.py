"""Problems for the batched solver, their objectives in plain NumPy, and how close it must come."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from graphlatent.probes.solver.losses import Softmax
from graphlatent.probes.solver.rows import WeightedRows

KINDS = (
    "narrow",
    "wide",
    "square",
    "rank",
    "copies",
    "contradictory",
    "constant",
    "uneven",
    "tiny",
    "many columns",
    "one long row",
)
L2_GRID = (1e-2, 1e-6)


@cache
def case(kind, *, num_classes=3):
    """Rows, classes and fresh rows of the same kind.

    Rows have mean 0 and mean squared norm 1, as the solver gets them.
    """
    rng = np.random.default_rng(7)
    num, width = {
        "wide": (30, 90),
        "square": (40, 40),
        "tiny": (3, 2),
        "many columns": (310, 290),
    }.get(kind, (80, 6))
    total = num + 600
    labels = np.arange(total) % num_classes
    rows = rng.normal(size=(num_classes, width))[labels] + 1.2 * rng.normal(size=(total, width))
    if kind == "rank":
        rows = rows[:, :3] @ rng.normal(size=(3, 40))
    if kind == "constant":
        rows[:, [1, 4]] = 5.0
    if kind == "uneven":
        rows = np.exp(3 * rows)
    if kind == "one long row":
        rows[0] *= 1e4
    if kind in ("copies", "contradictory"):
        rows[:num] = np.repeat(rows[: num // 4], 4, axis=0)
    if kind == "copies":
        labels[:num] = np.repeat(labels[: num // 4], 4)
    rows = rows - rows[:num].mean(0)
    rows = rows / np.sqrt((rows[:num] ** 2).sum(1).mean())
    return SimpleNamespace(x=rows[:num], y=labels[:num], fresh=rows[num:], num_classes=num_classes)


def with_ones(x):
    return np.column_stack([x, np.ones(len(x))])


def rows_of(*tables):
    """The rows of several fits, filled up to the longest."""
    longest = max(map(len, tables))
    values = np.stack([np.pad(with_ones(x), ((0, longest - len(x)), (0, 0))) for x in tables])
    weight = np.stack([np.pad(np.full(len(x), 1 / len(x)), (0, longest - len(x))) for x in tables])
    return WeightedRows(torch.from_numpy(values), torch.from_numpy(weight))


def softmax_of(*labels, num_classes=3):
    longest = max(map(len, labels))
    target = np.zeros((len(labels), 1, num_classes, longest))
    for f, y in enumerate(labels):
        target[f, 0, y, np.arange(len(y))] = 1.0
    target = torch.from_numpy(target)
    return Softmax(target, target.sum(3, keepdim=True) == 0)


def signs_of(*signs):
    """[F, Q, 1, n] out of one [Q, n] per fit."""
    longest = max(each.shape[1] for each in signs)
    return torch.from_numpy(
        np.stack(
            [
                np.pad(each, ((0, 0), (0, longest - each.shape[1])), constant_values=-1.0)
                for each in signs
            ]
        )
    )[:, :, None]


def against_rest(y, num_classes=3):
    return np.where(np.arange(num_classes)[:, None] == y, 1.0, -1.0)


def column(*l2):
    return torch.tensor([l2], dtype=torch.float64)


# --- the objectives once more, in plain NumPy ---


def softmax_objective(x, y, coef, l2):
    logits = with_ones(x) @ coef.T
    top = logits.max(1)
    return float(
        (np.log(np.exp(logits - top[:, None]).sum(1)) + top - logits[np.arange(len(x)), y]).mean()
        + l2 / 2 * (coef[:, :-1] ** 2).sum()
    )


def sigmoid_objective(x, sign, w, l2):
    return float(np.logaddexp(0, -sign * (with_ones(x) @ w)).mean() + l2 / 2 * (w[:-1] ** 2).sum())


def hinge_objective(x, sign, w, l2, *, free_bias=True):
    penalised = w[:-1] if free_bias else w
    return float(
        (np.maximum(0, 1 - sign * (with_ones(x) @ w)) ** 2).mean() + l2 / 2 * (penalised**2).sum()
    )


def hinge_by_scipy(x, sign, l2):
    def slope(w):
        inside = -2 * sign * np.maximum(0, 1 - sign * (with_ones(x) @ w)) / len(x)
        return with_ones(x).T @ inside + l2 * np.append(w[:-1], 0)

    options = {"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-11}
    return minimize(
        lambda w: hinge_objective(x, sign, w, l2),
        np.zeros(x.shape[1] + 1),
        jac=slope,
        method="L-BFGS-B",
        options=options,
    ).x


def logistic(x, y, C):
    return LogisticRegression(C=C, solver="newton-cg", tol=1e-10, max_iter=10_000).fit(x, y)


def assert_same_minimum(ours, theirs):
    assert ours <= theirs + 1e-6 * max(1.0, theirs)
    assert ours >= theirs - 1e-6 * max(1.0, theirs)


def assert_same_answers(ours, theirs):
    assert np.mean(ours == theirs) >= 0.999
