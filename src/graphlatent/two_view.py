"""Both views of a batch: the plain graph and the one with masked nodes.

`general` runs the encoder twice and is the specification: it works for any encoder.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphlatent.data.batches import Batch
from graphlatent.masking import MaskedView
from graphlatent.nn.model import LaGraphModel


@dataclass(frozen=True, eq=False)
class Views:
    """What the encoder makes of both views.

    Args:
        plain: every layer's output on the plain graph, each [N, H]; the last is H of the paper.
        masked: the same on the masked graph; the last is H'.
    """

    plain: list[Tensor]
    masked: list[Tensor]


def general(model: LaGraphModel, batch: Batch, mask: MaskedView) -> Views:
    """Both views by two runs of the encoder."""
    plain = model.encode(batch.x, batch.structure)
    masked = model.encode(mask.features(batch), batch.structure)
    return Views(plain, masked)
