"""Running cells one after another or in several processes.

Measured rows are skipped, and a failed row does not stop the others.

Cells of the same data set and seed are run together, since they share data, trainings and probes. A
record is appended as soon as a row is done, so a run that was killed continues where it stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import torch

from graphlatent.bench.context import Measurement
from graphlatent.bench.data import is_available, load_bundle
from graphlatent.bench.fingerprint import define, fingerprint
from graphlatent.bench.ledger import Record, append_record, read_ledger
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows import Row, all_rows, row_names, seed_0_stands_for_all
from graphlatent.bench.surroundings import surroundings
from graphlatent.bench.worker_signals import blocked_interrupts, end_on_interrupt
from graphlatent.data.datasets import data_root
from graphlatent.errors import bad_argument
from graphlatent.ops.devices import pick_device


@dataclass(frozen=True)
class Event:
    """What happened to one row of one cell.

    Args:
        cell: name of the recipe.
        row: of the cell.
        seed: of the run.
        state: "done", "skipped" (measured before), "missing" (data not available locally) or
            "failed".
        text: the score, or the reason.
    """

    cell: str
    row: str
    seed: int
    state: str
    text: str = ""


@dataclass(frozen=True)
class _Task:
    """All that is to be measured for one data set and seed, in one process."""

    recipes: tuple[Recipe, ...]
    rows: tuple[str, ...] | None
    seed: int
    ledger: Path
    data: Path | None
    device: str
    probe_device: str
    command: str
    threads: int | None


def run_cells(
    recipes: Sequence[Recipe],
    *,
    seeds: Sequence[int],
    rows: Sequence[str] | None = None,
    ledger: Path,
    data: Path | None = None,
    device: str = "auto",
    probe_device: str | None = None,
    jobs: int = 1,
    command: str = "",
    on_event: Callable[[Event], None] = lambda _: None,
) -> list[Event]:
    """Measure cells for several seeds. Returns what happened, in the order in which it did.

    Args:
        recipes: the cells.
        seeds: of training and folds; one record each.
        rows: which rows to measure; None for those of each recipe.
        ledger: folder of the records.
        data: root of the data sets; None for `data_root()`.
        device: where to train, as in the settings.
        probe_device: where to probe; None is the same.
        jobs: processes; with more than one, each gets its share of the cores, and no more threads
            than OMP_NUM_THREADS allows.
        command: as typed, for the records.
        on_event: called for every row.
    """
    if rows is not None and not set(rows) <= set(row_names()):
        raise bad_argument(
            "rows", owner="bench run", allowed=f"among {row_names()}", got=tuple(rows)
        )
    threads = (
        None if jobs == 1 else max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // jobs))
    )
    ledger = ledger.resolve()
    # A damaged ledger is refused here rather than by each process.
    read_ledger(ledger, [recipe.name for recipe in recipes])
    groups = [(seed, same) for seed in seeds for same in _grouped(recipes)]
    tasks = [
        _Task(
            same,
            None if rows is None else tuple(rows),
            seed,
            ledger,
            data,
            device,
            probe_device or device,
            command,
            threads,
        )
        for seed, same in groups
    ]
    events = []
    for event in _in_order(tasks) if jobs == 1 else _side_by_side(tasks, jobs):
        events.append(event)
        on_event(event)
    return events


def _grouped(recipes: Sequence[Recipe]) -> list[tuple[Recipe, ...]]:
    """Recipes that share their data, features and metric, together."""
    groups: dict[tuple[object, ...], list[Recipe]] = {}
    for recipe in recipes:
        same = (
            recipe.dataset,
            recipe.binarize,
            recipe.protocol,
            recipe.metric,
            recipe.settings().degree_cap,
        )
        groups.setdefault(same, []).append(recipe)
    return [tuple(group) for group in groups.values()]


def _in_order(tasks: Sequence[_Task]) -> Iterator[Event]:
    for task in tasks:
        yield from _run(task)


def _side_by_side(tasks: Sequence[_Task], jobs: int) -> Iterator[Event]:
    """Run tasks in several processes.

    Where a process dies, for example because it ran out of memory, the unfinished tasks are
    tried again, each in a process of its own.
    """
    broken = []
    with _pool(jobs) as pool:
        # Processes start when tasks are submitted.
        with blocked_interrupts():
            waiting = {pool.submit(_run_all, task): task for task in tasks}
        for future in as_completed(waiting):
            if isinstance(future.exception(), BrokenProcessPool):
                broken.append(waiting[future])
            else:
                yield from _events(future, waiting[future])
    for task in broken:
        with _pool(1) as alone:
            with blocked_interrupts():
                future = alone.submit(_run_all, task)
            yield from _events(future, task)


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=end_on_interrupt
    )


def _events(future: Future[list[Event]], task: _Task) -> list[Event]:
    error = future.exception()
    if error is None:
        return future.result()
    return [
        Event(task.recipes[0].name, "*", task.seed, "failed", f"{type(error).__name__}: {error}")
    ]


def _run_all(task: _Task) -> list[Event]:
    if task.threads is not None:
        torch.set_num_threads(task.threads)
    return list(_run(task))


def _run(task: _Task) -> Iterator[Event]:
    """Every row of every cell of a task; the data is only read where something is left to do."""
    registered, todo = all_rows(), []
    measured = {
        record.key: record.fingerprint
        for record in read_ledger(task.ledger, [recipe.name for recipe in task.recipes])
    }
    for recipe in task.recipes:
        for name in recipe.rows:
            if task.rows is not None and name not in task.rows:
                continue
            row = registered[name]
            if seed_0_stands_for_all(row, recipe) and task.seed != 0:
                reason = "nothing random in it: only seed 0 is measured"
                yield Event(recipe.name, name, task.seed, "skipped", reason)
            elif measured.get((recipe.name, name, task.seed)) == fingerprint(define(recipe, row)):
                yield Event(recipe.name, name, task.seed, "skipped", "measured before")
            elif not is_available(recipe, task.data or data_root()):
                reason = f"data not available locally: {recipe.dataset}"
                yield Event(recipe.name, name, task.seed, "missing", reason)
            else:
                todo.append((recipe, row))
    if not todo:
        return
    device, probe_device = pick_device(task.device), pick_device(task.probe_device)
    try:
        data = load_bundle(todo[0][0], task.data)
    # Without data none of the rows can be measured; each says why.
    except Exception as error:
        yield from (_failed(recipe, row, task, error) for recipe, row in todo)
        return
    measurement = Measurement(data, seed=task.seed, device=device, probe_device=probe_device)
    for recipe, row in todo:
        yield _measured(measurement, recipe, row, task)


def _measured(measurement: Measurement, recipe: Recipe, row: Row, task: _Task) -> Event:
    began = time.monotonic()
    try:
        outcome = row.measure(measurement.cell(recipe))
    # A failed row must not stop the others; the failure is reported and nothing is recorded.
    except Exception as error:
        return _failed(recipe, row, task, error)
    seconds = round(time.monotonic() - began, 1)
    about = {"command": task.command, **surroundings(measurement.device), "seconds": seconds}
    append_record(
        task.ledger,
        Record(
            recipe.name,
            row.name,
            task.seed,
            outcome.results,
            about,
            outcome.training,
            define(recipe, row),
        ),
    )
    scores = ", ".join(
        f"{name} {100 * result.mean:.2f}" for name, result in outcome.results.items()
    )
    return Event(recipe.name, row.name, task.seed, "done", f"{scores} ({seconds} s)")


def _failed(recipe: Recipe, row: Row, task: _Task, error: Exception) -> Event:
    return Event(recipe.name, row.name, task.seed, "failed", f"{type(error).__name__}: {error}")
