"""What turns the output of a trained encoder into an embedding, fitted without labels.

A head has buffers only, so that it is saved, loaded and moved with its model. The shapes of the
buffers depend on settings and widths, not on the training set.
Legend: N nodes, F features, H width of the encoder, B graphs, D columns of a readout, k columns of
the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphlatent.data.measurements import FEW, has_measurements
from graphlatent.ops.sparse import SparseMatrix, multiply, to_dense
from graphlatent.ops.svd import right_singular_vectors

NODE_DIM = 512
"""Columns of a combined node embedding where the settings do not say.

Validation accuracy with 256 and 512: 94.2, 94.2 on Photo, 95.0, 95.0 on CS, 90.4, 90.4 on
Computers. Where there are many labels, more columns are better: 57.5, 59.8 (micro-F1) on PPI-small.
"""
BASIS_DIM = 512
"""Columns that wider features are first reduced to, or `embedding_dim` where that is more.

Validation accuracy of a linear probe without an encoder, for 256, 512 and 1024: 94.0, 94.0, 94.1 on
Photo, 94.4, 94.4, 94.4 on CS.
"""
FEW_FEATURES = FEW
"""Features up to this number keep their magnitudes in a combined embedding."""
# Root mean square of a row of features that keep their magnitudes, few or more. Few are to come
# before the encoder's many columns in a regularised probe, and yet not to displace them from a
# narrow embedding: 10 instead of 4 gains about a point where one feature decides the label, and
# loses one on PPI in 64 columns. For more, 1, 2 and 4 score the same within a point.
_FEW_NORM, _DENSE_NORM = 6.0, 2.0
SMOOTH_RATIO, SMOOTH_RANGE = 0.75, (0.5, 2.0)
"""Weight of the 2-hop averages: SMOOTH_RATIO * homophily / reliability, within SMOOTH_RANGE.

Homophily and reliability (`NeighbourSimilarity`) are estimated without labels. Where a node's own
features are reliable, averages blur what sets it apart; where they are mostly noise and the edges
are good, averages carry the signal; where edges are bad, averages lose it. Validation accuracy on
CS (ratio 0.9) for weights 0.67, 1 and 2: 95.0, 94.6, 94.2; on Computers (7.5) for 1, 1.5, 2 and 3:
90.0, 90.4, 90.4, 90.6; on Photo (7.5): 94.2, 94.2, 94.2, 94.0.
"""
_LARGEST_FACTOR = 1e30
"""Columns of smaller values than float32 resolves are not scaled up beyond this."""
_SIGNIFICANT = 2.0
"""Standard deviations above which neighbours count as similar; otherwise averages weigh 1."""


class GraphHead(nn.Module):
    """Readouts standardised by the training set, and reduced by PCA without whitening.

    Columns that are constant over the training set become 0. Where all are, as with one graph,
    there is nothing to standardise by, and readouts are taken as they are.

    Args:
        width: columns of the readout, D.
        embedding_dim: k; None for all columns, without PCA.
    """

    mean: Tensor
    scale: Tensor
    components: Tensor | None

    def __init__(self, width: int, *, embedding_dim: int | None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros(width))
        dim = None if embedding_dim is None else min(embedding_dim, width)
        self.register_buffer("components", None if dim is None else torch.zeros(width, dim))

    def forward(self, rows: Tensor) -> Tensor:
        """The embeddings of readouts [B, D], [B, k]."""
        standard = (rows - self.mean) * self.scale
        return standard if self.components is None else standard @ self.components

    @torch.no_grad()
    def fit(self, rows: Tensor, *, generator: torch.Generator) -> None:
        """Measure means, standard deviations and principal components of readouts [B, D].

        Args:
            rows: of the training set.
            generator: for the PCA of wide readouts, on the CPU.
        """
        exact = rows.to(torch.float64)
        mean, std = exact.mean(0), exact.std(0, unbiased=False)
        # The rounding errors of a constant column are no signal.
        varies = std > 1e-6 * exact.abs().amax(0)
        scale = torch.where(varies, 1 / std, 0.0).clamp(max=_LARGEST_FACTOR)
        if not bool(varies.any()):
            mean, scale = torch.zeros_like(mean), torch.ones_like(scale)
        self.mean, self.scale = mean.to(rows.dtype), scale.to(rows.dtype)
        if self.components is not None:
            standard = (rows - self.mean) * self.scale
            k = self.components.shape[1]
            self.components = right_singular_vectors(standard, k, generator=generator)


class NodeHead(nn.Module):
    """A truncated SVD of features, their 2-hop average and the encoder's output, side by side.

    The blocks are u z, s Â² z and w unit(h), with weights u, s and w; s follows from how similar
    the features of neighbours are (SMOOTH_RATIO). There are two forms of z, chosen by the training
    set:

    - Few features have each column divided by its root mean square, and others that are mostly not
      0 are all divided by one number. Rows keep their magnitudes, and Â² z is brought to the root
      mean square norm of z. One more column is Â² 1, a function of the degrees, standardised:
      without it the averages of features would be lost where their mean was subtracted before.
    - Others, such as words: z = unit(x), and unit(Â² z) in place of Â² z.

    More than BASIS_DIM columns are reduced to z V, with V the leading right singular vectors of z.
    The embedding is blocks @ P with P the leading right singular vectors of the training rows, not
    centred.

    Args:
        in_dim: F.
        hidden_dim: H.
        embedding_dim: k, at most the width of all blocks; None for NODE_DIM.
        feature_weight: u.
        encoder_weight: w.
    """

    basis: Tensor | None
    keeps_norms: Tensor
    scale: Tensor
    smooth_weight: Tensor
    smooth_scale: Tensor
    degree_mean: Tensor
    degree_scale: Tensor
    components: Tensor

    def __init__(
        self,
        in_dim: int,
        hidden_dim: int,
        *,
        embedding_dim: int | None,
        feature_weight: float = 1.0,
        encoder_weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.feature_weight, self.encoder_weight = feature_weight, encoder_weight
        dim = embedding_dim or NODE_DIM
        reduced = min(in_dim, max(BASIS_DIM, dim))
        width = 2 * reduced + hidden_dim + 1
        self.register_buffer("basis", torch.zeros(in_dim, reduced) if in_dim > reduced else None)
        # Whether rows keep their magnitudes; if so, the factors of the columns and that of Â² z.
        self.register_buffer("keeps_norms", torch.zeros((), dtype=torch.bool))
        self.register_buffer("scale", torch.zeros(in_dim))
        self.register_buffer("smooth_scale", torch.ones(()))
        self.register_buffer("smooth_weight", torch.ones(()))
        # Mean and factor of Â² 1.
        self.register_buffer("degree_mean", torch.zeros(()))
        self.register_buffer("degree_scale", torch.zeros(()))
        self.register_buffer("components", torch.zeros(width, min(dim, width)))

    def forward(self, x: Tensor | SparseMatrix, matrix: SparseMatrix, hidden: Tensor) -> Tensor:
        """The embeddings of nodes, [N, k].

        Args:
            x: features [N, F], dense or sparse.
            matrix: Â, [N, N].
            hidden: the encoder's output, [N, H].
        """
        out, start = hidden.new_zeros(hidden.shape[0], self.components.shape[1]), 0
        for block in self._blocks(x, matrix, hidden):
            stop = start + block.shape[1]
            out, start = torch.addmm(out, block, self.components[start:stop]), stop
        return out

    @torch.no_grad()
    def fit(
        self,
        x: Tensor | SparseMatrix,
        matrix: SparseMatrix,
        hidden: Tensor,
        *,
        generator: torch.Generator,
    ) -> None:
        """Compute V and P from the training set; arguments as in `forward`.

        `generator` is for the SVD of many features, on the CPU.
        """
        few = x.shape[1] <= FEW_FEATURES
        self.keeps_norms.fill_(few or has_measurements(x))
        if self.keeps_norms:
            squares = to_dense(x).to(torch.float64).square().mean(0)
            row_norm = _FEW_NORM if few else _DENSE_NORM
            squares = squares if few else squares.mean().expand_as(squares)
            used = torch.where(squares > 0, squares, 1.0)
            scale = row_norm * (squares > 0) / (x.shape[1] * used).sqrt()
            self.scale = scale.clamp(max=_LARGEST_FACTOR).to(x.dtype)
        if self.basis is not None:
            k, rows = self.basis.shape[1], self._rows(x)
            self.basis = right_singular_vectors(rows, k, generator=generator)
        z = self._reduced(x)
        self.smooth_weight.fill_(neighbour_similarity(z, matrix).smooth_weight)
        if self.keeps_norms:
            own, norm = (part.square().sum().sqrt() for part in (_two_hops(matrix, z), z))
            self.smooth_scale = torch.where(own > 0, norm / own, 1.0)
            ones = _two_hops(matrix, z.new_ones(z.shape[0], 1)).to(torch.float64)
            mean, std = ones.mean(), ones.std(unbiased=False)
            self.degree_mean = mean.to(x.dtype)
            # The rounding errors of a regular graph are no signal.
            varies = std > 1e-6 * mean
            factor = row_norm / (x.shape[1] ** 0.5 * std)
            self.degree_scale = torch.where(varies, factor, 0.0).to(x.dtype)
        blocks = torch.cat(self._blocks(x, matrix, hidden), dim=1)
        k = self.components.shape[1]
        self.components = right_singular_vectors(blocks, k, generator=generator)

    def _rows(self, x: Tensor | SparseMatrix) -> Tensor | SparseMatrix:
        """The rows z before their reduction, [N, F]; unit rows are sparse where `x` is."""
        if self.keeps_norms:
            return to_dense(x) * self.scale
        return _unit_rows(x) if isinstance(x, Tensor) else _unit_sparse_rows(x)

    def _reduced(self, x: Tensor | SparseMatrix) -> Tensor:
        """The rows z, or z V where there are many columns."""
        rows = self._rows(x)
        return to_dense(rows) if self.basis is None else multiply(rows, self.basis)

    def _blocks(
        self, x: Tensor | SparseMatrix, matrix: SparseMatrix, hidden: Tensor
    ) -> list[Tensor]:
        z = self._reduced(x)
        smooth = _two_hops(matrix, z)
        smooth = self.smooth_scale * smooth if self.keeps_norms else _unit_rows(smooth)
        last = self.encoder_weight * _unit_rows(hidden)
        degree = _two_hops(matrix, z.new_ones(z.shape[0], 1)) - self.degree_mean
        return [
            self.feature_weight * z,
            self.smooth_weight * smooth,
            last,
            self.smooth_weight * self.degree_scale * degree,
        ]


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
    def homophily(self) -> float:
        """The share of the edges that stay in a class, where neighbours are correlated at all."""
        return self.siblings / self.neighbours

    @property
    def smooth_weight(self) -> float:
        """The weight of 2-hop averages beside own features."""
        if self.deviations <= _SIGNIFICANT:
            return 1.0
        low, high = SMOOTH_RANGE
        homophily = max(self.homophily, 0.0)
        # reliability = neighbours / homophily
        return min(max(SMOOTH_RATIO * homophily**2 / self.neighbours, low), high)


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


def _two_hops(matrix: SparseMatrix, rows: Tensor) -> Tensor:
    return matrix.multiply(matrix.multiply(rows))


def _unit_rows(x: Tensor) -> Tensor:
    """`x` with each row divided by its Euclidean norm; rows of zeros stay zero."""
    return x / _row_norm(x)[:, None]


def _unit_sparse_rows(x: SparseMatrix) -> SparseMatrix:
    return SparseMatrix(x.crow, x.col, x.value / _row_norm(x)[x.row], x.shape)


def _row_norm(x: Tensor | SparseMatrix) -> Tensor:
    """The Euclidean norm of each row, 1 for rows of zeros, [N]."""
    # Squares of large values overflow in float32.
    if isinstance(x, Tensor):
        norm = torch.linalg.vector_norm(x, dim=1, dtype=torch.float64)
    else:
        square = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
        norm = square.index_add(0, x.row, x.value.to(torch.float64).square()).sqrt()
    return torch.where(norm > 0, norm, 1.0).to(x.dtype)
