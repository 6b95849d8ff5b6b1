"""The exact fast path: the masked view is computed from the plain one, for built-in encoders.

It computes the values of `views.general_views` with much less work, from what both views share (J:
masked nodes, A: propagation matrix, W: weight of a layer, M: new features of J):

- the features differ in the rows J only, so the first layer differs by `A[:, J] @ ((M - X_J) W)`;
- where only the rows J of the masked view are compared, its last layer is computed on those rows
  only: `(A[J, :] @ H') W`;
- where all rows are compared, the layers are applied to both views at the same time: side by side
  [N, 2 H] for the product with A and for batch norm, and stacked [2 N, H] for the product with W,
  which is a view of the same memory.

Tests compare it with the general path. `engine="general"` selects the general path, for checking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphlatent.config import GraphSettings
from graphlatent.data.batches import Batch
from graphlatent.methods.base import Term
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.objective import ReconstructionForm, loss_terms
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, Precomputed
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.methods.lagraph.views import Dropped, Views, general_views
from graphlatent.nn import fused
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.encoders import GCNLayer, GINLayer, GNNEncoder
from graphlatent.nn.propagation import propagate
from graphlatent.ops.fused import select_columns, select_rows
from graphlatent.ops.kernels import usable
from graphlatent.ops.masked import MaskedOperator
from graphlatent.ops.sparse import SparseMatrix, matmul

Layer: TypeAlias = GCNLayer | GINLayer
# The product of all features serves both views where at least one row in this many is masked.
_SHARED_PRODUCT = 4


@dataclass(frozen=True)
class Engine:
    """How a step is computed; all engines give the same values.

    Args:
        share: compute the masked view from the plain one.
        rows_only: compute only the masked rows of the masked view's last layer.
        form: form of the reconstruction term.
        dtype: dtype of the encoder's products and outputs; None means that of the features.
    """

    share: bool
    rows_only: bool
    form: ReconstructionForm
    dtype: torch.dtype | None = None


def can_share(encoder: nn.Module) -> bool:
    """Whether the masked view can be computed from the plain one.

    It can where every layer is one fixed matrix, one weight and a row-wise function, followed by
    activation and norm in this order: the built-in layers, not any other.
    """
    if not isinstance(encoder, GNNEncoder) or encoder.norm_first:
        return False
    return all(type(conv) in (GCNLayer, GINLayer) for conv in encoder.convs)


def choose_engine(model: LaGraphModel, settings: LaGraphSettings) -> Engine:
    """The fastest engine for this model and objective."""
    if settings.engine == "general":
        return Engine(share=False, rows_only=False, form="output")
    decoder = model.decoder
    linear_end = isinstance(decoder, MLPDecoder) and not decoder.relu_output
    row_wise = isinstance(decoder, MLPDecoder) and len(decoder.norms) == 0
    cosine = settings.objective == "cosine"
    if cosine or settings.objective.endswith("-embed"):
        compared = settings.alpha > 0 or not cosine
        pooled = isinstance(settings, GraphSettings) or settings.invariance_on == "all"
        rows_only = not (compared and pooled) and (row_wise or not cosine)
    else:
        # The decoder's output on masked rows only, unless its batch norm needs all rows.
        masked_only = settings.invariance_on == "masked" or settings.objective == "denoise"
        rows_only = row_wise and masked_only
    # Dropped edges or columns change the product that both views share.
    share = can_share(model.encoder) and not settings.edge_drop and not settings.feature_drop
    implicit = settings.objective in ("mse-embed", "mse-output", "cosine")
    low_precision = settings.precision == "bf16" and usable(next(model.parameters()))
    return Engine(
        share=share,
        rows_only=share and rows_only,
        form="gram" if implicit and linear_end else "output",
        dtype=torch.bfloat16 if low_precision else None,
    )


def compute_terms(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    settings: LaGraphSettings,
    engine: Engine,
    cache: Precomputed = EMPTY_CACHE,
    dropped: Dropped | None = None,
) -> dict[str, Term]:
    """The terms of the loss, computed by `engine`."""
    views = both_views(model, batch, mask, engine, cache, dropped)
    form = _cheaper_form(engine.form, batch, views.plain[-1].shape[1])
    if form == "blocks" and settings.objective == "cosine":
        form = "output"
    return loss_terms(model, batch, mask, views, settings, form=form, cache=cache)


def both_views(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    engine: Engine,
    cache: Precomputed = EMPTY_CACHE,
    dropped: Dropped | None = None,
) -> Views:
    """The plain and the masked view, computed by `engine`."""
    if engine.share and dropped is None:
        return shared_views(
            model, batch, mask, rows_only=engine.rows_only, dtype=engine.dtype, cache=cache
        )
    return general_views(model, batch, mask, dropped)


def _cheaper_form(form: ReconstructionForm, batch: Batch, hidden_dim: int) -> ReconstructionForm:
    """'blocks' instead of 'gram' for dense features narrower than 2 H.

    Multiplications per row, forward and backward: blocks 3 F H, Gram 2 F H + 2 H^2 (for sparse
    features 2 H per stored value and 2 H^2).
    """
    narrow = isinstance(batch.x, Tensor) and batch.x.shape[1] < 2 * hidden_dim
    return "blocks" if form == "gram" and narrow else form


def shared_views(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    *,
    rows_only: bool,
    dtype: torch.dtype | None = None,
    cache: Precomputed = EMPTY_CACHE,
) -> Views:
    """Both views, computed from what they share.

    Args:
        model: with a built-in encoder.
        batch: features and propagation matrix.
        mask: the masked rows J and their new features.
        rows_only: only the rows J of the masked view's last layer are needed.
        dtype: dtype of products and outputs; None means that of the features.
        cache: precomputed values of the batch.
    """
    encoder = cast(GNNEncoder, model.encoder)
    first = _first_layer(encoder, batch, mask, dtype or batch.x.dtype, cache)
    # Batch norm in the last layer needs all rows.
    if not rows_only or len(encoder.convs) <= len(encoder.norms):
        return _pair(encoder, *first, limit=cache.limit)
    return _masked_rows(encoder, mask, *first, limit=cache.limit)


def _first_layer(
    encoder: GNNEncoder, batch: Batch, mask: MaskedView, dtype: torch.dtype, cache: Precomputed
) -> tuple[MaskedOperator, Tensor, Tensor]:
    """The linear part of the first layer, and its change by masking.

    Returns:
        The rows and columns J of A; the linear part of the plain view's first layer, [N, H]; the
        change of x @ weight on the rows J, [R, H].
    """
    conv, matrix = cast(Layer, encoder.convs[0]), cast(SparseMatrix, batch.structure)
    weight, bias = conv.weight.to(dtype), conv.bias.to(dtype)
    many = _SHARED_PRODUCT * mask.rows.numel() >= batch.num_nodes
    if many and (cache.ax is None or weight.shape[0] > weight.shape[1]):
        # X W serves both views, where so many rows are masked that most of it is needed again.
        xw = matmul(batch.x.to(dtype) if isinstance(batch.x, Tensor) else batch.x, weight)
        change = matmul(mask.values.to(dtype=dtype), weight) - xw[mask.rows]
        return MaskedOperator(matrix, mask.rows), matrix.matmul(xw, bias), change
    if cache.ax is None:
        x = batch.x.to(dtype) if isinstance(batch.x, Tensor) else batch.x
        z = propagate(matrix, x, weight, bias)
    else:
        # ax may have columns of zeros at the end, which need rows of zeros in the weight.
        padding = cache.ax.shape[1] - weight.shape[0]
        padded = functional.pad(weight, (0, 0, 0, padding)) if padding else weight
        z = torch.addmm(bias, cache.ax.to(dtype), padded)
    return MaskedOperator(matrix, mask.rows), z, _change(batch.x, mask, weight)


def _masked_rows(
    encoder: GNNEncoder,
    mask: MaskedView,
    operator: MaskedOperator,
    z: Tensor,
    change: Tensor,
    *,
    limit: Tensor | None,
) -> Views:
    """The plain view, and the rows J of the masked view's last layer."""
    convs, last = [cast(Layer, conv) for conv in encoder.convs], len(encoder.convs) - 1
    matrix = operator.matrix
    plain = [fused.post_linear(encoder, 0, z, limit=limit)]
    for i in range(1, last + 1):
        linear = convs[i].linear_part(plain[-1], matrix)
        plain.append(fused.post_linear(encoder, i, linear, limit=limit))
    if last == 0:
        rows = operator.scatter(change, z)[mask.rows]
    else:
        masked = fused.post_linear_masked(encoder, z, operator, change, limit=limit)
        for i in range(1, last):
            linear = convs[i].linear_part(masked, matrix)
            masked = fused.post_linear(encoder, i, linear, limit=limit)
        weight, bias = convs[last].weight.to(masked.dtype), convs[last].bias.to(masked.dtype)
        rows = torch.addmm(bias, operator.gather(masked), weight)
    plain[-1], plain_rows = select_rows(plain[-1], mask.rows)
    return Views(plain, [], plain_rows, fused.post_linear(encoder, last, rows))


def _pair(
    encoder: GNNEncoder,
    operator: MaskedOperator,
    z: Tensor,
    change: Tensor,
    *,
    limit: Tensor | None,
) -> Views:
    """Both views with all rows, computed side by side."""
    convs, matrix = [cast(Layer, conv) for conv in encoder.convs], operator.matrix
    rows, width = z.shape
    first = torch.cat([z, operator.scatter(change, z)], dim=1)
    both = [fused.post_linear_pair(encoder, 0, first, limit=limit)]
    for i in range(1, len(convs)):
        propagated = matrix.matmul(both[-1]).view(2 * rows, width)
        weight, bias = convs[i].weight.to(z.dtype), convs[i].bias.to(z.dtype)
        linear = torch.addmm(bias, propagated, weight).view(rows, 2 * width)
        both.append(fused.post_linear_pair(encoder, i, linear, limit=limit))
    both[-1], last = select_columns(both[-1], width)
    plain = [*(layer[:, :width] for layer in both[:-1]), last]
    return Views(plain, [layer[:, width:] for layer in both], both=both)


def _change(x: Tensor | SparseMatrix, mask: MaskedView, weight: Tensor) -> Tensor:
    """(M_J - X_J) W, [R, H]."""
    values = mask.values.to(dtype=weight.dtype)
    if isinstance(x, Tensor) and isinstance(values, Tensor):
        return (values - x[mask.rows].to(weight.dtype)) @ weight
    return matmul(values, weight) - MaskedOperator(cast(SparseMatrix, x), mask.rows).gather(weight)
