"""The leading right singular vectors of a dense or sparse matrix.

Narrow matrices: eigenvectors of the Gram matrix, summed in float64 over blocks of rows. Wide ones:
randomised subspace iteration (`Halko, Martinsson and Tropp 2011
<https://arxiv.org/abs/0909.4061>`_), which multiplies by the matrix and its transpose only.
Legend: N rows, W columns, k singular vectors.
"""

from __future__ import annotations

import torch
from torch import Tensor

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


@torch.no_grad()
def right_singular_vectors(
    x: Tensor | SparseMatrix, k: int, *, generator: torch.Generator
) -> Tensor:
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
        vectors = basis @ _leading(_gram(multiply(x, basis)), min(k, sample)).to(basis.dtype)
    out = torch.zeros(width, k, dtype=x.dtype, device=x.device)
    out[:, : vectors.shape[1]] = with_fixed_signs(vectors)
    return out


def _row_space(x: Tensor | SparseMatrix, sample: int, *, generator: torch.Generator) -> Tensor:
    """An orthonormal basis whose span is close to that of the leading vectors, [W, sample]."""
    transpose = x.T if isinstance(x, Tensor) else x.transpose
    start = torch.randn(x.shape[1], sample, generator=generator)
    basis = start.to(device=x.device, dtype=x.dtype)
    for _ in range(_POWER_STEPS):
        basis = torch.linalg.qr(multiply(transpose, multiply(x, basis))).Q
    return basis


def _gram(x: Tensor | SparseMatrix) -> Tensor:
    """x^T x in float64, [W, W]."""
    num_rows, width = x.shape
    gram = torch.zeros(width, width, dtype=torch.float64, device=x.device)
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
