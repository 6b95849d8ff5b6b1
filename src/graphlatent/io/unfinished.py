"""What to say of a run that has begun and not ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from graphlatent.errors import RunFolderError

if TYPE_CHECKING:
    from graphlatent.io.runfolder import RunFolder


def unfinished(run: RunFolder) -> str | None:
    """That a folder holds an unfinished run, how far it is and how to go on; else None."""
    if not run.started or run.complete:
        return None
    return (
        f"{run.path} holds an unfinished run{_reached(run)}. Go on with it: 'graphlatent train ..."
        f" --out {run.path} --resume'."
    )


def _reached(run: RunFolder) -> str:
    """The epochs that a run has reached, in words; empty where its files do not say."""
    try:
        snapshot = run.load_snapshot()
        epochs = run.read_config().settings.get("epochs")
        done = 0 if snapshot is None else json.loads(snapshot.position)["epoch"]
    except (RunFolderError, ValueError, LookupError, TypeError):
        # Who goes on with it is told what is damaged.
        return ""
    return f", after {done} of {epochs} epochs"
