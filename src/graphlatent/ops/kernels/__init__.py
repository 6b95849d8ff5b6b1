"""Kernels for NVIDIA GPUs, written in Triton. Everything here has an equal in plain PyTorch;
nothing here is needed on a CPU.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from graphlatent.errors import GraphLatentWarning

Rest = ParamSpec("Rest")
Result = TypeVar("Result")
_LEAST_CAPABILITY = (7, 0)  # of the GPUs that Triton knows


def usable(tensor: Tensor) -> bool:
    """Whether the kernels can work on this tensor: it is on a GPU that Triton knows, and Triton can
    compile here.
    """
    return tensor.is_cuda and _works(tensor.device)


def on_its_device(
    function: Callable[Concatenate[Tensor, Rest], Result],
) -> Callable[Concatenate[Tensor, Rest], Result]:
    """Makes the GPU of the first argument the current one while `function` runs: that is where
    Triton launches.
    """

    @wraps(function)
    def run(tensor: Tensor, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        with torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext():
            return function(tensor, *args, **kwargs)

    return run


@cache
def _works(device: torch.device) -> bool:
    if torch.version.hip is not None or importlib.util.find_spec("triton") is None:
        return False
    if torch.cuda.get_device_capability(device) < _LEAST_CAPABILITY:
        return False
    try:
        return try_out(device)
    except Exception as error:  # whatever a compiler, a driver or a container can come up with
        what = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(
            f"GPU kernels cannot be compiled here ({what}): training goes on with slower ones."
            " Triton needs a C compiler, such as gcc.",
            GraphLatentWarning,
            stacklevel=2,
        )
        return False


def try_out(device: torch.device) -> bool:
    """Whether the smallest product, 2 x 3, comes out right."""
    from graphlatent.ops.kernels.spmm import spmm

    crow, col = torch.tensor([0, 1], device=device), torch.tensor([0], device=device)
    value, dense = (
        torch.tensor([2.0], dtype=torch.float32, device=device),
        torch.tensor([[3.0]], dtype=torch.float32, device=device),
    )
    return float(spmm(crow, col, value, dense, num_rows=1)) == 6.0
