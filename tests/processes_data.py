"""Graphs that several processes train on, the same in all, and fingerprints of what they train."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

SMALL = {"epochs": 6, "hidden_dim": 8, "progress": False}
ON_HOSTS = {"epochs": 3, "hidden_dim": 8, "nodes_per_step": 20, "batching": "clusters"}
OF_GRAPHS = {"batch_size": 20, "lr": 1e-2, **SMALL}


def graphs(count: int = 50, *, seed: int = 0) -> list[tuple[Any, Any]]:
    """Small random graphs of different sizes: edges in both directions, and features."""
    return [
        _random(int(size), np.random.default_rng([seed, i]))
        for i, size in enumerate(np.random.default_rng(seed).integers(3, 15, count))
    ]


def nodes(count: int = 150, *, seed: int = 0) -> tuple[Any, Any]:
    """One random graph."""
    return _random(count, np.random.default_rng([seed, 1]))


def _random(size: int, rng: np.random.Generator) -> tuple[Any, Any]:
    one = rng.integers(0, size, (2, 2 * size))
    edges = np.concatenate([one, one[::-1]], axis=1)
    return edges, rng.normal(size=(size, 5)).astype(np.float32)


def bits(model: Any) -> str:
    """A fingerprint of all weights and buffers."""
    digest = hashlib.sha256()
    for name, value in model.model_.state_dict().items():
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()
