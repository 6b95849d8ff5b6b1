"""How much own features and neighbourhood averages say about latent features, by direction.

The model is the paper's: observed features are z = f + noise, where f are latent features and the
noise of a node is independent of everything else. In a principal direction k of the features, let
v_k be the variance of z, phi_k the share of it that is f (reliability), s an average over nodes
around, M z, with variance u_k, and c_k the covariance of z and s. Since the noise of other nodes is
independent of f, and a node's own noise enters its average with weight g = mean_i M_ii,

    cov(f, z) = phi_k v_k,      cov(f, s) = c_k - g (1 - phi_k) v_k,

and the best linear estimates of f (Wiener filters) are a_k z + b_k s from both, with

    [v_k  c_k] [a_k]   [cov(f, z)]
    [c_k  u_k] [b_k] = [cov(f, s)],

and cov(f, s) / u_k s from the average alone. No labels are needed: phi_k = r_k / p, with r_k the
correlation of neighbours in direction k and p the homophily (similarity.py). docs/theory.md has the
details. Legend: N nodes, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.nn.similarity import NeighbourSimilarity, neighbour_similarity, two_way
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.ops.svd import with_fixed_signs

SHARE_RANGE = (0.25, 0.9)
"""Share of the variance of both blocks that the averages have, at least and at most."""
RESTART, STEPS = 0.25, 8
"""Averages are over walks that end before each of up to STEPS steps with probability RESTART.

0.15 with 10 steps is as good or up to 0.7 points worse on five parts of the named sets.
"""
UNRELATED_SHARE, UNLIKE_SHARE = 0.1, 0.3
"""The same where neighbours are as alike as any two nodes, and where they are less alike."""
COORDINATE_SHARE = (0.1, 0.4)
"""Variance of coordinates, where features and averages have 1: where averages are mostly signal,
and where they are mostly noise."""
_SIGNAL = 0.05
"""Signal-to-noise ratio of a mean over neighbours at which coordinates are half way between.

It is of all directions together, while the signal of a few classes is in a few directions only.
"""
FLOOR = 0.3
"""A direction's weight is at least this part of the mean weight: labels may depend on it."""
_SMALLEST_HOMOPHILY = 0.05
_LARGEST_RELIABILITY = 0.95
# Own features and averages that are nearly collinear count as correlated by sqrt(1 - this).
_CONDITION = 1e-3
# Up to so many nodes the diagonal of the averages is exact, beyond from so many random vectors.
_EXACT_NODES, _PROBES = 1024, 64
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
        coordinates: the variance that coordinates are to have beside them.
        steps: weights of z, A z, A A z ... in the averages [STEPS + 1].
    """

    directions: Tensor
    own: Tensor
    averaged: Tensor
    share: float
    coordinates: float
    steps: Tensor


def averages(matrix: SparseMatrix, rows: Tensor, steps: Tensor) -> Tensor:
    """The sum of `steps[j]` A^j `rows`."""
    found, walked = steps[0] * rows, rows
    last = max(torch.nonzero(steps).flatten().tolist(), default=0)
    for weight in steps[1 : last + 1]:
        walked = matrix.multiply(walked)
        found = found + weight * walked
    return found


def latent_estimate(
    z: Tensor, matrix: SparseMatrix, *, generator: torch.Generator
) -> LatentEstimate:
    """The weights for features and their averages.

    The averages are over walks with restart, of which a quarter or more stay at the node: they are
    an estimate of f by themselves, and the weights of directions in them are those of one. How much
    own features count beside them follows from the estimate of f from z and averages over two
    steps; of the share of own features, averages get the part p (1 - phi^2) as well, since labels
    depend more on what neighbours share than on the rest of f. Where neighbours are not
    significantly alike, nothing can be estimated: all directions have the same weight, and averages
    are over two steps.

    Args:
        z: features [N, D].
        matrix: A, [N, N].
        generator: of the estimated trace of a large matrix, on the CPU.
    """
    two_steps = torch.eye(STEPS + 1)[2].to(z)
    similarity = neighbour_similarity(z, matrix)
    coordinates = _coordinate_share(similarity)
    if not similarity.significant:
        share = UNLIKE_SHARE if similarity.unlike else UNRELATED_SHARE
        ones = z.new_ones(z.shape[1])
        directions = torch.eye(len(ones)).to(ones)
        return LatentEstimate(directions, ones, ones, share, coordinates, two_steps)
    moments = _moments(z, matrix)
    phi = _reliability(moments, similarity)
    noise = (1 - phi) * moments.own
    near = _average(averages(matrix, z, two_steps), moments)
    returned = float(two_way(matrix, matrix.value.to(torch.float64))) / len(z)
    own, averaged = _from_both(moments, near, phi, near.both - returned * noise)
    parts = [
        float((weight.square() * variance).sum())
        for weight, variance in ((own, moments.own), (averaged, near.variance))
    ]
    low, high = SHARE_RANGE
    share = min(max(parts[1] / sum(parts), low), high) if sum(parts) > 0 else low
    noisy = 1 - similarity.reliability**2
    share = min(share + (1 - share) * similarity.homophily * noisy, high)
    steps = walk_with_restart().to(z)
    far = _average(averages(matrix, z, steps), moments)
    with_far = (far.both - _returning(matrix, steps, generator=generator) * noise).clamp(min=0)
    alone = torch.where(far.variance > 0, with_far / far.variance.clamp(min=1e-300), 0.0)
    return LatentEstimate(
        moments.directions.to(z.dtype),
        _floored(own, moments.own).to(z.dtype),
        _floored(alone, far.variance).to(z.dtype),
        share,
        coordinates,
        steps,
    )


def _coordinate_share(similarity: NeighbourSimilarity) -> float:
    """The less averages of features say, the more is left to the edges alone."""
    low, high = COORDINATE_SHARE
    return low + (high - low) * _SIGNAL / (_SIGNAL + similarity.signal_to_noise)


def walk_with_restart() -> Tensor:
    """The weights of z, A z ... up to STEPS steps: RESTART (1 - RESTART)^j, of sum 1."""
    weights = (1 - RESTART) ** torch.arange(STEPS + 1, dtype=torch.float64)
    return weights / weights.sum()


def _from_both(
    moments: _Moments, near: _Average, phi: Tensor, with_averages: Tensor
) -> tuple[Tensor, Tensor]:
    """a_k and b_k of all directions, at least 0."""
    with_own = phi * moments.own
    scale = moments.own * near.variance
    determinant = (scale - near.both.square()).clamp(min=_CONDITION * scale)
    used = scale > 0
    own = (with_own * near.variance - with_averages * near.both) / determinant
    averaged = (with_averages * moments.own - with_own * near.both) / determinant
    own = torch.where(used, own, with_own / moments.own.clamp(min=1e-300)).clamp(min=0)
    return own, torch.where(used, averaged, 0.0).clamp(min=0)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Principal directions [D, D], and the variances of features in each of them [D], float64.

    `centred` are the features minus their mean [N, D], `neighbours` the correlation of neighbours
    and `deviation` its standard deviation by chance.
    """

    centred: Tensor
    directions: Tensor
    own: Tensor
    neighbours: Tensor
    deviation: float


@dataclass(frozen=True, eq=False)
class _Average:
    """The variance of averages in each direction [D], and their covariance with the features."""

    variance: Tensor
    both: Tensor


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.to(torch.float64).mean(0).to(rows.dtype)


def _along(directions: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The inner products of a and b in each direction [D]."""
    product = (a.T @ b).to(torch.float64)
    return torch.einsum("ik,ij,jk->k", directions, product, directions)


def _moments(z: Tensor, matrix: SparseMatrix) -> _Moments:
    centred = _centred(z)
    weight = matrix.value.to(torch.float64) * (matrix.row != matrix.col)
    edges = SparseMatrix(matrix.crow, matrix.col, weight.to(z.dtype), matrix.shape)
    product = (centred.T @ centred).to(torch.float64)
    directions = with_fixed_signs(torch.linalg.eigh(product)[1].flip(1))
    own = _along(directions, centred, centred).clamp(min=0) / len(z)
    # Rounding errors are no variance.
    own = torch.where(own > _ROUNDING * own.amax(), own, 0.0)
    total = weight.sum() * torch.where(own > 0, own, 1.0)
    neighbours = _along(directions, centred, edges.multiply(centred)) / total
    deviation = float((weight.square().sum() + two_way(matrix, weight)).sqrt() / weight.sum())
    neighbours = torch.where(own > 0, neighbours, 0.0)
    return _Moments(centred, directions, own, neighbours, deviation)


def _average(rows: Tensor, moments: _Moments) -> _Average:
    smooth = _centred(rows)
    variance = _along(moments.directions, smooth, smooth).clamp(min=0) / len(rows)
    used = (variance > _ROUNDING * variance.amax()) & (moments.own > 0)
    both = _along(moments.directions, moments.centred, smooth) / len(rows)
    return _Average(torch.where(used, variance, 0.0), torch.where(used, both, 0.0))


def _reliability(moments: _Moments, similarity: NeighbourSimilarity) -> Tensor:
    """phi_k of every direction [D]; correlations are shrunk to their mean as far as chance goes."""
    variance, mean = moments.own / moments.own.sum(), similarity.neighbours
    spread = float(((moments.neighbours - mean).square() * variance).sum())
    chance = moments.deviation**2
    kept = max(spread - chance, 0.0) / max(spread, chance, 1e-300)
    correlation = kept * moments.neighbours + (1 - kept) * mean
    homophily = max(similarity.homophily, mean, _SMALLEST_HOMOPHILY)
    return (correlation / homophily).clamp(0, _LARGEST_RELIABILITY)


def _returning(matrix: SparseMatrix, steps: Tensor, *, generator: torch.Generator) -> float:
    """The mean of the diagonal of sum_j `steps[j]` A^j: exactly, or estimated for many nodes.

    The estimate (Hutchinson's) is the mean of <e, M e> over vectors e of random signs.
    """
    size = matrix.shape[0]
    exact = size <= _EXACT_NODES
    if exact:
        probes = torch.eye(size)
    else:
        probes = 2.0 * torch.randint(0, 2, (size, _PROBES), generator=generator) - 1
    probes = probes.to(matrix.value)
    total = (probes * averages(matrix, probes, steps)).to(torch.float64).sum()
    return float(total) / (size if exact else size * _PROBES)


def _floored(weight: Tensor, variance: Tensor) -> Tensor:
    """The weights, each at least FLOOR times their mean weighted by what they weigh; 1 for zeros"""
    total = float((weight * variance).sum())
    if not total > 0:
        return torch.ones_like(weight)
    mean = float((weight.square() * variance).sum()) / total
    return (weight / mean).clamp(min=FLOOR)
