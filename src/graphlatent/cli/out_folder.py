"""The run folder that a command writes: free, or to be replaced or resumed, and locked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphlatent.errors import ConfigError
from graphlatent.io.atomic import refuse_unwritable_folder

if TYPE_CHECKING:
    from graphlatent.io.runfolder import RunFolder


@contextmanager
def to_be_written(run: RunFolder, *, resume: bool = False) -> Iterator[None]:
    """Hold the lock of a run folder in which a run can be started, or resumed."""
    _check_folder(run, resume=resume)
    with run.writing():
        # Once more, since another process may have ended its run in between.
        _check_folder(run, resume=resume)
        yield


def _check_folder(run: RunFolder, *, resume: bool) -> None:
    if not resume:
        run.check_free(overwrite=run.replace)
        refuse_unwritable_folder(run.path)
        return
    if run.replace:
        raise ConfigError("--resume continues a run and --overwrite replaces it. Give one of them.")
    if not run.started:
        raise ConfigError(
            f"There is no run to resume in {run.path}. Leave out --resume to start one."
        )
    if run.complete and run.embeddings_path.is_file() and run.results_path.is_file():
        raise ConfigError(
            f"The run in {run.path} is complete; there is nothing to resume. Its embeddings:"
            f" graphlatent embed {run.path} INPUT --out FILE."
        )
