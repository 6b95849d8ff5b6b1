"""The batched solver: by hand, and against scikit-learn and SciPy run to convergence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

import graphlatent.probes.solver.newton as newton
from graphlatent.errors import GraphLatentWarning
from graphlatent.probes.solver.losses import Sigmoid, SquaredHinge
from graphlatent.probes.solver.newton import minimize, minimize_path
from solver_cases import (
    KINDS,
    L2_GRID,
    against_rest,
    assert_same_answers,
    assert_same_minimum,
    case,
    column,
    hinge_by_scipy,
    hinge_objective,
    logistic,
    rows_of,
    sigmoid_objective,
    signs_of,
    softmax_objective,
    softmax_of,
    with_ones,
)

# --- values by hand ---


def test_softmax_of_two_points_by_hand():
    # x = -1 and +1 of two classes: with coef (-w, w) the derivative is 2 (l2 w - 1 / (1 +
    # e^2w)), so w = 1 here
    coef = minimize(
        rows_of(np.array([[-1.0], [1.0]])),
        softmax_of([0, 1], num_classes=2),
        column(1 / (1 + math.e**2)),
        num_classes=2,
    )
    np.testing.assert_allclose(coef[0, 0], [[-1.0, 0.0], [1.0, 0.0]], atol=1e-5)


def test_sigmoid_of_two_points_by_hand():
    # log(1 + e^-w) + l2/2 w^2 has the derivative l2 w - 1 / (1 + e^w), so w = 1 here
    coef = minimize(
        rows_of(np.array([[-1.0], [1.0]])),
        Sigmoid(signs_of(np.array([[-1.0, 1.0]]))),
        column(1 / (1 + math.e)),
    )
    np.testing.assert_allclose(coef[0, 0], [[1.0, 0.0]], atol=1e-5)


def test_squared_hinge_of_two_points_by_hand():
    # (1 - w)^2 + l2/2 w^2: w = 2 / (2 + l2)
    coef = minimize(
        rows_of(np.array([[-1.0], [1.0]])),
        SquaredHinge(signs_of(np.array([[-1.0, 1.0]]))),
        column(0.5),
    )
    np.testing.assert_allclose(coef[0, 0], [[0.8, 0.0]], atol=1e-9)


def test_a_free_bias_by_hand():
    # Rows that say nothing, three of a class and one of another: the bias alone gives the shares
    # 3/4 and 1/4.
    coef = minimize(
        rows_of(np.zeros((4, 2))),
        softmax_of([0, 0, 0, 1], num_classes=2),
        column(1e-3),
        num_classes=2,
    )
    assert float(coef[0, 0, 0, 2] - coef[0, 0, 1, 2]) == pytest.approx(math.log(3), abs=1e-4)
    assert torch.equal(coef[..., :2], torch.zeros(1, 1, 2, 2, dtype=torch.float64))


# --- derivatives ---


@pytest.mark.parametrize("name", ["softmax", "absent class", "sigmoid", "hinge"])
def test_gradient_and_hessian_product_are_the_derivatives_of_the_value(name):
    generator = torch.Generator().manual_seed(0)
    labels = [0, 2, 1, 0, 2] if name == "softmax" else [0, 2, 2, 0, 2]
    sign = signs_of(np.array([[1.0, -1.0, 1.0, 1.0, -1.0]] * 2))
    loss = {"sigmoid": Sigmoid(sign), "hinge": SquaredHinge(sign)}.get(name, softmax_of(labels))
    classes = 1 if name in ("sigmoid", "hinge") else 3
    logits = torch.randn(
        1, 2, classes, 5, generator=generator, dtype=torch.float64
    ).requires_grad_()
    direction = torch.randn(1, 2, classes, 5, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(loss.value(logits).sum(), logits, create_graph=True)
    torch.testing.assert_close(loss.gradient(logits), gradient)
    (product,) = torch.autograd.grad((gradient * direction).sum(), logits)
    found = loss.hessian_product(loss.curvature(logits), direction)
    torch.testing.assert_close(found.detach(), product)


# --- independent references, run to convergence ---


@pytest.mark.parametrize("kind", KINDS)
def test_softmax_is_scikit_learns(kind):
    data = case(kind)
    found = minimize(rows_of(data.x), softmax_of(data.y), column(*L2_GRID), num_classes=3)[0]
    for coef, l2 in zip(found.numpy(), L2_GRID, strict=True):
        theirs = logistic(data.x, data.y, 1 / (len(data.x) * l2))
        best = np.column_stack([theirs.coef_, theirs.intercept_])
        assert_same_minimum(*(softmax_objective(data.x, data.y, w, l2) for w in (coef, best)))
        assert_same_answers((with_ones(data.fresh) @ coef.T).argmax(1), theirs.predict(data.fresh))


@pytest.mark.parametrize("kind", ["narrow", "wide", "rank", "tiny"])
def test_two_classes_are_scikit_learns(kind):
    data = case(kind, num_classes=2)
    num, sign = len(data.x), 2.0 * data.y - 1
    rows, l2s = rows_of(data.x), column(*L2_GRID)
    alone = minimize(rows, Sigmoid(signs_of(np.stack([sign] * 2))), l2s)[0, :, 0].numpy()
    both = minimize(rows, softmax_of(data.y, num_classes=2), l2s, num_classes=2)[0].numpy()
    for one, two, l2 in zip(alone, both, L2_GRID, strict=True):
        theirs = logistic(data.x, data.y, 1 / (num * l2))
        best = np.append(theirs.coef_, theirs.intercept_)
        assert_same_minimum(*(sigmoid_objective(data.x, sign, w, l2) for w in (one, best)))
        assert_same_answers(with_ones(data.fresh) @ one > 0, theirs.predict(data.fresh) == 1)
        # Two classes fitted together have coefficients -w/2 and w/2, whose penalty is half of w's
        theirs = logistic(data.x, data.y, 2 / (num * l2))
        half = np.append(theirs.coef_, theirs.intercept_) / 2
        halves = np.stack([-half, half])
        assert_same_minimum(*(softmax_objective(data.x, data.y, w, l2) for w in (two, halves)))
        assert_same_answers(
            with_ones(data.fresh) @ (two[1] - two[0]) > 0, theirs.predict(data.fresh) == 1
        )


@pytest.mark.parametrize("kind", KINDS)
def test_squared_hinge_with_a_penalised_bias_is_scikit_learns(kind):
    data, sign = case(kind), against_rest(case(kind).y)
    # scikit-learn takes seconds at 1e-6, and on many columns at 1e-5
    grid = (1e-2,) if kind == "many columns" else (1e-2, 1e-5)
    found = minimize(
        rows_of(data.x),
        SquaredHinge(signs_of(np.concatenate([sign] * len(grid)))),
        column(*np.repeat(grid, 3)),
        free_bias=False,
    )[0, :, 0].numpy()
    for coef, l2 in zip(found.reshape(len(grid), 3, -1), grid, strict=True):
        theirs = LinearSVC(C=1 / (len(data.x) * l2), dual=False, tol=1e-8, max_iter=100_000)
        theirs.fit(data.x, data.y)
        best = np.column_stack([theirs.coef_, theirs.intercept_])
        for k, of_class in enumerate(sign):
            assert_same_minimum(
                *(
                    hinge_objective(data.x, of_class, w[k], l2, free_bias=False)
                    for w in (coef, best)
                )
            )
        assert_same_answers((with_ones(data.fresh) @ coef.T).argmax(1), theirs.predict(data.fresh))


# "many columns" is compared with scikit-learn above; L-BFGS takes long there
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "many columns"])
def test_squared_hinge_with_a_free_bias_is_at_the_minimum(kind):
    data, sign = case(kind), against_rest(case(kind).y)[0]
    rows, signs = rows_of(data.x), signs_of(np.stack([sign] * 2))
    found = minimize(rows, SquaredHinge(signs), column(*L2_GRID))[0, :, 0].numpy()
    for coef, l2 in zip(found, L2_GRID, strict=True):
        best = hinge_by_scipy(data.x, sign, l2)
        assert_same_minimum(*(hinge_objective(data.x, sign, w, l2) for w in (coef, best)))
        assert_same_answers(with_ones(data.fresh) @ coef > 0, with_ones(data.fresh) @ best > 0)


@pytest.mark.parametrize("kind", ["narrow", "rank", "constant", "contradictory"])
def test_l2_far_below_the_usual_values(kind):
    data, sign, grid = case(kind), against_rest(case(kind).y)[0], (1e-8, 1e-9)
    rows, signs = rows_of(data.x), signs_of(np.stack([sign] * 2))
    softmax = minimize(rows, softmax_of(data.y), column(*grid), num_classes=3)[0].numpy()
    hinge = minimize(rows, SquaredHinge(signs), column(*grid))[0, :, 0].numpy()
    for q, l2 in enumerate(grid):
        theirs = logistic(data.x, data.y, 1 / (len(data.x) * l2))
        best = np.column_stack([theirs.coef_, theirs.intercept_])
        assert_same_minimum(*(softmax_objective(data.x, data.y, w, l2) for w in (softmax[q], best)))
        best = hinge_by_scipy(data.x, sign, l2)
        assert_same_minimum(*(hinge_objective(data.x, sign, w, l2) for w in (hinge[q], best)))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_rows_of_any_size(scale):
    data = case("narrow")
    x = scale * data.x * np.logspace(-1, 1, 6)  # columns of very different size
    coef = minimize(rows_of(x), softmax_of(data.y), column(1e-3), num_classes=3)[0, 0].numpy()
    theirs = logistic(x, data.y, 1 / (len(x) * 1e-3))
    best = softmax_objective(x, data.y, np.column_stack([theirs.coef_, theirs.intercept_]), 1e-3)
    assert_same_minimum(softmax_objective(x, data.y, coef, 1e-3), best)


# --- many at once ---


def test_fits_of_different_sizes_at_once_are_each_alone():
    data = case("narrow")
    sizes = (80, 31, 12, 4)
    tables, labels = [data.x[:n] for n in sizes], [data.y[:n] for n in sizes]
    l2 = torch.tensor([[1e-1], [1e-4], [1e-2], [1e-3]], dtype=torch.float64)
    signs = [against_rest(y) for y in labels]
    together = minimize(rows_of(*tables), softmax_of(*labels), l2, num_classes=3)
    hinges = minimize(rows_of(*tables), SquaredHinge(signs_of(*signs)), l2.expand(-1, 3))
    for f, (x, y) in enumerate(zip(tables, labels, strict=True)):
        alone = minimize(rows_of(x), softmax_of(y), l2[f : f + 1], num_classes=3)
        torch.testing.assert_close(together[f], alone[0], atol=1e-3, rtol=1e-3)
        hinge = minimize(rows_of(x), SquaredHinge(signs_of(signs[f])), l2[f : f + 1].expand(-1, 3))
        torch.testing.assert_close(hinges[f], hinge[0], atol=1e-5, rtol=1e-5)


def test_one_class_against_the_rest_is_each_class_alone():
    data = case("narrow")
    sign = against_rest(data.y)
    together = minimize(rows_of(data.x), Sigmoid(signs_of(sign)), column(1e-3, 1e-2, 1e-1))
    for q, l2 in enumerate((1e-3, 1e-2, 1e-1)):
        alone = minimize(rows_of(data.x), Sigmoid(signs_of(sign[q : q + 1])), column(l2))
        torch.testing.assert_close(together[:, q], alone[:, 0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["narrow", "wide"])
def test_a_path_is_each_l2_alone(kind):
    data = case(kind)
    grid = (1e-1, 1e-3, 1e-5)
    path = minimize_path(rows_of(data.x), softmax_of(data.y), column(*grid), num_classes=3)[
        0
    ].numpy()
    for coef, l2 in zip(path, grid, strict=True):
        alone = minimize(rows_of(data.x), softmax_of(data.y), column(l2), num_classes=3)[
            0, 0
        ].numpy()
        assert_same_minimum(*(softmax_objective(data.x, data.y, w, l2) for w in (coef, alone)))
        assert_same_answers(*((with_ones(data.fresh) @ w.T).argmax(1) for w in (coef, alone)))


def test_a_class_that_a_fit_lacks_takes_no_part_in_it():
    data = case("narrow")
    some = np.flatnonzero(data.y != 1)
    tables, labels = (data.x, data.x[some]), (data.y, data.y[some])
    coef = minimize(
        rows_of(*tables),
        softmax_of(*labels),
        torch.full((2, 1), 1e-2, dtype=torch.float64),
        num_classes=3,
    )[1, 0]
    assert torch.equal(coef[1], torch.zeros(7, dtype=torch.float64))
    two = minimize(
        rows_of(data.x[some]),
        softmax_of(data.y[some] // 2, num_classes=2),
        column(1e-2),
        num_classes=2,
    )[0, 0]
    torch.testing.assert_close(coef[[0, 2]], two, atol=1e-4, rtol=1e-4)


def test_a_single_class_needs_no_weights():
    x, y = case("narrow").x, np.zeros(80, dtype=int)
    assert (
        float(minimize(rows_of(x), softmax_of(y, num_classes=1), column(1e-3)).abs().max()) == 0.0
    )
    coef = minimize(rows_of(x), SquaredHinge(signs_of(np.ones((1, 80)))), column(1e-3))[
        0, 0, 0
    ].numpy()
    # The bias alone is right by the whole margin
    np.testing.assert_allclose(coef, [0.0] * 6 + [1.0], atol=1e-5)


# --- properties ---


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["narrow", "wide", "rank"]))
def test_order_of_rows_columns_and_fits_does_not_matter(seed, kind):
    data, rng = case(kind), np.random.default_rng(seed)
    n = len(data.x)
    rows, columns = rng.permutation(n), rng.permutation(data.x.shape[1])
    first, second = slice(0, n), slice(0, int(rng.integers(6, n)))
    tables, labels = [data.x[first], data.x[second]], [data.y[first], data.y[second]]
    l2 = torch.full((2, 1), 1e-3, dtype=torch.float64)
    plain = minimize(rows_of(*tables), softmax_of(*labels), l2, num_classes=3)
    swapped = minimize(rows_of(*tables[::-1]), softmax_of(*labels[::-1]), l2, num_classes=3)
    moved = minimize(
        rows_of(data.x[rows][:, columns]), softmax_of(data.y[rows]), l2[:1], num_classes=3
    )[0, 0]
    objectives = [
        softmax_objective(data.x, data.y, w.numpy(), 1e-3) for w in (plain[0, 0], swapped[1, 0])
    ]
    objectives.append(softmax_objective(data.x[:, columns], data.y, moved.numpy(), 1e-3))
    assert objectives == pytest.approx([objectives[0]] * 3, abs=1e-7)
    torch.testing.assert_close(moved, plain[0, 0][:, [*columns, -1]], atol=3e-3, rtol=3e-3)


def test_nothing_that_came_in_is_changed():
    data = case("narrow")
    rows, loss, l2 = rows_of(data.x), softmax_of(data.y), column(1e-3)
    start = torch.ones(1, 1, 3, 7, dtype=torch.float64)
    before = [t.clone() for t in (rows.values, rows.weight, loss.target, loss.absent, l2, start)]
    minimize(rows, loss, l2, num_classes=3, start=start)
    after = (rows.values, rows.weight, loss.target, loss.absent, l2, start)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


# --- failure ---


def test_no_convergence_is_said(monkeypatch):
    monkeypatch.setattr(newton, "_MAX_STEPS", 1)
    data = case("narrow")
    with pytest.warns(GraphLatentWarning) as caught:
        minimize(rows_of(data.x), softmax_of(data.y), column(1e-6), num_classes=3)
    assert [str(w.message) for w in caught] == [
        "The linear probe did not converge in 1 Newton steps."
    ]
