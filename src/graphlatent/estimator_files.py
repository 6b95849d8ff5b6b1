"""Fitted estimators in folders: saving and loading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from graphlatent.config import Settings, from_mapping
from graphlatent.data.fingerprint import NOTHING
from graphlatent.data.readers.options import options_of_run
from graphlatent.errors import RunFolderError
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.versions import versions
from graphlatent.ops.devices import pick_device
from graphlatent.training.encoding import stored_encoding
from graphlatent.training.loop import seeded
from graphlatent.training.resume import begin, load_weights, stored_history

if TYPE_CHECKING:
    from graphlatent.estimator import Estimator

WEIGHTED = "weighted"
"""The key of versions.json that says whether edges had weights, where `save` wrote it."""

AnyEstimator = TypeVar("AnyEstimator", bound="Estimator")


@contextmanager
def saving(
    estimator: Estimator, run: RunFolder, *, fingerprints: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Write a complete run; what belongs to it besides the model is written within.

    `fingerprints` are those of the graph that the run names in results.json, if it does.
    """
    device = next(estimator.model_.parameters()).device
    about = versions(estimator.settings_, device=device, fingerprints=fingerprints or {})
    # Those of the training; a loaded model does not know them.
    about["threads"] = getattr(estimator, "num_threads_", about["threads"])
    if estimator.weighted_ is not None:
        about[WEIGHTED] = estimator.weighted_
    run.reading = estimator.reading_.to_dict()
    config = estimator._config(estimator.settings_)
    with run.writing():
        begin(run, config=config, features=estimator.features_, about=about)
        yield
        run.finish(estimator.model_.state_dict(), estimator.history_)


def load_fitted(
    cls: type[AnyEstimator],
    folder: str | Path,
    *,
    encoder: nn.Module | None,
    device: str | None,
) -> AnyEstimator:
    """The fitted estimator of a class in a folder; arguments as of `Estimator.load`."""
    run = RunFolder(folder)
    weights = run.read_model()
    config = run.read_config()
    if (config.method, config.level) != (cls.method.name, cls.level):
        raise RunFolderError(
            f"{run.path} holds a {config.level}-level model of the method '{config.method}',"
            f" which {cls.__name__} is not. Load it with graphlatent.load_estimator."
        )
    values = config.settings_with(encoder, where=str(run.path))
    estimator = from_mapping(cls, values, where=str(run.path / "config.toml"))
    settings = estimator._resolved()
    spec = stored_encoding(run)
    method = cls.method(settings, level=cls.level)
    # What the encoder of somebody else's method is made of is not known.
    if encoder is None and cls.method.__module__.startswith("graphlatent."):
        _refuse_larger(settings, spec.width, weights, run=run)
    model = method.build_with_head(
        spec.width,
        generator=seeded(0, 0),
        coordinate_dim=spec.embedding_coordinates,
        edge_dim=spec.edge_dim,
    )
    load_weights(model, weights, run=run)
    target = pick_device(device or settings.device)
    estimator.model_ = model.to(device=target, dtype=torch.float32).eval()
    estimator.method_, estimator.settings_ = method, settings
    estimator.reading_, estimator.weighted_ = options_of_run(run), _was_weighted(run)
    estimator.features_, estimator.n_features_in_ = spec, spec.width
    estimator.embedding_dim_, estimator.peak_memory_ = estimator._width(), None
    estimator.history_ = stored_history(run, method)
    return estimator


def _was_weighted(run: RunFolder) -> bool | None:
    """Whether a model was fitted on edges with weights; None where its folder does not say."""
    try:
        about = run.read_json("versions.json")
    except RunFolderError:
        # Nothing else of a trained model needs it.
        return None
    # Runs have the fingerprints of what they were trained on, also those of earlier versions.
    parts = about.get("input")
    weights = parts.get("edge weights") if isinstance(parts, Mapping) else None
    said = about.get(WEIGHTED, None if weights is None else weights != NOTHING)
    return said if isinstance(said, bool) else None


def _refuse_larger(
    settings: Settings, width: int, weights: Mapping[str, Tensor], *, run: RunFolder
) -> None:
    """Raise a `RunFolderError` where a built-in encoder has more weights than were saved.

    Before the model is built: otherwise config.toml of a hostile folder could take all memory.
    """
    hidden, layers = settings.hidden_dim, settings.num_layers
    # Of all layers but the last, whose width may be another.
    needed = hidden * (width + (layers - 2) * hidden) if layers > 1 else 0
    if needed > sum(tensor.numel() for tensor in weights.values()):
        raise RunFolderError(
            f"The weights in {run.path} do not fit its config.toml: hidden_dim={hidden:,},"
            f" num_layers={layers:,} and {width:,} features need more than there are. Copy the"
            " folder again, or train again."
        )
