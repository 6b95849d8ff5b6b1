"""How much own features and neighbourhood averages say about latent features, by direction.

The model is the paper's: observed features are z = f + noise, where f are latent features and the
noise of a node is independent of everything else. In a principal direction k of the features, let
v_k be the variance of z, phi_k the share of it that is f (reliability), s the 2-hop averages
A A z with variance u_k, and c_k the covariance of z and s. Since the noise of other nodes is
independent of f, and a node's own noise enters its average with weight g = mean_i (A A)_ii,

    cov(f, z) = phi_k v_k,      cov(f, s) = c_k - g (1 - phi_k) v_k,

and the best linear estimate of f (a Wiener filter) is a_k z + b_k s with

    [v_k  c_k] [a_k]   [cov(f, z)]
    [c_k  u_k] [b_k] = [cov(f, s)].

No labels are needed: phi_k = r_k / p, with r_k the correlation of neighbours in direction k and p
the homophily (similarity.py). docs/theory.md has the details. Legend: N nodes, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.nn.similarity import NeighbourSimilarity, neighbour_similarity, two_way
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.ops.svd import with_fixed_signs

SHARE_RANGE = (0.25, 0.8)
"""Share of the variance of both blocks that the averages have, at least and at most."""
UNRELATED_SHARE, UNLIKE_SHARE = 0.1, 0.3
"""The same where neighbours are as alike as any two nodes, and where they are less alike."""
FLOOR = 0.3
"""A direction's weight is at least this part of the mean weight: labels may depend on it."""
_SMALLEST_HOMOPHILY = 0.05
_LARGEST_RELIABILITY = 0.95
# Own features and averages that are nearly collinear count as correlated by sqrt(1 - this).
_CONDITION = 1e-3
# Variances below this part of the largest one are 0.
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class LatentEstimate:
    """Weights of own features and averages that estimate latent features.

    Args:
        directions: principal directions of the features, orthonormal columns [D, D].
        own: the weight of own features in each direction [D].
        averaged: the weight of averages in each direction [D].
        share: the averages' share of the variance of both, to which their blocks are to be scaled.
    """

    directions: Tensor
    own: Tensor
    averaged: Tensor
    share: float


def latent_estimate(z: Tensor, averages: Tensor, matrix: SparseMatrix) -> LatentEstimate:
    """The weights for features and their averages.

    Where neighbours are not significantly alike, nothing can be estimated: all directions have the
    same weight.

    Args:
        z: features [N, D].
        averages: A A z, [N, D].
        matrix: A, [N, N].
    """
    similarity = neighbour_similarity(z, matrix)
    if not similarity.significant:
        share = UNLIKE_SHARE if similarity.unlike else UNRELATED_SHARE
        ones = z.new_ones(z.shape[1])
        return LatentEstimate(torch.eye(len(ones)).to(ones), ones, ones, share)
    moments = _moments(z, averages, matrix)
    phi = _reliability(moments, similarity)
    with_own = phi * moments.own
    returned = float(two_way(matrix, matrix.value.to(torch.float64))) / z.shape[0]
    with_averages = moments.both - returned * (1 - phi) * moments.own
    scale = moments.own * moments.averaged
    determinant = (scale - moments.both.square()).clamp(min=_CONDITION * scale)
    used = scale > 0
    own = (with_own * moments.averaged - with_averages * moments.both) / determinant
    averaged = (with_averages * moments.own - with_own * moments.both) / determinant
    own = torch.where(used, own, with_own / moments.own.clamp(min=1e-300)).clamp(min=0)
    averaged = torch.where(used, averaged, 0.0).clamp(min=0)
    parts = [
        float((weight.square() * variance).sum())
        for weight, variance in ((own, moments.own), (averaged, moments.averaged))
    ]
    low, high = SHARE_RANGE
    share = min(max(parts[1] / sum(parts), low), high) if sum(parts) > 0 else low
    weights = [
        _floored(weight, variance).to(z.dtype)
        for weight, variance in ((own, moments.own), (averaged, moments.averaged))
    ]
    return LatentEstimate(moments.directions.to(z.dtype), weights[0], weights[1], share)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Principal directions [D, D], and variances and covariances in each of them [D], float64.

    `own` and `averaged` are the variances of features and averages, `both` their covariance,
    `neighbours` the correlation of neighbours and `deviation` its standard deviation by chance.
    """

    directions: Tensor
    own: Tensor
    averaged: Tensor
    both: Tensor
    neighbours: Tensor
    deviation: float


def _moments(z: Tensor, averages: Tensor, matrix: SparseMatrix) -> _Moments:
    num_nodes = z.shape[0]
    centred, smooth = (rows - rows.to(torch.float64).mean(0).to(z.dtype) for rows in (z, averages))
    weight = matrix.value.to(torch.float64) * (matrix.row != matrix.col)
    edges = SparseMatrix(matrix.crow, matrix.col, weight.to(z.dtype), matrix.shape)
    pairs = {
        "own": (centred, centred),
        "averaged": (smooth, smooth),
        "both": (centred, smooth),
        "neighbours": (centred, edges.multiply(centred)),
    }
    products = {name: (a.T @ b).to(torch.float64) for name, (a, b) in pairs.items()}
    directions = with_fixed_signs(torch.linalg.eigh(products["own"])[1].flip(1))
    along = {
        name: torch.einsum("ik,ij,jk->k", directions, product, directions)
        for name, product in products.items()
    }
    own = along["own"].clamp(min=0) / num_nodes
    averaged = along["averaged"].clamp(min=0) / num_nodes
    # Rounding errors are no variance.
    own = torch.where(own > _ROUNDING * own.amax(), own, 0.0)
    averaged = torch.where((averaged > _ROUNDING * averaged.amax()) & (own > 0), averaged, 0.0)
    neighbours = along["neighbours"] / (weight.sum() * torch.where(own > 0, own, 1.0))
    return _Moments(
        directions,
        own,
        averaged,
        torch.where(averaged > 0, along["both"] / num_nodes, 0.0),
        torch.where(own > 0, neighbours, 0.0),
        float((weight.square().sum() + two_way(matrix, weight)).sqrt() / weight.sum()),
    )


def _reliability(moments: _Moments, similarity: NeighbourSimilarity) -> Tensor:
    """phi_k of every direction [D]; correlations are shrunk to their mean as far as chance goes."""
    variance, mean = moments.own / moments.own.sum(), similarity.neighbours
    spread = float(((moments.neighbours - mean).square() * variance).sum())
    chance = moments.deviation**2
    kept = max(spread - chance, 0.0) / max(spread, chance, 1e-300)
    correlation = kept * moments.neighbours + (1 - kept) * mean
    homophily = max(similarity.homophily, mean, _SMALLEST_HOMOPHILY)
    return (correlation / homophily).clamp(0, _LARGEST_RELIABILITY)


def _floored(weight: Tensor, variance: Tensor) -> Tensor:
    """The weights, each at least FLOOR times their mean weighted by what they weigh; 1 for zeros"""
    total = float((weight * variance).sum())
    if not total > 0:
        return torch.ones_like(weight)
    mean = float((weight.square() * variance).sum()) / total
    return (weight / mean).clamp(min=FLOOR)
