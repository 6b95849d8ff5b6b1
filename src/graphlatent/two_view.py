"""Both views of a batch: the plain graph and the one with masked nodes.

`general` runs the encoder twice and is the specification: it works for any encoder. `shared` gives the same numbers for the built-in
encoders with far less work, from what the two views have in common (J: masked nodes, A: propagation matrix, W: a layer's weight):

- the features differ in the rows J only, so the first layer differs by `A[:, J] @ ((M_J - X_J) W)`;
- where only the rows J of the masked view are compared, its last layer is needed on those rows only: `(A[J, :] @ H') W`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from graphlatent.data.batches import Batch
from graphlatent.data.sparse import SparseMatrix, matmul, take_rows
from graphlatent.masking import MaskedView
from graphlatent.nn.encoders import GCNLayer, GINLayer, GNNEncoder
from graphlatent.nn.model import LaGraphModel
from graphlatent.nn.propagation import propagate


@dataclass(frozen=True, eq=False)
class Views:
    """What the encoder makes of both views.

    Args:
        plain: every layer's output on the plain graph, each [N, H]; the last is H of the paper.
        masked: the same on the masked graph, the last is H'; the last may be left out where `masked_rows` is there.
        masked_rows: the rows J of H' alone, [R, H], or None where `masked` is whole.
    """

    plain: list[Tensor]
    masked: list[Tensor]
    masked_rows: Tensor | None = None


def general(model: LaGraphModel, batch: Batch, mask: MaskedView) -> Views:
    """Both views by two runs of the encoder."""
    plain = model.encode(batch.x, batch.structure)
    masked = model.encode(mask.features(batch), batch.structure)
    return Views(plain, masked)


def can_share(model: LaGraphModel) -> bool:
    """Whether `shared` knows this encoder."""
    return isinstance(model.encoder, GNNEncoder)


def shared(model: LaGraphModel, batch: Batch, mask: MaskedView, *, rows_only: bool) -> Views:
    """The same views, computed from what they share.

    Args:
        model: with a built-in encoder.
        batch: features and propagation matrix.
        mask: the masked rows J and their new features.
        rows_only: of the masked view's last layer, only the rows J are wanted.
    """
    encoder, matrix = cast(GNNEncoder, model.encoder), cast(SparseMatrix, batch.structure)
    convs = [cast("GCNLayer | GINLayer", conv) for conv in encoder.convs]
    to_masked = matrix.rows(mask.rows)  # A[J, :]
    from_masked = to_masked.transpose if matrix.symmetric else matrix.transpose.rows(mask.rows).transpose  # A[:, J]
    last = len(convs) - 1
    rows_only = rows_only and last >= len(encoder.norms)  # a norm after the last layer needs all of its rows
    if batch.propagated is None:
        inner = propagate(matrix, batch.x, convs[0].weight) + convs[0].bias
    else:
        inner = torch.addmm(convs[0].bias, batch.propagated, convs[0].weight)
    change = matmul(mask.values, convs[0].weight) - matmul(take_rows(batch.x, mask.rows), convs[0].weight)  # (M_J - X_J) W
    masked_inner = inner + from_masked.matmul(change)
    plain, masked = [encoder.finish(0, inner)], [] if rows_only and last == 0 else [encoder.finish(0, masked_inner)]
    for i in range(1, last + 1):
        plain.append(encoder.finish(i, convs[i].inner(plain[-1], matrix)))
        if not (rows_only and i == last):
            masked.append(encoder.finish(i, convs[i].inner(masked[-1], matrix)))
    if not rows_only:
        return Views(plain, masked)
    if last == 0:
        return Views(plain, masked, encoder.finish(0, masked_inner[mask.rows]))
    rows = torch.addmm(convs[last].bias, to_masked.matmul(masked[-1]), convs[last].weight)
    return Views(plain, masked, encoder.finish(last, rows))
