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
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from graphlatent.nn.similarity import (
    NeighbourSimilarity,
    NeighbourSums,
    neighbour_sums,
    similarity_of,
    two_way,
)
from graphlatent.ops.collective import current, gathered_json, rank
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


class Surroundings(Protocol):
    """What `estimate_of` needs of features z [N, D] and A, from memory or from blocks of rows.

    Products are float64 [D, D]; in them rows have had their mean subtracted.
    """

    num_nodes: int
    like: Tensor
    """Any tensor of the type and on the device of the result."""

    @property
    def sums(self) -> NeighbourSums:
        """Of features and A."""

    @property
    def own(self) -> Tensor:
        """z^T z."""

    @property
    def neighbours(self) -> Tensor:
        """z^T A z without the diagonal of A."""

    def averaged(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """s^T s and z^T s of the averages s with the weights `steps` [STEPS + 1]."""

    def two_step_trace(self) -> float:
        """The trace of A A."""

    def trace(self, steps: Tensor, probes: Probes) -> float:
        """The sum over random vectors e of <e, M e>, with M the sum of `steps[j]` A^j."""


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
    return estimate_of(_InMemory(z, matrix), generator=generator)


def estimate_of(around: Surroundings, *, generator: torch.Generator) -> LatentEstimate:
    """`latent_estimate` from sums and products."""
    like, size = around.like, around.num_nodes
    two_steps = torch.eye(STEPS + 1)[2].to(like)
    similarity = similarity_of(around.sums)
    coordinates = _coordinate_share(similarity)
    if not similarity.significant:
        share = UNLIKE_SHARE if similarity.unlike else UNRELATED_SHARE
        ones = like.new_ones(len(around.sums.gram))
        directions = torch.eye(len(ones)).to(ones)
        return LatentEstimate(directions, ones, ones, share, coordinates, two_steps)
    moments = _moments(around)
    phi = _reliability(moments, similarity)
    noise = (1 - phi) * moments.own
    near = _average(around.averaged(two_steps), moments, size)
    returned = around.two_step_trace() / size
    own, averaged = _from_both(moments, near, phi, near.both - returned * noise)
    parts = [
        float((weight.square() * variance).sum())
        for weight, variance in ((own, moments.own), (averaged, near.variance))
    ]
    low, high = SHARE_RANGE
    share = min(max(parts[1] / sum(parts), low), high) if sum(parts) > 0 else low
    noisy = 1 - similarity.reliability**2
    share = min(share + (1 - share) * similarity.homophily * noisy, high)
    steps = walk_with_restart().to(like)
    far = _average(around.averaged(steps), moments, size)
    probes = Probes(size, generator)
    returning = around.trace(steps, probes) / probes.count
    with_far = (far.both - returning * noise).clamp(min=0)
    alone = torch.where(far.variance > 0, with_far / far.variance.clamp(min=1e-300), 0.0)
    return LatentEstimate(
        moments.directions.to(like.dtype),
        _floored(own, moments.own).to(like.dtype),
        _floored(alone, far.variance).to(like.dtype),
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

    `neighbours` are the correlations of neighbours and `deviation` their standard deviation by
    chance.
    """

    directions: Tensor
    own: Tensor
    neighbours: Tensor
    deviation: float


@dataclass(frozen=True, eq=False)
class _Average:
    """The variance of averages in each direction [D], and their covariance with the features."""

    variance: Tensor
    both: Tensor


class _InMemory:
    """The `Surroundings` of features and a matrix in memory."""

    def __init__(self, z: Tensor, matrix: SparseMatrix) -> None:
        self.z, self.matrix = z, matrix
        self.num_nodes, self.like = len(z), z

    @cached_property
    def sums(self) -> NeighbourSums:
        return neighbour_sums(self.z, self.matrix)

    @cached_property
    def centred(self) -> Tensor:
        return _centred(self.z)

    @property
    def own(self) -> Tensor:
        return _product(self.centred, self.centred)

    @property
    def neighbours(self) -> Tensor:
        matrix = self.matrix
        weight = matrix.value.to(torch.float64) * (matrix.row != matrix.col)
        edges = SparseMatrix(matrix.crow, matrix.col, weight.to(self.z.dtype), matrix.shape)
        return _product(self.centred, edges.multiply(self.centred))

    def averaged(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        smooth = _centred(averages(self.matrix, self.z, steps))
        return _product(smooth, smooth), _product(self.centred, smooth)

    def two_step_trace(self) -> float:
        return float(two_way(self.matrix, self.matrix.value.to(torch.float64)))

    def trace(self, steps: Tensor, probes: Probes) -> float:
        rows = probes.rows(self.num_nodes).to(self.matrix.value)
        return float((rows * averages(self.matrix, rows, steps)).to(torch.float64).sum())


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.to(torch.float64).mean(0).to(rows.dtype)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return (a.T @ b).to(torch.float64)


def _along(directions: Tensor, product: Tensor) -> Tensor:
    """The entries of a product in each direction [D]."""
    return torch.einsum("ik,ij,jk->k", directions, product, directions)


def _moments(around: Surroundings) -> _Moments:
    product = around.own
    directions = with_fixed_signs(torch.linalg.eigh(product)[1].flip(1))
    own = _along(directions, product).clamp(min=0) / around.num_nodes
    # Rounding errors are no variance.
    own = torch.where(own > _ROUNDING * own.amax(), own, 0.0)
    total = around.sums.weight * torch.where(own > 0, own, 1.0)
    neighbours = _along(directions, around.neighbours) / total
    neighbours = torch.where(own > 0, neighbours, 0.0)
    return _Moments(directions, own, neighbours, float(around.sums.deviation))


def _average(products: tuple[Tensor, Tensor], moments: _Moments, num_nodes: int) -> _Average:
    smooth, both = (_along(moments.directions, each) for each in products)
    variance = smooth.clamp(min=0) / num_nodes
    used = (variance > _ROUNDING * variance.amax()) & (moments.own > 0)
    return _Average(torch.where(used, variance, 0.0), torch.where(used, both / num_nodes, 0.0))


def _reliability(moments: _Moments, similarity: NeighbourSimilarity) -> Tensor:
    """phi_k of every direction [D]; correlations are shrunk to their mean as far as chance goes."""
    variance, mean = moments.own / moments.own.sum(), similarity.neighbours
    spread = float(((moments.neighbours - mean).square() * variance).sum())
    chance = moments.deviation**2
    kept = max(spread - chance, 0.0) / max(spread, chance, 1e-300)
    correlation = kept * moments.neighbours + (1 - kept) * mean
    homophily = max(similarity.homophily, mean, _SMALLEST_HOMOPHILY)
    return (correlation / homophily).clamp(0, _LARGEST_RELIABILITY)


class Probes:
    """The vectors e whose mean <e, M e> is the mean of the diagonal of M.

    They are the unit vectors, or for many nodes an estimate from random signs (Hutchinson's).

    Args:
        size: number of nodes, N.
        generator: of the signs, on the CPU.
    """

    def __init__(self, size: int, generator: torch.Generator) -> None:
        self.exact = size <= _EXACT_NODES
        self.size, self.generator, self._drawn = size, generator, 0
        self.width = size if self.exact else _PROBES
        self.count = size if self.exact else size * _PROBES

    def of_process(self, count: int) -> Probes:
        """Those of this process, which has `count` of the nodes: the entries of other vectors."""
        if current() is None:
            return self
        own = Probes(self.size, self.generator)
        own._drawn = sum(gathered_json(count)[: rank()])
        if not self.exact:
            seed = int(torch.randint(2**62, (), generator=self.generator))
            own.generator = torch.Generator().manual_seed(seed + rank())
        return own

    def rows(self, count: int) -> Tensor:
        """The next `count` rows of the matrix [N, width] whose columns are the vectors."""
        start, self._drawn = self._drawn, self._drawn + count
        if self.exact:
            return torch.eye(self.size)[start : start + count]
        return 2.0 * torch.randint(0, 2, (count, _PROBES), generator=self.generator) - 1


def _floored(weight: Tensor, variance: Tensor) -> Tensor:
    """The weights, each at least FLOOR times their mean weighted by what they weigh; 1 for zeros"""
    total = float((weight * variance).sum())
    if not total > 0:
        return torch.ones_like(weight)
    mean = float((weight.square() * variance).sum()) / total
    return (weight / mean).clamp(min=FLOOR)
