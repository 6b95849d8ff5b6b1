"""Whether torchrun started this process as one of several; asked before torch is imported."""

from __future__ import annotations

import os

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def started_together() -> bool:
    """Whether torchrun, or a program that sets its variables, started several processes."""
    return all(name in os.environ for name in _VARIABLES) and _number("WORLD_SIZE", 1) > 1


def started_rank() -> int:
    """The number of this process among those that were started together, from 0."""
    return _number("RANK", 0) if started_together() else 0


def local_rank() -> int:
    """The number of this process among those on this machine, from 0."""
    return _number("LOCAL_RANK", 0)


def local_size() -> int:
    """How many processes were started on this machine."""
    return _number("LOCAL_WORLD_SIZE", 1)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default
