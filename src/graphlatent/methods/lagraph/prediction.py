"""`NodeLaGraph.predict_latent`: from any graph to latent features in the units of its own."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from graphlatent.data.decoding import (
    check_decodable,
    decoded_features,
    feature_columns,
    missing_entries,
)
from graphlatent.errors import ConfigError, InputError, bad_argument, shown
from graphlatent.estimator import Array, Estimator
from graphlatent.methods.lagraph.latent import (
    blind_prediction,
    calibration,
    combined,
    held_out_prediction,
    with_length_of,
)
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.nn.similarity import feature_similarity
from graphlatent.ops.sparse import to_dense
from graphlatent.training.loop import seeded

_OWNER = "predict_latent"


@torch.no_grad()
def predict_latent(estimator: Estimator, X: Any, *, sigma: float | None, missing: Any) -> Array:
    """The predicted latent features of every node, float32 [N, F]; see `NodeLaGraph`."""
    estimator._check_fitted()
    spec, settings = estimator.features_, cast(LaGraphSettings, estimator.settings_)
    model = cast(LaGraphModel, estimator.model_)
    check_decodable(spec)
    _check(sigma, settings)
    graph = estimator._read_later(X)
    batch = estimator._batch(estimator._encoded(graph, spec, settings))
    encoded = to_dense(batch.x)
    x = decoded_features(spec, encoded)
    gaps = (missing_entries(spec, graph) | _given(missing, x.shape)).to(x.device)
    observed = (~gaps).to(x)

    def in_units(output: Tensor, seen: Tensor) -> Tensor:
        """Features [N, W] from the decoder's output, and from the entries that it was given."""
        if settings.objective == "cosine":
            trusted = torch.ones_like(encoded)
            trusted[:, : x.shape[1]] = seen.to(x)
            output = with_length_of(output, encoded, trusted)
        return decoded_features(spec, output)

    def predict(features: Tensor, seen: Tensor) -> Tensor:
        hidden = model.encode(features, batch.structure)[-1]
        return in_units(model.decode(hidden, batch.structure), seen)

    generator = seeded(settings.random_state, 3)
    blind = in_units(blind_prediction(model, batch, settings, generator=generator), ~gaps)
    blind = calibration(blind, x, observed)(blind)
    if sigma is None:
        similarity = feature_similarity(
            batch.x,
            estimator.method_.smoothing_matrix(model, batch),
            generator=seeded(settings.random_state, 3),
        )
        if not similarity.significant:
            raise InputError(
                "The noise cannot be estimated: neighbours have no more similar features than other"
                " nodes, so that the edges do not tell noise from signal. Give sigma (0 fills"
                " only missing entries)."
            )
        variance = (1 - similarity.reliability) * _variance(x, observed)
    else:
        # In float64, where the square of a very large number is infinite and no error.
        variance = torch.full((x.shape[1],), float(sigma), dtype=torch.float64).square().to(x)
    latent = combined(x, blind, observed, variance)
    if bool(gaps.any()):
        columns = feature_columns(spec).to(x.device)
        held_out, used = held_out_prediction(predict, encoded, gaps, columns, generator=generator)
        filled = calibration(held_out, x, used.to(x))(predict(encoded, ~gaps))
        # Of a column without observed entries, nothing is known but the guess.
        latent = torch.where(gaps, torch.where(used.any(0), filled, x), latent)
    return latent.cpu().numpy().astype(np.float32, copy=False)


def _check(sigma: object, settings: LaGraphSettings) -> None:
    if sigma is not None and not 0 <= _as_float(sigma) < math.inf:
        allowed = "None or a float in the range [0.0, inf)"
        raise bad_argument("sigma", owner=_OWNER, allowed=allowed, got=sigma)
    if settings.objective.startswith("ce-"):
        raise ConfigError(
            f"predict_latent needs an objective whose decoder predicts features. Got"
            f" objective='{settings.objective}'. Use 'cosine', 'denoise' or 'mse-embed'."
        )
    if settings.row_normalize:
        raise ConfigError(
            "predict_latent needs row_normalize=False: rows that were divided by their sums have no"
            " units to return to. Got True. Fit again without it."
        )


def _as_float(value: object) -> float:
    """A number as float; NaN where it is none, infinite where it is too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _given(missing: Any, shape: torch.Size) -> Tensor:
    """The argument `missing` as bool [N, F]; all False where it is None."""
    if missing is None:
        return torch.zeros(shape, dtype=torch.bool)
    given = np.asarray(missing)
    if given.dtype != bool or given.shape != tuple(shape):
        came = shown(missing) if given.dtype == object else f"{given.dtype} {given.shape}"
        raise InputError(
            f"The 'missing' parameter of predict_latent must be a bool array of shape"
            f" {tuple(shape)}, like the features. Got {came} instead."
        )
    return torch.from_numpy(given)


def _variance(x: Tensor, observed: Tensor) -> Tensor:
    count = observed.sum(0).clamp(min=1)
    mean = (x * observed).sum(0) / count
    variance: Tensor = ((x - mean).square() * observed).sum(0) / count
    return variance
