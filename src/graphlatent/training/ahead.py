"""Cutting the batches of the next steps in threads, while a step runs, also over the end of an
epoch: one of a single random subset has nothing else to cut ahead.

A batch depends on the plan alone, so that it is the same whoever cuts it, and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, BatchSource, VariableShapeSource
from graphlatent.data.pieces import PieceSource


class Plans:
    """The plans of the next epochs, each made once and in order, when it is first asked for.

    Args:
        make: the plan of an epoch, as `BatchSource.plan`.
        state: of its generator before the next epoch.
        epochs: how many there are.
        done: steps of the first epoch that are left out of what is read ahead.
    """

    def __init__(
        self,
        make: Callable[[torch.Generator], Sequence[Tensor]],
        state: Tensor,
        *,
        epochs: int,
        done: int = 0,
    ) -> None:
        self.make, self.remaining, self.done = make, epochs, done
        self.generator = torch.Generator()
        self.generator.set_state(state)
        # Plans that are made and not taken, with the state after each; the first ones are read.
        self.made: deque[tuple[Sequence[Tensor], Tensor]] = deque()
        self.num_read = 0

    def take(self) -> tuple[Sequence[Tensor], Tensor]:
        """The plan of the next epoch, and the state of the generator after it."""
        if not self.made:
            self._make()
        self.num_read = max(self.num_read - 1, 0)
        return self.made.popleft()

    def read_ahead(self) -> Sequence[Tensor] | None:
        """The steps of the first epoch that was not read ahead yet; None after the last one."""
        if self.num_read == len(self.made):
            if self.remaining < 1:
                return None
            self._make()
        plan, _ = self.made[self.num_read]
        self.num_read += 1
        done, self.done = self.done, 0
        return plan[done:]

    def _make(self) -> None:
        plan = self.make(self.generator)
        self.remaining -= 1
        self.made.append((plan, self.generator.get_state()))


class CutAhead(VariableShapeSource):
    """The steps of plans in order, of which the next ones are being cut.

    Args:
        source: cuts them.
        plans: of the epochs that remain.
        pool: where they are cut.
        depth: steps that are being cut, or are ready, at a time.
    """

    def __init__(
        self, source: PieceSource, plans: Plans, *, pool: ThreadPoolExecutor, depth: int
    ) -> None:
        self.source, self.plans, self.pool = source, plans, pool
        self.waiting: deque[Tensor] = deque()
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
        while not self.waiting:
            steps = self.plans.read_ahead()
            if steps is None:
                return
            self.waiting.extend(steps)
        index = self.waiting.popleft()
        self.cutting.append((index, self.pool.submit(self.source.take, index)))


@contextmanager
def cut_ahead(source: BatchSource, plans: Plans, *, num_workers: int) -> Iterator[BatchSource]:
    """A context with the source of the steps of `plans`, in order, cut by `num_workers` threads.

    Leaving it, also by an exception, waits for what they are cutting. It is `source` itself without
    workers, or where it is not one of pieces.
    """
    if num_workers < 1 or not isinstance(source, PieceSource):
        yield source
        return
    pool = ThreadPoolExecutor(num_workers, thread_name_prefix="pieces")
    try:
        yield CutAhead(source, plans, pool=pool, depth=num_workers)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
