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
from graphlatent.data.store.layout import files_of_others, is_store
from graphlatent.errors import OutputError
from graphlatent.io.atomic import LOCK, refuse_unwritable_folder
from graphlatent.io.lock import FolderLock


@contextmanager
def workspace(out: Path) -> Iterator[Path]:
    """The folder beside `out` to work in, locked, empty, and deleted in the end.

    Where `out` is a link, that is beside the folder that it names.

    Raises:
        OutputError: where another process builds this store, the folder cannot be written to, or
            the disk is full, or the place to work in is a link.
    """
    refuse_unwritable_folder(out)
    folder = out.parent / f".{out.name}.ingest"
    if folder.is_symlink():
        raise OutputError(
            f"{folder}, where the store is to be built, is a link, and what it names would be"
            " emptied. Delete the link, or choose another path."
        )
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


def resolved(out: Path) -> Path:
    """The absolute path of a store, whose own last part is no link, unless one to nothing."""
    try:
        return out.resolve() if out.exists() else out.absolute()
    except OSError as error:
        raise OutputError(f"Cannot use {out}: {error.strerror}. Check the path.") from error


def put_in_place(built: Path, out: Path) -> None:
    """Move a complete store to its place, in which an old one may be.

    Raises:
        OutputError: where the old one holds files of somebody else.
    """
    refuse_files_of_others(out)
    old = built.parent / "old"
    try:
        if out.is_dir():
            out.rename(old)
        built.rename(out)
    except BaseException:
        # Such as Ctrl-C between the two.
        _recover(out, built.parent)
        raise
    shutil.rmtree(old, ignore_errors=True)


def refuse_other(out: Path) -> None:
    """Raise an `OutputError` where something is at `out` that is no store, and no empty folder."""
    if not out.exists() or is_store(out) or (out.is_dir() and not any(out.iterdir())):
        return
    raise OutputError(
        f"{out} exists already and is no store, so that it is not replaced. Choose another path."
    )


def refuse_files_of_others(out: Path) -> None:
    """Raise an `OutputError` where somebody put files, such as a run, into the store at `out`."""
    others = files_of_others(out) if out.is_dir() else []
    if others:
        raise OutputError(
            f"{out} holds files that are not of the store, such as {others[0]}, and would be"
            " deleted with it. Move them, or choose another path."
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
