"""The progress bar in a terminal and in a notebook, and how long training takes, said once."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from graphlatent import GraphLaGraph, NodeDGI, NodeLaGraph
from graphlatent.config import resolve
from graphlatent.training import progress as module
from graphlatent.training.duration import TimeEstimate, in_words
from graphlatent.training.loop import Hooks, Progress
from graphlatent.training.progress import series_of_trainings, training_bar

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
TRAIN = """
import numpy as np
from graphlatent import NodeLaGraph
from graphlatent.training.progress import training_bar
model = NodeLaGraph(epochs=40, hidden_dim=4, progress=True)
with training_bar(model, after_seconds=0.0) as hooks:
    model.fit((np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), np.eye(3)), hooks=hooks)
"""
# What a Jupyter kernel looks like from inside a process.
NOTEBOOK = """
import sys, types
kernel = types.ModuleType("IPython")
kernel.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = kernel
"""


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def told(steps, *, epochs):
    """What is said of a training whose steps end at these (seconds, epochs done)."""
    clock, said = Clock(), []
    estimate = TimeEstimate(lambda seconds, _: said.append(seconds), clock=clock)
    for clock.now, done in steps:
        estimate.on_step(done, epochs)
    return said


def test_the_first_short_step_is_not_measured():
    # It takes a second, the others half a second each: 1 + 99 / 2
    steps = [(0.0, 0), (1.0, 1), *((1 + 0.5 * i, 1 + i) for i in range(1, 20))]
    assert told(steps, epochs=100) == [pytest.approx(50.5)]


def test_a_long_step_is_told_at_once():
    assert told([(5.0, 0), (14.0, 1)], epochs=200) == [pytest.approx(1800)]


def test_parts_of_an_epoch_count():
    assert told([(0.0, 0), (4.0, 0.25)], epochs=10) == [pytest.approx(160)]


def test_a_resumed_run_tells_what_remains():
    assert told([(0.0, 60), (3.0, 61)], epochs=100) == [pytest.approx(120)]


def test_short_trainings_are_not_announced():
    assert told([(0.0, 0), (3.0, 1), (6.0, 2)], epochs=3) == []
    assert told([(i / 10, i) for i in range(90)], epochs=90) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "about 5 seconds"),
        (18, "about 20 seconds"),
        (56, "about 55 seconds"),
        (58, "about 1 minute"),
        (89, "about 1 minute"),
        (235, "about 4 minutes"),
        (3500, "about 58 minutes"),
        (3590, "about 1 hour"),
        (4790, "about 1 hour 20 minutes"),
        (7200, "about 2 hours"),
        (20 * 3600 + 900, "about 20 hours"),
    ],
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words


def slow_training(estimator, monkeypatch, *, seconds=9.0):
    """Train with a clock on which an epoch takes `seconds`."""
    clock = Clock()
    monkeypatch.setattr(module, "TimeEstimate", lambda *args: TimeEstimate(*args, clock=clock))
    seen = []

    def on_epoch(progress):
        clock.now += seconds
        seen.append(progress.epoch)

    hooks = Hooks(on_epoch=on_epoch)
    with training_bar(estimator, hooks=hooks) as active:
        estimator.fit((EDGES, np.eye(3)), hooks=active)
    # The hooks of the caller are still called
    assert seen == [*range(1, len(estimator.history_) + 1)]


def test_the_time_is_said_once_and_long_trainings_how_to_shorten(monkeypatch, capsys):
    slow_training(NodeLaGraph(epochs=50, hidden_dim=4, progress=True), monkeypatch)
    # size=small is not narrower.
    assert capsys.readouterr().err == (
        "note: training takes about 7 minutes (50 epochs); batching=nodes or fewer epochs would"
        " take less\n"
    )
    slow_training(NodeDGI(epochs=4, hidden_dim=4, patience=3, progress=True), monkeypatch)
    assert capsys.readouterr().err == ("note: training takes at most about 25 seconds (4 epochs)\n")


def test_without_progress_only_a_person_is_told_and_only_of_long_ones(monkeypatch, capsys):
    silent = NodeLaGraph(epochs=8, hidden_dim=4)
    slow_training(silent, monkeypatch, seconds=20.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    slow_training(silent, monkeypatch, seconds=20.0)
    assert capsys.readouterr().err == "note: training takes about 2 minutes (8 epochs)\n"
    slow_training(silent, monkeypatch, seconds=5.0)
    assert capsys.readouterr().err == ""


def test_steps_of_mini_batches_are_parts_of_an_epoch():
    done = []
    graphs = [(EDGES, np.eye(3))] * 4
    GraphLaGraph(epochs=2, hidden_dim=4, batch_size=2).fit(
        graphs, hooks=Hooks(on_step=lambda *at: done.append(at))
    )
    assert done == [(0, 2), (0.5, 2), (1.0, 2), (1.5, 2), (2.0, 2)]


def test_a_bar_in_a_terminal():
    read, write = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    subprocess.run([sys.executable, "-c", TRAIN], stderr=write, check=True, env=environment)
    os.close(write)
    shown = os.read(read, 1 << 16).decode()
    assert "40/40" in shown and "loss" in shown and "training" in shown


def test_a_bar_in_a_notebook():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", NOTEBOOK + TRAIN],
        capture_output=True,
        text=True,
        check=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("training: 100%|") and "40/40" in last and "loss=" in last
    assert done.stdout == ""


def test_no_bar_in_a_file():
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_hooks_are_passed_through_where_nothing_is_shown():
    hooks = replace(Hooks(), save_due=lambda: True)
    with training_bar(NodeLaGraph(), hooks=hooks) as active:
        assert active is hooks


def test_epochs_of_the_preset_are_told_too(monkeypatch, capsys):
    model = NodeLaGraph(hidden_dim=4, progress=True)
    slow_training(model, monkeypatch, seconds=1.0)
    assert model.epochs is None
    assert capsys.readouterr().err == "note: training takes about 2 minutes (100 epochs)\n"


def test_the_bar_shows_the_effective_rank_where_it_was_measured():
    bar = module._TerminalBar()
    progress = Progress(3, 9, 1.5, {"a": 0.5}, {"effective_rank": 34.06, "recovery": 1.0})
    bar.update(progress)
    assert bar.bar.tasks[0].fields["terms"] == "loss 1.5  a 0.5  rank 34.1"
    bar.update(replace(progress, diagnostics={}))
    assert bar.bar.tasks[0].fields["terms"] == "loss 1.5  a 0.5"
    reports = []
    NodeLaGraph(epochs=8, hidden_dim=4).fit(
        (EDGES, np.eye(3)), hooks=Hooks(on_epoch=reports.append)
    )
    # Epoch 7 is not measured: it shows what epoch 6 had.
    ranks = [report.diagnostics["effective_rank"] for report in reports]
    assert len(reports) == 8 and ranks[6] == ranks[5] != ranks[7]


@pytest.mark.parametrize(
    ("num_nodes", "values", "said"),
    [
        (20_000, {}, True),
        (20_000, {"size": "large"}, True),
        (20_000, {"size": "small"}, False),
        (20_000, {"preset": "paper"}, False),
        # Above 50,000 nodes the width of size='small' is the default.
        (60_000, {}, False),
        (60_000, {"size": "large"}, True),
        (60_000, {"hidden_dim": 512}, True),
    ],
)
def test_a_smaller_size_is_advised_where_it_is_smaller(num_nodes, values, said):
    settings = NodeLaGraph.settings_class(**values).adapted_to(num_nodes)
    advice = module._shorter(resolve(settings, owner="test"))
    assert ("size=small" in advice) == said and "fewer epochs" in advice


def test_a_series_of_trainings_is_told_once(monkeypatch, capsys):
    estimator = NodeLaGraph(epochs=4, hidden_dim=4, progress=True)
    with series_of_trainings(3):
        for _ in range(3):
            slow_training(estimator, monkeypatch)
    note = "note: training takes about 25 seconds (4 epochs)"
    assert capsys.readouterr().err == f"{note}, 3 times\n"
    with series_of_trainings(1):
        slow_training(estimator, monkeypatch)
    slow_training(estimator, monkeypatch)
    assert capsys.readouterr().err == f"{note}\n{note}\n"
