"""The cosine objective: reconstruction of features and prediction of embeddings by their angle.

With H = E(A, X) the plain view, H' the masked view, D the decoder, q the predictor and J the masked
nodes, its terms are means over nodes v:

    reconstruction          (1 - cos(D(h_v), x_v))^2     over counted v with x_v != 0
    masked_reconstruction   (1 - cos(D(h'_v), x_v))^2    over v in J with x_v != 0
    latent                  1 - cos(q(h'_v), t_v)        over v in J
    variance                mean_j max(0, 1 - s_j) + 0.04 sum_{i != j} C_ij^2 / H
    invariance              the paper's, with weight alpha (objective.py)

t_v is row v of the plain view's embedding, of the encoder itself or of its moving average, without
gradient and with standardised columns. s_j are the standard deviations of the columns of
sqrt(H) h_v / |h_v| and C their covariance over the counted rows: VICReg's terms (Bardes et al.
2022) of the embeddings' directions, so that nodes with large embeddings, such as hubs, do not
dominate. A term whose weight is 0 is left out. Where several processes share a batch, means, counts
and covariances over rows are those of all rows.

With a linear last layer of D, D(h) = W g + b, no N x F matrix is needed and X stays sparse:

    <D(h_v), x_v> = <g_v, (X W)_v> + (X b)_v,    |D(h_v)|^2 = g_v W^T W g_v + 2 g_v W^T b + |b|^2

docs/theory.md says what the terms estimate. Legend: N rows, F features, H hidden, R masked rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from graphlatent.data.batches import Batch
from graphlatent.methods.base import Term, safe_sqrt
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, Precomputed, x_sq_norm
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.methods.lagraph.views import Views
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.encoders import GCNLayer, GINLayer, GNNEncoder
from graphlatent.nn.fused import decoder_body, post_linear
from graphlatent.ops.collective import all_sum, current
from graphlatent.ops.sparse import SparseMatrix, matmul, take_rows

COSINE_EPS = 1e-6
"""A shorter vector counts as one of this length, so that the gradient of a cosine is bounded."""
DEVIATION_EPS = 1e-3
"""Added to the standard deviations of the target's columns."""
CONSTANT = 1e-4
"""A column of the target with a smaller deviation, relative to its root mean square, is constant:
what is left of it is rounding errors, which batch norm enlarges."""
COVARIANCE_WEIGHT = 0.04
"""Weight of the covariances against the variances: VICReg's 1 against 25."""


def active_terms(settings: LaGraphSettings) -> tuple[str, ...]:
    """The names of the terms with a weight above 0, in order."""
    weights = {
        "reconstruction": settings.reconstruction_weight,
        "masked_reconstruction": settings.masked_weight,
        "latent": settings.latent_weight,
        "variance": settings.variance_weight,
        "invariance": settings.alpha,
    }
    return tuple(name for name, weight in weights.items() if weight > 0)


def cosine_terms(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    views: Views,
    settings: LaGraphSettings,
    *,
    implicit: bool = False,
    cache: Precomputed = EMPTY_CACHE,
) -> dict[str, Term]:
    """The terms of the cosine objective without the invariance term.

    Args:
        model: decodes and predicts.
        batch: the plain graph.
        mask: the masked rows.
        views: the encoder's output for both views.
        settings: the weights.
        implicit: compute cosines without the N x F output, for a decoder with a linear end.
        cache: precomputed values of the batch.
    """
    rows = _counted_rows(batch, cache)
    names, terms = active_terms(settings), {}
    # Sums are computed in float32 or better, also where the encoder computes in bfloat16.
    exact = torch.promote_types(views.plain[-1].dtype, torch.float32)
    hidden = views.plain[-1].to(exact)
    masked = None if views.masked_rows is None else views.masked_rows.to(exact)
    if "reconstruction" in names or "masked_reconstruction" in names:
        target = ImplicitTarget.of(model, batch) if implicit else None
        norm = x_sq_norm(batch.x) if cache.x_sq_norm is None else cache.x_sq_norm
        has_features = (norm > 0) if rows is None else (norm > 0) & rows
        length = norm.sqrt()
    if "reconstruction" in names:
        cosine = _decoded_cosine(model, batch, hidden, None, length, target, cache)
        terms["reconstruction"] = _mean_of(
            (1 - cosine).square(), has_features, settings.reconstruction_weight
        )
    if "masked_reconstruction" in names:
        decoded = views.masked[-1].to(exact) if masked is None else masked
        cosine = _decoded_cosine(
            model,
            batch,
            decoded,
            mask.rows,
            length[mask.rows],
            target,
            cache,
            selected=masked is not None,
        )
        terms["masked_reconstruction"] = _mean_of(
            (1 - cosine).square(), has_features[mask.rows], settings.masked_weight
        )
    if "latent" in names:
        assert model.predictor is not None
        seen = views.masked[-1][mask.rows].to(exact) if masked is None else masked
        predicted = model.predictor(seen)
        embedded = _target_embedding(model, batch, hidden, cache.limit)
        standard = _standardized(embedded, rows)[mask.rows]
        distance = 1 - _cosine(predicted, standard)
        used = None if rows is None else rows[mask.rows]
        terms["latent"] = _mean_of(distance, used, settings.latent_weight)
    if "variance" in names:
        value = variance_covariance(hidden, rows)
        terms["variance"] = Term(value, 1.0, settings.variance_weight)
    return terms


@dataclass(frozen=True, eq=False)
class ImplicitTarget:
    """Products of the features with the decoder's last layer W g + b, shared by both views.

    Args:
        xw: X W, [N, H].
        xb: X b, [N].
        gram: W^T W, [H, H].
        wb: W^T b, [H].
        bias_sq: |b|^2, [].
    """

    xw: Tensor
    xb: Tensor
    gram: Tensor
    wb: Tensor
    bias_sq: Tensor

    @classmethod
    def of(cls, model: LaGraphModel, batch: Batch) -> ImplicitTarget:
        """The products for the model's decoder, an `MLPDecoder`."""
        last = cast(nn.Linear, cast(MLPDecoder, model.decoder).linears[-1])
        weight, bias = last.weight, last.bias
        both = matmul(batch.x, torch.cat([weight, bias[:, None]], dim=1))
        gram, wb = weight.T @ weight, bias @ weight
        return cls(both[:, :-1], both[:, -1], gram, wb, bias.square().sum())

    def cosine(self, body: Tensor, length: Tensor, rows: Tensor | None) -> Tensor:
        """cos(W g_v + b, x_v) for the rows g of `body`, which are all or those in `rows`."""
        xw, xb = (self.xw, self.xb) if rows is None else (self.xw[rows], self.xb[rows])
        product = (body * xw).sum(1) + xb
        square = ((body @ self.gram) * body).sum(1) + 2 * (body @ self.wb) + self.bias_sq
        return product / (_clamped_root(square) * length.clamp(min=COSINE_EPS))


def variance_covariance(hidden: Tensor, rows: Tensor | None = None) -> Tensor:
    """VICReg's variance and covariance terms of the directions of an embedding [N, H], a scalar.

    Rows are first scaled to the length sqrt(H). It is 0 where the columns are then uncorrelated
    with standard deviations of at least 1.

    Args:
        hidden: the embedding.
        rows: bool [N], the rows that count; None means all.
    """
    width = hidden.shape[1]
    length = _clamped_root(hidden.square().sum(1, keepdim=True))
    count, centred = _centred(hidden * (width**0.5 / length), rows)
    divisor = (count - 1).clamp(min=1)
    deviation = (all_sum(centred.square().sum(0)) / divisor + 1e-4).sqrt()
    covariance = all_sum(centred.T @ centred) / divisor
    off_diagonal = covariance.square().sum() - covariance.diagonal().square().sum()
    spread = torch.relu(1 - deviation).mean()
    return spread + COVARIANCE_WEIGHT * off_diagonal / width


def _counted_rows(batch: Batch, cache: Precomputed) -> Tensor | None:
    """The rows that count and are not padding, bool [N]; None means all."""
    if cache.padding is None:
        return batch.counts
    return torch.arange(batch.num_nodes, device=batch.graph_id.device) < cache.padding.rows


def _mean_of(errors: Tensor, rows: Tensor | None, weight: float) -> Term:
    """The mean of the errors [R] of the rows that count, as a term."""
    if rows is None:
        return Term(errors.sum(), float(errors.numel()), weight)
    return Term(torch.where(rows, errors, 0.0).sum(), rows.sum(), weight)


def _decoded_cosine(
    model: LaGraphModel,
    batch: Batch,
    hidden: Tensor,
    rows: Tensor | None,
    length: Tensor,
    target: ImplicitTarget | None,
    cache: Precomputed,
    *,
    selected: bool = False,
) -> Tensor:
    """cos(D(h_v), x_v) of the rows `rows`, [R], or of all.

    Args:
        model: with the decoder D.
        batch: with the features.
        hidden: h of all rows [N, H], or, with `selected`, of those in `rows`.
        rows: int64 [R]; None means all.
        length: |x_v| of those rows.
        target: products for the implicit form; None decodes the N x F output.
        cache: precomputed values of the batch.
        selected: whether `hidden` has the rows `rows` only.
    """
    decoder = cast(MLPDecoder, model.decoder)
    body = decoder_body(decoder, hidden, limit=None if selected else cache.limit)
    if rows is not None and not selected:
        body = body[rows]
    if target is not None:
        return target.cosine(body, length, rows)
    output: Tensor = decoder.linears[-1](body)
    x = batch.x if rows is None else take_rows(batch.x, rows)
    if isinstance(x, SparseMatrix):
        picked = output[x.row, x.col] * x.value
        product = picked.new_zeros(x.shape[0]).index_add(0, x.row, picked)
    else:
        product = (output * x).sum(1)
    norm = _clamped_root(output.square().sum(1))
    return product / (norm * length.clamp(min=COSINE_EPS))


def _target_embedding(
    model: LaGraphModel, batch: Batch, hidden: Tensor, limit: Tensor | None
) -> Tensor:
    """The embedding whose rows are predicted, [N, H], without gradient."""
    target = model.target
    if target is None:
        return hidden.detach()
    with torch.no_grad():
        if limit is None:
            return target.layers(batch.x, batch.structure)[-1]
        # Padding is no part of batch-norm statistics.
        assert isinstance(target, GNNEncoder)
        assert isinstance(batch.x, Tensor)
        rows = batch.x
        for i, conv in enumerate(target.convs):
            linear = cast(GCNLayer | GINLayer, conv).linear_part(
                rows, cast(SparseMatrix, batch.structure)
            )
            rows = post_linear(target, i, linear, limit=limit)
        return rows


def _standardized(rows: Tensor, counted: Tensor | None) -> Tensor:
    """Columns with mean 0 and variance 1 over the counted rows; constant columns become 0."""
    count, centred = _centred(rows, counted)
    kept = rows if counted is None else torch.where(counted[:, None], rows, 0.0)
    variance = all_sum(centred.square().sum(0)) / count.clamp(min=1)
    varies = variance > CONSTANT**2 * all_sum(kept.square().sum(0)) / count.clamp(min=1)
    return torch.where(varies, centred / (variance.sqrt() + DEVIATION_EPS), 0.0)


def _centred(hidden: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    """The number of counted rows, [], and the rows minus their mean; uncounted rows are 0."""
    if current() is not None:
        # One message; a process may count all of its rows where another counts some.
        kept = hidden if rows is None else torch.where(rows[:, None], hidden, 0.0)
        own = len(hidden) if rows is None else int(rows.sum())
        both = all_sum(torch.cat([kept.sum(0), hidden.new_tensor([float(own)])]))
        count = both[-1].detach()
        centred = hidden - both[:-1] / count.clamp(min=1)
        return count, centred if rows is None else torch.where(rows[:, None], centred, 0.0)
    if rows is None:
        count = torch.full((), float(hidden.shape[0]), dtype=hidden.dtype, device=hidden.device)
        return count, hidden - hidden.mean(0)
    kept = torch.where(rows[:, None], hidden, 0.0)
    count = rows.sum().to(hidden.dtype)
    return count, torch.where(rows[:, None], hidden - kept.sum(0) / count.clamp(min=1), 0.0)


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    """cos(a_v, b_v) of each row, [R]."""
    square_a, square_b = a.square().sum(1), b.square().sum(1)
    return (a * b).sum(1) / (_clamped_root(square_a) * _clamped_root(square_b))


def _clamped_root(square: Tensor) -> Tensor:
    """max(sqrt(square), COSINE_EPS), with gradient 0 where that is COSINE_EPS."""
    return safe_sqrt(square.clamp(min=0.0)).clamp(min=COSINE_EPS)
