"""Which tensors a file must hold: their names, shapes and types.

Checked before any of them is used: PyTorch casts other types without a word, and some of its
kernels write as many numbers as a weight has into whatever stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorForm:
    """The shape and the allowed types of a tensor."""

    shape: tuple[int, ...]
    dtypes: tuple[torch.dtype, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> TensorForm:
        """Those of `tensor`."""
        return cls(tuple(tensor.shape), (tensor.dtype,))


def check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, TensorForm]) -> None:
    """Raise a `ValueError` where tensors are not those expected, or not finite; says what is wrong.

    Args:
        tensors: as they were read from a file.
        expected: the form of every tensor by name.
    """
    missing, unknown = sorted(set(expected) - set(tensors)), sorted(set(tensors) - set(expected))
    if missing or unknown:
        told = [f"lacks {', '.join(missing)}"] if missing else []
        told += [f"has the unknown {', '.join(unknown)}"] if unknown else []
        raise ValueError(f"it {' and '.join(told)}")
    for name, form in expected.items():
        _check_tensor(name, tensors[name], form)


def _check_tensor(name: str, value: Tensor, form: TensorForm) -> None:
    if tuple(value.shape) != form.shape or value.dtype not in form.dtypes:
        raise ValueError(
            f"its {name} must be {form.dtypes[0]} of shape {form.shape}. Got {value.dtype} of shape"
            f" {tuple(value.shape)}"
        )
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        raise ValueError(f"its {name} holds numbers that are not finite")
