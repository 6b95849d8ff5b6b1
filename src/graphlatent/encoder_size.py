"""Whether the weights of an encoder can fit into memory at all."""

from __future__ import annotations

import math
import os

from graphlatent.errors import ConfigError


def refuse_too_large(hidden_dim: int, num_layers: int, *, owner: str) -> None:
    """Raise a `ConfigError` where the weights of a built-in encoder are larger than main memory.

    Counted are the matrices between layers, and one row of the first: less than there is.
    """
    width, layers = int(hidden_dim), int(num_layers)
    size, memory = 4 * width * (1 + (layers - 1) * width), memory_of_machine()
    if size > memory:
        raise ConfigError(
            f"hidden_dim={width:,} and num_layers={layers:,} of {owner} need"
            f" {size / 2**30:,.0f} GiB for the weights of the encoder alone, and this machine has"
            f" {memory / 2**30:,.0f} GiB. Choose smaller ones, such as hidden_dim=64."
        )


def memory_of_machine() -> float:
    """Bytes of main memory; infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf
