"""Measures of an embedding that need no labels.

All of them take a sample of rows and compute on it in float64. Legend: M rows, D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

CONSTANT = 1e-6
"""A column whose standard deviation is at most this part of the largest one is constant."""
# Clipping keeps single large graphs, whose sums are far from the others, from deciding.
_CLIP = 5.0
_RIDGE = 1e-3
MIN_ROWS = 100
"""Fewer rows are too few for the regression of `recovery`."""


def effective_rank(rows: Tensor) -> float:
    """RankMe: the exponential of the entropy of the shares of the singular values (Garrido et al.
    2023, https://arxiv.org/abs/2210.02885), between 1 and min(M - 1, D); 0 for equal rows.

    Differs from the paper: the rows are centred, since a probe has an intercept. Otherwise a large
    mean, which ReLU gives every embedding, would hide the other directions.

    Args:
        rows: [M, D].
    """
    if rows.shape[0] < 2:
        return 0.0
    exact = rows.to(torch.float64)
    largest = float(exact.abs().max())
    centred = exact - exact.mean(0)
    # Rounding errors of the mean are no direction.
    if float(centred.abs().max()) <= 1e-6 * largest or largest == 0:
        return 0.0
    # The smaller of both Gram matrices; scaled, so that squares neither over- nor underflow.
    centred = centred / centred.abs().max()
    gram = centred @ centred.T if rows.shape[0] < rows.shape[1] else centred.T @ centred
    singular = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()
    # The roots of rounding errors of the squares.
    singular = singular[singular > 1e-7 * singular[-1]]
    share = singular / singular.sum()
    return float(torch.exp(-(share * share.log()).sum()))


def column_std(rows: Tensor) -> float:
    """The mean over columns of the standard deviation of a column; 0 for equal rows."""
    return float(_deviations(rows).mean())


def dead_units(rows: Tensor) -> float:
    """The share of columns that are constant, such as ReLU units that are 0 for every row."""
    std = _deviations(rows)
    return float((std <= CONSTANT * std.max()).to(torch.float64).mean())


def alignment(first: Tensor, second: Tensor) -> float:
    """The mean squared distance of the same row in two views, both scaled to norm 1 (Wang and Isola
    2020, https://arxiv.org/abs/2005.10242): 0 where they agree, 2 where they are orthogonal.

    A row that is 0 in both views agrees; one that is 0 in one view counts as orthogonal. 0 where
    there are no rows.

    Args:
        first: rows of one view [M, D].
        second: the same rows in the other view [M, D].
    """
    a, b = (rows.to(torch.float64) for rows in (first, second))
    if a.shape[0] == 0:
        return 0.0
    a_norm, b_norm = a.norm(dim=1), b.norm(dim=1)
    both = (a_norm > 0) & (b_norm > 0)
    scale = torch.where(both, a_norm * b_norm, torch.ones_like(a_norm))
    cosine = torch.where((a_norm == 0) & (b_norm == 0), 1.0, (a * b).sum(1) / scale)
    return float((2 - 2 * cosine).clamp(min=0).mean())


def recovery(start: Tensor, rows: Tensor) -> float:
    """The share of the variance of the untrained embedding that a linear map of the present one
    still predicts: R2 of ridge regression, fitted on one half of the rows, on the other half.

    1 where the embedding still contains, up to a linear map, what it began with; 0 and below where
    that is lost. The columns of both are standardised over the first half, and clipped at 5
    standard deviations; constant ones are left out.

    Args:
        start: rows of the untrained encoder [M, D'].
        rows: the same rows of the present one [M, D].
    """
    if rows.shape[0] < MIN_ROWS:
        return 1.0
    half = rows.shape[0] // 2
    target, source = _standardised(start, half), _standardised(rows, half)
    if target.shape[1] == 0:
        return 1.0
    if source.shape[1] == 0:
        return 0.0
    kernel = source @ source[:half].T
    # A share of the mean eigenvalue of the training rows' kernel.
    ridge = _RIDGE * torch.trace(kernel[:half]) / half
    system = kernel[:half] + ridge * torch.eye(half, dtype=kernel.dtype)
    predicted = kernel[half:] @ torch.linalg.solve(system, target[:half])
    error = (target[half:] - predicted).square().sum()
    return float(1 - error / target[half:].square().sum())


def _deviations(rows: Tensor) -> Tensor:
    """The standard deviation of each column, float64 [D]."""
    return rows.to(torch.float64).std(0, correction=0)


def _standardised(rows: Tensor, half: int) -> Tensor:
    """Columns with mean 0 and variance 1 over the first rows, without constant ones, clipped."""
    exact = rows.to(torch.float64)
    std = _deviations(exact[:half])
    kept = std > CONSTANT * std.max()
    values = (exact[:, kept] - exact[:half, kept].mean(0)) / std[kept]
    return values.clamp(-_CLIP, _CLIP)
