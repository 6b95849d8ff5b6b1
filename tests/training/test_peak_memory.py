"""Peak memory on a CPU; tests on a GPU are in test_gpu.py."""

from __future__ import annotations

import torch

from graphlatent.training.peak_memory import PeakMemory


def test_peak_is_none_on_a_cpu():
    memory = PeakMemory(torch.device("cpu"))
    with memory:
        torch.zeros(10)
    assert memory.peak is None
