"""Several processes that train one model: sums over all of them, and who does what.

This is the one place that knows about process groups. Nothing here follows from a group that a
program has initialised for itself: only within `data_parallel` (or `joined`, processes.py) are
there several processes, and otherwise every function is the identity.

Each process has its part of a step's rows. Where a loss needs a sum over the rows of all, it calls
`all_sum`, and all processes get the same loss L. Backward differentiates the sum of the losses of
the K processes, K * L, so the mean of their gradients (`average_gradients`) is that of L. All
processes must call the same functions in the same order, also those that have no row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from graphlatent.errors import ConfigError

T = TypeVar("T")


class Watcher(Protocol):
    """Knows which processes are alive (processes.py).

    `messages` counts those that this process has sent.
    """

    messages: int

    def wait_until_done(self) -> None:
        """Wait until the first process calls `done`; raise where a process is lost meanwhile."""

    def done(self) -> None:
        """Let the others, which are in `wait_until_done`, go on."""

    def meet(self) -> None:
        """Wait until all processes have come here; raise where one is lost meanwhile."""

    def explain(self, error: Exception) -> Exception:
        """The error that says which process was lost, in place of one of the transport."""


@dataclass(frozen=True, eq=False)
class Processes:
    """The processes that compute together, as one of them sees it.

    Args:
        rank: number of this process, from 0.
        size: how many there are, at least 2.
        group: torch's process group.
        device: where its messages are: 'cpu' with gloo, a GPU with nccl.
        watcher: knows which processes are alive; None where nobody watches.
    """

    rank: int
    size: int
    group: dist.ProcessGroup
    device: torch.device
    watcher: Watcher | None = None

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace a contiguous tensor by its sum over all processes, the same bits in all."""
        self._run(lambda: dist.all_reduce(tensor, group=self.group))
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all processes, of equal shapes, in the order of their ranks [K, ...]."""
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        self._run(lambda: dist.all_gather(parts, tensor.contiguous(), group=self.group))
        return torch.stack(parts)

    def broadcast_(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by that of the first process."""
        sent = tensor.detach().to(self.device, copy=True).contiguous()
        self._run(lambda: dist.broadcast(sent, group_src=0, group=self.group))
        tensor.detach().copy_(sent)
        return tensor

    def _run(self, call: Callable[[], object]) -> None:
        if self.watcher is not None:
            self.watcher.messages += 1
        try:
            call()
        except RuntimeError as error:
            if self.watcher is None or "allocate memory" in str(error):
                raise
            raise self.watcher.explain(error) from error


_CURRENT: ContextVar[Processes | None] = ContextVar("graphlatent_processes", default=None)


def current() -> Processes | None:
    """The processes that compute together; None where there is one."""
    return _CURRENT.get()


def rank() -> int:
    """The number of this process, from 0."""
    processes = current()
    return 0 if processes is None else processes.rank


def world_size() -> int:
    """How many processes compute together, 1 without `data_parallel`."""
    processes = current()
    return 1 if processes is None else processes.size


@contextmanager
def data_parallel(
    group: dist.ProcessGroup | None = None, *, watcher: Watcher | None = None
) -> Iterator[None]:
    """Within this context the processes of a group train one model, each on its part of the data.

    Every process calls the same functions with the same arguments. `fit` and `embed` then share
    their work, and return the same in every process; only the first writes into a run folder.

    >>> torch.distributed.init_process_group("gloo")                            # doctest: +SKIP
    >>> with data_parallel():                                                   # doctest: +SKIP
    ...     model = GraphLaGraph().fit(graphs)

    Args:
        group: torch's process group; None means that of `torch.distributed.init_process_group`.
        watcher: knows which processes are alive.

    Raises:
        ConfigError: where no process group is initialised.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise ConfigError(
            "data_parallel needs a process group. Call torch.distributed.init_process_group first,"
            " in a program that torchrun starts, or leave data_parallel out."
        )
    group = dist.group.WORLD if group is None else group
    assert group is not None
    size = dist.get_world_size(group)
    device = torch.device("cpu")
    if dist.get_backend(group) == "nccl":
        device = torch.device("cuda", torch.cuda.current_device())
    processes = Processes(dist.get_rank(group), size, group, device, watcher) if size > 1 else None
    with _using(processes):
        yield


@contextmanager
def alone() -> Iterator[None]:
    """Within this context the process computes by itself, as without `data_parallel`."""
    with _using(None):
        yield


@contextmanager
def _using(processes: Processes | None) -> Iterator[None]:
    token = _CURRENT.set(processes)
    try:
        yield
    finally:
        _CURRENT.reset(token)


# Sums in a step.


def all_sum(tensor: Tensor) -> Tensor:
    """The sum of a tensor over all processes, with a gradient; the tensor itself with one."""
    processes = current()
    if processes is None:
        return tensor
    total: Tensor = _AllSum.apply(tensor, processes)  # type: ignore[no-untyped-call]
    return total


def all_sum_detached(tensor: Tensor) -> Tensor:
    """The sum of a tensor over all processes, without a gradient."""
    with torch.no_grad():
        return all_sum(tensor.detach())


def summed(tensor: Tensor) -> Tensor:
    """The sum of a tensor over all processes, the same bits in all, without a gradient.

    For sums after long work of different lengths: processes wait as long as the others are alive.
    """
    barrier()
    return all_sum_detached(tensor)


def total_of(number: float) -> int:
    """The sum of a whole number over all processes."""
    return int(summed(torch.tensor(float(number), dtype=torch.float64)))


def mean_of_processes(number: float, *, weight: float) -> float:
    """The mean of the numbers of all processes, by their weights."""
    parts = gathered_json([number, weight])
    total: float = sum(n * w for n, w in parts)
    return total / float(sum(w for _, w in parts))


def of_first(tensor: Tensor) -> Tensor:
    """A tensor that all have computed from the same numbers, as the first has it.

    Decompositions may differ between machines in their last bits, or in signs.
    """
    broadcast_tensors([tensor])
    return tensor


class _AllSum(torch.autograd.Function):
    """The sum over processes; its gradient is the sum of the gradients of all processes."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, processes: Processes) -> Tensor:
        # Backward may run in another thread, where `current` is another.
        ctx.processes = processes
        return processes.sum_(tensor.clone(memory_format=torch.contiguous_format))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.processes.sum_(grads[0].clone(memory_format=torch.contiguous_format)), None


def average_gradients(parameters: Iterable[nn.Parameter], flag: bool = False) -> bool:
    """Replace the gradients of parameters by their means over all processes, in one message.

    A parameter without a gradient in some processes counts as 0 there; without one in all, it has
    none afterwards.

    Args:
        parameters: the same in all processes, in the same order.
        flag: something that is to be known everywhere.

    Returns:
        Whether `flag` is set in any process.
    """
    processes = current()
    if processes is None:
        return flag
    trained = [p for p in parameters if p.requires_grad]
    has = [float(p.grad is not None) for p in trained]
    parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) for p in trained]
    flags = parts[0].new_tensor([*has, float(flag)])
    flat = processes.sum_(torch.cat([*parts, flags]))
    *present, flagged = flat[-len(flags) :].tolist()
    flat = flat[: -len(flags)].div_(processes.size)
    means = torch.split(flat, [p.numel() for p in trained])
    for parameter, mean, number in zip(trained, means, present, strict=True):
        parameter.grad = mean.view_as(parameter).to(parameter.dtype) if number else None
    return bool(flagged)


# What one process does for all.


def first_only(work: Callable[[], Any]) -> Any:
    """What `work` returns, which the first process does alone while the others wait.

    Args:
        work: returns a value that JSON can hold.
    """
    processes = current()
    if processes is None:
        return work()
    value = None
    if processes.rank == 0:
        with alone():
            value = work()
        if processes.watcher is not None:
            processes.watcher.done()
    elif processes.watcher is not None:
        # A message would be waited for no longer than the timeout.
        processes.watcher.wait_until_done()
    return _broadcast_json(value, processes)


def barrier() -> None:
    """Wait until all processes have come here, for as long as they are alive."""
    processes = current()
    if processes is None:
        return
    if processes.watcher is not None:
        processes.watcher.meet()
    else:
        all_sum_detached(torch.zeros(1, device=processes.device))


def shared_work(items: Sequence[T], work: Callable[[T], Any]) -> list[Any]:
    """What `work` returns for each item, in the order of the items, of which processes share.

    Args:
        items: the same in all processes.
        work: returns a value that JSON can hold.
    """
    number, size = rank(), world_size()
    with alone():
        own = [work(each) for each in items[number::size]]
    # A message would be waited for no longer than the timeout.
    barrier()
    found = gathered_json(own)
    return [found[i % size][i // size] for i in range(len(items))]


def from_first(
    work: Callable[[], tuple[Any, Mapping[str, Tensor]]],
) -> tuple[Any, dict[str, Tensor]]:
    """A value that JSON can hold, and named tensors, which `work` returns in the first process."""
    if current() is None:
        value, tensors = work()
        return value, dict(tensors)
    named: dict[str, Tensor] = {}

    def described() -> Any:
        value, found = work()
        named.update({name: each.detach().cpu() for name, each in found.items()})
        forms = [(n, str(t.dtype).partition(".")[2], list(t.shape)) for n, t in named.items()]
        return [value, forms]

    value, forms = first_only(described)
    if rank() > 0:
        named = {name: torch.empty(s, dtype=getattr(torch, d)) for name, d, s in forms}
    broadcast_tensors(named.values())
    return value, named


def gathered_json(value: Any) -> list[Any]:
    """The values of all processes, in the order of their ranks; each is what JSON can hold."""
    processes = current()
    if processes is None:
        return [value]
    content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    rows = gathered_rows(content.to(processes.device))
    return [json.loads(bytes(row.tolist())) for row in rows]


def gathered_rows(rows: Tensor) -> list[Tensor]:
    """The rows of all processes, which may have different numbers of them, by rank.

    Args:
        rows: [N, ...] with the same N' in all but the first dimension.
    """
    processes = current()
    if processes is None:
        return [rows]
    own = torch.tensor([len(rows)], dtype=torch.int64, device=rows.device)
    counts = processes.gather(own)[:, 0].tolist()
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    return [part[:count] for part, count in zip(processes.gather(padded), counts, strict=True)]


def broadcast_tensors(tensors: Iterable[Tensor]) -> None:
    """Replace tensors, of the same shapes in all processes, by those of the first; in place."""
    processes = current()
    if processes is None:
        return
    for tensor in tensors:
        processes.broadcast_(tensor)


def _broadcast_json(value: Any, processes: Processes) -> Any:
    content = json.dumps(value).encode() if processes.rank == 0 else b""
    length = torch.tensor([len(content)], device=processes.device)
    processes.broadcast_(length)
    if processes.rank == 0:
        buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(processes.device)
    else:
        buffer = torch.empty(int(length), dtype=torch.uint8, device=processes.device)
    processes.broadcast_(buffer)
    return json.loads(bytes(buffer.tolist()))
