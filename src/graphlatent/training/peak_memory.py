"""How much memory of a GPU a piece of work needs."""

from __future__ import annotations

import torch


class PeakMemory:
    """The most memory that some work held on a GPU, beyond what was held when this was made.

    The work stands in `with` blocks, one or several; what is done between them does not count. What
    the GPU's libraries take once in a process (65 MB on an H200) counts for the work that comes
    first.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None
        self._before = torch.cuda.memory_allocated(device) if self._device else 0
        self.peak: int | None = 0 if self._device else None
        """In bytes; None where the device is not a GPU."""

    def __enter__(self) -> None:
        if self._device is not None:
            torch.cuda.reset_peak_memory_stats(self._device)

    def __exit__(self, *_: object) -> None:
        if self._device is not None:
            self.peak = max(
                self.peak or 0, torch.cuda.max_memory_allocated(self._device) - self._before
            )
