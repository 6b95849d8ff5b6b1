"""Matrices of measurements, whose columns may have any unit: recognised, and standardised.

Words, one-hot categories and other features that are mostly 0 are no measurements: their zeros have
a meaning, and standardising would make rare ones large. Legend: N nodes, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from graphlatent.ops.sparse import SparseMatrix, to_dense

SHARE = 0.5
"""A matrix of which a larger share is not 0 has measurements."""
FEW = 64
"""A combined embedding of nodes scales each of up to this number of features itself."""


def has_measurements(x: Tensor | SparseMatrix) -> bool:
    """Whether most values of a matrix [N, F] are not 0."""
    return are_measurements(count_nonzero(x), (x.shape[0], x.shape[1]))


def count_nonzero(x: Tensor | SparseMatrix) -> int:
    """The number of values that are not 0."""
    return int((x if isinstance(x, Tensor) else x.value).count_nonzero())


def are_measurements(nonzero: int, shape: tuple[int, int]) -> bool:
    """`has_measurements` of a matrix of this shape, by the number of its values that are not 0."""
    return nonzero > SHARE * shape[0] * shape[1]


def moments(x: Tensor) -> tuple[tuple[float, float], ...]:
    """Mean and standard deviation of each column of a matrix [N, F].

    Constant columns have a deviation of 0. Columns that hold only 0 and 1 are to stay as they are
    and have mean 0 and deviation 1.
    """
    exact = x.to(torch.float64)
    mean, std = exact.mean(0), exact.std(0, unbiased=False)
    return _moment_pairs(mean, std, exact.abs().amax(0), _zero_one(exact).all(0))


def streamed_moments(blocks: Callable[[], Iterable[Tensor]]) -> tuple[tuple[float, float], ...]:
    """`moments` of a matrix that comes as blocks of rows, up to rounding errors.

    Args:
        blocks: returns the blocks [R, F] from the first one; called twice.
    """
    count = 0
    total = largest = binary = torch.zeros(())
    for block in blocks():
        exact = block.to(torch.float64)
        total = total + exact.sum(0)
        most, zero_one = exact.abs().amax(0), _zero_one(exact).all(0)
        largest = torch.maximum(largest, most) if count else most
        binary = binary & zero_one if count else zero_one
        count += len(exact)
    mean = total / count
    square = sum((block.to(torch.float64) - mean).square().sum(0) for block in blocks())
    assert isinstance(square, Tensor)
    return _moment_pairs(mean, (square / count).sqrt(), largest, binary)


def _zero_one(values: Tensor) -> Tensor:
    return (values == 0) | (values == 1)


def _moment_pairs(
    mean: Tensor, std: Tensor, largest: Tensor, binary: Tensor
) -> tuple[tuple[float, float], ...]:
    # The rounding errors of a constant column are no signal.
    std = torch.where(std > 1e-6 * largest, std, 0.0)
    mean, std = torch.where(binary, 0.0, mean), torch.where(binary, 1.0, std)
    return tuple(zip(mean.tolist(), std.tolist(), strict=True))


def standardized(x: Tensor | SparseMatrix, pairs: Sequence[tuple[float, float]]) -> Tensor:
    """The matrix with standardised columns, [N, F]; columns of deviation 0 become 0.

    Args:
        x: [N, F].
        pairs: mean and standard deviation of each column, as `moments` returns them.
    """
    dense = to_dense(x)
    mean, std = torch.tensor(pairs, dtype=torch.float64).T
    used = torch.where(std > 0, std, 1.0)
    rows: Tensor = (dense.to(torch.float64) - mean) / used * (std > 0)
    # New nodes may be far from the fitted ones.
    return rows.clamp(-1e15, 1e15).to(dense.dtype)
