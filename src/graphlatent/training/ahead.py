"""Cutting the batches of the next steps in threads, while a step runs.

A batch depends on the plan alone, so that it is the same whoever cuts it, and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, BatchSource, VariableShapeSource
from graphlatent.data.pieces import PieceSource


class CutAhead(VariableShapeSource):
    """The steps of a plan in order, of which the next ones are being cut.

    Args:
        source: cuts them.
        plan: the steps that remain.
        pool: where they are cut.
        depth: steps that are being cut, or are ready, at a time.
    """

    def __init__(
        self,
        source: PieceSource,
        plan: Sequence[Tensor],
        *,
        pool: ThreadPoolExecutor,
        depth: int,
    ) -> None:
        self.source, self.pool = source, pool
        self.waiting = deque(plan)
        self.cutting: deque[tuple[Tensor, Future[Batch]]] = deque()
        for _ in range(depth):
            self._cut_next()

    def plan(self, generator: torch.Generator) -> Sequence[Tensor]:
        """The plan of another epoch of the source."""
        return self.source.plan(generator)

    def take(self, index: Tensor) -> Batch:
        """The batch of the next step, which must be `index`.

        Raises:
            Exception: what cutting it raised.
        """
        expected, batch = self.cutting.popleft()
        if index is not expected:
            raise ValueError("steps that are cut ahead must be taken in the order of the plan")
        cut = batch.result()
        self._cut_next()
        return cut

    def _cut_next(self) -> None:
        if self.waiting:
            index = self.waiting.popleft()
            self.cutting.append((index, self.pool.submit(self.source.take, index)))


@contextmanager
def cut_ahead(
    source: BatchSource, plan: Sequence[Tensor], *, num_workers: int
) -> Iterator[BatchSource]:
    """A context with the source of the steps `plan`, in this order, cut by `num_workers` threads.

    Leaving it, also by an exception, waits for what they are cutting. It is `source` itself without
    workers, or where it is not one of pieces.
    """
    if num_workers < 1 or not isinstance(source, PieceSource) or not plan:
        yield source
        return
    pool = ThreadPoolExecutor(num_workers, thread_name_prefix="pieces")
    try:
        yield CutAhead(source, plan, pool=pool, depth=num_workers)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
