"""Rows of a table, prepared for linear classifiers, many fits at a time.

Three ways to prepare: "none", "row" (each row divided by its length) and "standard" (each column
    divided by its standard
deviation). In all of them the training rows of a fit then get mean 0 and mean squared norm 1, so
that a strength means the same for every representation, whatever its units and width. All figures
come from the training rows of the same fit. Rows wider than they are many are expressed in an
orthonormal basis of the space they span: the minimum lies there, since a part of the weights
outside it would only be penalised. Legend: M rows of the table, D columns, F fits, n training rows
of a fit, K outputs.
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
from graphlatent.probes.newton import Rows

Array: TypeAlias = np.ndarray[Any, Any]
Table: TypeAlias = Tensor | SparseMatrix
Preprocessing: TypeAlias = Literal["none", "row", "standard"]
PREPROCESSING: tuple[Preprocessing, ...] = get_args(Preprocessing)
_LARGEST = 1e100
_CHUNK = 2**25  # values made dense at a time when answering


def checked_table(representation: Any) -> Table:
    """The representation as a 2-D table of finite numbers, dense or sparse. Raises `InputError`
    where it is none.
    """
    table: Table
    if isinstance(representation, SparseMatrix):
        table = representation
    elif hasattr(representation, "tocsr"):
        table = SparseMatrix.from_scipy(representation, dtype=torch.float64)
    elif isinstance(representation, Tensor):
        if representation.is_complex():
            raise InputError(
                f"The representation must hold numbers. Got values of type {representation.dtype}."
            )
        table = (
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
        table = torch.from_numpy(
            np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
        )
    if len(table.shape) != 2 or 0 in table.shape:
        raise InputError(
            "The representation must be a 2-D array, one row per node or graph. Got shape"
            f" {tuple(table.shape)}."
        )
    if not bool(torch.isfinite(table.value if isinstance(table, SparseMatrix) else table).all()):
        raise InputError(
            "The representation holds NaN or infinite values. Look at the training history before"
            " probing it."
        )
    values = table.value if isinstance(table, SparseMatrix) else table
    if values.numel() and float(values.abs().max()) > _LARGEST:
        raise InputError(
            f"The representation holds values beyond {_LARGEST:g}, whose squares cannot be summed."
            " Scale it down first."
        )
    return table


def unit_rows(table: Table) -> Table:
    """Every row divided by its length; a row of zeros stays one."""
    if isinstance(table, Tensor):
        rows = table.to(torch.float64)
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return (rows / torch.where(length > 0, length, 1.0)).to(table.dtype)
    squares = torch.zeros(table.shape[0], dtype=torch.float64, device=table.device).index_add(
        0, table.row, table.value.double() ** 2
    )
    length = torch.where(squares > 0, squares, 1.0).sqrt()
    return SparseMatrix(
        table.crow,
        table.col,
        (table.value.double() / length[table.row]).to(table.value.dtype),
        table.shape,
    )


@dataclass(frozen=True, eq=False)
class Linear:
    """Classifiers of several fits in the table's own columns: x -> weight x + bias.

    Args:
        weight: float64 [F, K, D].
        bias: float64 [F, K].
    """

    weight: Tensor
    bias: Tensor

    def logits(self, table: Table, index: Sequence[Array]) -> list[Tensor]:
        """For each fit its outputs for its own rows of the table, [len(index[f]), K]."""
        return [
            self._of_fit(table, f, torch.from_numpy(rows).to(table.device))
            for f, rows in enumerate(index)
        ]

    def only(self, fit: int) -> Linear:
        """The classifiers of one fit, copied, so that the others can be let go."""
        return Linear(self.weight[fit : fit + 1].clone(), self.bias[fit : fit + 1].clone())

    def _of_fit(self, table: Table, fit: int, rows: Tensor) -> Tensor:
        weight, parts = self.weight[fit].T, []
        for part in torch.split(rows, max(1, _CHUNK // table.shape[1])):
            taken = take_rows(table, part).to(dtype=torch.float64)
            parts.append(taken.matmul(weight) + self.bias[fit])
        return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class Design:
    """Prepared training rows of several fits, and the way back to the table's columns.

    Args:
        rows: for the solver, [F, n, R + 1].
        shift: means of the columns, float64 [F, D].
        scale: factors of the columns, float64 [F, D]; 0 where a column is constant.
        wide: the rows before they were expressed in a basis, [F, n, D], and their triangular factor
            [F, n, n]; None where they were not.
    """

    rows: Rows
    shift: Tensor
    scale: Tensor
    wide: tuple[Tensor, Tensor] | None

    @classmethod
    def of(
        cls,
        table: Table,
        index: Sequence[Array],
        how: Preprocessing,
        *,
        num_rows: int | None = None,
    ) -> Design:
        """The rows `index[f]` of the table for each fit f, filled up to `num_rows`.

        The table already has unit rows where `how` is "row".
        """
        num, width = num_rows or max(len(rows) for rows in index), table.shape[1]
        real = torch.tensor([len(rows) for rows in index], device=table.device)
        padded = np.stack(
            [np.concatenate([rows, np.zeros(num - len(rows), dtype=np.int64)]) for rows in index]
        )
        share = (torch.arange(num, device=table.device) < real[:, None]) / real[:, None].double()
        values = _dense_rows(table, torch.from_numpy(padded).to(table.device).flatten()).view(
            len(index), num, width
        )
        shift = torch.einsum("fn,fnd->fd", share, values)
        values = values.sub_(shift[:, None]).mul_((share > 0)[:, :, None])
        variance = torch.einsum("fn,fnd->fd", share, values**2)
        varies = variance > (1e-10 * shift) ** 2
        scale = varies.double()
        if how == "standard":
            scale = scale * torch.where(varies, variance, 1.0).rsqrt()
        total = (variance * scale**2).sum(1, keepdim=True)
        scale = scale * torch.where(total > 0, total, 1.0).rsqrt()
        values = values.mul_(scale[:, None])
        factor = _triangle(values) if num < width else None
        rows = torch.cat(
            [values if factor is None else factor, (share > 0).double()[:, :, None]], dim=2
        )
        return cls(Rows(rows, share), shift, scale, None if factor is None else (values, factor))

    def to_table(self, weights: Tensor) -> Linear:
        """Classifiers of the prepared rows [F, K, R + 1] as classifiers of the table's rows."""
        inner, bias = weights[..., :-1], weights[..., -1]
        if self.wide is not None:
            values, factor = self.wide
            inner = torch.linalg.solve_triangular(factor, inner, upper=False, left=False) @ values
        weight = inner * self.scale[:, None]
        return Linear(weight, bias - (weight @ self.shift[:, :, None]).squeeze(2))


def _triangle(values: Tensor) -> Tensor:
    """L with L L^T = values values^T [F, n, n]: the rows' coordinates in an orthonormal basis, up
    to a share of 1e-11 of their length.
    """
    products = torch.bmm(values, values.mT)
    size = products.diagonal(dim1=1, dim2=2)
    size.add_(1e-11 * size.amax(1, keepdim=True).clamp(min=1e-300))
    factor: Tensor = torch.linalg.cholesky(products)
    return factor


def _dense_rows(table: Table, index: Tensor) -> Tensor:
    """Some rows as dense float64, a copy."""
    if isinstance(table, Tensor):
        return table[index].to(torch.float64)
    return take_rows(table, index).to(dtype=torch.float64).to_dense()


def fits_in_a_chunk(table: Table, num_rows: int, *, num_columns: int) -> int:
    """How many fits of `num_rows` rows and `num_columns` outputs may be prepared at once without
    filling the memory.
    """
    budget = 2**31 if table.device.type == "cuda" else 2**26  # float64 values: 16 GiB, 512 MiB
    width = table.shape[1]
    each = (
        num_rows * (width + 1) * 2
        + (2 * num_rows**2 if num_rows < width else 0)
        + 8 * num_rows * num_columns
    )
    return max(1, budget // max(each, 1))
