"""Both views of a batch: the plain graph and the one with masked nodes.

`general` runs the encoder twice and is the specification: it works for any encoder. `shared` gives
the same numbers for the built-in encoders with far less work, from what the two views have in
common (J: masked nodes, A: propagation matrix, W: a layer's weight):

- the features differ in the rows J only, so the first layer differs by `A[:, J] @ ((M_J - X_J) W)`;
- where only the rows J of the masked view are compared, its last layer is needed on those rows
  only: `(A[J, :] @ H') W`;
- where all rows are compared, both views go through the layers together: side by side [N, 2 H] for
  the product with A and for batch norm, one below the other [2 N, H] for the product with W, which
  is the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.nn.encoders import GCNLayer, GINLayer, GNNEncoder
from graphlatent.nn.propagation import propagate
from graphlatent.ops import fused
from graphlatent.ops.masked import Slice
from graphlatent.ops.sparse import SparseMatrix


@dataclass(frozen=True, eq=False)
class Views:
    """What the encoder makes of both views.

    Args:
        plain: every layer's output on the plain graph, each [N, H]; the last is H of the paper.
        masked: the same on the masked graph, the last is H'; empty where only `masked_rows` were
            computed.
        plain_rows: the rows J of H alone, [R, H], or None where `masked` is there.
        masked_rows: the rows J of H' alone, [R, H], or None where `masked` is there.
        both: where they were computed together, every layer's output for both views side by side,
            each [N, 2 H].
    """

    plain: list[Tensor]
    masked: list[Tensor]
    plain_rows: Tensor | None = None
    masked_rows: Tensor | None = None
    both: list[Tensor] | None = None


def general(model: LaGraphModel, batch: Batch, mask: MaskedView) -> Views:
    """Both views by two runs of the encoder."""
    plain = model.encode(batch.x, batch.structure)
    masked = model.encode(mask.features(batch), batch.structure)
    return Views(plain, masked)


def can_share(model: LaGraphModel) -> bool:
    """Whether `shared` knows this encoder."""
    return isinstance(model.encoder, GNNEncoder)


def shared(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    *,
    rows_only: bool,
    dtype: torch.dtype | None = None,
) -> Views:
    """The same views, computed from what they share.

    Args:
        model: with a built-in encoder.
        batch: features and propagation matrix.
        mask: the masked rows J and their new features.
        rows_only: of the masked view's last layer, only the rows J are wanted.
        dtype: what products and rows are kept in; None is the features' own type.
    """
    encoder = cast(GNNEncoder, model.encoder)
    dtype = dtype or batch.x.dtype
    first = _first_layer(encoder, batch, mask, dtype)
    # A norm after the last layer needs all of its rows
    if not rows_only or len(encoder.convs) <= len(encoder.norms):
        return _together(encoder, batch, *first)
    return _rows_only(encoder, batch, mask, *first)


def _first_layer(
    encoder: GNNEncoder, batch: Batch, mask: MaskedView, dtype: torch.dtype
) -> tuple[Slice, Tensor, Tensor]:
    """What both views begin with: A seen from J, the linear part of the plain view's first layer
    [N, H], its change on J [R, H].
    """
    conv, matrix = (
        cast("GCNLayer | GINLayer", encoder.convs[0]),
        cast(SparseMatrix, batch.structure),
    )
    weight, bias = conv.weight.to(dtype), conv.bias.to(dtype)
    if batch.propagated is None:
        inner = propagate(
            matrix, batch.x.to(dtype) if isinstance(batch.x, Tensor) else batch.x, weight, bias
        )
    else:
        more = batch.propagated.shape[1] - weight.shape[0]  # columns of zeros
        inner = torch.addmm(
            bias,
            batch.propagated.to(dtype),
            functional.pad(weight, (0, 0, 0, more)) if more else weight,
        )
    return Slice(matrix, mask.rows), inner, _change(batch.x, mask, weight)


def _rows_only(
    encoder: GNNEncoder, batch: Batch, mask: MaskedView, part: Slice, inner: Tensor, change: Tensor
) -> Views:
    """The plain view whole; of the masked view's last layer, the rows J."""
    convs, limit, last = (
        [cast("GCNLayer | GINLayer", conv) for conv in encoder.convs],
        batch.limit,
        len(encoder.convs) - 1,
    )
    plain = [fused.finish(encoder, 0, inner, limit=limit)]
    for i in range(1, last + 1):
        plain.append(fused.finish(encoder, i, convs[i].inner(plain[-1], part.matrix), limit=limit))
    if last == 0:
        rows = part.spread(change, inner)[mask.rows]
    else:
        masked = fused.finish_masked(encoder, inner, part, change, limit=limit)
        for i in range(1, last):
            masked = fused.finish(encoder, i, convs[i].inner(masked, part.matrix), limit=limit)
        weight, bias = convs[last].weight.to(masked.dtype), convs[last].bias.to(masked.dtype)
        rows = torch.addmm(bias, part.take(masked), weight)
    plain[-1], plain_rows = fused.pick(plain[-1], mask.rows)
    return Views(plain, [], plain_rows, fused.finish(encoder, last, rows))


def _together(
    encoder: GNNEncoder, batch: Batch, part: Slice, inner: Tensor, change: Tensor
) -> Views:
    """Both views whole, side by side."""
    convs, matrix = [cast("GCNLayer | GINLayer", conv) for conv in encoder.convs], part.matrix
    rows, width = inner.shape
    both = [
        fused.finish_both(
            encoder, 0, torch.cat([inner, part.spread(change, inner)], dim=1), limit=batch.limit
        )
    ]
    for i in range(1, len(convs)):
        moved = matrix.matmul(both[-1]).view(2 * rows, width)
        linear = torch.addmm(convs[i].bias.to(moved.dtype), moved, convs[i].weight.to(moved.dtype))
        both.append(fused.finish_both(encoder, i, linear.view(rows, 2 * width), limit=batch.limit))
    both[-1], last = fused.pick_columns(both[-1], width)
    return Views(
        [*(b[:, :width] for b in both[:-1]), last], [b[:, width:] for b in both], both=both
    )


def _change(x: Tensor | SparseMatrix, mask: MaskedView, weight: Tensor) -> Tensor:
    """(M_J - X_J) W, [R, H]."""
    if isinstance(x, Tensor):
        return (mask.values - x[mask.rows]).to(weight.dtype) @ weight
    return mask.values.to(weight.dtype) @ weight - Slice(x, mask.rows).take(weight)
