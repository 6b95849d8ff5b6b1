"""Memory of a GPU is not invented where there is none; what a GPU says is in test_gpu.py."""

from __future__ import annotations

import torch

from graphlatent.training.peak_memory import PeakMemory


def test_nothing_is_said_of_a_cpu():
    memory = PeakMemory(torch.device("cpu"))
    with memory:
        torch.zeros(10)
    assert memory.peak is None
