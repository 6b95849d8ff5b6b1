"""How similar the features of neighbours are.

Without labels, two correlations tell good edges from good features (docs/theory.md): that of the
rows of two neighbours, and that of two neighbours of one node. Legend: N nodes, F features, D
columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor

from graphlatent.ops.sparse import SparseMatrix

_SIGNIFICANT = 2.0
"""Standard deviations above which neighbours count as similar."""


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
    """

    neighbours: float
    siblings: float
    deviations: float

    @property
    def significant(self) -> bool:
        """Whether neighbours are more alike than they are by chance."""
        return self.deviations > _SIGNIFICANT

    @property
    def unlike(self) -> bool:
        """Whether neighbours are less alike than they are by chance."""
        return self.deviations < -_SIGNIFICANT

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


def neighbour_similarity(rows: Tensor, matrix: SparseMatrix) -> NeighbourSimilarity:
    """The correlations of the rows of neighbours: Moran's I summed over columns.

    With u_i the rows minus their mean, and their mean square divided out, they are the averages of
    <u_i, u_j> with weights a_ij over i != j, and of <u_j, u_k> with weights a_ij a_ik over
    different j and k that are not i. Where no node has two neighbours, both are the same.

    Args:
        rows: [N, D].
        matrix: a, symmetric [N, N]; its diagonal is not used.
    """
    exact = rows.to(torch.float64)
    centred = exact - exact.mean(0)
    squares = centred.square().sum(1)
    row, col = matrix.row, matrix.col
    value = matrix.value.to(torch.float64) * (row != col)

    def sums(values: Tensor) -> Tensor:
        return values.new_zeros(len(rows)).index_add(0, row, values)

    edges = SparseMatrix(matrix.crow, col, value.to(rows.dtype), matrix.shape)
    around = edges.multiply(centred.to(rows.dtype)).to(torch.float64)
    total, weight = (centred * around).sum(), value.sum()
    of_siblings = around.square().sum() - (value.square() * squares[col]).sum()
    pairs = sums(value).square().sum() - value.square().sum()
    covariance = centred.T @ centred / max(len(rows), 1)
    deviation = (2 * value.square().sum() * covariance.square().sum()).sqrt()
    if not bool(deviation > 0):
        return NeighbourSimilarity(0.0, 0.0, 0.0)
    correlation = float(total / weight / squares.mean())
    # Rounding errors of graphs in which no node has two neighbours are no pairs.
    has_pairs = bool(pairs > 1e-6 * value.square().sum())
    siblings = float(of_siblings / pairs / squares.mean()) if has_pairs else correlation
    return NeighbourSimilarity(correlation, siblings, float(total / deviation))
