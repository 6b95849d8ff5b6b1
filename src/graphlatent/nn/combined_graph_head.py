"""The head of combined graph embeddings: pooled features beside the encoder's readout.

Where the features alone tell graphs apart, the encoder's layers only mix them, so their sums and
means over the nodes are part of the embedding as they are. It is fitted without labels. Legend:
B graphs, F features of a node, D columns of a readout, k columns of the embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphlatent.nn.graph_head import GraphHead
from graphlatent.ops.svd import right_singular_vectors

LIMIT = 3.0
"""Standard deviations that no entry exceeds.

Sums over the nodes of a few very large graphs are many deviations from the mean; without a limit
these graphs are far from all others, and the others close together.
"""
FEATURE_SHARE = 2.0
"""Variance of the block of features in parts of that of the encoder's block."""
OWN_DIM = 512
"""Columns that wider features are reduced to, by PCA."""
# Of a block. A column that varies has a variance of about 1.
_LEAST_VARIANCE = 1e-6
FORM_VERSION = 1
"""Version of the combined embedding of graphs. Raise it where a change of the code changes it."""


class CombinedGraphHead(nn.Module):
    """Pooled features and the encoder's readout, side by side.

    Every column is standardised by the training set and limited to LIMIT deviations. The features
    are then multiplied by one number, so that their block has FEATURE_SHARE times the variance of
    the encoder's. A block that does not vary over the training set is 0, unless neither does.

    Args:
        own_width: columns of the pooled features, 2 F.
        width: columns of the encoder's readout, D.
        embedding_dim: k, by PCA of both blocks; None for all columns.
        feature_weight: factor of the block of features.
    """

    weights: Tensor
    components: Tensor | None

    def __init__(
        self, own_width: int, width: int, *, embedding_dim: int | None, feature_weight: float = 1.0
    ) -> None:
        super().__init__()
        self.feature_weight = feature_weight
        own_dim = OWN_DIM if own_width > OWN_DIM else None
        self.own = GraphHead(own_width, embedding_dim=own_dim, limit=LIMIT)
        self.encoded = GraphHead(width, embedding_dim=None, limit=LIMIT)
        # Factors of the features and of the readout.
        self.register_buffer("weights", torch.ones(2))
        both = min(own_width, OWN_DIM) + width
        dim = None if embedding_dim is None else min(embedding_dim, both)
        self.register_buffer("components", None if dim is None else torch.zeros(both, dim))

    def forward(self, own: Tensor, readout: Tensor) -> Tensor:
        """The embeddings of graphs [B, k].

        Args:
            own: pooled features [B, 2 F] (`readout.pooled_features`).
            readout: of the encoder's layers [B, D].
        """
        rows = self._side_by_side(own, readout)
        return rows if self.components is None else rows @ self.components

    def _side_by_side(self, own: Tensor, readout: Tensor) -> Tensor:
        blocks = [self.own(own) * self.weights[0], self.encoded(readout) * self.weights[1]]
        return torch.cat(blocks, dim=1)

    @torch.no_grad()
    def fit(
        self, own: Tensor, readout: Tensor, *, magnitude: Tensor, generator: torch.Generator
    ) -> None:
        """Measure deviations, weights and principal components on the training set.

        Args:
            own: pooled features [B, 2 F].
            readout: of the encoder's layers [B, D].
            magnitude: the largest pooled absolute values of the features [2 F]. Features that sum
                to 0 in every graph leave rounding errors, which must not be taken for signal.
            generator: for the PCA, on the CPU.
        """
        self.own.fit(own, generator=generator, magnitude=magnitude)
        self.encoded.fit(readout, generator=generator)
        features, encoder = _variance(self.own(own)), _variance(self.encoded(readout))
        if features > 0 and encoder > 0:
            ratio = FEATURE_SHARE * encoder / features
            weights = (self.feature_weight * ratio**0.5, 1.0)
        else:
            neither = features == encoder == 0
            weights = (
                self.feature_weight * float(neither or features > 0),
                float(neither or encoder > 0),
            )
        self.weights.copy_(torch.tensor(weights))
        if self.components is not None:
            rows, k = self._side_by_side(own, readout), self.components.shape[1]
            self.components = right_singular_vectors(rows, k, generator=generator)


def _variance(rows: Tensor) -> float:
    """The variance of standardised rows around their mean, summed over columns.

    A column that varies has about 1; what is far less is rounding errors, and 0 is returned.
    """
    variance = float(rows.double().var(0, unbiased=False).sum())
    return variance if variance > _LEAST_VARIANCE else 0.0
