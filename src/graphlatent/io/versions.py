"""What a run was made with: the content of versions.json."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy
import scipy
import torch

from graphlatent._version import __version__
from graphlatent.config import Settings

FORMAT = 1
"""The format of run folders."""


def versions(
    settings: Settings, *, device: torch.device, fingerprints: Mapping[str, str]
) -> dict[str, Any]:
    """Versions, platform, device, threads, seed and input of a run."""
    packages = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
    return {
        "format": FORMAT,
        "graphlatent": __version__,
        "packages": packages,
        "platform": platform.platform(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "random_state": int(settings.random_state),
        "input": dict(fingerprints),
    }
