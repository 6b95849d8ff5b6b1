"""Principal components of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from graphlatent.errors import bad_argument
from graphlatent.explore.neighbours import check_count

Array = np.ndarray[Any, Any]


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

    By the eigenvectors of the D x D covariance, which also a single row has.
    """
    check_count(dim, name="dim", owner="reduced")
    if dim > rows.shape[1]:
        allowed = f"at most the width of the embeddings, {rows.shape[1]}"
        raise bad_argument("dim", owner="reduced", allowed=allowed, got=dim)
    values = torch.from_numpy(np.asarray(rows)).to(torch.float64)
    centred = values - values.mean(0)
    variance, vectors = torch.linalg.eigh(centred.T @ centred)
    variance, vectors = variance.flip(0)[:dim], vectors.flip(1)[:, :dim]
    sign = torch.sign(vectors.gather(0, vectors.abs().argmax(0, keepdim=True)))
    scores = (centred @ (vectors * sign)).to(torch.float32).numpy()
    total = float(centred.square().sum())
    share = (variance.clamp(min=0) / total if total > 0 else torch.zeros(dim)).numpy()
    return scores, share


def kept_variance(rows: Array, dim: int) -> float:
    """The share of the variance of the rows that their first `dim` components have."""
    return float(components(rows, dim)[1].sum())
