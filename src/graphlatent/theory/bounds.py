"""Both sides of Theorem 1 and of Corollaries 1 and 2, as printed and corrected.

With f = D(E(A, X)), latent features F and noise of standard deviation sigma in each of d features:

    left            E |f - F|^2 + E |X - F|^2
    theorem1        E |f - X|^2 + 2 c |V| E_J sqrt( E |f_J - f'_J|^2 / |J| )
    corollary1      the same with l |H_J - H'_J| in place of |f_J - f'_J|
    corollary2      the same with k l |z - z'|

As printed c = sigma. The proof gives c = sigma sqrt(d), or the noise of a whole row
(docs/theory.md).
All values here are divided by the number of nodes. Of several graphs, the sides are added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from torch import Tensor

from graphlatent.errors import bad_argument

Array: TypeAlias = np.ndarray[Any, Any]
Form: TypeAlias = Literal["corrected", "printed"]
BOUNDS = ("theorem1", "corollary1", "corollary2")
# Standard errors by which an estimate must be below 0 to count as a violation.
_LEVEL = 4.0


def theory_alpha(sigma: float, num_features: int, *, form: Form = "corrected") -> float:
    """The weight of the output's invariance in Theorem 1, per node, for objective='mse-output'.

    Args:
        sigma: standard deviation of the noise in an entry.
        num_features: d.
        form: 'corrected', 2 sigma sqrt(d), or 'printed', 2 sigma.
    """
    return 2 * sigma * (math.sqrt(num_features) if form == "corrected" else 1.0)


@dataclass(frozen=True)
class Estimate:
    """A mean over random masks and noise, with its standard error; infinite where not known."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class BoundEstimate:
    """The parts of both sides, per node, of one network on graphs whose latent features are known.

    Args:
        entry_noise: sigma, the largest standard deviation of the noise in an entry.
        row_noise: root of the noise's mean square in a row, at most sigma sqrt(d).
        lipschitz: l, of the decoder.
        readout_constant: k, the largest |H_J - H'_J| / |z - z'| of a graph that was met.
        readout_ratio: the k with which Corollary 2 equals Corollary 1.
        supervised: |f - F|^2, mean over the noise for each mask, [masks].
        noise: |X - F|^2, [masks].
        reconstruction: |f - X|^2, [masks].
        output_change: sqrt( E |f_J - f'_J|^2 / |J| ), the expectation over the noise, [masks].
        embedding_change: the same of the last encoder layer, [masks].
        readout_change: the same of the pooled layers, [masks].
    """

    entry_noise: float
    row_noise: float
    lipschitz: float
    readout_constant: float
    readout_ratio: float
    supervised: Array
    noise: Array
    reconstruction: Array
    output_change: Array
    embedding_change: Array
    readout_change: Array

    @property
    def error(self) -> Estimate:
        """The supervised error E |f - F|^2 alone."""
        return _estimate(self.supervised)

    @property
    def left(self) -> Estimate:
        """Supervised error plus noise."""
        return _estimate(self.supervised + self.noise)

    def right(self, bound: str = "theorem1", *, form: Form = "corrected") -> Estimate:
        """Reconstruction plus weighted invariance, of one of `BOUNDS`."""
        return _estimate(self._right(bound, form))

    def gap(self, bound: str = "theorem1", *, form: Form = "corrected") -> Estimate:
        """Right side less left side: not below 0 where the bound holds."""
        return _estimate(self._right(bound, form) - self.supervised - self.noise)

    def holds(self, bound: str = "theorem1", *, form: Form = "corrected") -> bool:
        """False where the right side is below the left one by more than four standard errors."""
        gap = self.gap(bound, form=form)
        return gap.value >= -_LEVEL * gap.standard_error - 1e-9 * self.left.value

    def _bounded_by_readout(self) -> Array:
        """The change of pooled rows times k; infinite with k, also where they do not change."""
        if math.isinf(self.readout_constant):
            return np.full_like(self.readout_change, math.inf)
        return self.readout_constant * self.readout_change

    def _right(self, bound: str, form: Form) -> Array:
        changes = {
            "theorem1": self.output_change,
            "corollary1": self.lipschitz * self.embedding_change,
            "corollary2": self.lipschitz * self._bounded_by_readout(),
        }
        if bound not in changes:
            raise bad_argument("bound", owner="BoundEstimate", allowed=f"of {BOUNDS}", got=bound)
        if form not in ("corrected", "printed"):
            raise bad_argument(
                "form", owner="BoundEstimate", allowed="'corrected' or 'printed'", got=form
            )
        factor = self.row_noise if form == "corrected" else self.entry_noise
        right: Array = self.reconstruction + 2 * factor * changes[bound]
        return right


def readout_constant(hidden: Tensor, pooled: Tensor) -> float:
    """The largest |H_J - H'_J| / |z - z'|, infinite where only the pooled rows are equal.

    Args:
        hidden: |H_J - H'_J|^2 of each graph, [B].
        pooled: |z - z'|^2 of each graph, [B].
    """
    changed = hidden > 0
    if not bool(changed.any()):
        return 0.0
    return float((hidden[changed] / pooled[changed]).max().sqrt())


def _estimate(values: Array) -> Estimate:
    count, mean = len(values), float(values.mean())
    known = count > 1 and math.isfinite(mean)
    error = float(values.std(ddof=1)) / math.sqrt(count) if known else math.inf
    return Estimate(mean, error)
