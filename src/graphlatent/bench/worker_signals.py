"""Ctrl-C in worker processes: they end without a word, while the main process reports it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Hold SIGINT back, in this process and in those that are started meanwhile.

    A new process imports modules for seconds before any of our code runs in it, and a
    KeyboardInterrupt in an import prints a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_on_interrupt() -> None:
    """Let SIGINT, also one that was held back, end this process at once."""
    signal.signal(signal.SIGINT, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(130)
