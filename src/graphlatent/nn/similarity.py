"""How similar the features of neighbours are, and what follows for training.

Without labels, two correlations tell good edges from good features (docs/theory.md): that of the
rows of two neighbours, and that of two neighbours of one node. Legend: N nodes, F features, D
columns.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor

from graphlatent.data.measurements import FEW, are_measurements, count_nonzero
from graphlatent.ops.collective import alone, current, summed, total_of
from graphlatent.ops.sparse import SparseMatrix, multiply, to_dense, unit_rows

VARIANCE_RANGE = (0.05, 1.0)
"""Share of the variance term's weight: half of the squared signal-to-noise ratio, in this range.

The variance term gives all directions of an embedding the same weight. Where averages over
neighbours are mostly signal this keeps weak signals; where they are mostly noise it amplifies it.
"""
_SIGNIFICANT, _UNLIKE = 2.0, -3.0
"""Standard deviations above which neighbours count as similar, and below which as unlike.

Features that have nothing to do with the edges lose more from the second error than the first.
"""
_PROJECTED = 128
"""Random directions that many features are projected to where an estimate is enough."""


@dataclass(frozen=True)
class NeighbourSimilarity:
    """How similar the features of neighbours are, and what that says about features and edges.

    Suppose that a share `reliability` of the variance of the features belongs to classes, the rest
    is noise of each node, and a share `homophily` of the edges stays in a class while the others
    lead anywhere. Then the rows of two neighbours have the correlation homophily * reliability, and
    those of two neighbours of one node homophily^2 * reliability, so that both can be computed.

    Args:
        neighbours: correlation of the rows of two neighbours, weighted by the edges.
        siblings: the same of two different neighbours of one node.
        deviations: `neighbours` in standard deviations of rows that are independent of the edges.
        degree: mean number of neighbours.
    """

    neighbours: float
    siblings: float
    deviations: float
    degree: float

    @property
    def significant(self) -> bool:
        """Whether neighbours are more alike than they are by chance."""
        return self.deviations > _SIGNIFICANT

    @property
    def unlike(self) -> bool:
        """Whether neighbours are less alike than they are by chance."""
        return self.deviations < _UNLIKE

    @property
    def homophily(self) -> float:
        """The share of the edges that stay in a class; NaN where neighbours are not alike."""
        return min(max(self.siblings / self.neighbours, 0.0), 1.0) if self.significant else nan

    @property
    def reliability(self) -> float:
        """The share of the variance of features that belongs to classes; NaN as above."""
        if not self.significant:
            return nan
        return min(self.neighbours / self.homophily, 1.0) if self.homophily > 0 else 1.0

    @property
    def signal_to_noise(self) -> float:
        """Of the mean over a node's neighbours; 0 where neighbours are not alike.

        The mean over d neighbours has the signal homophily^2 * reliability and the noise
        (1 - reliability) / d.
        """
        if not self.significant:
            return 0.0
        # Features without noise would make it infinite.
        noise = max(1 - self.reliability, 0.01)
        return self.homophily**2 * self.reliability * self.degree / noise

    @property
    def variance_share(self) -> float:
        """The share of its weight that the variance term of the training has on this graph."""
        low, high = VARIANCE_RANGE
        return min(max(self.signal_to_noise**2 / 2, low), high)


@dataclass(frozen=True, eq=False)
class NeighbourSums:
    """What `neighbour_similarity` needs of a graph: float64 scalars, but for `gram`.

    Args:
        num_nodes: N.
        num_entries: entries a_ij that are not 0.
        products: sum of a_ij <u_i, u_j>.
        around: sum over i of the squared norms of sum_j a_ij u_j.
        ends: sum of a_ij^2 <u_j, u_j>.
        weight: sum of a_ij.
        weights_of_rows: sum over i of (sum_j a_ij)^2.
        squared: sum of a_ij^2.
        two_way: sum of a_ij a_ji.
        square: mean of <u_i, u_i>.
        gram: sum of u_i u_i^T, [D, D].
    """

    num_nodes: int
    num_entries: int
    products: Tensor
    around: Tensor
    ends: Tensor
    weight: Tensor
    weights_of_rows: Tensor
    squared: Tensor
    two_way: Tensor
    square: Tensor
    gram: Tensor

    @property
    def deviation(self) -> Tensor:
        """Standard deviation of a column's correlation of neighbours, by chance."""
        return (self.squared + self.two_way).sqrt() / self.weight


def feature_similarity(
    x: Tensor | SparseMatrix,
    matrix: SparseMatrix,
    *,
    generator: torch.Generator,
    shared: bool = False,
) -> NeighbourSimilarity:
    """An estimate of the similarity of neighbours from features of any kind.

    Few features have each column divided by its root mean square, words have unit rows, others are
    as they are. Many are projected to random directions, which keeps inner products on average.

    Args:
        x: features [N, F].
        matrix: [N, N]; its diagonal is not used.
        generator: of the projection, on the CPU.
        shared: several processes have different nodes, with the edges between those, and the
            estimate is for all.
    """
    with nullcontext() if shared else alone():
        return neighbour_similarity(_comparable(x, generator), matrix)


def _comparable(x: Tensor | SparseMatrix, generator: torch.Generator) -> Tensor:
    """The rows whose similarity is measured, as `feature_similarity` says."""
    if x.shape[1] <= FEW:
        dense = to_dense(x)
        square = _mean(dense.to(torch.float64).square())
        scale = torch.where(square > 0, square, 1.0).rsqrt()
        return dense * scale.to(dense.dtype)
    shape = (total_of(x.shape[0]), x.shape[1])
    measured = are_measurements(total_of(count_nonzero(x)), shape)
    rows = x if measured else unit_rows(x)
    if x.shape[1] <= _PROJECTED:
        return to_dense(rows)
    directions = torch.randn(x.shape[1], _PROJECTED, generator=generator)
    directions = directions.to(device=x.device, dtype=x.dtype)
    return multiply(rows, directions)


def neighbour_similarity(rows: Tensor, matrix: SparseMatrix) -> NeighbourSimilarity:
    """The correlations of the rows of neighbours: Moran's I summed over columns.

    With u_i the rows minus their mean, and their mean square divided out, they are the averages of
    <u_i, u_j> with weights a_ij over i != j, and of <u_j, u_k> with weights a_ij a_ik over
    different j and k that are not i. Where no node has two neighbours, both are the same. The
    neighbours of a node i of a directed graph are those of row i.

    For independent rows with covariance C, the sum of a_ij <u_i, u_j> has the variance
    sum_ij (a_ij^2 + a_ij a_ji) |C|^2, as both directions of an edge multiply the same rows.

    Args:
        rows: [N, D].
        matrix: a, [N, N]; its diagonal is not used.
    """
    return similarity_of(neighbour_sums(rows, matrix))


def neighbour_sums(rows: Tensor, matrix: SparseMatrix) -> NeighbourSums:
    """What the correlations of `neighbour_similarity` are computed from, over all processes."""
    exact = rows.to(torch.float64)
    centred = exact - _mean(exact)
    squares = centred.square().sum(1)
    row, col = matrix.row, matrix.col
    value = matrix.value.to(torch.float64) * (row != col)

    def sums(values: Tensor) -> Tensor:
        return values.new_zeros(len(rows)).index_add(0, row, values)

    edges = SparseMatrix(matrix.crow, col, value.to(rows.dtype), matrix.shape)
    around = edges.multiply(centred.to(rows.dtype)).to(torch.float64)
    return NeighbourSums(
        num_nodes=total_of(len(rows)),
        num_entries=total_of(int((value != 0).sum())),
        products=summed((centred * around).sum()),
        around=summed(around.square().sum()),
        ends=summed((value.square() * squares[col]).sum()),
        weight=summed(value.sum()),
        weights_of_rows=summed(sums(value).square().sum()),
        squared=summed(value.square().sum()),
        two_way=summed(two_way(matrix, value)),
        square=_mean(squares),
        gram=summed(centred.T @ centred),
    )


def _mean(rows: Tensor) -> Tensor:
    """The mean of the rows of all processes."""
    if current() is None:
        return rows.mean(0)
    return summed(rows.sum(0)) / total_of(len(rows))


def similarity_of(sums: NeighbourSums) -> NeighbourSimilarity:
    """The correlations of `neighbour_similarity` from the sums of a graph."""
    of_siblings, pairs = sums.around - sums.ends, sums.weights_of_rows - sums.squared
    covariance = sums.gram / max(sums.num_nodes, 1)
    squared = sums.squared + sums.two_way
    deviation = (squared * covariance.square().sum()).sqrt()
    degree = sums.num_entries / max(sums.num_nodes, 1)
    if not bool(deviation > 0):
        return NeighbourSimilarity(0.0, 0.0, 0.0, degree)
    correlation = float(sums.products / sums.weight / sums.square)
    # Rounding errors of graphs in which no node has two neighbours are no pairs.
    has_pairs = bool(pairs > 1e-6 * sums.squared)
    siblings = float(of_siblings / pairs / sums.square) if has_pairs else correlation
    return NeighbourSimilarity(correlation, siblings, float(sums.products / deviation), degree)


def two_way(matrix: SparseMatrix, value: Tensor) -> Tensor:
    """The sum of a_ij a_ji, a float64 scalar: the trace of A A.

    Args:
        matrix: where the entries are, [N, N].
        value: a, float64, one for each stored entry; symmetric where the matrix is.
    """
    if matrix.symmetric:
        return value.square().sum()
    size = matrix.shape[0]
    key, order = torch.sort(matrix.row * size + matrix.col)
    back = matrix.col * size + matrix.row
    place = torch.searchsorted(key, back).clamp(max=max(len(key) - 1, 0))
    total: Tensor = (value * value[order][place] * (key[place] == back)).sum()
    return total
