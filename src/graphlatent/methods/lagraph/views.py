"""Both views of a batch, the plain graph and the one with masked nodes, by two encoder runs.

This is the specification: it works for any encoder. fast.py computes the same numbers for the
built-in encoders with far less work.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel


@dataclass(frozen=True, eq=False)
class Views:
    """What the encoder makes of both views.

    Args:
        plain: every layer's output on the plain graph, each [N, H]; the last is H of the paper.
        masked: the same on the masked graph, the last is H'; empty where only `masked_rows` were
            computed.
        plain_rows: the rows J of H alone, [R, H], or None where `masked` is given.
        masked_rows: the rows J of H' alone, [R, H], or None where `masked` is given.
        both: where they were computed together, every layer's output for both views side by side,
            each [N, 2 H].
    """

    plain: list[Tensor]
    masked: list[Tensor]
    plain_rows: Tensor | None = None
    masked_rows: Tensor | None = None
    both: list[Tensor] | None = None


def general_views(model: LaGraphModel, batch: Batch, mask: MaskedView) -> Views:
    """Both views by two runs of the encoder."""
    plain = model.encode(batch.x, batch.structure)
    masked = model.encode(mask.features(batch), batch.structure)
    return Views(plain, masked)
