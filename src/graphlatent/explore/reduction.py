"""Principal components of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphlatent.errors import bad_argument
from graphlatent.explore.neighbours import check_count

Array = np.ndarray[Any, Any]
# Rows converted to float64 at a time
_BLOCK = 2**16


def principal_components(rows: Array, dim: int) -> Array:
    """The first `dim` principal components of the rows, float32 [M, dim].

    The sign of a component, which is arbitrary, is that with which its largest weight is positive.

    Args:
        rows: [M, D].
        dim: from 1 to D; components beyond the rank are 0.
    """
    scores, _ = components(rows, dim)
    return scores


def components(rows: Array, dim: int) -> tuple[Array, Array]:
    """Principal components, float32 [M, dim], and the share of the variance of each [dim].

    By the eigenvectors of the D x D covariance, which a single row has too.
    """
    check_count(dim, name="dim", owner="reduced")
    if dim > rows.shape[1]:
        allowed = f"at most the width of the embeddings, {rows.shape[1]}"
        raise bad_argument("dim", owner="reduced", allowed=allowed, got=dim)
    axes = principal_axes(rows)
    return axes.scores(rows, dim), axes.share[:dim]


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """The axes of principal components.

    Args:
        mean: of the rows, float64 [D].
        vectors: one column per axis, by descending variance, float64 [D, D].
        share: of the variance, of each axis [D].
    """

    mean: Array
    vectors: Array
    share: Array

    def scores(self, rows: Array, dim: int) -> Array:
        """The first `dim` components of rows, float32 [M, dim], a block of rows at a time."""
        found = np.empty((len(rows), dim), dtype=np.float32)
        for block in _blocks(len(rows)):
            found[block] = (rows[block].astype(np.float64) - self.mean) @ self.vectors[:, :dim]
        return found


def principal_axes(rows: Array) -> PrincipalAxes:
    """The axes of rows, from their covariance, which is summed a block of rows at a time."""
    mean: Array = np.asarray(rows.mean(axis=0, dtype=np.float64))
    scatter = np.zeros((rows.shape[1], rows.shape[1]))
    for block in _blocks(len(rows)):
        centred = rows[block].astype(np.float64) - mean
        scatter += centred.T @ centred
    variance, vectors = np.linalg.eigh(scatter)
    variance, vectors = variance[::-1].clip(min=0), vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    sign = np.sign(vectors[largest, np.arange(len(variance))])
    total = variance.sum()
    share = variance / total if total > 0 else np.zeros(len(variance))
    return PrincipalAxes(mean, vectors * sign, share)


def _blocks(num_rows: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, num_rows, _BLOCK)]


def kept_variance(rows: Array, dim: int) -> float:
    """The share of the variance of the rows that their first `dim` components have."""
    return float(components(rows, dim)[1].sum())
