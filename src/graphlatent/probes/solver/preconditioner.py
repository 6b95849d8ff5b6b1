"""The preconditioner of the conjugate gradients: (mean curvature) * (covariance) + l2, inverted.

By the eigenvectors of the rows' covariance, or, where rows are wide, by a randomised Nystroem
approximation of the leading ones (Frangella, Tropp and Udell, "Randomized Nystroem
preconditioning", 2023). Legend: F fits, Q problems, C classes, D columns, R eigenvectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.probes.solver.rows import WeightedRows

_MAX_RANK = 256


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """An approximate inverse of the Hessian, for every problem.

    Args:
        vectors: orthonormal eigenvectors [F, D + 1, R].
        inside: factors along the eigenvectors [F, Q, 1, R].
        outside: factor of everything [F, Q, 1, 1]; None where the eigenvectors are complete.
    """

    vectors: Tensor
    inside: Tensor
    outside: Tensor | None

    def solve(self, residual: Tensor) -> Tensor:
        """The product with a residual [F, Q, C, D + 1]."""
        along = torch.bmm(residual.flatten(1, 2), self.vectors).view(*residual.shape[:3], -1)
        product = torch.bmm((along * self.inside).flatten(1, 2), self.vectors.mT).view_as(residual)
        return product if self.outside is None else torch.addcmul(product, residual, self.outside)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Leading eigenvectors and eigenvalues of the rows' covariance.

    Args:
        vectors: orthonormal columns [F, D + 1, R].
        variance: eigenvalues [F, R].
        rest: variance along every other direction [F].
    """

    vectors: Tensor
    variance: Tensor
    rest: Tensor

    @classmethod
    def of(cls, rows: WeightedRows) -> Covariance:
        """All eigenvectors of narrow rows; of wide ones the leading ones, with a fixed seed."""
        fits, _, width = rows.values.shape
        weighted = rows.values * rows.weight[:, :, None]
        if width <= _MAX_RANK:
            variance, vectors = torch.linalg.eigh(torch.bmm(weighted.mT, rows.values))
            return cls(vectors, variance.clamp(min=0), variance.new_zeros(fits))
        generator = torch.Generator().manual_seed(0)
        sketch = torch.linalg.qr(
            torch.randn(width, _MAX_RANK, generator=generator, dtype=torch.float64)
        ).Q.to(rows.values)
        image = torch.bmm(weighted.mT, rows.values @ sketch)  # [F, D + 1, R]
        shift = 1e-10 * image.norm(dim=(1, 2))[:, None, None]
        core = sketch.T @ image
        factor = torch.linalg.cholesky(
            (core + core.mT) / 2
            + shift * torch.eye(_MAX_RANK, dtype=core.dtype, device=core.device)
        )
        # half half^T approximates the covariance
        half = torch.linalg.solve_triangular(
            factor.mT, image + shift * sketch, upper=True, left=False
        )
        squares, rotation = torch.linalg.eigh(half.mT @ half)
        length = squares.clamp(min=1e-300).sqrt()
        vectors = torch.where(
            (squares > 1e-12 * squares[:, -1:])[:, None, :],
            half @ (rotation / length[:, None, :]),
            0.0,
        )
        return cls(vectors, (squares - shift[:, :, 0]).clamp(min=0), squares[:, 0].clamp(min=0))

    def to_float32(self) -> Covariance:
        """The same in float32."""
        return Covariance(self.vectors.float(), self.variance.float(), self.rest.float())

    def preconditioner(self, curvature: Tensor, l2: Tensor) -> Preconditioner:
        """The approximate inverse of curvature * covariance + l2; both [F, Q]."""
        inside = curvature[..., None] * self.variance[:, None, :] + l2[..., None] + 1e-9
        # With all eigenvectors nothing is outside, and the difference below would lose digits
        if self.vectors.shape[1] == self.vectors.shape[2]:
            return Preconditioner(self.vectors, (1 / inside)[:, :, None, :], None)
        outside = (1 / (curvature * self.rest[:, None] + l2 + 1e-9))[..., None, None]
        return Preconditioner(self.vectors, 1 / inside[:, :, None, :] - outside, outside)
