"""Linear classifiers to the exact minimum, many at a time.

Every fit f has prepared rows x [n, D + 1], the last column ones, with row weights r that sum to 1,
and Q problems that share them. Each minimises, over its weights w [C, D + 1],

    sum_v r_v loss(w x_v)  +  strength/2 * |w|^2     (the bias, its last column, is free unless
    `free_bias` is False)

by Newton steps whose linear systems are solved by preconditioned conjugate gradients; all problems
of all fits move together, so that the work is a few large products. Objective, gradient and steps
are float64; inside the linear systems, which are solved to a share of their size only, float32 is
enough on the way. Whether the end is reached is decided in float64, and where it is not, float64
goes on: with tiny strengths float32 may find no way down. The preconditioner is the inverse of
(mean curvature) * (covariance of the rows) + strength, by the covariance's eigenvectors, or, where
rows are wide, by the leading ones (Frangella, Tropp and Udell, 2023). Legend: F fits, Q problems, C
classes fitted together, n rows, D columns.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.errors import GraphLatentWarning
from graphlatent.probes.losses import Loss

TOLERANCE = 1e-6
"""Of the Newton decrement, twice the distance of the objective from its minimum, as a share of the
objective (of 1 where that is less); the step then taken all but closes it.
"""
_MAX_STEPS, _MAX_INNER = 100, 500
_MAX_RANK = 256


@dataclass(frozen=True, eq=False)
class Rows:
    """Prepared rows of every fit.

    Args:
        values: [F, n, D + 1], the last column ones.
        share: weight of every row [F, n], summing to 1 over a fit; 0 for rows that only fill up.
    """

    values: Tensor
    share: Tensor

    def single(self) -> Rows:
        """The same in float32."""
        return Rows(self.values.float(), self.share.float())

    def logits(self, weights: Tensor) -> Tensor:
        """The products w x, [F, Q, C, n] out of [F, Q, C, D + 1]."""
        fits, problems, classes, width = weights.shape
        flat = torch.bmm(weights.reshape(fits, problems * classes, width), self.values.mT)
        return flat.view(fits, problems, classes, -1)

    def pull(self, slope: Tensor) -> Tensor:
        """sum_v r_v slope_v x_v, [F, Q, C, D + 1] out of [F, Q, C, n]."""
        fits, problems, classes, num = slope.shape
        weighed = (slope * self.share[:, None, None, :]).reshape(fits, problems * classes, num)
        return torch.bmm(weighed, self.values).view(fits, problems, classes, -1)

    def mean(self, losses: Tensor) -> Tensor:
        """sum_v r_v loss_v, [F, Q] out of [F, Q, n]."""
        return torch.bmm(losses, self.share[:, :, None]).squeeze(2)


@dataclass(frozen=True, eq=False)
class Axes:
    """Leading axes of the rows' covariance: orthonormal columns [F, D + 1, R], their variances [F,
    R], the variance left outside [F].
    """

    vectors: Tensor
    variance: Tensor
    rest: Tensor

    @classmethod
    def of(cls, rows: Rows) -> Axes:
        """All axes of narrow rows; of wide ones the leading ones, by a randomised Nystroem sketch
        with a fixed seed.
        """
        fits, _, width = rows.values.shape
        weighed = rows.values * rows.share[:, :, None]
        if width <= _MAX_RANK:
            variance, vectors = torch.linalg.eigh(torch.bmm(weighed.mT, rows.values))
            return cls(vectors, variance.clamp(min=0), variance.new_zeros(fits))
        generator = torch.Generator().manual_seed(0)
        sketch = torch.linalg.qr(
            torch.randn(width, _MAX_RANK, generator=generator, dtype=torch.float64)
        ).Q.to(rows.values)
        image = torch.bmm(weighed.mT, rows.values @ sketch)  # [F, D + 1, R]
        shift = 1e-10 * image.norm(dim=(1, 2))[:, None, None]
        core = sketch.T @ image
        factor = torch.linalg.cholesky(
            (core + core.mT) / 2
            + shift * torch.eye(_MAX_RANK, dtype=core.dtype, device=core.device)
        )
        # Half half^T ~ covariance
        half = torch.linalg.solve_triangular(
            factor.mT, image + shift * sketch, upper=True, left=False
        )
        squares, turn = torch.linalg.eigh(half.mT @ half)
        length = squares.clamp(min=1e-300).sqrt()
        vectors = torch.where(
            (squares > 1e-12 * squares[:, -1:])[:, None, :], half @ (turn / length[:, None, :]), 0.0
        )
        return cls(vectors, (squares - shift[:, :, 0]).clamp(min=0), squares[:, 0].clamp(min=0))

    def single(self) -> Axes:
        """The same in float32."""
        return Axes(self.vectors.float(), self.variance.float(), self.rest.float())

    def scaled(self, curvature: Tensor, strengths: Tensor) -> Preconditioner:
        """The inverse of curvature * covariance + strength, about; both [F, Q]."""
        inside = curvature[..., None] * self.variance[:, None, :] + strengths[..., None] + 1e-9
        # All axes: nothing is outside, and the difference below would cost digits
        if self.vectors.shape[1] == self.vectors.shape[2]:
            return Preconditioner(self.vectors, (1 / inside)[:, :, None, :], None)
        outside = (1 / (curvature * self.rest[:, None] + strengths + 1e-9))[..., None, None]
        return Preconditioner(self.vectors, 1 / inside[:, :, None, :] - outside, outside)


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Factors along the axes [F, Q, 1, R], and everywhere [F, Q, 1, 1] where the axes are not all
    of them.
    """

    vectors: Tensor
    gain: Tensor
    outside: Tensor | None

    def solve(self, residual: Tensor) -> Tensor:
        """Applied to a residual [F, Q, C, D + 1]."""
        along = torch.bmm(residual.flatten(1, 2), self.vectors).view(*residual.shape[:3], -1)
        turned = torch.bmm((along * self.gain).flatten(1, 2), self.vectors.mT).view_as(residual)
        return turned if self.outside is None else torch.addcmul(turned, residual, self.outside)


@dataclass(frozen=True, eq=False)
class Inner:
    """What the linear systems inside a Newton step need: rows and axes, in float32 or in
    float64.
    """

    rows: Rows
    axes: Axes

    @classmethod
    def of(cls, rows: Rows) -> tuple[Inner, Inner]:
        """In float32 and in float64; made once for all strengths of the same rows."""
        axes = Axes.of(rows)
        return cls(rows.single(), axes.single()), cls(rows, axes)


def minimise_path(rows: Rows, loss: Loss, strengths: Tensor, *, num_classes: int) -> Tensor:
    """`minimise` for strengths that fall from column to column: each solution is the start of the
    next.
    """
    inner, found, last = Inner.of(rows), [], None
    for column in torch.split(strengths, 1, dim=1):
        last = minimise(rows, loss, column, num_classes=num_classes, inner=inner, start=last)
        found.append(last)
    return torch.cat(found, dim=1)


def minimise(
    rows: Rows,
    loss: Loss,
    strengths: Tensor,
    *,
    num_classes: int = 1,
    free_bias: bool = True,
    inner: tuple[Inner, Inner] | None = None,
    start: Tensor | None = None,
) -> Tensor:
    """The weights [F, Q, C, D + 1] at the minimum.

    Args:
        rows: prepared rows of every fit.
        loss: with the targets.
        strengths: weight of the L2 term, above 0, [F, Q].
        num_classes: C.
        free_bias: leave the bias out of the L2 term.
        inner: of the rows, where it is known already.
        start: weights to begin with; zeros where None.
    """
    fits, problems = strengths.shape
    found = (
        rows.values.new_zeros(fits, problems, num_classes, rows.values.shape[2])
        if start is None
        else start
    )
    patience = _patience(found)
    for precision in Inner.of(rows) if inner is None else inner:
        state = _State.start(found, rows, loss, strengths, free_bias=free_bias)
        found, converged, patience = _descended(state, rows, precision, patience)
    if not converged:
        warnings.warn(
            f"The linear probe did not converge in {_MAX_STEPS} Newton steps.",
            GraphLatentWarning,
            stacklevel=2,
        )
    return found


def _descended(state: _State, rows: Rows, inner: Inner, patience: int) -> tuple[Tensor, bool, int]:
    """The weights after Newton steps from `state`, whether every problem came to its end, and the
    patience that is left.
    """
    found, left = (
        state.weights.clone(),
        torch.arange(state.weights.shape[1], device=state.weights.device),
    )
    for _ in range(_MAX_STEPS):
        before = state.weights
        state, patience = _newton(state, rows, inner, patience)
        # Nobody finds a way down
        if not bool(state.done.all()) and torch.equal(state.weights, before):
            break
        open_problems = ~state.done.all(0)
        if not bool(open_problems.all()):
            found[:, left] = state.weights
            left, state = left[open_problems], state.pick(open_problems.nonzero().squeeze(1))
        if len(left) == 0:
            return found, True, patience
    found[:, left] = state.weights
    return found, False, patience


@dataclass(frozen=True, eq=False)
class _State:
    """Where each problem is: weights and logits [F, Q, C, ...], objective [F, Q], whether it is
    done [F, Q].
    """

    weights: Tensor
    logits: Tensor
    value: Tensor
    done: Tensor
    loss: Loss
    strengths: Tensor
    penalty: Tensor  # [F, Q, 1, D + 1]

    @classmethod
    def start(
        cls, weights: Tensor, rows: Rows, loss: Loss, strengths: Tensor, *, free_bias: bool
    ) -> _State:
        penalty = strengths[:, :, None, None].repeat(1, 1, 1, weights.shape[3])
        if free_bias:
            penalty[..., -1] = 0.0
        logits = rows.logits(weights)
        value = rows.mean(loss.value(logits)) + 0.5 * (penalty * weights**2).sum((2, 3))
        return cls(
            weights,
            logits,
            value,
            torch.zeros_like(value, dtype=torch.bool),
            loss,
            strengths,
            penalty,
        )

    def pick(self, index: Tensor) -> _State:
        weights, logits, value, done = (
            t[:, index] for t in (self.weights, self.logits, self.value, self.done)
        )
        return _State(
            weights,
            logits,
            value,
            done,
            self.loss.pick(index),
            self.strengths[:, index],
            self.penalty[:, index],
        )

    @property
    def goal(self) -> Tensor:
        """The Newton decrement that is small enough, [F, Q]."""
        return TOLERANCE * self.value.clamp(min=1e-9, max=1)

    def objective(self, weights: Tensor, logits: Tensor, rows: Rows) -> Tensor:
        return rows.mean(self.loss.value(logits)) + 0.5 * (self.penalty * weights**2).sum((2, 3))


def _newton(state: _State, rows: Rows, inner: Inner, patience: int) -> tuple[_State, int]:
    """One Newton step of every problem that is not done, its length halved until the objective
    falls as the slope promises (Armijo).

    Also the patience for the next one.
    """
    gradient = rows.pull(state.loss.slope(state.logits)) + state.penalty * state.weights
    step, patience = _conjugate(state, gradient, rows, inner, patience)
    usable = torch.isfinite(step).all(3).all(2) & ~state.done
    step = torch.where(usable[:, :, None, None], step, 0.0)
    decrement = -(gradient * step).sum((2, 3))
    slope = rows.logits(step)
    size = torch.where(state.done, 0.0, torch.ones_like(decrement))
    while True:
        moved = state.weights + size[:, :, None, None] * step
        logits = state.logits + size[:, :, None, None] * slope
        value = state.objective(moved, logits, rows)
        slack = (1e-13 * (1 + state.value.abs())).minimum(0.1 * state.goal)
        # NaN is short too
        short = ~(value <= state.value - 1e-4 * size * decrement + slack) & (size > 0)
        if not bool(short.any()):
            break
        # A problem that finds no way down stays where it is
        size = torch.where(short, torch.where(size > 1e-9, size / 2, 0.0), size)
    near = usable & (decrement <= state.goal)
    if inner.rows.values.dtype == torch.float64:
        near = near & (_distance(gradient, state.strengths) <= state.goal)
    done = state.done | near
    return _State(moved, logits, value, done, state.loss, state.strengths, state.penalty), patience


def _distance(gradient: Tensor, strengths: Tensor) -> Tensor:
    """Twice the most that the objective can be above its minimum, [F, Q], but for the bias: the L2
    term bends it at least so much.
    """
    return gradient[..., :-1].square().sum((2, 3)) / strengths


def _patience(weights: Tensor) -> int:
    """How many conjugate gradients cost about as much as forming and factorising the Hessian; where
    that is large, no end of them.
    """
    _, _, classes, width = weights.shape
    return width // 8 if classes == 1 and width <= 512 else _MAX_INNER


def _solved(
    step: Tensor, those: Tensor, state: _State, gradient: Tensor, inner: Inner, curvature: Tensor
) -> tuple[Tensor, Tensor]:
    """`step` with the exact solution in the problems `those` [F, Q], and in which of them there is
    one: their Hessians are formed.

    In float32 some may have none.
    """
    fits, left = those.any(1).nonzero().squeeze(1), those.clone()
    room, each, num = (
        2**24 if step.device.type == "cpu" else 2**28,
        inner.rows.values[0].numel(),
        those.shape[1],
    )
    for f in torch.split(fits, max(1, room // (num * each))):
        values = inner.rows.values[f]
        for q in torch.split(torch.arange(num, device=step.device), max(1, room // each)):
            at = (f[:, None], q)
            weight = (curvature[(*at, 0)] * inner.rows.share[f][:, None]).to(values)
            hessian = torch.bmm(
                (values.mT[:, None] * weight[:, :, None]).flatten(1, 2), values
            ).view(len(f), len(q), *values.shape[2:] * 2)
            hessian.diagonal(dim1=2, dim2=3).add_(state.penalty[(*at, 0)].to(values) + 1e-12)
            factor, failed = torch.linalg.cholesky_ex(hessian)
            solution = torch.cholesky_solve(-gradient[(*at, 0)][..., None].to(values), factor).mT
            good = those[at] & (failed == 0) & torch.isfinite(solution).all(3).squeeze(2)
            step[at] = torch.where(good[..., None, None], solution, step[at])
            left[at] &= ~good
    return step, left


def _conjugate(
    state: _State, gradient: Tensor, rows: Rows, inner: Inner, patience: int
) -> tuple[Tensor, int]:
    """The solution d of H d = -gradient, solved the closer, the nearer the minimum is, and the
    patience for the next one.

    The Hessian is only formed where patience ends; the next time it is formed at once.
    """
    curvature = state.loss.curvature(state.logits)
    typical = rows.mean(
        (curvature * (1 - curvature)).mean(2) if curvature.shape[2] > 1 else curvature.squeeze(2)
    )
    like = inner.rows.values
    typical, low, penalty, strengths, goal = (
        t.to(like) for t in (typical, curvature, state.penalty, state.strengths, state.goal)
    )
    residual = -gradient.to(like)
    step = torch.zeros_like(residual)
    preconditioner = inner.axes.scaled(typical, strengths)
    scaled = preconditioner.solve(residual)
    direction, size = scaled, (residual * scaled).sum((2, 3))
    # Below 1: `size` can be less than the decrement; far below where it is decided
    floor = 1e-2 if like.dtype == torch.float32 else 1e-4
    enough = (size * size.sqrt().clamp(max=1 / 16)).maximum(floor * goal)
    left = patience
    # `gained`: the decrement so far
    sure, gained = like.dtype == torch.float64, torch.zeros_like(size)
    for turn in range(_MAX_INNER):
        going = size > enough
        if sure:  # a small decrement counts as the end: it must not be small for want of turns
            going = going | (
                (gained <= goal) & (_distance(residual, strengths) > goal) & (size > 0)
            )
        going = going & ~state.done
        if not bool(going.any()):
            break
        if turn == patience:
            step, unsolved = _solved(step, going, state, gradient, inner, curvature)
            size, left = torch.where(unsolved, size, 0.0), 0
            continue
        bent = state.loss.bend(low, inner.rows.logits(direction))
        curved = torch.addcmul(inner.rows.pull(bent), penalty, direction)
        steepness = (direction * curved).sum((2, 3))
        going = going & (steepness > 0)  # where not, nothing but rounding is left
        length = torch.where(going, size / steepness, 0.0)[:, :, None, None]
        gained = gained + length[:, :, 0, 0] * size
        step = torch.addcmul(step, length, direction)
        residual = torch.addcmul(residual, length, curved, value=-1)
        scaled = preconditioner.solve(residual)
        before, size = size, torch.where(going, (residual * scaled).sum((2, 3)), 0.0)
        direction = torch.addcmul(
            scaled, torch.where(going, size / before, 0.0)[:, :, None, None], direction
        )
    return step.double(), left
