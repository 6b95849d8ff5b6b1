"""The batched solver on hard problems: long rows, tiny `l2`, Hessians that are not factorised."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import graphlatent.probes.solver.newton as newton
from graphlatent.errors import GraphLatentWarning
from graphlatent.probes.solver.losses import Softmax, SquaredHinge
from graphlatent.probes.solver.newton import minimize, minimize_path
from solver_cases import (
    against_rest,
    assert_same_minimum,
    case,
    column,
    hinge_objective,
    rows_of,
    signs_of,
    softmax_of,
    with_ones,
)


def hinge_by_newton(x, sign, l2):
    """The minimum by Newton's method with whole Hessians and halved steps, in plain NumPy."""
    rows, penalty, w = (
        with_ones(x),
        np.append(np.full(x.shape[1], l2), 0.0),
        np.zeros(x.shape[1] + 1),
    )
    for _ in range(300):
        gap = np.maximum(0, 1 - sign * (rows @ w))
        gradient = rows.T @ (-2 * sign * gap) / len(x) + penalty * w
        active = rows[gap > 0]
        step = np.linalg.solve(2 * active.T @ active / len(x) + np.diag(penalty + 1e-14), -gradient)
        size, here = 1.0, hinge_objective(x, sign, w, l2)
        while size > 1e-12 and hinge_objective(
            x, sign, w + size * step, l2
        ) > here + 1e-4 * size * (gradient @ step):
            size /= 2
        w = w + size * step
        if size * np.abs(step).max() < 1e-12 * np.abs(w).max():
            break
    return w


@pytest.mark.parametrize("l2", [1e-6, 1e-7, 1e-8])
def test_a_long_row_does_not_make_the_others_look_done(l2):
    rng = np.random.default_rng(0)
    x, sign = rng.normal(size=(300, 20)), rng.choice([-1.0, 1.0], size=300)
    x[0] *= 1e5
    x = (x - x.mean(0)) / np.sqrt(((x - x.mean(0)) ** 2).sum(1).mean())
    coef = minimize(rows_of(x), SquaredHinge(signs_of(sign[None])), column(l2))[0, 0, 0].numpy()
    best = hinge_by_newton(x, sign, l2)
    assert_same_minimum(hinge_objective(x, sign, coef, l2), hinge_objective(x, sign, best, l2))


@pytest.mark.parametrize("l2", [(1e-14, 9e-19), (2e-11, 3e-27)])
def test_a_step_is_never_taken_uphill(l2, monkeypatch):
    data, values, original = case("narrow"), [], newton._newton_step

    def watched(state, *others):
        after = original(state, *others)
        values.append((state.value, after[0].value))
        return after

    monkeypatch.setattr(newton, "_newton_step", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphLatentWarning)  # so small a l2 need not end
        coef = minimize_path(
            rows_of(data.x), softmax_of((data.y == 2) * 2), column(*l2), num_classes=3
        )
    assert torch.isfinite(coef).all()
    assert all(bool((after <= before + 1e-12).all()) for before, after in values)


@pytest.mark.parametrize("kind", ["narrow", "many columns"])
def test_hessians_that_cannot_be_factorised_are_done_without(kind, monkeypatch):
    data = case(kind)
    rows, loss, l2 = (
        rows_of(data.x),
        SquaredHinge(signs_of(against_rest(data.y))),
        column(1e-4, 1e-4, 1e-6),
    )
    expected, calls = minimize(rows, loss, l2), []

    def failing(hessian):
        calls.append(hessian.dtype)
        return torch.full_like(hessian, torch.nan), torch.ones(hessian.shape[:2], dtype=torch.int32)

    monkeypatch.setattr(torch.linalg, "cholesky_ex", failing)
    found = minimize(rows, loss, l2)
    assert set(calls) == {torch.float32, torch.float64}  # both had their turn
    for sign, one, other, value in zip(
        against_rest(data.y),
        found[0, :, 0].numpy(),
        expected[0, :, 0].numpy(),
        l2[0],
        strict=True,
    ):
        assert_same_minimum(*(hinge_objective(data.x, sign, w, float(value)) for w in (one, other)))


def test_a_fit_beyond_float32_stays_itself_beside_another():
    data = case("narrow")
    one = softmax_of(data.y)
    alone = minimize(rows_of(data.x), one, column(1e39), num_classes=3)
    both = Softmax(one.target.repeat(2, 1, 1, 1), one.absent.repeat(2, 1, 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphLatentWarning)
        beside = minimize(
            rows_of(data.x, data.x),
            both,
            torch.tensor([[1e39], [1e-6]], dtype=torch.float64),
            num_classes=3,
        )
    assert torch.isfinite(alone).all() and torch.isfinite(beside).all()
