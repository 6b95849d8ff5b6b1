"""A process that dies takes nobody with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import graphlatent.bench.runner as runner
from graphlatent.bench.recipe import load_recipe
from graphlatent.bench.runner import Event, run_cells


def die_of_seed_1(task):
    """What a process does here in place of measuring."""
    if task.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [Event(task.recipes[0].name, "raw", task.seed, "done", "measured")]


@pytest.mark.slow
def test_only_the_task_that_kills_its_process_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_run_all", die_of_seed_1)
    events = run_cells(
        [load_recipe("table1/MUTAG")],
        seeds=[0, 1, 2, 3],
        ledger=Path(tmp_path),
        device="cpu",
        jobs=2,
    )
    assert sorted((e.seed, e.state) for e in events) == [
        (0, "done"),
        (1, "failed"),
        (2, "done"),
        (3, "done"),
    ]
    (failed,) = [e for e in events if e.state == "failed"]
    assert failed.cell == "table1/MUTAG" and "BrokenProcessPool" in failed.text
