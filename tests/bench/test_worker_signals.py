"""Ctrl-C while several processes measure: one line, and no traceback of any of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from graphlatent.bench.worker_signals import blocked_interrupts

# Workers that import for a while, then wait in a task.
MODULE = """
import time
time.sleep({importing})
def task(seconds):
    time.sleep(seconds)
"""
MAIN = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from graphlatent.bench.worker_signals import blocked_interrupts, end_on_interrupt
if __name__ == "__main__":
    import slow
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(2, mp_context=context, initializer=end_on_interrupt) as pool:
            with blocked_interrupts():
                futures = [pool.submit(slow.task, 30) for _ in range(2)]
            os.write(1, b"started\\n")
            for future in futures:
                future.result()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
"""


@pytest.mark.parametrize("importing", [0, 1])
def test_workers_end_silently(tmp_path, importing):
    (tmp_path / "slow.py").write_text(MODULE.format(importing=importing))
    (tmp_path / "main.py").write_text(MAIN)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "main.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "started\n"
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=25)
    assert (process.returncode, err) == (130, "Interrupted.\n")


def test_signals_wait():
    received = []
    before = signal.signal(signal.SIGINT, lambda *_: received.append(1))
    try:
        with blocked_interrupts():
            # To this thread: other ones, as those of pyarrow, do not hold it back.
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            assert received == []
        assert received == [1]
    finally:
        signal.signal(signal.SIGINT, before)
