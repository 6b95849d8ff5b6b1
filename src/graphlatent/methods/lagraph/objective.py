"""The objectives of the paper as sums and counts, and how they combine into one loss.

    L = 1/N sum_i ||D(H_i) - X_i||^2 / |V_i|  +  alpha * sqrt( sum_i ||H_i[J_i] - H'_i[J_i]||^2 /
    sum_i |J_i| )   (node level, eq. 5)

At graph level the second term compares z = R(H) with z' = R(H') and is still divided by the number
of masked nodes (eq. 6). A squared norm is a sum over features. Terms are kept as (sum, count) until
`combine`, because the root of a mean does not split over micro-batches or processes. Variants
(appendix E): invariance on the decoder's output (Theorem 1), cross-entropy reconstruction, KL
invariance; and the denoising autoencoder of section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from graphlatent.config import GraphSettings, Settings
from graphlatent.data.batches import Batch, with_constants
from graphlatent.errors import InputError
from graphlatent.methods.lagraph.masking import MaskedView
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.reconstruction import blocked_error, gram_error
from graphlatent.methods.lagraph.views import Views
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.ops.fused import decoder_body
from graphlatent.ops.sparse import SparseMatrix, take_rows

Reconstruct: TypeAlias = Literal["output", "gram", "blocks"]


@dataclass(frozen=True, eq=False)
class LossSums:
    """The terms of one batch, before any division.

    Args:
        reconstruction: sum of the (per-graph weighted) reconstruction errors, a scalar.
        reconstruction_count: what to divide it by.
        invariance: sum of squared differences (or of KL divergences), a scalar.
        invariance_count: what to divide it by; 0 where nothing was compared.
        rooted: whether the invariance term is the root of that ratio.
    """

    reconstruction: Tensor
    reconstruction_count: float | Tensor
    invariance: Tensor
    invariance_count: float | Tensor
    rooted: bool = True

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums(
            self.reconstruction + other.reconstruction,
            self.reconstruction_count + other.reconstruction_count,
            self.invariance + other.invariance,
            self.invariance_count + other.invariance_count,
            self.rooted,
        )


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss and its two terms (`invariance` before it is multiplied by alpha), scalars."""

    total: Tensor
    reconstruction: Tensor
    invariance: Tensor


def combine(sums: LossSums, *, alpha: float) -> Loss:
    """The loss out of sums that may have been added up over micro-batches."""
    reconstruction = sums.reconstruction / _at_least_one(sums.reconstruction_count)
    ratio = sums.invariance / _at_least_one(sums.invariance_count)
    invariance = safe_sqrt(ratio) if sums.rooted else ratio
    return Loss(reconstruction + alpha * invariance, reconstruction, invariance)


def _at_least_one(count: float | Tensor) -> float | Tensor:
    return count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1.0)


def safe_sqrt(value: Tensor) -> Tensor:
    """The root, with value 0 and gradient 0 at 0 (where nothing differs there is nothing to
    learn).
    """
    positive = value > 0
    return torch.where(
        positive,
        torch.sqrt(torch.where(positive, value, torch.ones_like(value))),
        torch.zeros_like(value),
    )


def loss_sums(
    model: LaGraphModel,
    batch: Batch,
    mask: MaskedView,
    views: Views,
    settings: Settings,
    *,
    how: Reconstruct = "output",
) -> LossSums:
    """The terms of the objective that `settings` names, for both views of one batch.

    Args:
        model: decodes and pools.
        batch: the plain graph.
        mask: the masked rows.
        views: what the encoder made of both.
        settings: `objective`, `invariance_on`, `loss_reduction`.
        how: 'output' decodes every row and compares it with its features, the specification; 'gram'
            and 'blocks' give the same squared error of a decoder that ends in a linear layer
            without the N x F output (reconstruction.py).
    """
    mean = settings.loss_reduction == "mean"
    if settings.objective == "denoise":
        reconstruction, count = _denoising(model, batch, mask, views, mean)
        return LossSums(reconstruction, count, reconstruction.new_zeros(()), 0.0)
    cross_entropy = settings.objective.startswith("ce-")
    output = model.decode(views.plain[-1], batch.structure) if how == "output" else None
    if output is None:
        reconstruction, count = _implicit_reconstruction(model, batch, views, how, mean)
    else:
        reconstruction, count = _reconstruction(output, batch, cross_entropy, mean)
    if settings.objective.endswith("-output"):
        rows = _compared_rows(batch, mask, settings)
        plain = (
            _decoded(model, batch, views.plain[-1], rows) if output is None else _at(output, rows)
        )
        masked = _decoded_masked(model, batch, views, rows)
        if cross_entropy:
            return LossSums(
                reconstruction, count, _kl(plain, masked).sum(), float(plain.shape[0]), rooted=False
            )
    elif isinstance(settings, GraphSettings):
        plain, masked = _pooled(model, batch, views)
        graphs, nodes = (
            (batch.num_graphs, mask.rows.numel())
            if batch.padding is None
            else (batch.padding.graphs, batch.padding.masked)
        )
        return LossSums(
            reconstruction,
            count,
            _squared_distance(plain, masked),
            graphs * plain.shape[1] if mean else nodes,
        )
    else:
        rows = _compared_rows(batch, mask, settings)
        plain = _at(views.plain[-1], rows) if views.plain_rows is None else views.plain_rows
        masked = _at(views.masked[-1], rows) if views.masked_rows is None else views.masked_rows
    compared = plain.numel() if mean else plain.shape[0]
    return LossSums(reconstruction, count, _squared_distance(plain, masked), float(compared))


def check_features(x: Tensor | SparseMatrix, settings: Settings) -> None:
    """Raise an `InputError` where the objective cannot work on these features."""
    if not settings.objective.startswith("ce-"):
        return
    values = x.value if isinstance(x, SparseMatrix) else x
    row_sum = (
        torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, x.row, x.value)
        if isinstance(x, SparseMatrix)
        else x.sum(1)
    )
    bad = torch.nonzero((row_sum - 1).abs() > 1e-4)[:, 0]
    if bool((values < 0).any()) or bad.numel():
        what = (
            f"row {int(bad[0])} sums to {float(row_sum[bad[0]]):g}"
            if bad.numel()
            else "some are negative"
        )
        raise InputError(
            f"objective='{settings.objective}' needs feature rows that are non-negative and sum to"
            f" 1, such as one-hot rows; {what}. Use objective='mse-embed', or normalise the rows."
        )


def row_weights(batch: Batch, *, mean: bool) -> Tensor:
    """What each row's error counts, [N]: 1 / |V_i|, or 1 where everything is averaged alike; 0 for
    rows that do not count.

    Where all rows count the same, one number for all, [].
    """
    if batch.padding is not None:
        return (
            (batch.padding.row_weight > 0).to(batch.x.dtype) if mean else batch.padding.row_weight
        )
    dtype, device, every = batch.x.dtype, batch.graph_id.device, batch.counts is None
    if every and (mean or batch.num_graphs == 1):
        return torch.full(
            (), 1.0 if mean else 1.0 / max(batch.num_nodes, 1), dtype=dtype, device=device
        )
    if mean:
        weight = torch.ones(batch.num_nodes, dtype=dtype, device=device)
    else:
        weight = (1.0 / batch.graph_size.clamp(min=1).to(dtype))[batch.graph_id]
    return weight if batch.counts is None else weight * batch.counts


def _reconstruction(
    output: Tensor, batch: Batch, cross_entropy: bool, mean: bool
) -> tuple[Tensor, float | Tensor]:
    # [N]
    error = _cross_entropy(output, batch.x) if cross_entropy else _squared_error(output, batch.x)
    return (error * row_weights(batch, mean=mean)).sum(), _divisor(
        batch, mean, columns=1 if cross_entropy else output.shape[1]
    )


def _implicit_reconstruction(
    model: LaGraphModel, batch: Batch, views: Views, how: Reconstruct, mean: bool
) -> tuple[Tensor, float | Tensor]:
    decoder = model.decoder
    assert isinstance(decoder, MLPDecoder)
    hidden, last = decoder_body(decoder, views.plain[-1], limit=batch.limit), decoder.linears[-1]
    assert isinstance(last, nn.Linear)
    weight = row_weights(batch, mean=mean)
    if how == "blocks":
        x = batch.x if batch.aligned is None else batch.aligned
        error = blocked_error(hidden, last.weight, last.bias, x, row_weight=weight)
    else:
        energy = (
            batch.row_energy if batch.row_energy is not None else with_constants(batch).row_energy
        )
        assert energy is not None
        total = batch.column_sum
        error = gram_error(
            hidden,
            last.weight,
            last.bias,
            batch.x,
            row_weight=weight,
            row_energy=energy,
            column_sum=total,
        )
    return error, _divisor(batch, mean, columns=batch.x.shape[1])


def _pooled(model: LaGraphModel, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
    """Z and z', [B, layers * H] each (their columns in any order, as long as it is the same)."""
    if views.both is None:
        plain, masked = (
            model.pool(layers, batch.graph_id, batch.num_graphs)
            for layers in (views.plain, views.masked)
        )
        return plain, masked
    # The last one takes what is in no graph
    pooled = model.pool(views.both, batch.graph_id, batch.num_graphs + 1)[:-1]
    pooled = pooled.view(batch.num_graphs, len(views.both), 2, -1)
    return pooled[:, :, 0].flatten(1), pooled[:, :, 1].flatten(1)


def _divisor(batch: Batch, mean: bool, *, columns: int) -> float | Tensor:
    if batch.padding is not None:
        return columns * batch.padding.rows if mean else batch.padding.graphs
    if not mean:
        return float(batch.num_graphs)
    return float(columns * (batch.num_nodes if batch.counts is None else int(batch.counts.sum())))


def _decoded(model: LaGraphModel, batch: Batch, hidden: Tensor, rows: Tensor | None) -> Tensor:
    """D(H) on some rows: only the last linear layer can be cut to them."""
    decoder = model.decoder
    if isinstance(decoder, MLPDecoder) and not decoder.relu_output:
        out: Tensor = decoder.linears[-1](_at(decoder.body(hidden), rows))
        return out
    return _at(model.decode(hidden, batch.structure), rows)


def _decoded_masked(model: LaGraphModel, batch: Batch, views: Views, rows: Tensor | None) -> Tensor:
    if views.masked_rows is not None:
        return model.decode(views.masked_rows, batch.structure)
    return _decoded(model, batch, views.masked[-1], rows)


def _denoising(
    model: LaGraphModel, batch: Batch, mask: MaskedView, views: Views, mean: bool
) -> tuple[Tensor, float | Tensor]:
    """Masked nodes reconstructed from the masked view: eq. 9 over |V_i|, averaged over graphs as
    Algorithm 1 does.
    """
    output = _decoded_masked(model, batch, views, mask.rows)
    error = _squared_error(output, take_rows(batch.x, mask.rows))
    if mean:
        return error.sum(), float(output.numel())
    graph_id = batch.graph_id[mask.rows]
    size = torch.bincount(graph_id, minlength=batch.num_graphs).clamp(min=1)
    return (error / size[graph_id].to(error.dtype)).sum(), float(batch.num_graphs)


def _compared_rows(batch: Batch, mask: MaskedView, settings: Settings) -> Tensor | None:
    if settings.invariance_on == "masked":
        return mask.rows
    return None if batch.counts is None else torch.nonzero(batch.counts)[:, 0]


def _at(rows: Tensor, index: Tensor | None) -> Tensor:
    return rows if index is None else rows[index]


def _squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||^2, a scalar, summed in float32 or better."""
    exact = torch.promote_types(a.dtype, torch.float32)
    return (a.to(exact) - b.to(exact)).square().sum()


def _squared_error(output: Tensor, x: Tensor | SparseMatrix) -> Tensor:
    """||output_v - x_v||^2 of each row, [N]; sparse x is subtracted where it is stored."""
    if isinstance(x, SparseMatrix):
        return output.index_put((x.row, x.col), -x.value, accumulate=True).square().sum(1)
    return (output - x).square().sum(1)


def _cross_entropy(output: Tensor, x: Tensor | SparseMatrix) -> Tensor:
    """- sum_f x_vf log softmax(output_v)_f of each row, [N]."""
    log_p = torch.log_softmax(output, dim=1)
    if isinstance(x, SparseMatrix):
        return -log_p.new_zeros(x.shape[0]).index_add(0, x.row, log_p[x.row, x.col] * x.value)
    return -(x * log_p).sum(1)


def _kl(output: Tensor, masked_output: Tensor) -> Tensor:
    """KL(p || p') of each row's softmax, [R]."""
    log_p, log_q = torch.log_softmax(output, dim=1), torch.log_softmax(masked_output, dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(1)
