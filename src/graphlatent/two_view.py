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
from graphlatent.data.slices import Slice
from graphlatent.data.sparse import SparseMatrix
from graphlatent.masking import MaskedView
from graphlatent.nn import fused
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


def shared(model: LaGraphModel, batch: Batch, mask: MaskedView, *, rows_only: bool, dtype: torch.dtype | None = None) -> Views:
    """The same views, computed from what they share.

    Args:
        model: with a built-in encoder.
        batch: features and propagation matrix.
        mask: the masked rows J and their new features.
        rows_only: of the masked view's last layer, only the rows J are wanted.
        dtype: what products and rows are kept in; None is the features' own type.
    """
    encoder, matrix = cast(GNNEncoder, model.encoder), cast(SparseMatrix, batch.structure)
    convs = [cast("GCNLayer | GINLayer", conv) for conv in encoder.convs]
    part, limit, last = Slice(matrix, mask.rows), batch.limit, len(convs) - 1
    rows_only = rows_only and last >= len(encoder.norms)  # a norm after the last layer needs all of its rows
    dtype = dtype or batch.x.dtype
    weight, bias = convs[0].weight.to(dtype), convs[0].bias.to(dtype)
    if batch.propagated is None:
        inner = propagate(matrix, batch.x.to(dtype) if isinstance(batch.x, Tensor) else batch.x, weight, bias)
    else:
        inner = torch.addmm(bias, batch.propagated.to(dtype), weight)
    change = _change(batch.x, mask, weight)
    plain, masked = [fused.finish(encoder, 0, inner, limit=limit)], []
    if not (rows_only and last == 0):
        masked.append(fused.finish_masked(encoder, inner, part, change, limit=limit))
    for i in range(1, last + 1):
        plain.append(fused.finish(encoder, i, convs[i].inner(plain[-1], matrix), limit=limit))
        if not (rows_only and i == last):
            masked.append(fused.finish(encoder, i, convs[i].inner(masked[-1], matrix), limit=limit))
    if not rows_only:
        return Views(plain, masked)
    if last == 0:
        return Views(plain, masked, fused.finish(encoder, 0, part.spread(change, inner)[mask.rows]))
    rows = torch.addmm(convs[last].bias.to(dtype), part.take(masked[-1]), convs[last].weight.to(dtype))
    return Views(plain, masked, fused.finish(encoder, last, rows))


def _change(x: Tensor | SparseMatrix, mask: MaskedView, weight: Tensor) -> Tensor:
    """(M_J - X_J) W, [R, H]."""
    if isinstance(x, Tensor):
        return (mask.values - x[mask.rows]).to(weight.dtype) @ weight
    return mask.values.to(weight.dtype) @ weight - Slice(x, mask.rows).take(weight)
