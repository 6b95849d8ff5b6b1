"""Starting a training run in a run folder, or resuming the one that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphlatent.data.features import FeatureSpec
from graphlatent.data.store.store import AnyGraph
from graphlatent.errors import RunFolderError, warn
from graphlatent.io.config_file import RunConfig
from graphlatent.io.history import History
from graphlatent.io.runfolder import RunFolder
from graphlatent.io.versions import versions
from graphlatent.methods.base import Method
from graphlatent.training.finite import first_not_finite
from graphlatent.training.inputs import PLACE
from graphlatent.training.loop import Training


def begin(
    run: RunFolder, *, config: RunConfig, features: FeatureSpec, about: Mapping[str, Any]
) -> None:
    """Write the files of a run that are known before training; arguments as `RunFolder.begin`."""
    coordinates = features.coordinates
    run.begin(
        config,
        features=features.to_dict(),
        about=about,
        coordinates=None if coordinates is None else coordinates.to_tensors(),
    )


def begin_or_resume(
    run: RunFolder,
    training: Training,
    config: RunConfig,
    features: FeatureSpec,
    graph: AnyGraph,
) -> bool:
    """Write the first files of a new run, or restore what the folder's run has reached.

    That is the latest snapshot of an unfinished run, or the trained model of a complete one.

    Args:
        run: the folder.
        training: a run before its first step; changed in place where a run is restored.
        config: level, method and settings.
        features: encoding of the features.
        graph: the training graphs as they were read, before their features were encoded.

    Returns:
        Whether the run is complete, so that nothing remains to be trained or written.

    Raises:
        RunFolderError: where the folder holds a run of other settings or input, or its snapshot
            cannot be restored.

    Warns:
        GraphLatentWarning: where the run goes on under other conditions than it began under.
    """
    fingerprints = graph.fingerprints()
    run.reading = run.reading or graph.reading.to_dict()
    if run.replace or not run.can_resume():
        about = versions(training.settings, device=training.device, fingerprints=fingerprints)
        about |= {PLACE: dict(run.place)} if run.place else {}
        begin(run, config=config, features=features, about=about)
        return False
    run.check_same(config, fingerprints=fingerprints, features=features.to_dict())
    if features.coordinates is not None and run.read_coordinates() is None:
        raise RunFolderError(
            f"Cannot resume {run.path}: it lacks the coordinates of its nodes. Start again with"
            " --overwrite."
        )
    if run.complete:
        _restore_trained(run, training)
        return True
    _warn_of_other_conditions(run, training.device)
    snapshot = run.load_snapshot()
    try:
        if snapshot is not None:
            training.restore(snapshot)
    except (RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise RunFolderError(
            f"The checkpoint in {run.path} does not fit its settings. Start again with --overwrite."
            f" The reason: {error}."
        ) from error
    return False


def stored_history(run: RunFolder, method: Method[Any]) -> History:
    """The history in a run folder; an empty one where it is damaged, with a warning.

    Embedding does not need it.
    """
    try:
        return run.read_history()
    except RunFolderError as error:
        warn(str(error))
        return History.of(method.term_names)


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], *, run: RunFolder) -> None:
    """Give a model the trained weights of a run.

    Args:
        model: as the settings of the run make it; changed in place.
        weights: as `run.read_model` returns them.
        run: where they are from, for messages.

    Raises:
        RunFolderError: where they do not fit the model, or are not finite.
    """
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        detail = " ".join(str(error).split()[:40])
        raise RunFolderError(
            f"The weights in {run.path} do not fit its config.toml: {detail}"
        ) from error
    # Not the buffers: those of a custom encoder may be infinite, and embeddings are checked.
    name = first_not_finite(model.named_parameters())
    if name is not None:
        raise RunFolderError(
            f"The weights in {run.path} are not finite numbers, the first in {name}. Copy the"
            " folder again, or train again."
        )


def _restore_trained(run: RunFolder, training: Training) -> None:
    """The weights and the history of a complete run; no epoch remains."""
    load_weights(training.model, run.read_model(), run=run)
    training.history, training.epoch = run.read_history(), training.settings.epochs


def _warn_of_other_conditions(run: RunFolder, device: torch.device) -> None:
    """Say where the resumed run will not have the bits of an uninterrupted one."""
    before = run.read_json("versions.json")
    packages = before.get("packages")
    torch_before = packages.get("torch") if isinstance(packages, dict) else None
    pairs: list[tuple[str, Any, Any]] = [("version of torch", torch_before, str(torch.__version__))]
    if device.type == "cpu":
        # Sums are split between threads, and the order of adding changes their last bits.
        pairs.append(("number of threads", before.get("threads"), torch.get_num_threads()))
    # Earlier versions did not record the threads.
    changes = [
        f"{name}: {was} in the run, {now} now"
        for name, was, now in pairs
        if was is not None and was != now
    ]
    if changes:
        warn(
            "The resumed run will differ in its last bits from an uninterrupted one, since it goes"
            f" on under other conditions ({'; '.join(changes)}). For the same bits, resume it under"
            " those that it began under (OMP_NUM_THREADS sets the number of threads)."
        )
