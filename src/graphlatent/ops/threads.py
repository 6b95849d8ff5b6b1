"""How many threads of the CPU are used: one for small work, which several would slow down.

Threads wait for each other after every operation. Where operations are short this takes longer than
the work itself, and many times as long while other programs are using the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

SMALL_WORK = 2**28
"""Multiplications, about 10 ms on one core, up to which an operation has one thread.

A layer of width 256 has fewer on a graph of up to about 4,000 nodes.
"""
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_TOPOLOGY = Path("/sys/devices/system/cpu")


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """Within this context torch uses one thread if the work is small; afterwards as before.

    A number of threads that the user has chosen, by an environment variable or by
    `torch.set_num_threads`, is left as it is.

    Args:
        multiplications: of one operation, or one layer.
    """
    before = torch.get_num_threads()
    if before == 1 or multiplications > SMALL_WORK or chosen_by_user():
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def library_threads_for(multiplications: float) -> Iterator[None]:
    """`threads_for`, also of the OpenMP and BLAS libraries of scikit-learn and NumPy.

    Args:
        multiplications: of one operation.
    """
    if multiplications > SMALL_WORK or chosen_by_user():
        yield
        return
    with threads_for(multiplications), threadpool_limits(limits=1):
        yield


def chosen_by_user() -> bool:
    """Whether the number of threads was set from outside.

    A number passed to `torch.set_num_threads` cannot be told from torch's default if it equals it.
    """
    if any(os.environ.get(name) for name in VARIABLES):
        return True
    return torch.get_num_threads() not in _default_numbers()


def _default_numbers() -> set[int]:
    """What torch takes by default: the cores of this process, with or without hyper-threads."""
    everywhere = os.cpu_count() or 1
    usable = set(range(everywhere))
    if hasattr(os, "sched_getaffinity"):
        usable = os.sched_getaffinity(0)
    return {everywhere, len(usable), _cores(usable)}


def _cores(cpus: set[int]) -> int:
    """The physical cores of some logical CPUs; where Linux does not say, the CPUs themselves."""
    return len({_siblings(cpu) for cpu in cpus})


def _siblings(cpu: int) -> str:
    """The logical CPUs that share a core with this one."""
    try:
        return (_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return str(cpu)
