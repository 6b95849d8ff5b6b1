"""Ctrl-C at any moment of a command: one line, exit code 130, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from graphlatent.cli import interrupts

# Says when main begins: what comes before is Python's own start.
START = "import os; from graphlatent.cli import main; os.write(1, b'ready\\n'); main()"


def interrupted(seconds, *arguments, cwd):
    """(exit code, standard error, seconds it ran) of a command interrupted after some time."""
    command = [sys.executable, "-c", START, *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def is_quiet(code, err):
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    stopped = len(lines) == 1 and lines[0].startswith(("Interrupted.", "Stopped "))
    return code == 130 and stopped


@pytest.mark.parametrize("seconds", [0.01, 0.3])
def test_while_modules_are_imported(tables, seconds):
    arguments = ("train", tables / "edges.csv", "--out", tables / "run")
    code, err = interrupted(seconds, *arguments, cwd=tables)
    assert (code, err) == (130, "Interrupted.\n")
    assert not (tables / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [round(0.05 + 0.15 * i, 2) for i in range(20)])
def test_at_twenty_moments(tables, seconds):
    options = ("--set", "epochs=100000", "--quiet")
    arguments = ("train", tables / "edges.csv", "--out", tables / "run", *options)
    code, err = interrupted(seconds, *arguments, cwd=tables)
    assert is_quiet(code, err), err


def test_the_process_ends_outside_commands_and_in_imports(monkeypatch, capfd):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(interrupts, "_command_runs", False)
    interrupts.on_interrupt(2, sys._getframe())
    assert ended == [130] and capfd.readouterr().err == "Interrupted.\n"
    interrupts.command_begins()
    with pytest.raises(KeyboardInterrupt):
        interrupts.on_interrupt(2, sys._getframe())

    class Finder:
        """Is called from within the import machinery."""

        def find_spec(self, *_):
            interrupts.on_interrupt(2, sys._getframe())

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError):
        import no_such_module  # noqa: F401
    assert ended == [130, 130]
