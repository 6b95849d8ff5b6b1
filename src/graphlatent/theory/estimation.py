"""Expectations over masks and noise, estimated for a network with fixed weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from graphlatent.errors import ConfigError, bad_argument
from graphlatent.nn.readout import readout
from graphlatent.theory.bounds import BoundEstimate, readout_constant

Compared: TypeAlias = Literal["masked", "unmasked", "all"]


@dataclass(frozen=True, eq=False)
class LatentPredictor:
    """A network f = D(E(A, X)) on fixed edges, with fixed weights and batch-norm statistics.

    Args:
        layers: the encoder's layers, each [N, H], from features [N, d]; the last is decoded.
        decode: the decoder, from [N, H] to [N, d].
        lipschitz: constant of the decoder.
        pooling: of the readout, as in nn/readout.py.
    """

    layers: Callable[[Tensor], list[Tensor]]
    decode: Callable[[Tensor], Tensor]
    lipschitz: float = 1.0
    pooling: str = "sum"


@dataclass(frozen=True, eq=False)
class Masker:
    """How masks are drawn.

    Args:
        rows: the masked nodes J, int64 [R].
        values: their features M, [R, d], given J. They must not depend on X.
    """

    rows: Callable[[torch.Generator], Tensor]
    values: Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Sampling:
    """How expectations are estimated, and what is compared in the invariance.

    Args:
        masks: number of masks, 2 or more.
        draws: draws of the noise for each mask.
        compared: rows of the invariance. The theorem is about 'masked'; with others it fails.
        leak: share of a masked node's own features in its mask, 0 to 1. The theorem needs 0.

    Raises:
        ConfigError: where a value is out of range.
    """

    masks: int = 16
    draws: int = 8
    compared: Compared = "masked"
    leak: float = 0.0

    def __post_init__(self) -> None:
        checks = {
            "masks": (self.masks >= 2, "an int of 2 or more"),
            "draws": (self.draws >= 1, "an int of 1 or more"),
            "compared": (self.compared in get_args(Compared), "'masked', 'unmasked' or 'all'"),
            "leak": (0 <= self.leak <= 1, "a float from 0 to 1"),
        }
        for name, (right, allowed) in checks.items():
            if not right:
                got = getattr(self, name)
                raise bad_argument(name, owner="Sampling", allowed=allowed, got=got)


@torch.no_grad()
def estimate_bound(
    predictor: LatentPredictor,
    latent: Tensor,
    *,
    sigma: Tensor,
    masker: Masker,
    generator: torch.Generator,
    graph_id: Tensor | None = None,
    sampling: Sampling | None = None,
) -> BoundEstimate:
    """Both sides of the bounds, with the expectation over fresh Gaussian noise.

    For each mask J, new noise X - F and new values M are drawn several times. The
    estimates of different masks are independent, which gives the standard error. A root of a mean
    over few draws is too small on average, so that the right sides are not overestimated.

    Args:
        predictor: the network; its weights must not depend on the noise that is drawn here.
        latent: F, [N, d].
        sigma: standard deviation of the noise in each feature, [d].
        masker: draws masks.
        generator: source of all other randomness.
        graph_id: graph of each node, int64 [N], ascending; None for one graph.
        sampling: number of masks and draws, and what is compared.

    Raises:
        ConfigError: where no node of a graph is masked, since the theorem divides by |J|.
    """
    sampling = sampling or Sampling()
    draws, leak = sampling.draws, sampling.leak
    num_nodes = len(latent)
    graph_id = latent.new_zeros(num_nodes, dtype=torch.int64) if graph_id is None else graph_id
    size = torch.bincount(graph_id)
    num_graphs = len(size)
    table, constant = latent.new_zeros(sampling.masks, 6, dtype=torch.float64), 0.0
    for i in range(sampling.masks):
        rows = masker.rows(generator)
        _check_every_graph_masked(rows, graph_id, size)
        chosen = _compared_rows(rows, num_nodes, sampling.compared)
        # |f - F|^2, |X - F|^2, |f - X|^2, added over the draws.
        errors = torch.zeros(3, dtype=torch.float64)
        # |f_J - f'_J|^2, |H_J - H'_J|^2, |z - z'|^2 of each graph, added over the draws.
        changes = torch.zeros(3, num_graphs, dtype=torch.float64)
        for _ in range(draws):
            noise = torch.randn(latent.shape, generator=generator, dtype=latent.dtype) * sigma
            x = latent + noise
            masked_x = x.clone()
            masked_x[rows] = leak * x[rows] + (1 - leak) * masker.values(rows, generator)
            plain, masked = predictor.layers(x), predictor.layers(masked_x)
            output, masked_output = predictor.decode(plain[-1]), predictor.decode(masked[-1])
            errors += torch.stack([_square(output - latent), _square(noise), _square(output - x)])
            pooled = _pooled(plain, graph_id, num_graphs, predictor)
            pooled = pooled - _pooled(masked, graph_id, num_graphs, predictor)
            change = torch.stack(
                [
                    _by_graph(output - masked_output, chosen, graph_id, num_graphs),
                    _by_graph(plain[-1] - masked[-1], chosen, graph_id, num_graphs),
                    pooled.to(torch.float64).square().sum(1),
                ]
            )
            constant = max(constant, readout_constant(change[1], change[2]))
            changes += change
        count = torch.bincount(graph_id[chosen], minlength=num_graphs).clamp(min=1)
        roots = (changes / draws / count).sqrt() @ size.to(torch.float64)
        table[i] = torch.cat([errors / draws, roots]) / max(num_nodes, 1)
    parts = table.T.numpy()
    embedding_mean, readout_mean = float(parts[4].mean()), float(parts[5].mean())
    # Where pooled rows do not change, no constant is large enough.
    ratio = math.inf if embedding_mean > 0 else 0.0
    return BoundEstimate(
        entry_noise=float(sigma.max()),
        row_noise=float(sigma.square().sum().sqrt()),
        lipschitz=predictor.lipschitz,
        readout_constant=constant,
        readout_ratio=embedding_mean / readout_mean if readout_mean > 0 else ratio,
        supervised=parts[0],
        noise=parts[1],
        reconstruction=parts[2],
        output_change=parts[3],
        embedding_change=parts[4],
        readout_change=parts[5],
    )


def _check_every_graph_masked(rows: Tensor, graph_id: Tensor, size: Tensor) -> None:
    masked = torch.bincount(graph_id[rows], minlength=len(size))
    without = torch.nonzero((masked == 0) & (size > 0))[:, 0]
    if len(without):
        raise ConfigError(
            f"The bounds need a masked node in every graph. Graph {int(without[0])} has"
            f" {int(size[without[0]])} nodes and none is masked. Use mask_rounding='round', or a"
            " larger mask_ratio."
        )


def _compared_rows(rows: Tensor, num_nodes: int, compared: Compared) -> Tensor:
    if compared == "masked":
        return rows
    chosen = torch.ones(num_nodes, dtype=torch.bool)
    if compared == "unmasked":
        chosen[rows] = False
    return torch.nonzero(chosen)[:, 0]


def _pooled(
    layers: list[Tensor], graph_id: Tensor, num_graphs: int, predictor: LatentPredictor
) -> Tensor:
    return readout(layers, graph_id, num_graphs=num_graphs, pooling=predictor.pooling)


def _by_graph(difference: Tensor, rows: Tensor, graph_id: Tensor, num_graphs: int) -> Tensor:
    """Squared norms of the chosen rows, summed in each graph, [B]."""
    square = difference[rows].to(torch.float64).square().sum(1)
    return torch.zeros(num_graphs, dtype=torch.float64).index_add(0, graph_id[rows], square)


def _square(values: Tensor) -> Tensor:
    return values.to(torch.float64).square().sum()
