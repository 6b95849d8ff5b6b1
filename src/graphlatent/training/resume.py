"""Starting a training run in a run folder, or resuming the one that it holds."""

from __future__ import annotations

from graphlatent.data.features import FeatureSpec
from graphlatent.data.graph import GraphData
from graphlatent.errors import RunFolderError
from graphlatent.io.config_file import RunConfig
from graphlatent.io.runfolder import RunFolder, versions
from graphlatent.training.loop import Training


def begin_or_resume(
    run: RunFolder,
    training: Training,
    *,
    config: RunConfig,
    features: FeatureSpec,
    graph: GraphData,
) -> None:
    """Write the first files of a new run, or restore the latest snapshot of an unfinished one.

    Args:
        run: the folder.
        training: a run before its first step; changed in place where a snapshot is restored.
        config: level, method and settings.
        features: encoding of the features.
        graph: the training graphs as they were read, before their features were encoded.

    Raises:
        RunFolderError: where the folder holds a run of other settings or input, or its snapshot
            cannot be restored.
    """
    fingerprints = graph.fingerprints()
    if not run.started or run.replace:
        about = versions(training.settings, device=training.device, fingerprints=fingerprints)
        coordinates = features.coordinates
        run.begin(
            config,
            features=features.to_dict(),
            about=about,
            coordinates=None if coordinates is None else coordinates.to_tensors(),
        )
        return
    run.check_same(config, fingerprints=fingerprints, features=features.to_dict())
    if features.coordinates is not None and run.read_coordinates() is None:
        raise RunFolderError(
            f"Cannot resume {run.path}: it lacks the coordinates of its nodes. Start again with"
            " --overwrite."
        )
    snapshot = run.load_snapshot()
    try:
        if snapshot is not None:
            training.restore(snapshot)
    except (RuntimeError, KeyError, ValueError) as error:
        raise RunFolderError(
            f"The checkpoint in {run.path} does not fit its settings. Start again with --overwrite."
        ) from error
