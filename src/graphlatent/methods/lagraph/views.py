"""The plain and the masked view of a batch, by two runs of the encoder.

This general path works for any encoder and is the specification. fast.py computes the same values
for the built-in encoders with much less work.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel


@dataclass(frozen=True, eq=False)
class Views:
    """The encoder's output for both views.

    Args:
        plain: output of every layer for the plain view, each [N, H]; the last is H of the paper.
        masked: the same for the masked view, the last is H'; empty where only `masked_rows` was
            computed.
        plain_rows: H[J], [R, H]; None where `masked` is given.
        masked_rows: H'[J], [R, H]; None where `masked` is given.
        both: output of every layer for both views side by side, each [N, 2 H], where they were
            computed together; else None.
    """

    plain: list[Tensor]
    masked: list[Tensor]
    plain_rows: Tensor | None = None
    masked_rows: Tensor | None = None
    both: list[Tensor] | None = None


def general_views(model: LaGraphModel, batch: Batch, mask: MaskedView) -> Views:
    """Both views, by two runs of the encoder."""
    plain = model.encode(batch.x, batch.structure)
    masked = model.encode(mask.features(batch), batch.structure)
    return Views(plain, masked)
