"""Joining the processes that torchrun started, and noticing that one of them is lost.

Every process writes a number into the store of torchrun's rendezvous, again and again, from a
thread. Where a message fails, or a process is waited for, the others see by these numbers which one
is silent: it was killed, stopped, or its machine is gone. A process that ends by an error leaves
its message there.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from graphlatent.errors import LostProcessError, bad_argument
from graphlatent.ops.collective import barrier, data_parallel
from graphlatent.ops.started import local_rank, local_size, started_together

# torch's own, which its stubs do not export.
Store: TypeAlias = Any

TIMEOUT = 300.0
"""Seconds after which a process that is not heard of counts as lost."""
# Seconds between two numbers, at most.
_INTERVAL = 1.0
# Intervals in which a process that is alive writes a number for certain.
_GRACE = 3.0
_FAILED, _LEFT = "failed:", "left:"


class Terminated(BaseException):
    """SIGTERM arrived, by which torchrun ends the other processes when one has failed."""


@contextmanager
def joined(*, timeout: float = TIMEOUT) -> Iterator[None]:
    """Within this context the processes that torchrun started compute together.

    Where there is one process, nothing happens. At the end all wait for the first.

    Args:
        timeout: seconds after which a process that is not heard of counts as lost.

    Raises:
        LostProcessError: where another process is lost; names it.
    """
    if not started_together():
        yield
        return
    if not timeout > 0:
        raise bad_argument("timeout", owner="joined", allowed="positive seconds", got=timeout)
    limit = timedelta(seconds=timeout)
    try:
        stores, rank, size = _stores(limit)
        if torch.cuda.is_available():
            torch.cuda.set_device(local_rank() % torch.cuda.device_count())
        dist.init_process_group(
            _backend(), store=stores[0], rank=rank, world_size=size, timeout=limit
        )
    except RuntimeError as error:
        raise LostProcessError(
            f"The processes did not find each other within {timeout:g} s"
            f" ({' '.join(str(error).split()[:30])}). Start them all, with one address that every"
            " machine can reach."
        ) from error
    watch = Heartbeats(stores[0], stores[1], rank=rank, size=size, timeout=timeout)
    with watch.beating(), _terminated_by(watch):
        try:
            with data_parallel(watcher=watch):
                yield
                barrier()
        except Terminated as stop:
            raise watch.explain(RuntimeError("SIGTERM")) from stop
        except BaseException as error:
            watch.leave(error)
            raise
    dist.destroy_process_group()


def _stores(limit: timedelta) -> tuple[list[Store], int, int]:
    """Two connections to the store, for the process and for its thread, and rank and size."""
    found, rank, size = [], 0, 1
    for _ in range(2):
        rendezvous: Any = dist.rendezvous  # type: ignore[attr-defined]
        store, rank, size = next(rendezvous("env://", timeout=limit))
        found.append(store)
    return found, rank, size


def _backend() -> str:
    """gloo, and nccl between GPUs where each process has one of its own."""
    own = torch.cuda.is_available() and torch.cuda.device_count() >= local_size()
    return "cpu:gloo,cuda:nccl" if own and dist.is_nccl_available() else "gloo"


@contextmanager
def _terminated_by(watch: Heartbeats) -> Iterator[None]:
    """Within this context SIGTERM raises `Terminated`, unless a loss is being explained."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not watch.explaining:
            raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class _Heard:
    """What was last read of a process, and when it changed."""

    text: bytes
    since: float


class Heartbeats:
    """Writes that this process is alive, and knows what the others have written.

    Args:
        store: of the process.
        other: another connection to it, for the thread.
        rank: of this process.
        size: how many there are.
        timeout: seconds after which one that is not heard of counts as lost.
    """

    def __init__(self, store: Store, other: Store, *, rank: int, size: int, timeout: float) -> None:
        self.store, self.other = store, other
        self.rank, self.size, self.timeout = rank, size, timeout
        self.interval = min(_INTERVAL, timeout / 10)
        self.explaining = False
        # How many messages this process has sent, by which one that hangs is found.
        self.messages = 0
        self._turn = 0
        self._ended = threading.Event()
        self._heard: dict[int, _Heard] = {}

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Within this context a thread writes that the process is alive."""
        thread = threading.Thread(target=self._beat, name="heartbeats", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(timeout=self.interval * 2)

    def _beat(self) -> None:
        number = 0
        while True:
            try:
                self.other.set(_alive(self.rank), f"{number} {self.messages}")
            except RuntimeError:
                # The store is gone; messages will fail too.
                return
            number += 1
            if self._ended.wait(self.interval):
                return

    def wait_until_done(self) -> None:
        """Wait until the first process calls `done`, as long as it is alive."""
        self._turn += 1
        self._wait_for([0])

    def done(self) -> None:
        """Let the others, which are in `wait_until_done`, go on."""
        self._turn += 1
        self._asked(lambda: self.store.set(self._here(self.rank), "1"))

    def meet(self) -> None:
        """Wait until all processes have come here, as long as they are alive."""
        self.done()
        self._wait_for(r for r in range(self.size) if r != self.rank)

    def _wait_for(self, ranks: Iterable[int]) -> None:
        awaited, pause = list(ranks), 1e-3
        while awaited:
            awaited = [r for r in awaited if not self._asked(partial(self._has, self._here(r)))]
            if self._silent(awaited, self.timeout) or any(self._left(r) for r in awaited):
                raise self.explain(RuntimeError("no answer"))
            time.sleep(pause if awaited else 0.0)
            pause = min(pause * 1.5, self.interval / 4)

    def _here(self, rank: int) -> str:
        return f"here/{self._turn}/{rank}"

    def explain(self, error: Exception) -> LostProcessError:
        """The error that says which process was lost."""
        self.explaining = True
        with contextlib.suppress(RuntimeError):
            self.store.set(_left(self.rank), _LEFT)
            others = [r for r in range(self.size) if r != self.rank]
            before = {r: self._read(_alive(r)) for r in others}
            time.sleep(self.interval * _GRACE)
            reasons = {r: self._left(r) for r in others}
            failed = {r: t for r, t in reasons.items() if t is not None and t.startswith(_FAILED)}
            gone = [r for r in others if reasons[r] is None and self._read(_alive(r)) == before[r]]
            # Stay alive for those that look a little later.
            time.sleep(self.interval)
            return self._lost(failed, gone, before, error)
        return LostProcessError(
            "The connection to the other processes is lost: torchrun, or the machine of process 0,"
            " has ended."
        )

    def _lost(
        self,
        failed: dict[int, str],
        gone: list[int],
        beats: dict[int, bytes | None],
        error: Exception,
    ) -> LostProcessError:
        here = min(r for r in range(self.size) if r not in failed and r not in gone)
        if failed:
            first = min(failed)
            text = failed[first].removeprefix(_FAILED)
            # The first process has said so itself.
            told = 0 in failed or here != self.rank
            return LostProcessError(f"Stopped, since process {first} failed: {text}", told=told)
        if gone:
            names = " and ".join(str(r) for r in gone)
            more = "processes" if len(gone) > 1 else "process"
            do = "do" if len(gone) > 1 else "does"
            text = (
                f"Stopped, since {more} {names} of {self.size} {do} not answer any more: killed,"
                " out of memory, or on a machine that is gone."
            )
            return LostProcessError(text, told=here != self.rank)
        if str(error) == "SIGTERM":
            return LostProcessError("Stopped by SIGTERM.", told=self.rank != 0)
        counts = {r: _messages(text) for r, text in beats.items()}
        last = min(counts, key=lambda r: (counts[r], r))
        if counts[last] < self.messages:
            text = (
                f"Stopped, since process {last} of {self.size} is alive but has not taken part for"
                f" {self.timeout:g} s: it hangs, or needs a longer timeout."
            )
            return LostProcessError(text, told=here != self.rank)
        reason = " ".join(str(error).split()[:30])
        return LostProcessError(f"A message between processes failed: {reason}", told=False)

    def leave(self, error: BaseException) -> None:
        """Say why this process ends; quickly, since others wait for its messages."""
        if isinstance(error, LostProcessError):
            return
        self.explaining = True
        text = " ".join(str(error).split()) or type(error).__name__
        with contextlib.suppress(RuntimeError):
            self.store.set(_left(self.rank), f"{_FAILED}{text}")

    def _silent(self, ranks: Iterable[int], seconds: float) -> list[int]:
        """Those whose number has not changed for some seconds."""
        now, found = time.monotonic(), []
        for each in ranks:
            text = self._asked(partial(self._read, _alive(each))) or b""
            heard = self._heard.get(each)
            if heard is None or heard.text != text:
                self._heard[each] = _Heard(text, now)
            elif now - heard.since > seconds:
                found.append(each)
        return found

    def _left(self, rank: int) -> str | None:
        text = self._asked(partial(self._read, _left(rank)))
        return None if text is None else text.decode()

    def _read(self, key: str) -> bytes | None:
        """A value of the store; None where there is none yet."""
        return bytes(self.store.get(key)) if self._has(key) else None

    def _has(self, key: str) -> bool:
        return bool(self.store.check([key]))

    def _asked(self, question: Callable[[], Any]) -> Any:
        """The answer of the store. Raises `LostProcessError` where that is gone."""
        try:
            return question()
        except RuntimeError as error:
            if self.explaining:
                raise
            raise self.explain(error) from error


def _alive(rank: int) -> str:
    return f"alive/{rank}"


def _left(rank: int) -> str:
    return f"left/{rank}"


def _messages(beat: bytes | None) -> int:
    return 0 if beat is None else int(beat.split()[1])
