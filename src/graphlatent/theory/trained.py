"""The bounds of trained LaGraph models on synthetic graphs whose latent features are known."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor

from graphlatent.data.batches import Batch, full_batch
from graphlatent.data.features import encode_features
from graphlatent.data.synthetic import LatentGraph, LatentGraphSet
from graphlatent.errors import ConfigError
from graphlatent.estimator import Estimator
from graphlatent.methods.lagraph.masking import draw_mask, masked_view
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.ops.sparse import to_dense
from graphlatent.theory.bounds import BoundEstimate
from graphlatent.theory.estimation import LatentPredictor, Masker, Sampling, estimate_bound
from graphlatent.theory.lipschitz import lipschitz_constant


@dataclass(frozen=True, eq=False)
class BoundPoint:
    """Both sides after an epoch of training; 0 is the randomly initialised model."""

    epoch: int
    estimate: BoundEstimate


def bound_through_training(
    estimator: Estimator,
    made: LatentGraph | LatentGraphSet,
    *,
    epochs: Sequence[int],
    sampling: Sampling | None = None,
    seed: int = 0,
) -> Iterator[BoundPoint]:
    """Train on the observed features and estimate both sides at several epochs.

    Args:
        estimator: `NodeLaGraph` or `GraphLaGraph`; it is not changed.
        made: of `latent_graph` or `latent_graph_set`.
        epochs: ascending, at most the estimator's.
        sampling: number of masks and draws, and what is compared.
        seed: of noise and masks.

    Raises:
        ConfigError: where the estimator is of another method, or has settings that the theorem
            does not cover.
    """
    for epoch, fitted in estimator.snapshots(made.graph, epochs=epochs):
        yield BoundPoint(epoch, bound_of(fitted, made, sampling=sampling, seed=seed))


def bound_of(
    estimator: Estimator,
    made: LatentGraph | LatentGraphSet,
    *,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> BoundEstimate:
    """Both sides of the bounds for a fitted estimator, on fresh noise.

    The weights depend on the noise of the training features, so the expectation is over new noise
    around the same latent features. All is in the units of the encoded features.

    Args:
        estimator: fitted `NodeLaGraph` or `GraphLaGraph`.
        made: of `latent_graph` or `latent_graph_set`.
        sampling: number of masks and draws, and what is compared.
        seed: of noise and masks.

    Raises:
        ConfigError: where the estimator is of another method, or has settings that the theorem
            does not cover.
    """
    settings = _checked_settings(estimator)
    # Double precision, in which both sides of an equality differ by sampling only.
    model = cast(LaGraphModel, copy.deepcopy(estimator.model_)).to("cpu", torch.float64).eval()
    batch, sigma = _encoded(estimator, model, made)
    latent = cast(Tensor, batch.x)
    predictor = LatentPredictor(
        layers=partial(model.encode, structure=batch.structure),
        decode=partial(model.decode, structure=batch.structure),
        lipschitz=lipschitz_constant(model.decoder),
        pooling=model.pooling,
    )
    return estimate_bound(
        predictor,
        latent,
        sigma=sigma,
        masker=_masker(model, batch, settings),
        generator=torch.Generator().manual_seed(seed),
        graph_id=batch.graph_id,
        sampling=sampling,
    )


def _checked_settings(estimator: Estimator) -> LaGraphSettings:
    settings = getattr(estimator, "settings_", None)
    if not isinstance(settings, LaGraphSettings):
        raise ConfigError(
            "The bounds are about a fitted NodeLaGraph or GraphLaGraph. Got"
            f" {type(estimator).__name__}."
        )
    if settings.row_normalize:
        raise ConfigError(
            "The bounds need row_normalize=False: features divided by a sum that contains their"
            " noise are not centred at latent features. Got True."
        )
    if settings.mask_value == "swap":
        raise ConfigError(
            "The bounds need masks that do not depend on the features: mask_value='noise', 'zeros'"
            " or 'token'. Got 'swap', which may show a masked node's features at another node."
        )
    return settings


def _encoded(
    estimator: Estimator, model: LaGraphModel, made: LatentGraph | LatentGraphSet
) -> tuple[Batch, Tensor]:
    """A batch with the encoded latent features, and the noise of each encoded feature, [d]."""
    encode = partial(encode_features, estimator.features_)
    graph = encode(made.graph.with_features(made.latent))
    zeros = torch.zeros_like(made.latent[:1]).expand_as(made.latent)
    # The encoding of a matrix is affine in each column, with one factor for all rows.
    ends = [encode(made.graph.with_features(part)).x for part in (zeros, zeros + 1)]
    low, high = (to_dense(part)[0].to(torch.float64) for part in ends if part is not None)
    assert graph.x is not None
    graph = graph.with_features(to_dense(graph.x))
    prepare = partial(estimator.method_.prepare, model)
    batch = full_batch(graph, prepare=prepare, device=torch.device("cpu"), dtype=torch.float64)
    return batch, made.sigma * (high - low).abs()


def _masker(model: LaGraphModel, batch: Batch, settings: LaGraphSettings) -> Masker:
    """The masks of the training."""

    def rows(generator: torch.Generator) -> Tensor:
        return draw_mask(batch, settings, generator=generator, token=model.token).rows

    def values(chosen: Tensor, generator: torch.Generator) -> Tensor:
        view = masked_view(batch, chosen, settings, generator=generator, token=model.token)
        return cast(Tensor, view.values)

    return Masker(rows, values)
