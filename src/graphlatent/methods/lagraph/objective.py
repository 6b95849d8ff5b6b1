"""The objectives of the paper as named terms.

    L = 1/N sum_i ||D(H_i) - X_i||^2 / |V_i|
        + alpha * sqrt( sum_i ||H_i[J_i] - H'_i[J_i]||^2 / sum_i |J_i| )       (node level, eq. 5)

At graph level the second term compares z = R(H) with z' = R(H') and is still divided by the number
of masked nodes (eq. 6). A squared norm is a sum over features. Variants (appendix E): invariance on
the decoder's output (Theorem 1), cross-entropy reconstruction, KL invariance; and the denoising
autoencoder of section 3.1. The cosine objective is in cosine.py. A new term is one more entry of
the dictionary that `loss_terms` or `cosine_terms` returns, and one more name in `term_names`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings
from graphlatent.data.batches import Batch
from graphlatent.errors import InputError
from graphlatent.methods.base import Term
from graphlatent.methods.lagraph.cosine import active_terms, cosine_terms
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.precomputed import EMPTY_CACHE, Precomputed, x_sq_norm
from graphlatent.methods.lagraph.reconstruction import blocked_error, gram_error
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.methods.lagraph.views import Views
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.nn.fused import decoder_body
from graphlatent.ops.sparse import SparseMatrix, take_rows

ReconstructionForm: TypeAlias = Literal["output", "gram", "blocks"]
"""How the reconstruction term is computed.

'output' decodes every row and compares it with its features: the specification. 'gram' and
'blocks' compute the same squared error without the N x F output, for a decoder that ends in a
linear layer (reconstruction.py). For the cosine objective 'gram' is the form without the output.
"""


def term_names(settings: LaGraphSettings) -> tuple[str, ...]:
    """The names of the terms that `loss_terms` returns, in order."""
    if settings.objective == "cosine":
        return active_terms(settings)
    return ("reconstruction", "invariance")


def loss_terms(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    views: Views,
    settings: LaGraphSettings,
    *,
    form: ReconstructionForm = "output",
    cache: Precomputed = EMPTY_CACHE,
) -> dict[str, Term]:
    """The terms of the objective that `settings` names, for both views of one batch.

    Args:
        model: decodes and pools.
        batch: the plain graph.
        mask: the masked rows.
        views: the encoder's output for both views.
        settings: `objective`, `alpha`, `invariance_on`, `loss_reduction`.
        form: form of the reconstruction term.
        cache: precomputed values of the batch.
    """
    if settings.objective == "cosine":
        terms = cosine_terms(
            model, batch, mask, views, settings, implicit=form == "gram", cache=cache
        )
        if settings.alpha > 0:
            terms["invariance"] = _embedding_invariance(model, batch, mask, views, settings, cache)
        return terms
    if settings.objective == "denoise":
        reconstruction = _denoising(model, batch, mask, views, settings)
        zero = reconstruction.sum.new_zeros(())
        return {"reconstruction": reconstruction, "invariance": Term(zero, 0.0, settings.alpha)}
    output = model.decode(views.plain[-1], batch.structure) if form == "output" else None
    if output is None:
        reconstruction = _implicit_reconstruction(model, batch, views, form, settings, cache)
    else:
        reconstruction = _reconstruction(output, batch, settings, cache)
    if settings.objective.endswith("-output"):
        invariance = _output_invariance(model, batch, mask, views, settings, output)
    else:
        invariance = _embedding_invariance(model, batch, mask, views, settings, cache)
    return {"reconstruction": reconstruction, "invariance": invariance}


def check_features(x: Tensor | SparseMatrix, settings: LaGraphSettings) -> None:
    """Raise an `InputError` where the objective does not support these features."""
    if not settings.objective.startswith("ce-"):
        return
    if isinstance(x, SparseMatrix):
        values = x.value
        row_sum = torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, x.row, x.value)
    else:
        values, row_sum = x, x.sum(1)
    bad = torch.nonzero((row_sum - 1).abs() > 1e-4)[:, 0]
    if bool((values < 0).any()) or bad.numel():
        problem = "some are negative"
        if bad.numel():
            problem = f"row {int(bad[0])} sums to {float(row_sum[bad[0]]):g}"
        raise InputError(
            f"objective='{settings.objective}' needs feature rows that are non-negative and sum to"
            f" 1, such as one-hot rows; {problem}. Use objective='mse-embed', or normalise the"
            " rows."
        )


def row_weights(batch: Batch, *, mean: bool, cache: Precomputed = EMPTY_CACHE) -> Tensor:
    """The weight of each row's error, [N], or [] where all weights are equal.

    It is 1 / |V_i|, or 1 with `mean`, where all entries are averaged together. Rows that do not
    count have weight 0.
    """
    if cache.padding is not None:
        weight = cache.padding.row_weight
        return (weight > 0).to(batch.x.dtype) if mean else weight
    dtype, device = batch.x.dtype, batch.graph_id.device
    if batch.counts is None and (mean or batch.num_graphs == 1):
        value = 1.0 if mean else 1.0 / max(batch.num_nodes, 1)
        return torch.full((), value, dtype=dtype, device=device)
    if mean:
        weight = torch.ones(batch.num_nodes, dtype=dtype, device=device)
    else:
        size = batch.graph_size if cache.graph_size is None else cache.graph_size
        weight = (1.0 / size.clamp(min=1).to(dtype))[batch.graph_id]
    return weight if batch.counts is None else weight * batch.counts


def mean_sq_norm(batch: Batch, settings: LaGraphSettings, cache: Precomputed) -> float:
    """The reconstruction term of a decoder that returns 0, as a scale of the features."""
    norm = x_sq_norm(batch.x) if cache.x_sq_norm is None else cache.x_sq_norm
    weight = row_weights(batch, mean=settings.loss_reduction == "mean", cache=cache)
    count = _num_reconstructed(batch, settings, cache, columns=batch.x.shape[1])
    return float((norm * weight).sum() / count)


# Reconstruction.


def _reconstruction(
    output: Tensor, batch: Batch, settings: LaGraphSettings, cache: Precomputed
) -> Term:
    cross_entropy = settings.objective.startswith("ce-")
    # One error per row, [N].
    error = row_cross_entropy(output, batch.x) if cross_entropy else _squared_error(output, batch.x)
    weight = row_weights(batch, mean=settings.loss_reduction == "mean", cache=cache)
    columns = 1 if cross_entropy else output.shape[1]
    count = _num_reconstructed(batch, settings, cache, columns=columns)
    return Term((error * weight).sum(), count)


def _implicit_reconstruction(
    model: LaGraphModel,
    batch: Batch,
    views: Views,
    form: ReconstructionForm,
    settings: LaGraphSettings,
    cache: Precomputed,
) -> Term:
    decoder = model.decoder
    assert isinstance(decoder, MLPDecoder)
    hidden = decoder_body(decoder, views.plain[-1], limit=cache.limit)
    last = decoder.linears[-1]
    assert isinstance(last, nn.Linear)
    weight = row_weights(batch, mean=settings.loss_reduction == "mean", cache=cache)
    if form == "blocks":
        x = batch.x if cache.x_aligned is None else cache.x_aligned
        error = blocked_error(hidden, last.weight, last.bias, x, row_weight=weight)
    else:
        norm = x_sq_norm(batch.x) if cache.x_sq_norm is None else cache.x_sq_norm
        layer = (last.weight, last.bias)
        error = gram_error(
            hidden, *layer, batch.x, row_weight=weight, x_sq_norm=norm, x_sum=cache.x_sum
        )
    count = _num_reconstructed(batch, settings, cache, columns=batch.x.shape[1])
    return Term(error, count)


def _num_reconstructed(
    batch: Batch, settings: LaGraphSettings, cache: Precomputed, *, columns: int
) -> float | Tensor:
    """The divisor of the reconstruction term: graphs, or entries where those are averaged."""
    mean, padding = settings.loss_reduction == "mean", cache.padding
    if padding is not None:
        return columns * padding.rows if mean else padding.graphs
    if batch.counts is None:
        return float(columns * batch.num_nodes if mean else batch.num_graphs)
    # A graph without counted rows is not part of the loss.
    return columns * batch.counts.sum() if mean else (batch.graph_size > 0).sum()


def _denoising(
    model: LaGraphModel, batch: Batch, mask: MaskedView, views: Views, settings: LaGraphSettings
) -> Term:
    """The reconstruction error of masked nodes, decoded from the masked view.

    This is eq. 9 over |V_i|, averaged over graphs as Algorithm 1 does.
    """
    output = _decoded_masked(model, batch, views, mask.rows)
    error = _squared_error(output, take_rows(batch.x, mask.rows))
    if settings.loss_reduction == "mean":
        return Term(error.sum(), float(output.numel()))
    graph_id = batch.graph_id[mask.rows]
    size = torch.bincount(graph_id, minlength=batch.num_graphs).clamp(min=1)
    count = batch.num_graphs if batch.counts is None else (batch.graph_size > 0).sum()
    return Term((error / size[graph_id].to(error.dtype)).sum(), count)


# Invariance.


def _embedding_invariance(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    views: Views,
    settings: LaGraphSettings,
    cache: Precomputed,
) -> Term:
    if isinstance(settings, GraphSettings):
        return _graph_invariance(model, batch, mask, views, settings, cache)
    return _node_invariance(batch, mask, views, settings)


def _node_invariance(
    batch: Batch, mask: MaskedView, views: Views, settings: LaGraphSettings
) -> Term:
    rows = _compared_rows(batch, mask, settings)
    plain = _select(views.plain[-1], rows) if views.plain_rows is None else views.plain_rows
    masked = _select(views.masked[-1], rows) if views.masked_rows is None else views.masked_rows
    return _distance_term(plain, masked, settings)


def _graph_invariance(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    views: Views,
    settings: LaGraphSettings,
    cache: Precomputed,
) -> Term:
    plain, masked = _pooled(model, batch, views)
    padding = cache.padding
    graphs = _num_graphs(batch) if padding is None else padding.graphs
    nodes = mask.rows.numel() if padding is None else padding.masked
    count = graphs * plain.shape[1] if settings.loss_reduction == "mean" else nodes
    return Term(_squared_distance(plain, masked), count, settings.alpha, "root")


def _num_graphs(batch: Batch) -> int | Tensor:
    """The number of graphs in the loss: those with a counted row."""
    return batch.num_graphs if batch.counts is None else (batch.graph_size > 0).sum()


def _output_invariance(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    views: Views,
    settings: LaGraphSettings,
    output: Tensor | None,
) -> Term:
    rows = _compared_rows(batch, mask, settings)
    if output is None:
        plain = _decoded(model, batch, views.plain[-1], rows)
    else:
        plain = _select(output, rows)
    masked = _decoded_masked(model, batch, views, rows)
    if settings.objective == "ce-output":
        return Term(_kl(plain, masked).sum(), float(plain.shape[0]), settings.alpha)
    return _distance_term(plain, masked, settings)


def _distance_term(plain: Tensor, masked: Tensor, settings: LaGraphSettings) -> Term:
    count = plain.numel() if settings.loss_reduction == "mean" else plain.shape[0]
    return Term(_squared_distance(plain, masked), float(count), settings.alpha, "root")


def _pooled(model: LaGraphModel, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
    """The pooled views z and z', [B, layers * H] each, with the same order of columns."""
    if views.both is None:
        plain = model.pool(views.plain, batch.graph_id, batch.num_graphs)
        return plain, model.pool(views.masked, batch.graph_id, batch.num_graphs)
    # An additional graph collects the padding rows, which belong to no graph.
    pooled = model.pool(views.both, batch.graph_id, batch.num_graphs + 1)[:-1]
    # Widths are given, since a process that shares a batch may have no graph of it.
    width = pooled.shape[1] // (2 * len(views.both))
    pooled = pooled.view(batch.num_graphs, len(views.both), 2, width)
    return pooled[:, :, 0].flatten(1), pooled[:, :, 1].flatten(1)


def _decoded(model: LaGraphModel, batch: Batch, hidden: Tensor, rows: Tensor | None) -> Tensor:
    """D(H) on the rows `rows`; only the last linear layer can be restricted to them."""
    decoder = model.decoder
    if isinstance(decoder, MLPDecoder) and not decoder.relu_output:
        out: Tensor = decoder.linears[-1](_select(decoder.body(hidden), rows))
        return out
    return _select(model.decode(hidden, batch.structure), rows)


def _decoded_masked(model: LaGraphModel, batch: Batch, views: Views, rows: Tensor | None) -> Tensor:
    if views.masked_rows is not None:
        return model.decode(views.masked_rows, batch.structure)
    return _decoded(model, batch, views.masked[-1], rows)


def _compared_rows(batch: Batch, mask: MaskedView, settings: LaGraphSettings) -> Tensor | None:
    if settings.invariance_on == "masked":
        return mask.rows
    return None if batch.counts is None else torch.nonzero(batch.counts)[:, 0]


# Distances.


def _select(rows: Tensor, index: Tensor | None) -> Tensor:
    return rows if index is None else rows[index]


def _squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||^2, a scalar, summed in float32 or better."""
    exact = torch.promote_types(a.dtype, torch.float32)
    return (a.to(exact) - b.to(exact)).square().sum()


def _squared_error(output: Tensor, x: Tensor | SparseMatrix) -> Tensor:
    """||output_v - x_v||^2 of each row, [N]."""
    if isinstance(x, SparseMatrix):
        return output.index_put((x.row, x.col), -x.value, accumulate=True).square().sum(1)
    return (output - x).square().sum(1)


def row_cross_entropy(output: Tensor, x: Tensor | SparseMatrix) -> Tensor:
    """- sum_f x_vf log softmax(output_v)_f of each row, [N]."""
    log_p = torch.log_softmax(output, dim=1)
    if isinstance(x, SparseMatrix):
        picked = log_p[x.row, x.col] * x.value
        return -log_p.new_zeros(x.shape[0]).index_add(0, x.row, picked)
    return -(x * log_p).sum(1)


def _kl(output: Tensor, masked_output: Tensor) -> Tensor:
    """KL(p || p') of each row's softmax, [R]."""
    log_p, log_q = torch.log_softmax(output, dim=1), torch.log_softmax(masked_output, dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(1)
