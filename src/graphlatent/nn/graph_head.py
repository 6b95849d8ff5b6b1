"""The head of graph embeddings: what turns readouts into embeddings, fitted without labels.

A head has buffers only, so that it is saved, loaded and moved with its model. The shapes of the
buffers depend on settings and widths, not on the training set.
Legend: B graphs, D columns of a readout, k columns of the embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphlatent.ops.svd import right_singular_vectors

LARGEST_FACTOR = 1e30
"""Columns of smaller values than float32 resolves are not scaled up beyond this."""


class GraphHead(nn.Module):
    """Readouts standardised by the training set, and reduced by PCA without whitening.

    Columns that are constant over the training set become 0. Where all are, as with one graph,
    there is nothing to standardise by, and readouts are taken as they are.

    Args:
        width: columns of the readout, D.
        embedding_dim: k; None for all columns, without PCA.
        limit: standard deviations that no entry exceeds, since z becomes limit * tanh(z / limit);
            None for no limit.
    """

    mean: Tensor
    scale: Tensor
    components: Tensor | None

    def __init__(
        self, width: int, *, embedding_dim: int | None, limit: float | None = None
    ) -> None:
        super().__init__()
        self.limit = limit
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros(width))
        dim = None if embedding_dim is None else min(embedding_dim, width)
        self.register_buffer("components", None if dim is None else torch.zeros(width, dim))

    def forward(self, rows: Tensor) -> Tensor:
        """The embeddings of readouts [B, D], [B, k]."""
        standard = self._standardised(rows)
        return standard if self.components is None else standard @ self.components

    def _standardised(self, rows: Tensor) -> Tensor:
        standard = (rows - self.mean) * self.scale
        return standard if self.limit is None else self.limit * torch.tanh(standard / self.limit)

    @torch.no_grad()
    def fit(
        self, rows: Tensor, *, generator: torch.Generator, magnitude: Tensor | None = None
    ) -> None:
        """Measure means, standard deviations and principal components of readouts [B, D].

        Args:
            rows: of the training set.
            generator: for the PCA of wide readouts, on the CPU.
            magnitude: of what the columns were computed from [D], such as the largest sum of
                absolute values, where they are sums; None for the largest entry of each column.
        """
        exact = rows.to(torch.float64)
        mean, std = exact.mean(0), exact.std(0, unbiased=False)
        largest = exact.abs().amax(0) if magnitude is None else magnitude.to(torch.float64)
        # The rounding errors of a constant column are no signal.
        varies = std > 1e-6 * largest
        scale = torch.where(varies, 1 / std, 0.0).clamp(max=LARGEST_FACTOR)
        if not bool(varies.any()):
            # Below a limit no entry is above 1, so that it changes little.
            size = 1.0 if self.limit is None else float(largest.max())
            mean = torch.zeros_like(mean)
            scale = torch.full_like(scale, 1 / size if size > 0 else 1.0)
        self.mean, self.scale = mean.to(rows.dtype), scale.to(rows.dtype)
        if self.components is not None:
            standard = self._standardised(rows)
            k = self.components.shape[1]
            self.components = right_singular_vectors(standard, k, generator=generator)
