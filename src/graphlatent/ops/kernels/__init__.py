"""Triton kernels for NVIDIA GPUs.

Each has an equivalent in plain PyTorch, which is used on a CPU and where Triton does not work.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from graphlatent.errors import warn

Rest = ParamSpec("Rest")
Result = TypeVar("Result")
# The lowest compute capability that Triton supports.
_MIN_CAPABILITY = (7, 0)


def usable(tensor: Tensor) -> bool:
    """Whether the kernels can be used on this tensor: it is on a GPU for which Triton compiles."""
    return tensor.is_cuda and _triton_works(tensor.device)


def on_tensor_device(
    function: Callable[Concatenate[Tensor, Rest], Result],
) -> Callable[Concatenate[Tensor, Rest], Result]:
    """`function` with the GPU of its first argument as the current device (a decorator).

    Triton launches kernels on the current device.
    """

    @wraps(function)
    def run(tensor: Tensor, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        with torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext():
            return function(tensor, *args, **kwargs)

    return run


@cache
def _triton_works(device: torch.device) -> bool:
    if torch.version.hip is not None or importlib.util.find_spec("triton") is None:
        return False
    if torch.cuda.get_device_capability(device) < _MIN_CAPABILITY:
        return False
    try:
        return self_test(device)
    # Compilers, drivers and containers fail with many types of exception.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warn(
            f"GPU kernels cannot be compiled here ({reason}): training continues with slower ones."
            " Triton needs a C compiler, such as gcc."
        )
        return False


def self_test(device: torch.device) -> bool:
    """Whether a kernel computes the product of two 1 x 1 matrices correctly."""
    from graphlatent.ops.kernels.spmm import spmm

    crow, col = torch.tensor([0, 1], device=device), torch.tensor([0], device=device)
    value = torch.tensor([2.0], dtype=torch.float32, device=device)
    dense = torch.tensor([[3.0]], dtype=torch.float32, device=device)
    return float(spmm(crow, col, value, dense, num_rows=1)) == 6.0
