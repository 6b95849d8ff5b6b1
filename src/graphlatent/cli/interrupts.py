"""Ctrl-C before a command runs and while modules are imported: one line and exit code 130 at once.

Importing torch, scikit-learn and their dependencies takes seconds, and some of their modules catch
every exception of what they import, so that a KeyboardInterrupt may get lost in them, come out as
another error, or be printed as ignored. Nothing is being written at that time, so that the process
may end without a clean-up.
"""

from __future__ import annotations

import os
from types import FrameType

INTERRUPTED = 130
_IMPORT_MACHINERY = "<frozen importlib._bootstrap>"


_command_runs = False


def command_begins() -> None:
    """From now on a command may have files to clean up: interrupts are exceptions again."""
    global _command_runs
    _command_runs = True


def on_interrupt(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT: raise KeyboardInterrupt in a command, end the process everywhere else."""
    if _command_runs and not _is_importing(frame):
        raise KeyboardInterrupt
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_MACHINERY:
            return True
        frame = frame.f_back
    return False
