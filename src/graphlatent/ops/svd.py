"""The leading right singular vectors of a dense or sparse matrix.

Narrow matrices: eigenvectors of the Gram matrix, summed in float64 over blocks of rows. Wide ones:
randomised subspace iteration (`Halko, Martinsson and Tropp 2011
<https://arxiv.org/abs/0909.4061>`_), which multiplies by the matrix and its transpose only.
Rows may also come in blocks, again for every pass over them. Legend: N rows, W columns, k singular
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from graphlatent.ops.collective import of_first, summed
from graphlatent.ops.sparse import SparseMatrix, dense_rows, multiply

EXACT_WIDTH = 2048
"""Widest matrix whose Gram matrix is decomposed."""
# Additional directions and steps of the subspace iteration.
_OVERSAMPLING = 32
_POWER_STEPS = 5
# Singular values below this share of the largest one are rounding errors of float32 entries.
_SMALLEST = 1e-6
# Number of entries converted to float64 at a time.
_BLOCK = 2**23


@dataclass(frozen=True, eq=False)
class RowStream:
    """A matrix of which only some rows are there at a time; several processes have different ones.

    Args:
        shape: (N, W), with the rows of all processes.
        blocks: yields all rows of this process in blocks, in order, dense or sparse, each time that
            it is called.
    """

    shape: tuple[int, int]
    blocks: Callable[[], Iterator[Tensor | SparseMatrix]]
    dtype: torch.dtype = torch.float32

    @property
    def device(self) -> torch.device:
        """Where the blocks are."""
        return torch.device("cpu")

    def multiplied(self, dense: Tensor) -> RowStream:
        """The product with a matrix [W, H]."""
        shape = (self.shape[0], dense.shape[1])
        return RowStream(shape, lambda: (multiply(rows, dense) for rows in self.blocks()))


Matrix: TypeAlias = Tensor | SparseMatrix | RowStream


@torch.no_grad()
def right_singular_vectors(x: Matrix, k: int, *, generator: torch.Generator) -> Tensor:
    """The right singular vectors of the k largest singular values, as columns [W, k].

    The entry of largest absolute value of each is positive. Columns beyond the rank of `x` are 0.

    Args:
        x: [N, W], not centred.
        k: at most W.
        generator: for wide matrices, on the CPU.
    """
    num_rows, width = x.shape
    if width <= EXACT_WIDTH:
        vectors = _leading(_gram(x), k)
    else:
        sample = min(k + _OVERSAMPLING, num_rows, width)
        basis = _row_space(x, sample, generator=generator)
        product = x.multiplied(basis) if isinstance(x, RowStream) else multiply(x, basis)
        vectors = basis @ _leading(_gram(product), min(k, sample)).to(basis.dtype)
    if isinstance(x, RowStream):
        vectors = of_first(vectors)
    out = torch.zeros(width, k, dtype=x.dtype, device=x.device)
    out[:, : vectors.shape[1]] = with_fixed_signs(vectors)
    return out


def _row_space(x: Matrix, sample: int, *, generator: torch.Generator) -> Tensor:
    """An orthonormal basis whose span is close to that of the leading vectors, [W, sample]."""
    start = torch.randn(x.shape[1], sample, generator=generator)
    basis = start.to(device=x.device, dtype=x.dtype)
    for _ in range(_POWER_STEPS):
        basis = torch.linalg.qr(_squared(x, basis)).Q
        if isinstance(x, RowStream):
            basis = of_first(basis)
    return basis


def _squared(x: Matrix, dense: Tensor) -> Tensor:
    """x^T x `dense`, [W, H]."""
    if isinstance(x, RowStream):
        total = torch.zeros_like(dense)
        for rows in x.blocks():
            total += _squared(rows, dense)
        return summed(total)
    return multiply(x.T if isinstance(x, Tensor) else x.transpose, multiply(x, dense))


def _gram(x: Matrix) -> Tensor:
    """x^T x in float64, [W, W]."""
    num_rows, width = x.shape
    gram = torch.zeros(width, width, dtype=torch.float64, device=x.device)
    if isinstance(x, RowStream):
        for block in x.blocks():
            gram += _gram(block)
        return summed(gram)
    step = max(1, _BLOCK // max(width, 1))
    for start in range(0, num_rows, step):
        rows = dense_rows(x, start, min(start + step, num_rows)).to(torch.float64)
        gram.addmm_(rows.T, rows)
    return gram


def _leading(gram: Tensor, k: int) -> Tensor:
    """The eigenvectors of the k largest eigenvalues, [W, k]; 0 for those that are 0."""
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values.flip(0)[:k], vectors.flip(1)[:, :k]
    nonzero = values > _SMALLEST**2 * values[0].clamp(min=0)
    return torch.where(nonzero, vectors, torch.zeros_like(vectors))


def with_fixed_signs(vectors: Tensor) -> Tensor:
    """The columns, each with a sign such that its entry of largest absolute value is positive."""
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return torch.where(largest < 0, -vectors, vectors)
