"""The linear system of a Newton step, H d = -gradient, for all problems of all fits at once.

Solved by preconditioned conjugate gradients; where those take many iterations, by forming and
factorising the Hessians. Legend: F fits, Q problems, C classes, n rows, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.probes.solver.losses import ConvexLoss
from graphlatent.probes.solver.preconditioner import Covariance
from graphlatent.probes.solver.rows import WeightedRows

TOLERANCE = 1e-6
"""Largest Newton decrement at convergence, as a fraction of the objective (of 1 where that is
larger). The decrement is twice the distance of a quadratic objective from its minimum; the step
that is then taken removes most of it.
"""
_MAX_ITERATIONS = 500


@dataclass(frozen=True, eq=False)
class Precision:
    """Rows and their covariance in one floating-point type: what a linear system is computed in."""

    rows: WeightedRows
    covariance: Covariance

    @classmethod
    def both(cls, rows: WeightedRows) -> tuple[Precision, Precision]:
        """In float32 and in float64; computed once for all values of `l2` of the same rows."""
        covariance = Covariance.of(rows)
        return cls(rows.to_float32(), covariance.to_float32()), cls(rows, covariance)


@dataclass(frozen=True, eq=False)
class State:
    """The current point of each problem.

    Args:
        coef: coefficients [F, Q, C, D + 1].
        logits: [F, Q, C, n].
        value: objective [F, Q].
        done: whether a problem has converged [F, Q].
        loss: with the targets.
        l2: weight of the L2 term [F, Q].
        penalty: the same for each coefficient [F, Q, 1, D + 1]; 0 for a free bias.
    """

    coef: Tensor
    logits: Tensor
    value: Tensor
    done: Tensor
    loss: ConvexLoss
    l2: Tensor
    penalty: Tensor

    @classmethod
    def start(
        cls, coef: Tensor, rows: WeightedRows, loss: ConvexLoss, l2: Tensor, *, free_bias: bool
    ) -> State:
        """The state at some coefficients."""
        penalty = l2[:, :, None, None].repeat(1, 1, 1, coef.shape[3])
        if free_bias:
            penalty[..., -1] = 0.0
        logits = rows.logits(coef)
        value = rows.weighted_mean(loss.value(logits)) + 0.5 * (penalty * coef**2).sum((2, 3))
        done = torch.zeros_like(value, dtype=torch.bool)
        return cls(coef, logits, value, done, loss, l2, penalty)

    def select(self, problems: Tensor) -> State:
        """The state of some of the Q problems."""
        coef, logits, value, done = (
            each[:, problems] for each in (self.coef, self.logits, self.value, self.done)
        )
        return State(
            coef,
            logits,
            value,
            done,
            self.loss.select(problems),
            self.l2[:, problems],
            self.penalty[:, problems],
        )

    @property
    def tolerance(self) -> Tensor:
        """The largest Newton decrement at convergence, [F, Q]."""
        return TOLERANCE * self.value.clamp(min=1e-9, max=1)

    def objective(self, coef: Tensor, logits: Tensor, rows: WeightedRows) -> Tensor:
        """The objective at other coefficients, [F, Q]."""
        penalty = 0.5 * (self.penalty * coef**2).sum((2, 3))
        return rows.weighted_mean(self.loss.value(logits)) + penalty


def suboptimality_bound(gradient: Tensor, l2: Tensor) -> Tensor:
    """Upper bound on twice the suboptimality, from strong convexity of the L2 term, [F, Q].

    Without the bias, which the L2 term may leave out.
    """
    return gradient[..., :-1].square().sum((2, 3)) / l2


def default_cg_limit(coef: Tensor) -> int:
    """Iterations of CG that cost about as much as forming and factorising the Hessian.

    The maximum where that is expensive: several classes fitted together, or wide rows.
    """
    _, _, classes, width = coef.shape
    return width // 8 if classes == 1 and width <= 512 else _MAX_ITERATIONS


def newton_direction(
    state: State, gradient: Tensor, rows: WeightedRows, precision: Precision, cg_limit: int
) -> tuple[Tensor, int]:
    """The direction d with H d = -gradient, float64, and the CG limit for the next step.

    The residual that is allowed shrinks towards the minimum. Once the Hessian was formed, because
    CG reached its limit, it is formed at once in later steps: their limit is 0.
    """
    curvature = state.loss.curvature(state.logits)
    mean_curvature = rows.weighted_mean(
        (curvature * (1 - curvature)).mean(2) if curvature.shape[2] > 1 else curvature.squeeze(2)
    )
    like = precision.rows.values
    mean_curvature, low, penalty, l2, tolerance = (
        each.to(like)
        for each in (mean_curvature, curvature, state.penalty, state.l2, state.tolerance)
    )
    residual = -gradient.to(like)
    direction = torch.zeros_like(residual)
    preconditioner = precision.covariance.preconditioner(mean_curvature, l2)
    scaled = preconditioner.solve(residual)
    search, size = scaled, (residual * scaled).sum((2, 3))
    # Below 1, because `size` can be less than the decrement; far below it where convergence is
    # decided, in float64
    floor = 1e-2 if like.dtype == torch.float32 else 1e-4
    cg_tolerance = (size * size.sqrt().clamp(max=1 / 16)).maximum(floor * tolerance)
    next_limit = cg_limit
    decides, decrement = like.dtype == torch.float64, torch.zeros_like(size)
    for iteration in range(_MAX_ITERATIONS):
        active = size > cg_tolerance
        if decides:
            # A small decrement counts as convergence only if CG itself converged
            active = active | (
                (decrement <= tolerance)
                & (suboptimality_bound(residual, l2) > tolerance)
                & (size > 0)
            )
        active = active & ~state.done
        if not bool(active.any()):
            break
        if iteration == cg_limit:
            direction, unsolved = _solve_directly(
                direction, active, state, gradient, precision, curvature
            )
            size, next_limit = torch.where(unsolved, size, 0.0), 0
            continue
        product = state.loss.hessian_product(low, precision.rows.logits(search))
        product = torch.addcmul(precision.rows.weighted_sum(product), penalty, search)
        along = (search * product).sum((2, 3))
        # Not positive only by rounding: nothing is left to gain
        active = active & (along > 0)
        length = torch.where(active, size / along, 0.0)[:, :, None, None]
        decrement = decrement + length[:, :, 0, 0] * size
        direction = torch.addcmul(direction, length, search)
        residual = torch.addcmul(residual, length, product, value=-1)
        scaled = preconditioner.solve(residual)
        before, size = size, torch.where(active, (residual * scaled).sum((2, 3)), 0.0)
        search = torch.addcmul(
            scaled, torch.where(active, size / before, 0.0)[:, :, None, None], search
        )
    return direction.double(), next_limit


def _solve_directly(
    direction: Tensor,
    wanted: Tensor,
    state: State,
    gradient: Tensor,
    precision: Precision,
    curvature: Tensor,
) -> tuple[Tensor, Tensor]:
    """Directions by Cholesky factorisation in the `wanted` problems [F, Q], and where it failed.

    In float32 some Hessians cannot be factorised.
    """
    fits, unsolved = wanted.any(1).nonzero().squeeze(1), wanted.clone()
    room = 2**24 if direction.device.type == "cpu" else 2**28
    size, num = precision.rows.values[0].numel(), wanted.shape[1]
    for f in torch.split(fits, max(1, room // (num * size))):
        values = precision.rows.values[f]
        for q in torch.split(torch.arange(num, device=direction.device), max(1, room // size)):
            at = (f[:, None], q)
            weight = (curvature[(*at, 0)] * precision.rows.weight[f][:, None]).to(values)
            hessian = torch.bmm(
                (values.mT[:, None] * weight[:, :, None]).flatten(1, 2), values
            ).view(len(f), len(q), *values.shape[2:] * 2)
            hessian.diagonal(dim1=2, dim2=3).add_(state.penalty[(*at, 0)].to(values) + 1e-12)
            factor, failed = torch.linalg.cholesky_ex(hessian)
            solution = torch.cholesky_solve(-gradient[(*at, 0)][..., None].to(values), factor).mT
            solved = wanted[at] & (failed == 0) & torch.isfinite(solution).all(3).squeeze(2)
            direction[at] = torch.where(solved[..., None, None], solution, direction[at])
            unsolved[at] &= ~solved
    return direction, unsolved
