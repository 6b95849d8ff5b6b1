"""Batch norm without running averages: evaluation statistics are measured exactly, once.

In training it normalises each batch, and each view, with its own statistics; those of a batch that
several processes share are of the rows of all (ops/global_norm.py). Before embedding, the
statistics of the plain view of the whole training set are measured (`measure_statistics`) and
fixed, so an embedding depends neither on momentum nor on the rest of its batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphlatent.ops.collective import all_sum, all_sum_detached, current
from graphlatent.ops.global_norm import batch_norm
from graphlatent.ops.row_blocks import RowMoments


class BatchNorm(nn.Module):
    """Batch norm over rows.

    Differs from `torch.nn.BatchNorm1d`: it has no running average, and it accepts a single row,
    whose variance is 0.
    """

    mean: Tensor
    var: Tensor

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.measuring = False
        # Rows that count, int64 [R]; set by `statistics_of`.
        self.counted: Tensor | None = None
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalised rows, [N, dim].

        In training with the statistics of `x`, in evaluation with the measured ones.
        """
        if self.measuring:
            self.mean = x.mean(0)
            self.var = x.var(0, unbiased=False)
        if not self.training:
            scale: Tensor = self.weight * torch.rsqrt(self.var + self.eps)
            return (x - self.mean) * scale + self.bias
        if self.counted is not None:
            return normalize_by(x, self.counted, self.weight, self.bias, eps=self.eps)
        processes = current()
        if processes is not None:
            return batch_norm(x, self.weight, self.bias, eps=self.eps, processes=processes)
        # torch refuses a single row. Its variance is 0, and so is its difference from the mean.
        if x.shape[0] == 1:
            return (x - x.mean(0)) / math.sqrt(self.eps) * self.weight + self.bias
        normed: Tensor = functional.batch_norm(
            x, None, None, self.weight, self.bias, training=True, eps=self.eps
        )
        return normed


def normalize_by(x: Tensor, rows: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Tensor:
    """Batch norm of all rows of `x` [N, H] with the statistics of the rows `rows`, int64 [R].

    Of several processes, the statistics are those of such rows in all of them.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    part = x[rows].to(exact)
    if current() is None:
        mean, var = part.mean(0), part.var(0, unbiased=False)
    else:
        count = all_sum_detached(part.new_full((), float(len(part)))).clamp(min=1)
        mean = all_sum(part.sum(0)) / count
        var = all_sum((part - mean).square().sum(0)) / count
    scale = gamma * torch.rsqrt(var + eps)
    return ((x.to(exact) - mean) * scale + beta).to(x.dtype)


@contextmanager
def statistics_of(model: nn.Module, counts: Tensor | None) -> Iterator[None]:
    """Within this context batch norm in training takes its statistics from the rows that count.

    Other rows are normalised with them too. In a sampled neighbourhood these are nodes of which
    only some neighbours, or none, are known.

    Args:
        model: with batch norms of this package; others take all rows.
        counts: bool [N]; None means all rows, and changes nothing.
    """
    norms = [m for m in model.modules() if isinstance(m, BatchNorm)] if counts is not None else []
    rows = None if counts is None else torch.nonzero(counts)[:, 0]
    for norm in norms:
        norm.counted = rows
    try:
        yield
    finally:
        for norm in norms:
            norm.counted = None


def has_statistics(model: nn.Module) -> bool:
    """Whether `model` contains a batch norm."""
    return any(isinstance(m, BatchNorm | nn.modules.batchnorm._BatchNorm) for m in model.modules())


@torch.no_grad()
def measure_statistics(model: nn.Module, forward: Callable[[], object]) -> None:
    """Set the statistics of every batch norm in `model` to those of its input in `forward`.

    Layers are measured in the order in which they run, each on its input in evaluation, so one call
    of `forward` is exact. Batch norms of `torch.nn` in a custom encoder are measured too.

    Args:
        model: the model, whose other layers are in evaluation mode meanwhile.
        forward: runs the model on all rows of the plain view.
    """
    ours = [m for m in model.modules() if isinstance(m, BatchNorm)]
    torchs = [
        m
        for m in model.modules()
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats
    ]
    momenta = [m.momentum for m in torchs]
    was_training = model.training
    # No dropout while measuring.
    model.eval()
    for norm in ours:
        norm.measuring = True
    for other in torchs:
        other.train()
        other.momentum = 1.0
    try:
        forward()
    finally:
        for norm in ours:
            norm.measuring = False
        for other, momentum in zip(torchs, momenta, strict=True):
            other.momentum = momentum
        model.train(was_training)


@torch.no_grad()
def measure_by_blocks(
    norms: Sequence[BatchNorm],
    blocks: Callable[[], Iterable[Tensor]],
    run: Callable[[Tensor], object],
) -> None:
    """`measure_statistics` of a function of rows, from blocks of rows, in float64.

    Of several processes, they are those of the rows of all.

    Args:
        norms: the batch norms that run, in the order in which they run; in evaluation mode.
        blocks: yields all rows in blocks, each time that it is called: once for each norm.
        run: the function of rows that contains the norms.
    """
    for norm in norms:
        moments = RowMoments()
        hook = norm.register_forward_pre_hook(lambda _, rows, to=moments: to.add(rows[0]))
        try:
            for rows in blocks():
                run(rows)
        finally:
            hook.remove()
        moments = moments.over_processes()
        if moments.count:
            norm.mean = moments.mean.to(norm.mean)
            norm.var = moments.variance.to(norm.var)
