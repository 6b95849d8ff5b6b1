"""Cases run in forked children with a limit of time and of memory, and what became of each.

The parent imports everything once, so a case costs milliseconds. Several cases share a child; one
that ends its child, or fails in it, is run again in a child of its own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from typer.main import get_command

import graphlatent
from graphlatent.cli.app import app
from graphlatent.errors import GraphLatentError

# Outcomes that are never right, unless a fuzzer allows them.
FAILURES = ("traceback", "message", "hang", "memory", "killed", "silent change")
KINDS = ("accepted", "refused", *FAILURES)
# Longest message that still counts as "one or two lines".
LINES = 2


class SilentChange(AssertionError):  # noqa: N818 - named as it is reported
    """The product gave a result that differs from what the input says."""


class Refused(Exception):  # noqa: N818 - no error of ours
    """A command ended with a message and exit code 2."""


@dataclass(frozen=True)
class Place:
    """Where a case may write (`folder`, its own), and what `prepare` wrote (`prepared`)."""

    folder: Path
    prepared: Path


@dataclass(frozen=True)
class Fuzzer:
    """A kind of case.

    Args:
        name: as in `make fuzz FUZZER=name`.
        case: runs one case, drawn from the random generator.
        share: part of all cases that are of this kind.
        seconds: time limit of a case.
        megabytes: memory that a case may take beside that of the imported package.
        batch: cases per child.
        allowed: failures that are no defect here, such as running out of memory where a setting
            asked for it.
        prepare: writes what all cases need into a folder.
    """

    name: str
    case: Callable[[random.Random, Place], None]
    share: float
    seconds: float = 30.0
    megabytes: int = 2048
    batch: int = 25
    allowed: frozenset[str] = frozenset()
    prepare: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a case: one of `KINDS`, and a message."""

    kind: str
    detail: str = ""


def run_cases(
    fuzzer: Fuzzer, seeds: Sequence[int], *, prepared: Path
) -> Iterator[tuple[int, Outcome]]:
    """(seed, outcome) of each case."""
    todo = list(seeds)
    while todo:
        batch, todo = todo[: fuzzer.batch], todo[fuzzer.batch :]
        done = _in_child(fuzzer, batch, prepared)
        for seed, outcome in done:
            alone = outcome.kind in FAILURES and len(batch) > 1
            if not alone:
                yield seed, outcome
                continue
            again = _in_child(fuzzer, [seed], prepared)[0][1]
            where = f"only after other cases from {batch[0]} on: "
            yield (
                seed,
                again if again.kind in FAILURES else Outcome(outcome.kind, where + outcome.detail),
            )
        # The cases behind one that ended its child.
        todo = batch[len(done) :] + todo


def prepare(fuzzer: Fuzzer, folder: Path) -> Path:
    """The folder with what all cases of the fuzzer need."""
    folder.mkdir(parents=True, exist_ok=True)
    if fuzzer.prepare is not None:
        write = fuzzer.prepare
        setup = Fuzzer(fuzzer.name, lambda _, place: write(folder), 1, seconds=120, megabytes=4096)
        outcome = _in_child(setup, [0], folder)[0][1]
        if outcome.kind != "accepted":
            raise RuntimeError(f"{fuzzer.name}: {outcome.kind}: {outcome.detail}")
    return folder


def _in_child(fuzzer: Fuzzer, seeds: Sequence[int], prepared: Path) -> list[tuple[int, Outcome]]:
    """Outcomes up to the first case that ends the child, and of that one."""
    scratch = Path(tempfile.mkdtemp(prefix="graphlatent-fuzz-"))
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, such as those of pytest-xdist; the child uses none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(fuzzer, seeds, prepared, scratch, writing)
    os.close(writing)
    try:
        outcomes, late = _outcomes(reading, len(seeds), fuzzer.seconds)
    finally:
        os.close(reading)
        # The child's own group: a case may have started processes.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if len(outcomes) < len(seeds):
        said = (scratch / "stderr").read_text(errors="replace") if scratch.exists() else ""
        outcomes.append(_end(status, said, late=late, seconds=fuzzer.seconds))
    shutil.rmtree(scratch, ignore_errors=True)
    return list(zip(seeds, outcomes, strict=False))


def _outcomes(reading: int, number: int, seconds: float) -> tuple[list[Outcome], bool]:
    outcomes: list[Outcome] = []
    deadline, received = time.monotonic() + seconds, b""
    while len(outcomes) < number:
        left = deadline - time.monotonic()
        if left <= 0:
            return outcomes, True
        if not select.select([reading], [], [], left)[0]:
            continue
        chunk = os.read(reading, 65536)
        if not chunk:
            break
        *lines, received = (received + chunk).split(b"\n")
        if lines:
            outcomes += [Outcome(*json.loads(line)) for line in lines]
            deadline = time.monotonic() + seconds
    return outcomes, False


def _end(status: int, said: str, *, late: bool, seconds: float) -> Outcome:
    if late:
        return Outcome("hang", f"not done after {seconds:g} s {said.strip()[-2000:]}".strip())
    code = os.waitstatus_to_exitcode(status)
    how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    tail = said.strip()[-800:]
    out_of_memory = "bad_alloc" in said or "MemoryError" in said or "out of memory" in said.lower()
    return Outcome("memory" if out_of_memory else "killed", f"{how} {tail}".strip())


def _be_child(
    fuzzer: Fuzzer, seeds: Sequence[int], prepared: Path, scratch: Path, writing: int
) -> None:
    try:
        os.setpgid(0, 0)
        faulthandler.disable()
        errors = os.open(scratch / "stderr", os.O_WRONLY | os.O_CREAT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        _use_one_thread()
        _limit_memory(fuzzer.megabytes)
        # Takes most of the time of saving, and matters only where a whole machine stops.
        os.fsync = lambda descriptor: None
        for seed in seeds:
            folder = scratch / str(seed)
            folder.mkdir()
            # A case that hangs says where, shortly before the parent ends it.
            faulthandler.dump_traceback_later(0.9 * fuzzer.seconds, file=errors)
            outcome = judged(fuzzer, seed, Place(folder, prepared))
            os.write(writing, json.dumps([outcome.kind, outcome.detail[-3000:]]).encode() + b"\n")
            shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def judged(fuzzer: Fuzzer, seed: int, place: Place) -> Outcome:
    """What becomes of a case in this process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fuzzer.case(random.Random(f"{fuzzer.name} {seed}"), place)
    except (GraphLatentError, Refused) as error:
        text = str(error)
        if not text.strip() or len(text.splitlines()) > LINES:
            return Outcome("message", f"an error message of {len(text.splitlines())} lines: {text}")
        if "Out of memory" in text:
            return Outcome("memory", text)
        return Outcome("refused", text)
    except SilentChange as error:
        return Outcome("silent change", str(error))
    except BaseException as error:
        text = traceback.format_exc()
        short = isinstance(error, MemoryError) or "allocate memory" in str(error)
        return Outcome("memory" if short else "traceback", text)
    return Outcome("accepted")


def _use_one_thread() -> None:
    """Keep out of the thread pools of the parent, whose threads a forked process does not have.

    OpenMP does not notice: a parallel region of several threads would wait for them forever. Where
    the parent is pytest, an earlier test may have started them.
    """
    torch.set_num_threads(1)
    threadpool_limits(1)


def _limit_memory(megabytes: int) -> None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        # Not Linux: memory is not limited.
        return
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    data, address_space = (int(sizes[name].split()[0]) << 10 for name in ("VmData", "VmSize"))
    limit = data + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    # The product asks for this limit and keeps to half of what it leaves. Libraries reserve a
    # gigabyte that they never use, which counts here, so it is wider.
    limit = address_space + (megabytes << 20) * 2
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@cache
def _command_line() -> Any:
    return get_command(app)


def command(*args: object) -> str:
    """Standard output of a command of the command line, run in this process.

    Raises:
        Refused: with its message, where it ended with exit code 2.
    """
    code: object = 0
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        try:
            _command_line().main([str(each) for each in args], prog_name="graphlatent")
        except SystemExit as stop:
            code = stop.code or 0
    if code == 0:
        return out.getvalue()
    said = err.getvalue()
    lines = [line for line in said.strip().splitlines() if not line.startswith("note: ")]
    if code != 2 or not lines or not ("Usage" in said or lines[0].startswith("error: ")):
        raise AssertionError(f"exit code {code}: {said[-2000:]}")
    raise Refused(lines[-1] if "Usage" in said else "\n".join(lines))


# Imported by libraries where they are first used, which takes a second.
_LATE = (
    *("torch._dynamo", "torch._inductor", "torch_geometric.data", "pyarrow.pandas_compat"),
    *("pyarrow.parquet", "pydantic", "networkx", "tomllib", "encodings.utf_8_sig"),
    *("numpy.testing", "typer.testing", "scipy.sparse.linalg", "typer._adapters"),
)


def import_everything() -> None:
    """Import what is imported late, so that no child has to."""
    own = [module.name for module in walk_packages(graphlatent.__path__, "graphlatent.")]
    for name in (*_LATE, *(name for name in own if not name.endswith("__main__"))):
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    _command_line()
