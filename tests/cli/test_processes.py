"""`torchrun -m graphlatent train STORE`: one voice, refusals, lost processes, resumed runs."""

from __future__ import annotations

import os
import signal
import time

import pytest

import torchrun
from commands import run
from graphlatent.io.runfolder import RunFolder
from shard_cases import SIZE, make_store

pytest.importorskip("duckdb")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning"),
]
SMALL = ["--set", "hidden_dim=8", "--set", "nodes_per_step=20", "--batching", "clusters"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("processes")).path


def lines(text: str) -> list[str]:
    """The lines that are ours: torchrun has its own, and a traceback of itself."""
    return [line for line in text.splitlines() if line.startswith(("note:", "error:", "Stopped"))]


def test_only_the_first_process_speaks_and_writes(store, tmp_path):
    train = ["-m", "graphlatent", "train", store, "--out", tmp_path / "run", "--epochs", 2]
    code, out, err = torchrun.run(2, *train, *SMALL)
    assert code == 0, err
    assert out.count("Trained 2 epochs") == out.count(f"{SIZE} embeddings of width") == 1
    notes = lines(err)
    assert len(notes) == len(set(notes)) >= 1
    assert (tmp_path / "run" / "embeddings.parquet").is_file()


def test_full_batches_are_refused_with_the_way_out(store, tmp_path):
    full = ["--epochs", 2, "--batching", "full", "--out", tmp_path / "run"]
    code, out, err = torchrun.run(2, "-m", "graphlatent", "train", store, *full)
    assert (code, out) == (1, "")
    assert [line for line in lines(err) if line.startswith("error:")] == [
        "error: 2 processes cannot share the steps of --set batching=full, each of which sees the"
        " whole graph. Use another batching, such as --set batching=nodes, or one process with"
        " several threads, without torchrun."
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="finds processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_where_a_process_is_lost_the_others_say_which_and_the_run_goes_on(store, tmp_path, how):
    folder = RunFolder(tmp_path / "run")
    train = ["-m", "graphlatent", "train", store, "--out", folder.path, *SMALL]
    train += ["--epochs", 150, "--save-every", 0]
    running = torchrun.start(2, *train, "--timeout", 15)
    lost = torchrun.process_of(running, 1)
    began = time.monotonic()
    while folder.load_snapshot() is None:
        assert time.monotonic() - began < 200, running.communicate()
        time.sleep(0.05)
    os.kill(lost, how)
    try:
        _, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode != 0
    (message,) = [line for line in lines(err) if line.startswith("error:")]
    assert message.startswith("error: Stopped, since process 1 of 2 does not answer any more")
    assert message.endswith(
        "What was saved goes on with the same command and --resume, also with another number of"
        " processes."
    )
    before = folder.read_history().loss
    assert len(before) < 150
    if how == signal.SIGSTOP:
        # To be resumed as after the other loss.
        return
    # By one process.
    code, _, err = run(*train[2:], "--resume")
    assert code == 0, err
    after = folder.read_history().loss
    assert len(after) == 150
    assert after[: len(before)] == before
