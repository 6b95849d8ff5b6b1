"""Newton's method for L2-regularised linear classifiers, many problems at a time.

Every fit f has preprocessed rows x [n, D + 1], the last column ones, with row weights r that sum to
1, and Q problems that share them. Each minimises, over its coefficients w [C, D + 1],

    sum_v r_v loss(w x_v)  +  l2/2 * |w|^2

where the bias, the last column of w, is left out of the L2 term unless `free_bias` is False. All
problems of all fits are solved together, so that the work is a few large products. Objective,
gradient and line search are float64. The linear systems are solved in float32 first, which is
enough for an approximate direction; convergence is decided in float64, which continues where
float32 finds no descent, as it may with a tiny `l2`.

Legend: F fits, Q problems, C classes fitted together, n rows, D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphlatent.errors import warn
from graphlatent.ops.threads import threads_for
from graphlatent.probes.solver.losses import ConvexLoss
from graphlatent.probes.solver.rows import WeightedRows
from graphlatent.probes.solver.system import (
    Precision,
    State,
    default_cg_limit,
    newton_direction,
    suboptimality_bound,
)

_MAX_STEPS = 100


def minimize_path(rows: WeightedRows, loss: ConvexLoss, l2: Tensor, *, num_classes: int) -> Tensor:
    """`minimize` for values of `l2` that decrease from column to column, with warm starts."""
    precisions, found, last = Precision.both(rows), [], None
    for column in torch.split(l2, 1, dim=1):
        last = minimize(
            rows, loss, column, num_classes=num_classes, precisions=precisions, start=last
        )
        found.append(last)
    return torch.cat(found, dim=1)


def minimize(
    rows: WeightedRows,
    loss: ConvexLoss,
    l2: Tensor,
    *,
    num_classes: int = 1,
    free_bias: bool = True,
    precisions: tuple[Precision, Precision] | None = None,
    start: Tensor | None = None,
) -> Tensor:
    """The coefficients [F, Q, C, D + 1] at the minimum.

    Args:
        rows: preprocessed rows of every fit.
        loss: with the targets.
        l2: weight of the L2 term, above 0, [F, Q].
        num_classes: C.
        free_bias: leave the bias out of the L2 term.
        precisions: of the rows, where they were computed before.
        start: initial coefficients; zeros where None.
    """
    fits, problems = l2.shape
    coef = (
        rows.values.new_zeros(fits, problems, num_classes, rows.values.shape[2])
        if start is None
        else start
    )
    cg_limit = default_cg_limit(coef)
    with threads_for(rows.values.numel() * problems * num_classes):
        for precision in Precision.both(rows) if precisions is None else precisions:
            state = State.start(coef, rows, loss, l2, free_bias=free_bias)
            coef, converged, cg_limit = _descend(state, rows, precision, cg_limit)
    if not converged:
        warn(f"The linear probe did not converge in {_MAX_STEPS} Newton steps.")
    return coef


def _descend(
    state: State, rows: WeightedRows, precision: Precision, cg_limit: int
) -> tuple[Tensor, bool, int]:
    """The coefficients after Newton steps, whether all problems converged, and the CG limit."""
    coef = state.coef.clone()
    remaining = torch.arange(state.coef.shape[1], device=state.coef.device)
    for _ in range(_MAX_STEPS):
        before = state.coef
        state, cg_limit = _newton_step(state, rows, precision, cg_limit)
        # No problem found a descent
        if not bool(state.done.all()) and torch.equal(state.coef, before):
            break
        open_problems = ~state.done.all(0)
        if not bool(open_problems.all()):
            coef[:, remaining] = state.coef
            remaining = remaining[open_problems]
            state = state.select(open_problems.nonzero().squeeze(1))
        if len(remaining) == 0:
            return coef, True, cg_limit
    coef[:, remaining] = state.coef
    return coef, False, cg_limit


def _newton_step(
    state: State, rows: WeightedRows, precision: Precision, cg_limit: int
) -> tuple[State, int]:
    """One Newton step with a backtracking line search (Armijo), and the CG limit for the next."""
    gradient = rows.weighted_sum(state.loss.gradient(state.logits)) + state.penalty * state.coef
    step, cg_limit = newton_direction(state, gradient, rows, precision, cg_limit)
    usable = torch.isfinite(step).all(3).all(2) & ~state.done
    step = torch.where(usable[:, :, None, None], step, 0.0)
    decrement = -(gradient * step).sum((2, 3))
    step_logits = rows.logits(step)
    size = torch.where(state.done, 0.0, torch.ones_like(decrement))
    while True:
        coef = state.coef + size[:, :, None, None] * step
        logits = state.logits + size[:, :, None, None] * step_logits
        value = state.objective(coef, logits, rows)
        slack = (1e-13 * (1 + state.value.abs())).minimum(0.1 * state.tolerance)
        # A NaN objective counts as too large
        too_large = ~(value <= state.value - 1e-4 * size * decrement + slack) & (size > 0)
        if not bool(too_large.any()):
            break
        # A problem that finds no descent stays where it is
        size = torch.where(too_large, torch.where(size > 1e-9, size / 2, 0.0), size)
    near = usable & (decrement <= state.tolerance)
    if precision.rows.values.dtype == torch.float64:
        near = near & (suboptimality_bound(gradient, state.l2) <= state.tolerance)
    done = state.done | near
    return State(coef, logits, value, done, state.loss, state.l2, state.penalty), cg_limit
