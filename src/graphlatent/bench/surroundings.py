"""What a record says about where it was measured: commit, versions, hardware, date."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from graphlatent._version import __version__

COMMIT_VARIABLE = "GRAPHLATENT_COMMIT"


def surroundings(device: torch.device) -> dict[str, Any]:
    """Commit, versions, hardware and date, for a record."""
    processor = f"{platform.machine()} CPU, {torch.get_num_threads()} thread(s)"
    return {
        "commit": _commit(),
        "versions": {
            "graphlatent": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": device.type,
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else processor,
        "date": datetime.date.today().isoformat(),
    }


def _commit() -> str:
    """The commit of the source tree, "+" where it was changed since; "" where there is no history.

    The environment variable GRAPHLATENT_COMMIT goes before: for a copy of the tree without its
    history.
    """
    if os.environ.get(COMMIT_VARIABLE):
        return os.environ[COMMIT_VARIABLE]
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
