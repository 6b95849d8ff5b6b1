"""The head of node embeddings: features, averages and the encoder's output in one embedding.

It is fitted without labels. A head has buffers only, so that it is saved, loaded and moved with its
model. The shapes of the buffers depend on settings and widths, not on the training set.
Legend: N nodes, F features, H width of the encoder, D columns that features are reduced to, C
coordinates, k columns of the embedding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphlatent.data.measurements import FEW, has_measurements
from graphlatent.nn.graph_head import LARGEST_FACTOR
from graphlatent.nn.latent_estimate import STEPS, LatentEstimate, averages, latent_estimate
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
"""Each of up to this number of features is scaled by itself."""
ENCODER_SHARE = 0.5
"""Variance of the encoder's block in parts of that of the averages."""
FORM_VERSION = 5
"""Version of the combined embedding. Raise it where a change of the code changes embeddings.

Measured records keep it, so that those of an earlier form are measured again.
"""


class NodeHead(nn.Module):
    """A PCA of features, their averages, the encoder's output and coordinates, side by side.

    With z the features and A the GCN matrix, the blocks are

    - z and averages of A z, A A z ..., in the principal directions of z, with the weights of
      `latent_estimate`;
    - the encoder's output, rows divided by their norms;
    - A A 1, a function of the degrees, where z has magnitudes: without it the averages of features
      would be lost where their mean was subtracted before;
    - coordinates computed from the edges, where there are any.

    Each block is scaled to the variance that is its share. There are two forms of z, chosen by the
    training set: few features have each column divided by its root mean square, and others that are
    mostly not 0 are all divided by one number; the rest, such as words, have rows of norm 1, and
    so have their averages. More than BASIS_DIM columns are reduced to their leading right singular
    vectors. The embedding has the principal components of all blocks, by the training set's mean.

    Args:
        in_dim: F.
        hidden_dim: H.
        embedding_dim: k, at most the width of all blocks; None for NODE_DIM.
        feature_weight: factor of the block z.
        encoder_weight: factor of the encoder's block.
        coordinate_dim: C.
    """

    basis: Tensor | None
    keeps_norms: Tensor
    scale: Tensor
    steps: Tensor
    components: Tensor
    offset: Tensor

    def __init__(
        self,
        in_dim: int,
        hidden_dim: int,
        *,
        embedding_dim: int | None,
        feature_weight: float = 1.0,
        encoder_weight: float = 1.0,
        coordinate_dim: int = 0,
    ) -> None:
        super().__init__()
        self.feature_weight, self.encoder_weight = feature_weight, encoder_weight
        dim = embedding_dim or NODE_DIM
        reduced = min(in_dim, max(BASIS_DIM, dim))
        width = 2 * reduced + hidden_dim + 1 + coordinate_dim
        self.register_buffer("basis", torch.zeros(in_dim, reduced) if in_dim > reduced else None)
        # Whether rows keep their magnitudes, and then the factors of the columns.
        self.register_buffer("keeps_norms", torch.zeros((), dtype=torch.bool))
        self.register_buffer("scale", torch.zeros(in_dim))
        # Weights of z, A z, A A z ... in the averages.
        self.register_buffer("steps", torch.zeros(STEPS + 1))
        # Weights of the blocks times principal components, and the mean of the training rows.
        self.register_buffer("components", torch.zeros(width, min(dim, width)))
        self.register_buffer("offset", torch.zeros(min(dim, width)))

    def forward(
        self,
        x: Tensor | SparseMatrix,
        matrix: SparseMatrix,
        hidden: Tensor,
        coordinates: Tensor | None = None,
    ) -> Tensor:
        """The embeddings of nodes, [N, k].

        Args:
            x: features [N, F], dense or sparse.
            matrix: A, [N, N].
            hidden: the encoder's output, [N, H].
            coordinates: [N, C]; None where C is 0.
        """
        return self.project(self._blocks(self.reduced(x), matrix, hidden, coordinates))

    def project(self, blocks: Sequence[Tensor]) -> Tensor:
        """The embeddings of nodes from their blocks (`blocks`), [N, k]."""
        out, start = -self.offset.expand(blocks[0].shape[0], -1), 0
        for block in blocks:
            stop = start + block.shape[1]
            out, start = torch.addmm(out, block, self.components[start:stop]), stop
        return out

    @torch.no_grad()
    def fit(
        self,
        x: Tensor | SparseMatrix,
        matrix: SparseMatrix,
        hidden: Tensor,
        coordinates: Tensor | None = None,
        *,
        generator: torch.Generator,
    ) -> None:
        """Compute the weights and components from the training set; arguments as in `forward`.

        `generator` is for the SVD of many features, on the CPU.
        """
        if self.set_form(self.few_features or has_measurements(x)):
            self.set_scale(to_dense(x).to(torch.float64).square().mean(0))
        if self.basis is not None:
            k, rows = self.basis.shape[1], self.rows(x)
            self.basis = right_singular_vectors(rows, k, generator=generator)
        z = self.reduced(x)
        estimate = latent_estimate(z, matrix, generator=generator)
        self.steps = estimate.steps
        blocks = self._blocks(z, matrix, hidden, coordinates)
        maps = self.maps(estimate, [block.shape[1] for block in blocks])
        deviations = [_deviation(block @ each) for block, each in zip(blocks, maps, strict=True)]
        maps = self.weighted(maps, estimate, deviations)
        joined = torch.cat([b @ each for b, each in zip(blocks, maps, strict=True)], dim=1)
        mean = joined.to(torch.float64).mean(0).to(joined.dtype)
        k = self.components.shape[1]
        leading = right_singular_vectors(joined - mean, k, generator=generator)
        self.set_components(maps, mean, leading)

    @property
    def few_features(self) -> bool:
        """Whether there are so few features that each is scaled by itself."""
        return len(self.scale) <= FEW_FEATURES

    def set_form(self, keeps_norms: bool) -> bool:
        """Set whether the rows z have magnitudes, and return it."""
        self.keeps_norms.fill_(keeps_norms)
        return keeps_norms

    def set_scale(self, squares: Tensor) -> None:
        """Set the factors of rows that have magnitudes from their columns' mean squares [F]."""
        squares = squares if self.few_features else squares.mean().expand_as(squares)
        used = torch.where(squares > 0, squares, 1.0)
        scale = (squares > 0) / (len(squares) * used).sqrt()
        self.scale = scale.clamp(max=LARGEST_FACTOR).to(self.scale.dtype)

    def maps(self, estimate: LatentEstimate, widths: Sequence[int]) -> list[Tensor]:
        """What each block of some widths is multiplied by, before it has its variance."""
        directions = estimate.directions
        maps = [directions * estimate.own, directions * estimate.averaged]
        return maps + [torch.eye(width).to(directions) for width in widths[2:]]

    def weighted(
        self, maps: Sequence[Tensor], estimate: LatentEstimate, deviations: Sequence[float]
    ) -> list[Tensor]:
        """`maps` with factors that give each block its variance.

        Args:
            maps: of the blocks.
            estimate: has the shares of the blocks.
            deviations: of the blocks times their maps: root mean square norms minus the mean.
        """
        share = estimate.share
        variances = [
            self.feature_weight**2 * (1 - share),
            share,
            self.encoder_weight**2 * ENCODER_SHARE * share,
            # That of one of the features.
            float(self.keeps_norms) / len(self.scale),
            estimate.coordinates,
        ]
        triples = zip(maps, variances, deviations, strict=False)
        return [each * (variance**0.5 / deviation) for each, variance, deviation in triples]

    def set_components(self, maps: Sequence[Tensor], mean: Tensor, leading: Tensor) -> None:
        """Set the principal components of all blocks.

        Args:
            maps: of the blocks.
            mean: of the blocks times their maps, side by side.
            leading: the right singular vectors of their differences from it.
        """
        self.offset = mean @ leading
        ends = torch.tensor([each.shape[1] for each in maps]).cumsum(0).tolist()
        rows_of = torch.tensor_split(leading, ends[:-1])
        self.components = torch.cat([each @ rows for each, rows in zip(maps, rows_of, strict=True)])

    def rows(self, x: Tensor | SparseMatrix) -> Tensor | SparseMatrix:
        """The rows z before their reduction, [N, F]; unit rows are sparse where `x` is."""
        if self.keeps_norms:
            return to_dense(x) * self.scale
        return unit_rows(x)

    def reduced(self, x: Tensor | SparseMatrix) -> Tensor:
        """The rows z, or z times the leading singular vectors where there are many columns."""
        rows = self.rows(x)
        return to_dense(rows) if self.basis is None else multiply(rows, self.basis)

    def _blocks(
        self,
        z: Tensor,
        matrix: SparseMatrix,
        hidden: Tensor,
        coordinates: Tensor | None,
    ) -> list[Tensor]:
        smooth = averages(matrix, z, self.steps)
        degree = matrix.multiply(matrix.multiply(z.new_ones(z.shape[0], 1)))
        return self.blocks(z, smooth, hidden, degree, coordinates)

    def blocks(
        self,
        z: Tensor,
        smooth: Tensor,
        hidden: Tensor,
        degree: Tensor,
        coordinates: Tensor | None,
    ) -> list[Tensor]:
        """The blocks of some nodes.

        Args:
            z: as `reduced` returns them, [N, D].
            smooth: averages of z over walks, [N, D].
            hidden: the encoder's output, [N, H].
            degree: A A 1, [N, 1].
            coordinates: [N, C]; None where C is 0.
        """
        smooth = smooth if self.keeps_norms else unit_rows(smooth)
        blocks = [z, smooth, unit_rows(hidden), degree]
        return blocks if coordinates is None else [*blocks, coordinates]


def _deviation(rows: Tensor) -> float:
    """The root mean square norm of the rows minus their mean, or of the rows where all are equal.

    Infinite for rows of zeros, so that their factor is 0.
    """
    exact = rows.to(torch.float64)
    whole = float(exact.square().sum(1).mean())
    return deviation(whole, float((exact - exact.mean(0)).square().sum(1).mean()))


def deviation(whole: float, centred: float) -> float:
    """`_deviation` of rows with the mean square norm `whole`, and `centred` minus their mean."""
    # The rounding errors of equal rows, such as the degrees of a regular graph, are no variance.
    square = centred if centred > 1e-12 * whole else whole
    return max(square**0.5, 1 / LARGEST_FACTOR) if square > 0 else float("inf")
