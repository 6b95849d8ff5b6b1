"""Where a store is built: a hidden folder beside its place, into which it is moved when complete.

So an interruption leaves no half of a store. What a killed process left is deleted by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graphlatent.data.store.database import no_space
from graphlatent.data.store.layout import is_store
from graphlatent.errors import OutputError
from graphlatent.io.atomic import LOCK, refuse_unwritable_folder
from graphlatent.io.lock import FolderLock


@contextmanager
def workspace(out: Path) -> Iterator[Path]:
    """The folder beside `out` to work in, locked, empty, and deleted in the end.

    Raises:
        OutputError: where another process builds this store, the folder cannot be written to, or
            the disk is full.
    """
    refuse_unwritable_folder(out)
    folder = out.absolute().parent / f".{out.name}.ingest"
    with FolderLock(folder).held():
        _recover(out, folder)
        _empty(folder)
        try:
            yield folder
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise no_space(f"{error.strerror}.") from error
            raise
        finally:
            _empty(folder)
    # A folder that a killed process left.
    with contextlib.suppress(OSError):
        folder.rmdir()


def put_in_place(built: Path, out: Path) -> None:
    """Move a complete store to its place, in which an old one may be."""
    out = out.absolute()
    old = built.parent / "old"
    if out.is_dir():
        out.rename(old)
    built.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def refuse_other(out: Path) -> None:
    """Raise an `OutputError` where something is at `out` that is no store, and no empty folder."""
    if not out.exists() or is_store(out) or (out.is_dir() and not any(out.iterdir())):
        return
    raise OutputError(
        f"{out} exists already and is no store, so that it is not replaced. Choose another path."
    )


def _recover(out: Path, folder: Path) -> None:
    """Put back a store that a process was replacing when it was killed."""
    if (folder / "old").is_dir() and not out.exists():
        (folder / "old").rename(out)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name == LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
