"""What training does to the embedding, measured without labels on a fixed sample of rows.

The sample and the mask of the second view come from a generator of their own with a fixed seed:
training draws the same numbers with and without diagnostics, every measurement is of the same rows,
and so are those of other seeds and settings. Epochs are measured ever less often (`is_measured`),
so that a long training takes hardly longer. Everything is copied to the host in between two steps,
never within a captured one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from graphlatent.data.batches import Batch, BatchSource, FullBatches, GraphBatches, WholeSource
from graphlatent.data.pieces import PieceSource
from graphlatent.methods.base import EmbeddedViews, Method
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.nn.norm import statistics_of
from graphlatent.training.measures import (
    alignment,
    column_std,
    dead_units,
    effective_rank,
    recovery,
)

NUM_ROWS = 1024
"""Rows that are measured, at most; half of them are those that `recovery` is fitted on."""
_RANK_ROWS = 512
NUM_GRAPHS = 256
"""Graphs that are encoded for a measurement, at most: the work of a few steps."""
# They have about this many nodes at most.
_NUM_NODES = 1 << 15
_SEED = 20_200_208
# Epochs between two measurements, as a share of those before them.
_SPACING = 0.25


def is_measured(epoch: int, last: int) -> bool:
    """Whether the embedding is measured after this epoch of a training of `last` epochs.

    Epochs 0 to 5, then always about a quarter more (6, 8, 10, 12, 15, 19, 24, 30, ...), and the
    last one: 20 measurements in 100 epochs, 30 in 1000. All but the last are the same for any
    number of epochs.
    """
    return epoch == last or epoch in _SCHEDULE


def measured_epochs(epoch: int, last: int) -> list[int]:
    """The epochs up to `epoch` after which a training of `last` epochs is measured."""
    return [e for e in range(epoch + 1) if is_measured(e, last)]


def _schedule() -> frozenset[int]:
    epochs, epoch = [0], 0
    while epoch < 2**31:
        epoch = max(epoch + 1, round(epoch * (1 + _SPACING)))
        epochs.append(epoch)
    return frozenset(epochs)


_SCHEDULE = _schedule()


def measure_names(method: Method[Any]) -> tuple[str, ...]:
    """The names of what is measured of a method's embeddings, in order."""
    names = ("effective_rank", "column_std", "dead_units", "recovery")
    return (*names, "alignment") if method.has_views else names


class Monitor:
    """Measures the embedding of a fixed sample of nodes or graphs.

    Args:
        method: embeds.
        source: the training set, as `Method.begin` returned it.
        start: rows of the untrained encoder, where a resumed run knows them; None measures them at
            the first measurement.
    """

    def __init__(
        self, method: Method[Any], source: BatchSource, *, start: Tensor | None = None
    ) -> None:
        self.method, self.start = method, start
        self.batch = _sample(source)
        device, counts = self.batch.graph_id.device, self.batch.counts
        num_rows = self.batch.num_nodes if method.level == "node" else self.batch.num_graphs
        counted = None
        if counts is not None and method.level == "node":
            counted = torch.nonzero(counts)[:, 0]
            num_rows = counted.numel()
        order = torch.randperm(num_rows, generator=_generator("cpu"))[:NUM_ROWS].to(device)
        self.rows = order if counted is None else counted[order]

    def measure(self, model: nn.Module) -> dict[str, float]:
        """The measurements of the model as it is; the model and its mode stay as they are."""
        with torch.no_grad(), _unchanged(model), statistics_of(model, self.batch.counts):
            generator = _generator(self.batch.graph_id.device)
            views = self.method.views(model, self.batch, generator=generator)
            rows = _on_host(views.rows[self.rows])
        if self.start is None:
            self.start = rows
        # Torch's decompositions refuse numbers that are not finite. The loop reports those, and NaN
        # is no sign of collapse.
        if not bool(torch.isfinite(rows).all()):
            return dict.fromkeys(measure_names(self.method), float("nan"))
        values = {
            "effective_rank": effective_rank(rows[:_RANK_ROWS]),
            "column_std": column_std(rows),
            "dead_units": dead_units(rows),
            "recovery": recovery(self.start, rows),
        }
        if self.method.has_views:
            values["alignment"] = _alignment(views)
        return values


def _sample(source: BatchSource) -> Batch:
    """A batch of the training set to measure: all of one graph, a piece, or graphs drawn once."""
    if isinstance(source, FullBatches):
        return source.everything
    generator = _generator("cpu")
    ptr = getattr(source, "ptr", None)
    if ptr is None or isinstance(source, PieceSource):
        return source.take(source.plan(generator)[0])
    everything = cast(WholeSource, source).everything
    # Padded mini-batches list an empty graph more.
    ptr = ptr[: everything.num_graphs + 1]
    order = torch.randperm(everything.num_graphs, generator=generator)[:NUM_GRAPHS].to(ptr.device)
    num_nodes = torch.cumsum(torch.diff(ptr)[order], 0)
    order = order[: max(1, int((num_nodes <= _NUM_NODES).sum()))]
    return GraphBatches(everything, ptr, batch_size=NUM_GRAPHS).take(order)


def _alignment(views: EmbeddedViews) -> float:
    assert views.first is not None
    assert views.second is not None
    count = views.first.shape[0]
    # Evenly spaced, which needs no random numbers.
    step = max(1, -(-count // NUM_ROWS))
    return alignment(_on_host(views.first[::step]), _on_host(views.second[::step]))


def _on_host(rows: Tensor) -> Tensor:
    return rows.detach().to("cpu", torch.float32)


def _generator(device: torch.device | str) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(_SEED)


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Within this context a forward pass is that of training and leaves no trace.

    A custom encoder is in evaluation mode: its batch norms have running averages, its dropout draws
    from torch's global generator.
    """
    modes = {module: module.training for module in model.modules()}
    encoder: Any = model.encoder
    model.train()
    if not isinstance(encoder, GNNEncoder):
        encoder.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def latest(diagnostics: Mapping[str, list[float]]) -> dict[str, float]:
    """The last measurements by name, without the epoch; empty where nothing was measured."""
    return {name: column[-1] for name, column in diagnostics.items() if name != "epoch" and column}
