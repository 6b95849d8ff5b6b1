"""One process at a time writes in a run folder; reading needs no lock and writes nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cases import random_graph
from graphlatent import NodeLaGraph, RunFolder
from graphlatent.errors import GraphLatentWarning, OutputError
from graphlatent.io.atomic import LOCK, refuse_existing
from graphlatent.io.lock import FolderLock
from graphlatent.io.runfolder import Snapshot
from graphlatent.training.loop import Hooks

HOLD = """
import sys
from pathlib import Path
from graphlatent.io.lock import FolderLock
with FolderLock(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.communicate("\n")


def small() -> NodeLaGraph:
    return NodeLaGraph(hidden_dim=4, epochs=2, device="cpu", progress=False)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_the_message_says_who_holds_it_and_a_dead_process_does_not(tmp_path):
    with another_process(tmp_path) as process:
        with pytest.raises(OutputError) as caught:
            small().fit(random_graph([9]), run=tmp_path)
        text = str(caught.value)
        assert text.startswith(
            f"{tmp_path} is in use: it is being written by process {process.pid}"
        )
        assert " on " in text and ", since 2" in text and " UTC. Wait until that has ended" in text
        for write in (
            lambda: small().fit(random_graph([9])).save(tmp_path, overwrite=True),
            lambda: RunFolder(tmp_path).save_snapshot(Snapshot({}, "{}")),
        ):
            with pytest.raises(OutputError, match="is in use"):
                write()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert names(tmp_path) == {LOCK}
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == process.pid
        # Left by a killed process, so it is no file of the user.
        RunFolder(tmp_path).check_free(overwrite=False)
        refuse_existing(tmp_path, overwrite=False)
        small().fit(random_graph([9]), run=tmp_path)
    assert RunFolder(tmp_path).complete and LOCK not in names(tmp_path)


def test_two_runs_in_one_process(tmp_path):
    run, seen = RunFolder(tmp_path), []

    def again(_: object) -> None:
        with pytest.raises(OutputError, match=f"written by process {os.getpid()} "):
            small().fit(random_graph([9]), run=tmp_path)
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()

    def in_thread() -> None:
        with pytest.raises(OutputError, match="is in use"):
            run.save_snapshot(Snapshot({}, "{}"))
        seen.append("refused")

    small().fit(random_graph([9]), run=run, hooks=Hooks(on_epoch=again))
    assert seen == ["refused"] * 2
    assert RunFolder(tmp_path).complete


def test_uses_within_each_other_share_the_lock(tmp_path):
    lock = FolderLock(tmp_path)
    with lock.held() as first, lock.held() as second:
        assert (first, second) == (True, False)
        assert names(tmp_path) == {LOCK}
    assert names(tmp_path) == set()
    with pytest.raises(KeyError), lock.held():
        raise KeyError
    with lock.held() as again:
        assert again


def test_a_folder_in_which_nothing_was_written_is_deleted(tmp_path):
    folder = tmp_path / "a" / "b"
    with FolderLock(folder).held():
        assert folder.is_dir()
    assert names(tmp_path) == set()
    with FolderLock(folder).held():
        (folder / "file").touch()
    assert names(tmp_path) == {"a", "a/b", "a/b/file"}


def test_a_damaged_lock_file_says_nothing(tmp_path):
    with FolderLock(tmp_path).held():
        (tmp_path / LOCK).write_text("[1]")
        with pytest.raises(OutputError, match=r"it is being written by another process. Wait"):
            RunFolder(tmp_path).save_snapshot(Snapshot({}, "{}"))


def test_folders_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "file/more", "link"):
        with (
            pytest.raises(OutputError, match=f"Cannot write .*{name}"),
            FolderLock(tmp_path / name).held(),
        ):
            pass
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / LOCK).symlink_to(tmp_path / "file")
    with pytest.raises(OutputError, match="Cannot write"), FolderLock(tmp_path / "folder").held():
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    import fcntl

    def fail(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.warns(GraphLatentWarning, match="cannot lock files. Take care that only one"):
        small().fit(random_graph([9]), run=tmp_path / "run")
    assert RunFolder(tmp_path / "run").complete


def test_reading_deletes_nothing_and_the_next_writer_deletes_what_was_left(tmp_path):
    run = RunFolder(tmp_path)
    hooks = Hooks(save_due=lambda: True, save=run.save_snapshot)
    small().fit(random_graph([9]), run=run, hooks=hooks)
    (tmp_path / "manifest.json").unlink()
    left = [".config.toml.77.tmp", "state/.last.safetensors.77.tmp", ".results.json.77.tmp"]
    users = [".notes.txt.77.tmp", ".config.toml.tmp", "state/.mine.tmp", "notes.txt"]
    for name in (*left, *users):
        (tmp_path / name).write_text("half a file")
    before = names(tmp_path)
    reader = RunFolder(tmp_path)
    assert reader.load_snapshot() is not None and len(reader.read_history()) == 2
    assert names(tmp_path) == before
    small().fit(random_graph([9]), run=run)
    assert before - names(tmp_path) == set(left)


def test_a_lock_that_is_another_file_too_is_refused(tmp_path):
    """What is written into the lock would replace what that file holds."""
    other = tmp_path / "letter.txt"
    other.write_text("Dear reader")
    folder = tmp_path / "run"
    folder.mkdir()
    os.link(other, folder / LOCK)
    with pytest.raises(OutputError, match="it is a link to another file too"):
        small().fit(random_graph([9]), run=folder)
    assert other.read_text() == "Dear reader"


@pytest.mark.parametrize("begun_again", [False, True])
def test_a_folder_that_was_deleted_is_not_written_any_more(tmp_path, begun_again):
    """Neither is the run that another process may have begun in its place."""
    run = RunFolder(tmp_path / "run")
    with run.writing():
        shutil.rmtree(run.path)
        if begun_again:
            run.path.mkdir()
            (run.path / LOCK).write_text("of another process")
        before = names(tmp_path)
        with pytest.raises(OutputError, match="was deleted or replaced while it was being written"):
            run.save_snapshot(Snapshot({}, "{}"))
    assert names(tmp_path) == before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_cannot_be_made_is_no_endless_wait():
    with (
        pytest.raises(OutputError, match="Cannot write /proc/run"),
        FolderLock(Path("/proc/run")).held(),
    ):
        pass
