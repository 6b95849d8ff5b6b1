"""Training in real processes: Ctrl-C, being killed, a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.slow
class TestSignals:
    ARGUMENTS = (
        "--set",
        "epochs=400",
        "--set",
        "hidden_dim=64",
        "--set",
        "device=cpu",
        "--save-every",
        "0.2",
    )

    def start(self, tables: Path, *more: str, out: str = "run", **options) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "graphlatent",
            "train",
            str(tables / "edges.csv"),
            "--out",
            str(tables / out),
            *self.ARGUMENTS,
            *more,
        ]
        return subprocess.Popen(
            command, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )

    def wait_for_state(self, folder: Path) -> None:
        deadline = time.monotonic() + 60
        while not (folder / "state" / "last.safetensors").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def test_ctrl_c_saves_and_the_resumed_run_has_the_same_bits(self, tables):
        process = self.start(tables)
        self.wait_for_state(tables / "run")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert (
            "Stopped after epoch" in err
            and "Go on with the same command and --resume" in err
            and "Traceback" not in err
        )
        changed = self.start(tables, "--resume", "--set", "alpha=9")
        assert (
            "alpha: 0.0 in the run, 9.0 now" in changed.communicate(timeout=60)[1]
            and changed.returncode == 2
        )
        resumed, whole = self.start(tables, "--resume"), self.start(tables, out="whole")
        for other in (resumed, whole):
            assert other.communicate(timeout=120) and other.returncode == 0
        for name in ("model.safetensors", "history.csv", "embeddings.parquet"):
            assert (tables / "run" / name).read_bytes() == (tables / "whole" / name).read_bytes(), (
                name
            )

    def test_a_killed_run_goes_on(self, tables):
        process = self.start(tables)
        self.wait_for_state(tables / "run")
        process.kill()
        process.communicate()
        unfinished = subprocess.run(
            [sys.executable, "-m", "graphlatent", "info", str(tables / "run"), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(unfinished.stdout)["complete"] is False
        resumed = self.start(tables, "--resume")
        assert resumed.communicate(timeout=120) and resumed.returncode == 0
        assert json.loads((tables / "run" / "results.json").read_text())["epochs"] == 400

    def test_a_terminal_sees_a_bar_with_terms_and_time_left(self, tables):
        leader, follower = pty.openpty()
        command = [
            sys.executable,
            "-m",
            "graphlatent",
            "train",
            str(tables / "edges.csv"),
            "--out",
            str(tables / "run"),
        ]
        command += ["--set", "epochs=1500", "--set", "hidden_dim=64", "--set", "device=cpu"]
        process = subprocess.Popen(
            command,
            stderr=follower,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
        )
        os.close(follower)
        shown = b""
        try:
            while chunk := os.read(leader, 65536):
                shown += chunk
        except OSError:  # the other end was closed
            pass
        assert process.wait() == 0
        text = shown.decode(errors="replace")
        assert (
            "training" in text
            and "reconstruction " in text
            and "latent " in text
            and "1500/1500" in text
        )
