"""Kernels for NVIDIA GPUs, written in Triton. Everything here has an equal in plain PyTorch; nothing here is needed on a CPU."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch


@cache
def installed() -> bool:
    """Whether Triton is there (it comes with PyTorch's CUDA builds on Linux)."""
    return importlib.util.find_spec("triton") is not None


def usable(tensor: torch.Tensor) -> bool:
    """Whether the kernels can work on this tensor."""
    return tensor.is_cuda and torch.version.hip is None and installed()
