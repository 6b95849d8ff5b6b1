"""Peak memory of training on a GPU."""

from __future__ import annotations

import torch


class PeakMemory:
    """The peak of GPU memory inside `with` blocks, relative to what was allocated on construction.

    Several `with` blocks may follow each other; memory allocated between them is not measured. The
    workspace that GPU libraries allocate once per process (65 MB on an H200) is counted in the
    first block.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None
        self._baseline = torch.cuda.memory_allocated(device) if self._device else 0
        self.peak: int | None = 0 if self._device else None
        """Bytes; None where the device is not a GPU."""

    def __enter__(self) -> None:
        if self._device is not None:
            torch.cuda.reset_peak_memory_stats(self._device)

    def __exit__(self, *_: object) -> None:
        if self._device is not None:
            used = torch.cuda.max_memory_allocated(self._device) - self._baseline
            self.peak = max(self.peak or 0, used)
