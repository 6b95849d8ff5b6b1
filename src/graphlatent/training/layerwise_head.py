"""The head of node embeddings on a graph by rows: fitted and applied in bounded memory.

The formulas are those of nn/node_head.py, nn/latent_estimate.py and nn/similarity.py; here are the
sums that they start from, in float64 over blocks of rows. Legend: N nodes, R rows of a block, F
features, D columns of z, H width of the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from graphlatent.data.measurements import are_measurements, count_nonzero
from graphlatent.io.scratch import ScratchArray
from graphlatent.methods.base import Method
from graphlatent.nn.encoders import GNNEncoder
from graphlatent.nn.latent_estimate import LatentEstimate, Probes, estimate_of
from graphlatent.nn.node_head import NodeHead, deviation
from graphlatent.nn.similarity import NeighbourSums
from graphlatent.ops.collective import first_only, of_first, summed, total_of
from graphlatent.ops.row_blocks import RowMoments, Rows
from graphlatent.ops.sparse import SparseMatrix, to_dense
from graphlatent.ops.svd import RowStream, right_singular_vectors
from graphlatent.training.layerwise import Layerwise, Operand, encode


def embedding_rows(run: Layerwise, method: Method[Any], model: nn.Module) -> tuple[int, Rows]:
    """The embeddings by a finished model, as `Method.embed` computes them.

    Args:
        run: the graph.
        method: of the model.
        model: in evaluation mode; it has passed `check_layerwise`.

    Returns:
        Their width, D; a function that returns the rows from one to another, [R, D].
    """
    encoder = cast(GNNEncoder, model.encoder)
    hidden, head = encode(run, encoder), getattr(model, "head", None)
    if isinstance(head, NodeHead):
        return len(head.offset), head_rows(run, head, hidden)
    if not getattr(method.settings, "concat_input", False):
        return encoder.out_dim, hidden

    def with_input(start: int, stop: int) -> Tensor:
        return torch.cat([hidden(start, stop), to_dense(run.features(start, stop))], dim=1)

    return encoder.out_dim + run.graph.x.shape[1], with_input


@torch.no_grad()
def head_rows(run: Layerwise, head: NodeHead, hidden: Rows) -> Rows:
    """The embeddings by a fitted head, in blocks of rows."""
    z = _reduced(run, head)
    smooth = averages_by_rows(run, z, head.steps, name="averages")
    blocks = _HeadBlocks(run, head, z, smooth, hidden)
    return lambda start, stop: head.project(blocks(start, stop))


@torch.no_grad()
def fit_head_by_rows(
    run: Layerwise, head: NodeHead, hidden: Rows, *, generator: torch.Generator
) -> None:
    """`NodeHead.fit` on a graph by rows.

    Of several processes, each has some of the nodes, with the edges between those.

    Args:
        run: the graph.
        head: is fitted in place.
        hidden: the encoder's output, [N, H].
        generator: as in `NodeHead.fit`.
    """
    shape = (total_of(run.num_nodes), run.graph.x.shape[1])
    measured = head.few_features or are_measurements(
        total_of(sum(count_nonzero(x) for x in _features(run, "values"))), shape
    )
    if head.set_form(measured):
        squares = torch.zeros(shape[1], dtype=torch.float64)
        for x in _features(run, "scale", dense=True):
            squares += to_dense(x).to(torch.float64).square().sum(0)
        head.set_scale(summed(squares) / max(shape[0], 1))
    if head.basis is not None:
        parts = partial(_features, run, "basis", dense=measured)
        stream = RowStream(shape, lambda: (head.rows(x) for x in parts()))
        k = head.basis.shape[1]
        head.basis = right_singular_vectors(stream, k, generator=generator)
    z = _reduced(run, head)
    around = StreamedSurroundings(run, z, num_nodes=shape[0])
    estimate = _of_first(estimate_of(around, generator=generator))
    head.steps = estimate.steps
    blocks = _HeadBlocks(run, head, z, around.smoothed(estimate.steps), hidden)
    maps = head.maps(estimate, blocks.widths)
    moments = [RowMoments() for _ in maps]
    for start, stop in run.blocks(sum(blocks.widths)):
        for each, block, one in zip(moments, blocks(start, stop), maps, strict=True):
            each.add(block @ one)
        run.scratch.progress("variances", stop, run.num_nodes)
    moments = [each.over_processes() for each in moments]
    deviations = [_deviation(each) for each in moments]
    maps = head.weighted(maps, estimate, deviations)
    means = head.weighted([each.mean for each in moments], estimate, deviations)
    mean = torch.cat(means).to(torch.float32)

    def joined() -> Iterator[Tensor]:
        for start, stop in run.blocks(sum(blocks.widths)):
            parts = [b @ one for b, one in zip(blocks(start, stop), maps, strict=True)]
            yield torch.cat(parts, dim=1).sub_(mean)
            run.scratch.progress("components", stop, run.num_nodes)

    k = head.components.shape[1]
    centred = RowStream((shape[0], len(mean)), joined)
    head.set_components(maps, mean, right_singular_vectors(centred, k, generator=generator))


def averages_by_rows(run: Layerwise, z: ScratchArray, steps: Tensor, *, name: str) -> ScratchArray:
    """The sum of `steps[j]` A^j z, as `averages` computes it, [N, D].

    By Horner's rule, so that two arrays are needed beside z, however many steps there are.
    """
    weights: list[float] = steps.tolist()
    last = max((j for j, weight in enumerate(weights) if weight), default=0)
    if not last:
        return run.store(f"{name}0", z.shape[1], lambda *b: weights[0] * z.rows(*b))
    current = z
    for j in reversed(range(last)):
        operand, alpha = Operand(current), weights[last] if j == last - 1 else 1.0

        def step(
            start: int, stop: int, j: int = j, operand: Operand = operand, alpha: float = alpha
        ) -> Tensor:
            base = weights[j] * z.rows(start, stop) if weights[j] else None
            return operand.multiplied(run.smoothing, start, stop, base=base, alpha=alpha)

        before, current = current, run.store(f"{name}{j}", z.shape[1], step)
        if before is not z:
            run.scratch.drop(before)
    return current


class StreamedSurroundings:
    """The `Surroundings` of `estimate_of` of a graph by rows, for which z is a scratch array.

    Args:
        run: the graph; of several processes, the nodes of this one.
        z: features.
        num_nodes: of all processes.
    """

    def __init__(self, run: Layerwise, z: ScratchArray, *, num_nodes: int) -> None:
        self.run, self.z = run, z
        self.num_nodes, self.like = num_nodes, torch.empty(0)
        self._smoothed: dict[tuple[float, ...], ScratchArray] = {}

    @cached_property
    def mean(self) -> Tensor:
        """The mean row of z, float64 [D]."""
        return self._mean(self.z, "mean")

    @cached_property
    def own(self) -> Tensor:
        """z^T z, centred."""
        return self._centred[0]

    @cached_property
    def neighbours(self) -> Tensor:
        """z^T A z without the diagonal of A, centred."""
        return self._around[1]

    @cached_property
    def sums(self) -> NeighbourSums:
        """Of features and A."""
        return self._around[0]

    def averaged(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """s^T s and z^T s of the averages s with the weights `steps`, centred."""
        smooth = self.smoothed(steps)
        mean = self._mean(smooth, "mean of averages")
        within, both = torch.zeros(2, *self.own.shape, dtype=torch.float64)
        for start, stop in self._blocks("averages and features"):
            rows = smooth.rows(start, stop) - mean
            within.addmm_(rows.T, rows)
            both.addmm_((self.z.rows(start, stop) - self.mean).T, rows)
        return summed(within), summed(both)

    def smoothed(self, steps: Tensor) -> ScratchArray:
        """The averages with the weights `steps`, [N, D]; the last ones are kept."""
        key = tuple(steps.tolist())
        if key not in self._smoothed:
            self.run.scratch.drop(*self._smoothed.values())
            # Averages over two steps go on from the first, which is there.
            first = key == (0.0, 0.0, 1.0, *[0.0] * (len(key) - 3))
            start, weights = (self._once, steps[1:]) if first else (self.z, steps)
            name = "two_steps" if first else "walks"
            self._smoothed = {key: averages_by_rows(self.run, start, weights, name=name)}
        return self._smoothed[key]

    def two_step_trace(self) -> float:
        """The trace of A A."""
        diagonal = self.run.smoothing.diagonal.to(torch.float64)
        return float(self.sums.two_way + summed(diagonal.square().sum()))

    def trace(self, steps: Tensor, probes: Probes) -> float:
        """The sum over random vectors e of <e, M e>, with M the sum of `steps[j]` A^j."""
        run, total = self.run, torch.zeros((), dtype=torch.float64)
        probes = probes.of_process(run.num_nodes)
        start = run.store("probes", probes.width, lambda a, b: probes.rows(b - a))
        found = averages_by_rows(run, start, steps, name="probe_walks")
        for a, b in run.blocks(probes.width):
            total += (start.rows(a, b) * found.rows(a, b)).to(torch.float64).sum()
        run.scratch.drop(start, found)
        return float(summed(total))

    @cached_property
    def _centred(self) -> tuple[Tensor, Tensor]:
        """z^T z centred, [D, D], and the squared norms of the centred rows of this process [N]."""
        width = self.z.shape[1]
        gram = torch.zeros(width, width, dtype=torch.float64)
        squares = torch.empty(self.run.num_nodes, dtype=torch.float64)
        for start, stop in self._blocks("variances of features"):
            rows = self.z.rows(start, stop) - self.mean
            gram.addmm_(rows.T, rows)
            squares[start:stop] = rows.square().sum(1)
        return summed(gram), squares

    @cached_property
    def _once(self) -> ScratchArray:
        """A z, [N, D]."""
        operand, matrix = Operand(self.z), self.run.smoothing
        return self.run.store("step", self.z.shape[1], lambda *b: operand.multiplied(matrix, *b))

    @cached_property
    def _around(self) -> tuple[NeighbourSums, Tensor]:
        matrix, (gram, squares) = self.run.smoothing, self._centred
        total = dict.fromkeys(_SUMS, torch.zeros((), dtype=torch.float64))
        neighbours, num_entries = torch.zeros_like(gram), 0
        for start, stop in self._blocks("neighbours"):
            entries = matrix.entries(start, stop)
            value, square = entries.value, entries.value.square()
            of_row = torch.zeros(stop - start, dtype=torch.float64)
            of_row.index_add_(0, entries.row, value)
            z = self.z.rows(start, stop).to(torch.float64)
            # A z without the diagonal, of rows minus their mean.
            around = self._once.rows(start, stop) - of_row[:, None] * self.mean
            around -= matrix.diagonal[start:stop, None] * z
            rows = z.sub_(self.mean)
            neighbours.addmm_(rows.T, around)
            num_entries += int(value.count_nonzero())
            parts = {
                "around": around.square().sum(),
                "ends": (square * squares.index_select(0, entries.col)).sum(),
                "weight": value.sum(),
                "weights_of_rows": of_row.square().sum(),
                "squared": square.sum(),
                "two_way": (value * entries.back).sum(),
            }
            total = {name: total[name] + part for name, part in parts.items()}
        neighbours = summed(neighbours)
        sums = NeighbourSums(
            num_nodes=self.num_nodes,
            num_entries=total_of(num_entries),
            products=neighbours.trace(),
            square=summed(squares.sum()) / self.num_nodes,
            gram=gram,
            **dict(zip(total, summed(torch.stack(list(total.values()))), strict=True)),
        )
        return sums, neighbours

    def _mean(self, array: ScratchArray, stage: str) -> Tensor:
        moments = RowMoments()
        for start, stop in self._blocks(stage):
            moments.add(array.rows(start, stop))
        return moments.over_processes().mean

    def _blocks(self, stage: str) -> Iterator[tuple[int, int]]:
        for start, stop in self.run.blocks(self.z.shape[1]):
            yield start, stop
            self.run.scratch.progress(stage, stop, self.num_nodes)


_SUMS = ("around", "ends", "weight", "weights_of_rows", "squared", "two_way")


class _HeadBlocks:
    """The blocks of a head, for some rows at a time."""

    def __init__(
        self, run: Layerwise, head: NodeHead, z: ScratchArray, smooth: ScratchArray, hidden: Rows
    ) -> None:
        self.run, self.head, self.z, self.smooth, self.hidden = run, head, z, smooth, hidden
        self.coordinates = run.graph.coordinates

    @cached_property
    def degree(self) -> Tensor:
        """A A 1, [N, 1]."""
        rows = torch.ones(self.run.num_nodes, 1)
        for _ in range(2):
            blocks = self.run.blocks(1)
            parts = [self.run.smoothing.multiply(start, stop, rows) for start, stop in blocks]
            rows = torch.cat(parts) if parts else rows
        return rows

    @cached_property
    def widths(self) -> list[int]:
        """The number of columns of each block."""
        return [block.shape[1] for block in self(0, min(1, self.run.num_nodes))]

    def __call__(self, start: int, stop: int) -> list[Tensor]:
        coordinates = self.coordinates
        return self.head.blocks(
            self.z.rows(start, stop),
            self.smooth.rows(start, stop),
            self.hidden(start, stop),
            self.degree[start:stop],
            None if coordinates is None else coordinates[start:stop],
        )


def _reduced(run: Layerwise, head: NodeHead) -> ScratchArray:
    """The rows z, [N, D]."""
    width = len(head.scale) if head.basis is None else head.basis.shape[1]
    inputs = run.feature_width(dense=bool(head.keeps_norms))

    def rows(start: int, stop: int) -> Tensor:
        return head.reduced(run.features(start, stop))

    return run.store("z", width, rows, inputs=inputs)


def _features(
    run: Layerwise, stage: str, *, dense: bool = False
) -> Iterator[Tensor | SparseMatrix]:
    """All features, in blocks of rows, which are small enough to be made dense if `dense`."""
    for start, stop in run.blocks(run.feature_width(dense=dense)):
        yield run.features(start, stop)
        run.scratch.progress(stage, stop, run.num_nodes)


def _of_first(estimate: LatentEstimate) -> LatentEstimate:
    """An estimate that all processes have made from the same sums, as the first has it."""
    numbers = first_only(lambda: [estimate.share, estimate.coordinates])
    tensors = ("directions", "own", "averaged", "steps")
    changed = {name: of_first(getattr(estimate, name)) for name in tensors}
    return replace(estimate, share=numbers[0], coordinates=numbers[1], **changed)


def _deviation(moments: RowMoments) -> float:
    centred = float(moments.variance.sum())
    return deviation(centred + float(moments.mean.square().sum()), centred)
