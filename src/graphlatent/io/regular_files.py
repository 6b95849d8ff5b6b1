"""Files as readers accept them: regular, readable, and not damaged.

A pipe or a device would block, or never end, so only regular files are opened.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from graphlatent.encoder_size import memory_of_machine
from graphlatent.errors import GraphLatentError, InputError, shown

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Larger files of text, such as JSON, are none of ours.
_TEXT = 1 << 30
# Files of a folder among which a similar name is looked for.
_LISTED = 10_000


@contextmanager
def open_regular(path: Path, *, most: float | None = None) -> Iterator[BinaryIO]:
    """A regular file, open for reading of bytes.

    Args:
        path: the file.
        most: its largest size in bytes; None means that of main memory.

    Raises:
        OSError: where it cannot be opened, is a folder, a pipe or a device, or larger.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
            reason = f"It is {kind}, and only regular files are read"
            raise OSError(errno.EINVAL, reason, str(path))
        limit = memory_of_machine() if most is None else most
        if status.st_size > limit:
            reason = f"Its {status.st_size:,} bytes are more than can be read"
            raise OSError(errno.EFBIG, reason, str(path))
        yield file


def _open_at_once(path: str, flags: int) -> int:
    # Otherwise opening a pipe waits for somebody to write.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_regular(path: Path) -> bytes:
    """The content of a file of text. Raises as `open_regular` does."""
    with open_regular(path, most=_TEXT) as file:
        return file.read()


def exists(path: str | Path) -> bool:
    """Whether there is something at the path.

    Raises:
        InputError: where that cannot be told: the name is too long, or a folder is not readable.
    """
    return _status(Path(path)) is not None


def is_folder(path: Path) -> bool:
    """Whether there is a folder at the path. Raises as `exists` does."""
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def near_name(path: Path) -> str:
    """The question whether a file of nearly this name, in the same folder, is meant; or ''."""
    try:
        # By their names without suffix: otherwise all short names with the same one are similar.
        files = {each.stem: each for each in islice(path.parent.iterdir(), _LISTED)}
    except OSError:
        return ""
    near = difflib.get_close_matches(path.stem, files, n=1, cutoff=0.75)
    return f"Did you mean {files[near[0]]}?" if near else ""


def files_of(folder: Path) -> list[Path]:
    """What is in a folder, in the order of the names.

    Raises:
        InputError: where the folder cannot be listed.
    """
    with refusing_damage(f"The folder {folder} cannot be read"):
        return sorted(folder.iterdir())


def regular_file(path: Path, *, role: str = "") -> int:
    """The size in bytes of a regular file.

    Args:
        path: the file.
        role: what it holds, such as 'nodes', for messages.

    Raises:
        InputError: where there is no file, or it is a folder, a pipe or a device.
    """
    prefix = f"{role}: " if role else ""
    status = _status(path)
    if status is None:
        hint = near_name(path) or "Check the path."
        there_is = "there is" if role else "There is"
        raise InputError(f"{prefix}{there_is} no file {path}. {hint}")
    if stat.S_ISREG(status.st_mode):
        if not os.access(path, os.R_OK):
            raise InputError(f"{prefix}{path} cannot be read: its permissions do not allow it.")
        return status.st_size
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    if kind is None:
        raise InputError(f"{prefix}{path} is a folder, but a file is needed. Name the file in it.")
    raise InputError(
        f"{prefix}{path} is {kind}, and only regular files can be read. Write the data to a file"
        " first."
    )


@contextmanager
def refusing_damage(what: str, *, way_out: str = "") -> Iterator[None]:
    """A context in which every error of a reader that is not ours becomes an `InputError`.

    For calls of other packages only: given damaged bytes they raise errors of many types.

    Args:
        what: a sentence without its full stop, such as 'a.npz cannot be read as NumPy arrays'.
        way_out: what to do, a sentence.
    """
    try:
        yield
    except GraphLatentError:
        raise
    except MemoryError as error:
        reason = "not enough memory for the sizes that the file states"
        raise InputError(f"{what}. The reader says: {reason}. {way_out}".rstrip()) from error
    except OSError as error:
        # Not what the file holds, but that it cannot be opened or read at all.
        if error.errno is None:
            raise InputError(f"{what}. {first_line(error)} {way_out}".rstrip()) from error
        subject = what.partition(" cannot be read")[0]
        raise InputError(f"{subject} cannot be read: {os.strerror(error.errno)}.") from error
    except UnicodeEncodeError as error:
        # Of a name that the reader was given, not of what the file holds.
        raise InputError(f"{shown(error.object)} is not valid UTF-8. Name it otherwise.") from error
    except Exception as error:
        raise InputError(f"{what}. {first_line(error)} {way_out}".rstrip()) from error


def first_line(error: BaseException) -> str:
    """What an error of a reader says, as one sentence."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    shortened = text if len(text) <= 300 else text[:300] + " ..."
    return f"The reader says: {shortened.rstrip('.')}."


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    # A NUL in the name.
    except ValueError as error:
        raise InputError(f"{str(path)!r} is no name of a file: {error}.") from error
    except OSError as error:
        name = str(path)
        name = name if len(name) <= 200 else f"{name[:100]}...{name[-20:]}"
        raise InputError(f"{name} cannot be read: {error.strerror}. Check the path.") from error
