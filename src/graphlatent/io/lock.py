"""The lock of a folder: one process at a time writes in it.

The lock is the operating system's (flock), so it ends with its process, however that ends. The file
that is locked says who holds it, for the message to others, and is deleted in the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from graphlatent.errors import OutputError, warn
from graphlatent.io.atomic import LOCK

# So often another process is expected to delete a folder in which a lock is made.
_ATTEMPTS = 100


class FolderLock:
    """The lock of one folder.

    Args:
        folder: the folder; it is created where it does not exist, and deleted again where nothing
            was written in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / LOCK
        self._owner: tuple[int, int] | None = None
        self._handle = -1

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the lock; uses within each other share it.

        Yields:
            Whether the lock was taken, and not held by this thread already.

        Raises:
            OutputError: where another process, or another thread, holds it, the folder cannot be
                written to, or it was deleted while this thread held the lock.
        """
        me = (os.getpid(), threading.get_ident())
        if self._owner == me:
            # What is there now may be a run of another process.
            if not self._is_current(self._handle):
                raise OutputError(
                    f"{self.folder} was deleted or replaced while it was being written, so that"
                    " nothing more is written in it. Start again."
                )
            yield False
            return
        created = [each for each in (self.folder, *self.folder.parents) if not _exists(each)]
        handle = self._take()
        self._owner, self._handle = me, handle
        try:
            yield True
        finally:
            self._owner = None
            # Deleted before it is unlocked: whoever waits for it notices that it is another file.
            with contextlib.suppress(OSError):
                if self._is_current(handle):
                    self.path.unlink()
            os.close(handle)
            with contextlib.suppress(OSError):
                for each in created:
                    each.rmdir()

    def _take(self) -> int:
        """A handle of the locked file."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        for _ in range(_ATTEMPTS):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                handle = os.open(self.path, flags, 0o644)
            except FileNotFoundError:
                if self.folder.is_symlink():
                    raise _unwritable(
                        self.folder, "a link to a folder that does not exist"
                    ) from None
                # Another process deleted the folder that it had created.
                continue
            except OSError as error:
                raise _unwritable(self.folder, error.strerror or str(error)) from error
            try:
                if os.fstat(handle).st_nlink > 1:
                    raise _unwritable(self.path, "it is a link to another file too")
                if not _lock(handle):
                    raise OutputError(self._in_use(handle))
                # Another process may have deleted the file before it was locked here.
                if self._is_current(handle):
                    _write(handle)
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
        # Such as under /proc, where folders seem to be made.
        raise _unwritable(self.folder, "no file can be made there, or it is deleted at once")

    def _is_current(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(handle))
        except FileNotFoundError:
            return False

    def _in_use(self, handle: int) -> str:
        holder = "another process"
        with contextlib.suppress(ValueError, KeyError, TypeError):
            about: dict[str, Any] = json.loads(os.pread(handle, 4096, 0))
            holder = f"process {about['pid']} on {about['host']}, since {about['since']}"
        return (
            f"{self.folder} is in use: it is being written by {holder}. Wait until that has ended,"
            " or choose another folder."
        )


def _write(handle: int) -> None:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
    # On a full disk the lock holds without it.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(about).encode())


def _lock(handle: int) -> bool:
    """Lock an open file; False where it is locked already.

    Warns:
        GraphLatentWarning: where the file system has no locks.
    """
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        except OSError:
            pass
    warn(
        "This file system cannot lock files. Take care that only one process writes in the folder."
    )
    return True


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _unwritable(folder: Path, reason: str) -> OutputError:
    return OutputError(
        f"Cannot write {folder}: {reason}. Choose another path, or make room and rights there."
    )
