"""Programs in several processes, started by torchrun as users start them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
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


def process_of(running: subprocess.Popen[str], rank: int) -> int:
    """The id of the process with this rank, as soon as there is one (on Linux)."""
    wanted = f"RANK={rank}".encode()
    for _ in range(600):
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                is_child = folder.name.isdecimal() and _parent(folder) == running.pid
                if is_child and wanted in (folder / "environ").read_bytes().split(b"\0"):
                    return int(folder.name)
        time.sleep(0.1)
    raise AssertionError("torchrun started no process")


def _parent(folder: Path) -> int:
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
