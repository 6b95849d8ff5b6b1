"""Which device to compute on."""

from __future__ import annotations

import torch

from graphlatent.errors import ConfigError, shown


def pick_device(device: str) -> torch.device:
    """The torch device of a setting: 'auto' is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(
            f"device={shown(device)} is not a torch device. Use 'auto', 'cpu', 'cuda' or 'cuda:N'."
        ) from error
    if picked.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"device={shown(device)} is not supported. Use 'auto', 'cpu', 'cuda' or 'cuda:N'."
        )
    if picked.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device='{device}' asks for a GPU, and torch finds none here. Use device='cpu' or"
            " 'auto'."
        )
    return picked
