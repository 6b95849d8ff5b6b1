"""How several processes share the steps of a plan.

All make the same plan, from the same generator, and each takes its part of every step: of a
mini-batch of graphs, some of the graphs; of steps on pieces of one graph, a piece of its own, so
that a step of K processes has K pieces. Steps that are drawn independently of each other are as
many as for one process; a pass over the graph has about a K-th of the steps. Processes that have
shards each make a plan of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.batches import BatchSource, GraphBatches
from graphlatent.data.pieces import PieceSource
from graphlatent.errors import ConfigError
from graphlatent.ops.collective import current, gathered_json


def shared_plan(
    source: BatchSource, generator: torch.Generator, *, rank: int, size: int
) -> Sequence[Tensor]:
    """The part of one process in the steps of an epoch, as `BatchSource.take` takes them.

    A process may have no graph in a step. It always has a piece: where the last step of a pass has
    fewer than there are processes, the first pieces of the pass are taken once more.

    Args:
        source: makes the plan.
        generator: of the plan, with the same state in all processes.
        rank: number of this process.
        size: how many there are.
    """
    if size == 1:
        return source.plan(generator)
    if isinstance(source, PieceSource) and source.graph.share is not None:
        return _plan_of_share(source, generator, rank=rank)
    if isinstance(source, GraphBatches):
        return [torch.tensor_split(step, size)[rank] for step in source.plan(generator)]
    rounds = size if _independent(source) else 1
    pieces = [piece for _ in range(rounds) for piece in source.plan(generator)]
    steps = math.ceil(len(pieces) / size)
    return [pieces[(step * size + rank) % len(pieces)] for step in range(steps)]


def _plan_of_share(source: PieceSource, generator: torch.Generator, *, rank: int) -> list[Tensor]:
    """The steps of a process that has a shard.

    All have as many as the one with the most; the others begin again where theirs end. One number
    is drawn from `generator`, so that it is in the same state everywhere.
    """
    drawn = int(torch.randint(2**62, (), generator=generator))
    (seed,) = np.random.SeedSequence((drawn, rank)).generate_state(1, np.uint64)
    own = source.plan(torch.Generator().manual_seed(int(seed) >> 1))
    return [own[step % len(own)] for step in range(max(source.steps_of_shares, len(own)))]


def agree_on_steps(source: BatchSource) -> None:
    """Tell a source how many steps the process with the most has, where processes have shards.

    Raises:
        ConfigError: where processes have the same graph, and have cut it into different pieces.
    """
    if current() is None or not isinstance(source, PieceSource):
        return
    if source.graph.share is not None:
        source.steps_of_shares = max(gathered_json(source.num_steps))
        return
    first, *others = gathered_json(source.fingerprint())
    for number, other in enumerate(others, 1):
        if other != first:
            raise ConfigError(
                f"Process {number} has cut the graph into other pieces than process 0, as with less"
                " memory or another version of pymetis. Copy the folder 'cache' of the store from"
                " process 0's machine to the others, or use batching='neighbors'."
            )


def share_name(source: BatchSource) -> str | None:
    """What names the shards that processes have, in a checkpoint; None where they have none."""
    return source.graph.share if isinstance(source, PieceSource) else None


def moved_step(step: int, source: BatchSource, *, before: int, now: int) -> int:
    """How many steps of an epoch are done, in those of another number of processes.

    Args:
        step: steps that `before` processes have done.
        source: makes the plan.
        before: number of processes that have done them.
        now: number of processes that go on.
    """
    if before == now or isinstance(source, GraphBatches) or _independent(source):
        return step
    return math.ceil(step * before / now)


def _independent(source: BatchSource) -> bool:
    """Whether the steps of an epoch are drawn independently, and are no pass over the data."""
    return bool(getattr(source, "independent", False))
