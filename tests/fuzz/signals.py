"""Training that is killed or interrupted anywhere, and resumed: the bits of an uninterrupted run.

The signal comes after a random time, or at a random file operation on the run folder, so that no
place is missed because it is passed quickly.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fuzz.compare import require
from fuzz.harness import Place

RESULTS = ("model.safetensors", "history.csv", "embeddings.parquet")
# Masks and nodes of a step are drawn, so that generators must be restored within an epoch.
_VALUES = ("epochs=3", "hidden_dim=4", "device=cpu", "mask_ratio=0.5")
_BATCHES = ("batching=nodes", "nodes_per_step=8", "steps_per_epoch=2")
SETTINGS = tuple(part for value in (*_VALUES, *_BATCHES) for part in ("--set", value))
_OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.listdir"}


@dataclass(frozen=True)
class Ended:
    """A process that ended: exit code (negative: the signal) and standard error."""

    code: int
    err: str


def arguments(inputs: Path, run: Path, *more: str) -> list[str]:
    """`graphlatent train` on a small graph, with a checkpoint after every step."""
    given = ["train", str(inputs / "edges.csv"), "--out", str(run), *SETTINGS]
    return [*given, "--save-every", "0", *more]


def write_inputs(folder: Path) -> None:
    """A small table of edges: coordinates and local structure are computed from it."""
    rng = random.Random(5)
    pairs = {(rng.randrange(14), rng.randrange(14)) for _ in range(40)}
    lines = [f"n{s},n{t},{(s + t) % 5 + 1}" for s, t in sorted(pairs)]
    (folder / "edges.csv").write_text("\n".join(["source,target,weight", *lines]) + "\n")


def prepare(folder: Path) -> None:
    """The uninterrupted run, the number of its file operations, and its time."""
    write_inputs(folder)
    began = time.monotonic()
    ended = process(arguments(folder, folder / "whole"), count=folder / "operations")
    if ended.code:
        raise RuntimeError(ended.err)
    (folder / "seconds").write_text(str(time.monotonic() - began))


def process(
    command: list[str],
    *,
    operation: int | None = None,
    after: float | None = None,
    number: signal.Signals = signal.SIGKILL,
    count: Path | None = None,
) -> Ended:
    """The command line in a process of its own, which a signal may end.

    Args:
        command: its arguments.
        operation: the signal comes at this file operation on the folder --out.
        after: the signal comes after so many seconds.
        number: the signal.
        count: file to write the number of file operations to.
    """
    run = Path(command[command.index("--out") + 1])
    errors = run.parent / f"{run.name}.stderr"
    child = os.fork()
    if child == 0:
        _be_command(command, errors, run, operation, number, count)
    if after is not None:
        time.sleep(after)
        os.kill(child, number)
    _, status = os.waitpid(child, 0)
    said = errors.read_text(errors="replace") if errors.exists() else ""
    return Ended(os.waitstatus_to_exitcode(status), said)


def _be_command(
    command: list[str],
    errors: Path,
    run: Path,
    operation: int | None,
    number: signal.Signals,
    count: Path | None,
) -> None:
    from graphlatent.cli import main

    code, seen = 1, [0]
    place = os.fspath(run)
    try:
        descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        sys.stdout = sys.stderr = os.fdopen(descriptor, "w", buffering=1)

        def on_event(event: str, given: tuple[object, ...]) -> None:
            if event in _OPERATIONS and given and str(given[0]).startswith(place):
                seen[0] += 1
                if seen[0] == operation:
                    os.kill(os.getpid(), number)

        if operation is not None or count is not None:
            sys.addaudithook(on_event)
        sys.argv = ["graphlatent", *command]
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        code = 0 if stop.code is None else code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    if count is not None:
        count.write_text(str(seen[0]))
    sys.stderr.flush()
    os._exit(code)


def kill(rng: random.Random, place: Place) -> None:
    """SIGKILL once to three times, then the run is finished."""
    _stop_and_finish(rng, place, signal.SIGKILL)


def interrupt(rng: random.Random, place: Place) -> None:
    """Ctrl-C once to three times: exit code 130 or a finished run, and no traceback."""
    _stop_and_finish(rng, place, signal.SIGINT)


def _stop_and_finish(rng: random.Random, place: Place, number: signal.Signals) -> None:
    run, prepared = place.folder / "run", place.prepared
    operations = int((prepared / "operations").read_text())
    seconds = float((prepared / "seconds").read_text())
    told = []
    for i in range(rng.choice((1, 1, 1, 2, 3))):
        more = () if i == 0 or not any_run(run) else ("--resume",)
        if rng.random() < 0.75:
            at = rng.randint(1, operations)
            told.append(f"at file operation {at}")
            ended = process(arguments(prepared, run, *more), operation=at, number=number)
        else:
            after = rng.uniform(0, 1.2 * seconds)
            told.append(f"after {after:.3f} s")
            ended = process(arguments(prepared, run, *more), after=after, number=number)
        where = f"{number.name} {', '.join(told)}: exit code {ended.code}: {ended.err[-1500:]}"
        _check_end(ended, number, where, again=i > 0)
    _finish(run, prepared, where)
    for name in RESULTS:
        require((run / name).is_file(), f"{name} is missing in the finished run; {where}")
        same = (run / name).read_bytes() == (prepared / "whole" / name).read_bytes()
        require(same, f"{name} differs from that of an uninterrupted run; {where}")


def _check_end(ended: Ended, number: signal.Signals, where: str, *, again: bool) -> None:
    require("Traceback" not in ended.err, f"traceback: {where}")
    # A later start may find a finished run, or nothing to resume, and say so.
    allowed = {0, 130, *((2,) if again else ())}
    if number == signal.SIGKILL:
        allowed.add(-signal.SIGKILL)
    require(ended.code in allowed, where)


def any_run(run: Path) -> bool:
    """Whether anything was written."""
    return run.is_dir() and any(run.iterdir())


def _finish(run: Path, prepared: Path, where: str) -> None:
    """What a user does after a crash: --resume; a new start only where nothing was begun."""
    ended = process(arguments(prepared, run, "--resume"))
    if ended.code == 2 and "no run to resume" in ended.err:
        ended = process(arguments(prepared, run))
        if ended.code == 2 and "--overwrite" in ended.err:
            ended = process(arguments(prepared, run, "--overwrite"))
    complete = ended.code == 2 and "complete" in ended.err
    require(ended.code == 0 or complete, f"not resumed: {ended.err[-1500:]}; {where}")
