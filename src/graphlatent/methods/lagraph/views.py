"""The plain and the masked view of a batch, by two runs of the encoder.

This general path works for any encoder and is the specification. fast.py computes the same values
for the built-in encoders with much less work.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, Structure
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.nn.edge_dropout import drop_edges
from graphlatent.ops.feature_views import MaskedColumns
from graphlatent.ops.sparse import Features


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


@dataclass(frozen=True, eq=False)
class Dropped:
    """What else the masked view lacks.

    Args:
        structure: without the dropped edges.
        keep: 1 for a kept feature column, 0 for a dropped one, float [F]; None keeps all.
    """

    structure: Structure
    keep: Tensor | None = None


def general_views(
    model: LaGraphModel, batch: Batch, mask: MaskedView, dropped: Dropped | None = None
) -> Views:
    """Both views, by two runs of the encoder."""
    plain = model.encode(batch.x, batch.structure)
    features: Features = mask.features(batch)
    if dropped is None:
        return Views(plain, model.encode(features, batch.structure))
    if dropped.keep is not None:
        features = MaskedColumns(features, dropped.keep)
    return Views(plain, model.encode(features, dropped.structure))


def draw_dropped(
    batch: Batch, settings: LaGraphSettings, *, generator: torch.Generator
) -> Dropped | None:
    """Random edges and feature columns to drop in the masked view; None where none are."""
    if not settings.edge_drop and not settings.feature_drop:
        return None
    structure, keep = batch.structure, None
    if settings.edge_drop:
        structure = drop_edges(structure, settings.edge_drop, generator=generator)
    if settings.feature_drop:
        uniform = torch.rand(batch.x.shape[1], generator=generator, device=batch.x.device)
        keep = (uniform >= settings.feature_drop).to(batch.x.dtype)
    return Dropped(structure, keep)
