"""What turns the output of a trained encoder into an embedding, fitted without labels.

A head has buffers only, so that it is saved, loaded and moved with its model. The shapes of the
buffers depend on settings and widths, not on the training set.
Legend: N nodes, F features, H width of the encoder, B graphs, D columns of a readout, k columns of
the embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphlatent.data.measurements import FEW, has_measurements
from graphlatent.nn.similarity import neighbour_similarity
from graphlatent.ops.sparse import SparseMatrix, multiply, to_dense, unit_rows
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
MAGNITUDE_NORM = 2.0
"""Root mean square norm of the rows of features that keep their magnitudes.

Validation accuracy for 1, 2, 3 and 6 on parts of the named sets with few columns: 85.4, 84.0, 83.5,
82.9 (40 words of Photo), 77.1, 75.6, 75.3, 74.9 (60 words of Computers), 93.8 each (8 principal
components of Photo). On synthetic sets with random edges 1 loses a point or two against 2 and 3.
"""
CLIP = 2.0
"""Standardised readouts z become CLIP * tanh(z / CLIP): outliers are limited to this size."""
_LARGEST_FACTOR = 1e30
"""Columns of smaller values than float32 resolves are not scaled up beyond this."""


class GraphHead(nn.Module):
    """Readouts standardised by the training set, limited, and reduced by PCA without whitening.

    A standardised value z becomes c tanh(z / c) with c = CLIP, so that a few extreme graphs neither
    dominate distances nor the scale of a kernel. Columns that are constant over the training set
    become 0. Where all are, as with one graph, there is nothing to standardise by, and readouts are
    taken as they are.

    Args:
        width: columns of the readout, D.
        embedding_dim: k; None for all columns, without PCA.
    """

    mean: Tensor
    scale: Tensor
    standardizes: Tensor
    components: Tensor | None

    def __init__(self, width: int, *, embedding_dim: int | None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros(width))
        self.register_buffer("standardizes", torch.ones((), dtype=torch.bool))
        dim = None if embedding_dim is None else min(embedding_dim, width)
        self.register_buffer("components", None if dim is None else torch.zeros(width, dim))

    def forward(self, rows: Tensor) -> Tensor:
        """The embeddings of readouts [B, D], [B, k]."""
        limited = self._limited(rows)
        return limited if self.components is None else limited @ self.components

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
        self.standardizes.fill_(bool(varies.any()))
        if self.components is not None:
            k = self.components.shape[1]
            self.components = right_singular_vectors(self._limited(rows), k, generator=generator)

    def _limited(self, rows: Tensor) -> Tensor:
        standard = (rows - self.mean) * self.scale
        return CLIP * torch.tanh(standard / CLIP) if self.standardizes else standard


class NodeHead(nn.Module):
    """A truncated SVD of features, their 2-hop average and the encoder's output, side by side.

    The blocks are u z, s Â² z and w unit(h), with weights u, s and w; s follows from how similar
    the features of neighbours are (similarity.py). There are two forms of z, chosen by the training
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
            squares = squares if few else squares.mean().expand_as(squares)
            used = torch.where(squares > 0, squares, 1.0)
            scale = MAGNITUDE_NORM * (squares > 0) / (x.shape[1] * used).sqrt()
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
            factor = MAGNITUDE_NORM / (x.shape[1] ** 0.5 * std)
            self.degree_scale = torch.where(varies, factor, 0.0).to(x.dtype)
        blocks = torch.cat(self._blocks(x, matrix, hidden), dim=1)
        k = self.components.shape[1]
        self.components = right_singular_vectors(blocks, k, generator=generator)

    def _rows(self, x: Tensor | SparseMatrix) -> Tensor | SparseMatrix:
        """The rows z before their reduction, [N, F]; unit rows are sparse where `x` is."""
        if self.keeps_norms:
            return to_dense(x) * self.scale
        return unit_rows(x)

    def _reduced(self, x: Tensor | SparseMatrix) -> Tensor:
        """The rows z, or z V where there are many columns."""
        rows = self._rows(x)
        return to_dense(rows) if self.basis is None else multiply(rows, self.basis)

    def _blocks(
        self, x: Tensor | SparseMatrix, matrix: SparseMatrix, hidden: Tensor
    ) -> list[Tensor]:
        z = self._reduced(x)
        smooth = _two_hops(matrix, z)
        smooth = self.smooth_scale * smooth if self.keeps_norms else unit_rows(smooth)
        last = self.encoder_weight * unit_rows(hidden)
        degree = _two_hops(matrix, z.new_ones(z.shape[0], 1)) - self.degree_mean
        return [
            self.feature_weight * z,
            self.smooth_weight * smooth,
            last,
            self.smooth_weight * self.degree_scale * degree,
        ]


def _two_hops(matrix: SparseMatrix, rows: Tensor) -> Tensor:
    return matrix.multiply(matrix.multiply(rows))
