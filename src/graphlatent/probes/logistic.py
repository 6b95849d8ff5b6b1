"""Multinomial logistic regression to the exact minimum, for dense and for sparse rows.

The model minimises, over weights W [K, D] and a free bias b [K],

    1/n * sum_v CE(W x_v + b, y_v)  +  strength/2 * ||W||^2

by Newton steps whose linear systems are solved by preconditioned conjugate gradients, in float64. `Scaler` centres the rows
and scales them to mean squared norm 1 over the training rows, so that a strength means the same for every representation,
whatever its units, width and preprocessing. Centring changes nothing but the bias. Sparse rows stay sparse throughout.
Legend: M rows, D columns, K classes, n training rows. Weights are [K, D + 1], the bias last.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.sparse import SparseMatrix, take_rows
from graphlatent.errors import GraphLatentWarning

Array: TypeAlias = np.ndarray[Any, Any]
Table: TypeAlias = Tensor | SparseMatrix
Preprocessing: TypeAlias = Literal["none", "row", "standard"]

_TOLERANCE = 1e-6  # of the Newton decrement, twice the distance of the mean loss from its minimum; the step then taken all but closes it
_MAX_STEPS, _MAX_INNER = 100, 1000


class Design(Protocol):
    """Prepared rows, known by what they do to weights."""

    def logits(self, weights: Tensor) -> Tensor:
        """W x + b for every row, [K, M] out of [K, D + 1]."""

    def pull(self, residual: Tensor) -> Tensor:
        """The transposed map, [K, D + 1] out of [K, M]."""

    def power(self) -> Tensor:
        """Mean square of every column, 1 for the bias, [D + 1]."""


@dataclass(frozen=True, eq=False)
class DenseDesign:
    """Dense prepared rows and a column of ones, float64 [M, D + 1]."""

    rows: Tensor

    def logits(self, weights: Tensor) -> Tensor:
        """W x + b, [K, M]: with the classes first, since thin products are faster that way round."""
        return weights @ self.rows.T

    def pull(self, residual: Tensor) -> Tensor:
        """[K, D + 1]."""
        return residual @ self.rows

    def power(self) -> Tensor:
        """[D + 1]."""
        return (self.rows**2).mean(0)


@dataclass(frozen=True, eq=False)
class SparseDesign:
    """Sparse rows, float64 [M, D], that are centred and scaled without being filled up."""

    rows: SparseMatrix
    shift: Tensor
    scale: Tensor

    def logits(self, weights: Tensor) -> Tensor:
        """W x + b, [K, M]."""
        scaled = weights[:, :-1] * self.scale
        return self.rows.matmul(scaled.T).T + (weights[:, -1] - scaled @ self.shift)[:, None]

    def pull(self, residual: Tensor) -> Tensor:
        """[K, D + 1]."""
        total = residual.sum(1, keepdim=True)
        pulled = self.rows.transpose.matmul(residual.T).T - total * self.shift
        return torch.cat([pulled * self.scale, total], dim=1)

    def power(self) -> Tensor:
        """[D + 1]."""
        mean, variance = _moments(self.rows)
        return torch.cat([(variance + (mean - self.shift) ** 2) * self.scale**2, mean.new_ones(1)])


@dataclass(frozen=True, eq=False)
class Scaler:
    """How to prepare rows: figures of the training rows, which get mean 0 and mean squared norm 1.

    Args:
        how: "none": columns keep their proportions; "row": the same after each row is divided by its length; "standard": each
            column is divided by its standard deviation.
        shift: means of the columns, float64 [D].
        scale: factors of the columns, float64 [D]; 0 where a column is constant.
    """

    how: Preprocessing
    shift: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, table: Table, train: Array, how: Preprocessing) -> Scaler:
        """The figures of the rows `train` of the table."""
        shift, variance = _moments(_taken(table, train, unit_length=how == "row"))
        varies = variance > (1e-10 * shift) ** 2
        scale = varies.to(shift.dtype)
        if how == "standard":
            scale = scale * torch.where(varies, variance, 1.0).rsqrt()
        total = float((variance * scale**2).sum())
        return cls(how, shift, scale / total**0.5 if total > 0 else scale)

    def prepare(self, table: Table, index: Array) -> Design:
        """The rows `index` of the table, ready for the classifier."""
        rows = _taken(table, index, unit_length=self.how == "row")
        if isinstance(rows, SparseMatrix):
            return SparseDesign(rows, self.shift, self.scale)
        return DenseDesign(torch.cat([(rows - self.shift) * self.scale, rows.new_ones(len(rows), 1)], dim=1))


def _taken(table: Table, index: Array, *, unit_length: bool) -> Table:
    """The rows `index` in float64, each divided by its length where asked; a row of zeros stays one."""
    rows = take_rows(table, torch.from_numpy(index).to(table.device)).to(dtype=torch.float64)
    if not unit_length:
        return rows
    if isinstance(rows, Tensor):
        return torch.nn.functional.normalize(rows, dim=1)
    length = torch.zeros(rows.shape[0], dtype=rows.dtype, device=rows.device).index_add(0, rows.row, rows.value**2).sqrt()
    return SparseMatrix(rows.crow, rows.col, rows.value / length.clamp(min=1e-12)[rows.row], rows.shape)


def _moments(rows: Table) -> tuple[Tensor, Tensor]:
    """Mean and variance of every column, [D]."""
    if isinstance(rows, Tensor):
        mean = rows.mean(0)
        return mean, ((rows - mean) ** 2).mean(0)
    zeros = torch.zeros(rows.shape[1], dtype=rows.dtype, device=rows.device)
    mean = zeros.index_add(0, rows.col, rows.value) / rows.shape[0]
    num_unstored = rows.shape[0] - torch.bincount(rows.col, minlength=rows.shape[1])
    squares = zeros.index_add(0, rows.col, (rows.value - mean[rows.col]) ** 2) + num_unstored * mean**2
    return mean, squares / rows.shape[0]


def logistic_path(design: Design, target: Tensor, *, num_classes: int, strengths: Sequence[float]) -> tuple[Tensor, ...]:
    """The weights [K, D + 1] for each of several strengths, in their order.

    From the largest strength to the smallest, each solution is the start of the next. Dense rows wider than they are many are
    first expressed in a basis of the space they span: the minimum lies there, since a part of W outside it would only be penalised.

    Args:
        design: the prepared training rows.
        target: class number of each, int64 [n].
        num_classes: K.
        strengths: weights of the L2 term, above 0.
    """
    narrow, basis = _narrowed(design)
    solutions: dict[float, Tensor] = {}
    weights: Tensor | None = None
    for strength in sorted(set(strengths), reverse=True):
        weights = fit_logistic(narrow, target, num_classes=num_classes, strength=strength, start=weights)
        solutions[strength] = weights if basis is None else torch.cat([weights[:, :-1] @ basis, weights[:, -1:]], dim=1)
    return tuple(solutions[s] for s in strengths)


def _narrowed(design: Design) -> tuple[Design, Tensor | None]:
    """The same rows by their coordinates along their principal axes [R, D], R <= n, where that makes them narrower.

    Axes whose share of the whole is at the level of rounding are left out: against any sensible penalty they move nothing.
    """
    if not isinstance(design, DenseDesign) or design.rows.shape[1] - 1 <= design.rows.shape[0]:
        return design, None
    rows, ones = design.rows[:, :-1], design.rows[:, -1:]
    spread, vectors = torch.linalg.eigh(rows @ rows.T)
    kept = spread > 1e-13 * spread[-1]
    length, vectors = spread[kept].sqrt(), vectors[:, kept]
    return DenseDesign(torch.cat([vectors * length, ones], dim=1)), (vectors / length).T @ rows


def fit_logistic(design: Design, target: Tensor, *, num_classes: int, strength: float, start: Tensor | None = None) -> Tensor:
    """The weights [K, D + 1] at the minimum for one strength.

    Args:
        design: the prepared training rows.
        target: class number of each, int64 [n].
        num_classes: K.
        strength: weight of the L2 term, above 0; the bias is not penalised.
        start: weights to begin with; zeros where None.
    """
    power = design.power()
    one_hot = torch.nn.functional.one_hot(target, num_classes).to(power.dtype).T
    penalty = torch.full_like(power, strength)
    penalty[-1] = 0.0
    weights = power.new_zeros(num_classes, power.numel()) if start is None else start
    logits = design.logits(weights)
    loss = _loss(logits, weights, one_hot, penalty)
    for _ in range(_MAX_STEPS):
        share = torch.softmax(logits, 0)
        gradient = design.pull(share - one_hot) / target.numel() + penalty * weights
        gradient[:, -1] -= gradient[:, -1].mean()  # zero but for rounding: a bias common to all classes changes nothing
        step = _newton_step(design, share, gradient, penalty, power)
        decrement = -float((gradient * step).sum())
        slope, size = design.logits(step), 1.0
        while True:  # Armijo: halve until the loss falls by a share of what the slope promises, up to rounding
            moved, moved_logits = weights + size * step, logits + size * slope
            moved_loss = _loss(moved_logits, moved, one_hot, penalty)
            if moved_loss <= loss - 1e-4 * size * decrement + 1e-13 or size < 1e-9:
                break
            size /= 2
        weights, logits, loss = moved, moved_logits, moved_loss
        if decrement <= _TOLERANCE:
            return weights
    warnings.warn(f"The linear probe did not converge in {_MAX_STEPS} steps at strength {strength:g}.", GraphLatentWarning, stacklevel=2)
    return weights


def _loss(logits: Tensor, weights: Tensor, one_hot: Tensor, penalty: Tensor) -> float:
    fit = (torch.logsumexp(logits, 0) - (logits * one_hot).sum(0)).mean()
    return float(fit + 0.5 * (penalty * weights**2).sum())


def _newton_step(design: Design, share: Tensor, gradient: Tensor, penalty: Tensor, power: Tensor) -> Tensor:
    """The solution d of H d = -gradient by conjugate gradients, solved the closer, the nearer the minimum is.

    H d = pull(share * (z - <share, z>)) / n + penalty * d with z = logits(d), so the Hessian is never formed. The
    preconditioner is its diagonal with `share` averaged over the rows.
    """
    diagonal = power * (share * (1 - share)).mean(1, keepdim=True) + penalty + 1e-12
    step, residual = torch.zeros_like(gradient), -gradient
    direction = residual / diagonal
    size = float((residual * direction).sum())
    enough = size * min(0.03, size**0.5) ** 2
    for _ in range(_MAX_INNER):
        if not size > enough:
            break
        change = share * design.logits(direction)
        change = change - share * change.sum(0)
        curved = design.pull(change) / share.shape[1] + penalty * direction
        curvature = float((direction * curved).sum())
        if not curvature > 0:  # nothing but rounding is left
            break
        step = step + (size / curvature) * direction
        residual = residual - (size / curvature) * curved
        scaled = residual / diagonal
        size, before = float((residual * scaled).sum()), size
        direction = scaled + (size / before) * direction
    return step
