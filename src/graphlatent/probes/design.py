"""Design matrices of linear classifiers: preprocessed training rows of many fits at a time.

Three preprocessings: "none", "row" (each row divided by its norm) and "standard" (each column
divided by its standard deviation). In all of them the training rows of a fit are then shifted to
mean 0 and scaled to mean squared norm 1, so that a value of `l2` means the same for every
representation, whatever its units and width. All statistics are those of the fit's own training
rows. Rows with more columns than there are rows are expressed in an orthonormal basis of their
span: the minimum lies there, because a component of the coefficients outside it would only be
penalised. Legend: M rows, D columns, F fits, n training rows of a fit, K outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix, take_rows
from graphlatent.probes.solver.rows import WeightedRows

Array: TypeAlias = np.ndarray[Any, Any]
FeatureMatrix: TypeAlias = Tensor | SparseMatrix
Preprocessing: TypeAlias = Literal["none", "row", "standard"]
PREPROCESSING: tuple[Preprocessing, ...] = get_args(Preprocessing)
_LARGEST = 1e100
# Number of values converted to float64 at a time when predicting
_CHUNK = 2**25


def checked_matrix(representation: Any) -> FeatureMatrix:
    """The representation as a 2-D matrix of finite numbers, dense or sparse.

    Raises:
        InputError: where it is none.
    """
    matrix: FeatureMatrix
    if isinstance(representation, SparseMatrix):
        matrix = representation
    elif hasattr(representation, "tocsr"):
        matrix = SparseMatrix.from_scipy(representation, dtype=torch.float64)
    elif isinstance(representation, Tensor):
        if representation.is_complex():
            raise InputError(
                f"The representation must hold numbers. Got values of type {representation.dtype}."
            )
        matrix = (
            representation.detach()
            if representation.is_floating_point()
            else representation.detach().to(torch.float64)
        )
    else:
        array = np.asarray(representation)
        if array.dtype.kind not in "biuf":
            raise InputError(
                f"The representation must hold numbers. Got values of type {array.dtype}."
            )
        matrix = torch.from_numpy(
            np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
        )
    if len(matrix.shape) != 2 or 0 in matrix.shape:
        raise InputError(
            "The representation must be a 2-D array, one row per node or graph. Got shape"
            f" {tuple(matrix.shape)}."
        )
    values = matrix.value if isinstance(matrix, SparseMatrix) else matrix
    if not bool(torch.isfinite(values).all()):
        raise InputError(
            "The representation holds NaN or infinite values. Look at the training history before"
            " probing it."
        )
    if values.numel() and float(values.abs().max()) > _LARGEST:
        raise InputError(
            f"The representation holds values beyond {_LARGEST:g}, whose squares cannot be summed."
            " Scale it down first."
        )
    return matrix


def unit_rows(matrix: FeatureMatrix) -> FeatureMatrix:
    """Every row divided by its norm; a row of zeros is unchanged."""
    if isinstance(matrix, Tensor):
        rows = matrix.to(torch.float64)
        norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return (rows / torch.where(norm > 0, norm, 1.0)).to(matrix.dtype)
    squares = torch.zeros(matrix.shape[0], dtype=torch.float64, device=matrix.device).index_add(
        0, matrix.row, matrix.value.double() ** 2
    )
    norm = torch.where(squares > 0, squares, 1.0).sqrt()
    return SparseMatrix(
        matrix.crow,
        matrix.col,
        (matrix.value.double() / norm[matrix.row]).to(matrix.value.dtype),
        matrix.shape,
    )


@dataclass(frozen=True, eq=False)
class LinearModels:
    """Linear models of several fits in the matrix's own columns: x -> weight x + bias.

    Args:
        weight: float64 [F, K, D].
        bias: float64 [F, K].
    """

    weight: Tensor
    bias: Tensor

    def logits(self, matrix: FeatureMatrix, rows: Sequence[Array]) -> list[Tensor]:
        """The outputs of each fit for its own row numbers, [len(rows[f]), K]."""
        return [
            self._logits_of_fit(matrix, f, torch.from_numpy(numbers).to(matrix.device))
            for f, numbers in enumerate(rows)
        ]

    def only(self, fit: int) -> LinearModels:
        """The model of one fit, copied, so that the memory of the others can be freed."""
        return LinearModels(self.weight[fit : fit + 1].clone(), self.bias[fit : fit + 1].clone())

    def _logits_of_fit(self, matrix: FeatureMatrix, fit: int, rows: Tensor) -> Tensor:
        weight, parts = self.weight[fit].T, []
        for part in torch.split(rows, max(1, _CHUNK // matrix.shape[1])):
            values = take_rows(matrix, part).to(dtype=torch.float64)
            parts.append(values.matmul(weight) + self.bias[fit])
        return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class Design:
    """Preprocessed training rows of several fits, and the map back to the matrix's columns.

    Args:
        rows: for the solver, [F, n, R + 1].
        shift: means of the columns, float64 [F, D].
        scale: factors of the columns, float64 [F, D]; 0 where a column is constant.
        basis: the rows before they were expressed in a basis, [F, n, D], and their triangular
            factor [F, n, n]; None where they were not.
    """

    rows: WeightedRows
    shift: Tensor
    scale: Tensor
    basis: tuple[Tensor, Tensor] | None

    @classmethod
    def of(
        cls,
        matrix: FeatureMatrix,
        rows: Sequence[Array],
        preprocessing: Preprocessing,
        *,
        num_rows: int | None = None,
    ) -> Design:
        """The row numbers `rows[f]` of the matrix for each fit f, padded to `num_rows`.

        For "row" the matrix must have unit rows already.
        """
        num, width = num_rows or max(len(numbers) for numbers in rows), matrix.shape[1]
        real = torch.tensor([len(numbers) for numbers in rows], device=matrix.device)
        padded = np.stack(
            [
                np.concatenate([numbers, np.zeros(num - len(numbers), dtype=np.int64)])
                for numbers in rows
            ]
        )
        weight = (torch.arange(num, device=matrix.device) < real[:, None]) / real[:, None].double()
        values = _dense_rows(matrix, torch.from_numpy(padded).to(matrix.device).flatten()).view(
            len(rows), num, width
        )
        shift = torch.einsum("fn,fnd->fd", weight, values)
        values = values.sub_(shift[:, None]).mul_((weight > 0)[:, :, None])
        variance = torch.einsum("fn,fnd->fd", weight, values**2)
        varies = variance > (1e-10 * shift) ** 2
        scale = varies.double()
        if preprocessing == "standard":
            scale = scale * torch.where(varies, variance, 1.0).rsqrt()
        total = (variance * scale**2).sum(1, keepdim=True)
        scale = scale * torch.where(total > 0, total, 1.0).rsqrt()
        values = values.mul_(scale[:, None])
        factor = _triangular_factor(values) if num < width else None
        with_bias = torch.cat(
            [values if factor is None else factor, (weight > 0).double()[:, :, None]], dim=2
        )
        basis = None if factor is None else (values, factor)
        return cls(WeightedRows(with_bias, weight), shift, scale, basis)

    def to_models(self, coef: Tensor) -> LinearModels:
        """Coefficients of the preprocessed rows [F, K, R + 1] as models of the matrix's rows."""
        inner, bias = coef[..., :-1], coef[..., -1]
        if self.basis is not None:
            values, factor = self.basis
            inner = torch.linalg.solve_triangular(factor, inner, upper=False, left=False) @ values
        weight = inner * self.scale[:, None]
        return LinearModels(weight, bias - (weight @ self.shift[:, :, None]).squeeze(2))


def _triangular_factor(values: Tensor) -> Tensor:
    """L with L L^T = values values^T [F, n, n]: the rows' coordinates in an orthonormal basis.

    Exact up to a fraction of 1e-11 of their squared norm.
    """
    products = torch.bmm(values, values.mT)
    diagonal = products.diagonal(dim1=1, dim2=2)
    diagonal.add_(1e-11 * diagonal.amax(1, keepdim=True).clamp(min=1e-300))
    factor: Tensor = torch.linalg.cholesky(products)
    return factor


def _dense_rows(matrix: FeatureMatrix, index: Tensor) -> Tensor:
    """Some rows as dense float64, copied."""
    if isinstance(matrix, Tensor):
        return matrix[index].to(torch.float64)
    return take_rows(matrix, index).to(dtype=torch.float64).to_dense()


def max_fits_at_once(matrix: FeatureMatrix, num_rows: int, *, num_columns: int) -> int:
    """How many fits of `num_rows` rows and `num_columns` outputs fit into a memory budget."""
    # float64 values: 16 GiB on a GPU, 512 MiB on a CPU
    budget = 2**31 if matrix.device.type == "cuda" else 2**26
    width = matrix.shape[1]
    each = (
        num_rows * (width + 1) * 2
        + (2 * num_rows**2 if num_rows < width else 0)
        + 8 * num_rows * num_columns
    )
    return max(1, budget // max(each, 1))
