"""Programs in several processes, started by torchrun as users start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import graphlatent

TESTS = Path(__file__).parent
SOURCE = Path(graphlatent.__file__).parents[1]


def environment() -> dict[str, str]:
    """One thread a process, and this package and the folders of tests on Python's path."""
    folders = [TESTS, TESTS / "methods", TESTS / "methods/lagraph"]
    path = os.pathsep.join(str(each) for each in (SOURCE, *folders))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1"}


def command(processes: int, *program: object) -> list[str]:
    """The command that starts a program, or `-m module`, in several processes."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "c10d"]
    # A free port.
    where = ["--rdzv-endpoint", "localhost:0", "--nproc-per-node", str(processes)]
    return [*torchrun, *where, *(str(each) for each in program)]


def start(processes: int, *program: object) -> subprocess.Popen[str]:
    """A program in several processes that is running."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(processes, *program), stdout=pipe, stderr=pipe, text=True, env=environment()
    )


def run(processes: int, *program: object, seconds: float = 300) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a program in several processes."""
    running = start(processes, *program)
    try:
        out, err = running.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        running.kill()
        raise
    return running.returncode, out, err
