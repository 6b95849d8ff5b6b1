"""Real processes: they append to one ledger, and one that dies takes nobody with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from graphlatent.bench import runner
from graphlatent.bench.ledger import ledger_file, read_ledger
from ledgers import results, states
from standins import quick

CELL = "table2/Flickr"


def die_of_seed_1(task):
    """Measure, but kill the process of seed 1 as soon as another has written its record."""
    if task.seed != 1:
        return list(runner._run(task))
    path, patience = ledger_file(task.ledger, CELL), time.monotonic() + 60
    while not path.exists() and time.monotonic() < patience:
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
    return []


@pytest.fixture
def one_import(monkeypatch):
    """Processes are forked from one that has imported the package, instead of importing it each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["graphlatent.bench.runner"])
    monkeypatch.setattr(runner.multiprocessing, "get_context", lambda method: context)


@pytest.mark.slow
def test_only_the_task_that_kills_its_process_fails(run, one_import, tmp_path, monkeypatch):
    recipe = quick(CELL, "random")
    run(recipe, ledger=tmp_path / "one")
    monkeypatch.setattr(runner, "_run_all", die_of_seed_1)
    events = run(recipe, seeds=[0, 1], ledger=tmp_path / "two", jobs=2)
    assert sorted(states(events)) == [(CELL, "*", 1, "failed"), (CELL, "random", 0, "done")]
    (failed,) = [event for event in events if event.state == "failed"]
    assert "BrokenProcessPool" in failed.text
    alone, beside = (results(read_ledger(tmp_path / name)) for name in ("one", "two"))
    assert alone == beside
