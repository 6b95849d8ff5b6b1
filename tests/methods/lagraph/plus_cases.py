"""Small networks and batches for tests of the objective "plus", in the format of its reference."""

from __future__ import annotations

import dataclasses

import torch
from reference_plus import (
    PlusBatch,
    PlusTerms,
    TermWeights,
    dense_matrix,
    plus_terms,
)
from torch import Tensor

TERMS = ("reconstruction", "masked_reconstruction", "latent", "invariance")
PAIR = [(0, 1, 1.0), (1, 0, 1.0)]
PATH = [*PAIR, (1, 2, 1.0), (2, 1, 1.0)]


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def eye(nodes: int) -> Tensor:
    return torch.eye(nodes, dtype=torch.float64)


def identity(dim: int = 2) -> dict[str, Tensor]:
    """Networks whose encoder, target, decoder and predictor are the identity on `dim` columns."""
    weights = {
        "decoder.linears.0.weight": eye(dim),
        "decoder.linears.0.bias": torch.zeros(dim, dtype=torch.float64),
        "predictor.0.weight": eye(dim),
        "predictor.0.bias": torch.zeros(dim, dtype=torch.float64),
        "predictor.1.weight": tensor([1.0]),
        "predictor.2.weight": eye(dim),
        "predictor.2.bias": torch.zeros(dim, dtype=torch.float64),
        "token": torch.zeros(dim, dtype=torch.float64),
    }
    for name in ("encoder", "target"):
        weights[f"{name}.convs.0.weight"] = eye(dim)
        weights[f"{name}.convs.0.bias"] = torch.zeros(dim, dtype=torch.float64)
        weights[f"{name}.activations.0.weight"] = tensor([1.0])
    return weights


def terms_of(
    weights: dict[str, Tensor], batch: PlusBatch, *, level: str = "node", alpha: float = 1.0
) -> PlusTerms:
    return plus_terms(weights, batch, level=level, alpha=alpha, term_weights=TermWeights())


def values(terms: PlusTerms) -> list[float]:
    return [getattr(terms, name).item() for name in TERMS]


def random_weights(kind: str, *, seed: int = 0, in_dim: int = 3, dim: int = 2) -> dict[str, Tensor]:
    """Random parameters: two layers with a batch norm between them, a decoder of two layers."""
    generator = torch.Generator().manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {"token": (in_dim,)}
    for name in ("encoder", "target"):
        for i, size in enumerate((in_dim, dim)):
            shapes |= {f"{name}.convs.{i}.weight": (size, dim), f"{name}.convs.{i}.bias": (dim,)}
            if kind == "gin":
                shapes[f"{name}.convs.{i}.weight2"] = (dim, dim)
                shapes[f"{name}.convs.{i}.bias2"] = (dim,)
            else:
                shapes[f"{name}.activations.{i}.weight"] = (1,)
        shapes |= {f"{name}.norms.0.weight": (dim,), f"{name}.norms.0.bias": (dim,)}
    for i, (size, out) in enumerate([(dim, 4), (4, in_dim)]):
        shapes[f"decoder.linears.{i}.weight"] = (out, size)
        shapes[f"decoder.linears.{i}.bias"] = (out,)
    shapes |= {"decoder.norms.0.weight": (4,), "decoder.norms.0.bias": (4,)}
    shapes |= {"predictor.0.weight": (3, dim), "predictor.0.bias": (3,), "predictor.1.weight": (1,)}
    shapes |= {"predictor.2.weight": (dim, 3), "predictor.2.bias": (dim,)}
    return {
        name: torch.randn(shape, dtype=torch.float64, generator=generator)
        for name, shape in shapes.items()
    }


def random_batch(kind: str, **changes: object) -> PlusBatch:
    """A path of three nodes, a pair, and an isolated node; node 4 has no features."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(6, 3, dtype=torch.float64, generator=generator)
    x[4] = 0.0
    edges = [*PATH, (3, 4, 0.5), (4, 3, 2.0)]
    batch = PlusBatch(
        x=x,
        matrix=dense_matrix(kind, num_nodes=6, edges=edges),
        masked=[5, 1, 4],
        replacement="token",
        masked_matrix=dense_matrix(kind, num_nodes=6, edges=edges[2:]),
        kept_columns=tensor([1, 0, 1]),
        counted=[5, 4, 3, 1, 0],
        graph_id=[0, 0, 0, 1, 1, 2],
    )
    return dataclasses.replace(batch, **changes)
