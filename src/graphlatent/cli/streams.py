"""Standard output and standard error: characters that cannot be encoded, pipes and full disks."""

from __future__ import annotations

import errno
import io
import os
import sys


class OutputClosedError(Exception):
    """Standard output takes no more; the message says why, empty where its reader has left."""


def prepare_streams() -> None:
    """Make printing safe: a character that the terminal cannot encode becomes a question mark."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by the caller (>&-).
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def discard_output() -> None:
    """Send standard output to nowhere, with what is still in its buffer."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def finish_output() -> None:
    """Write what is buffered. Raises `OutputClosedError` where it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise closed_output(error) from error


def is_of_a_stream(error: OSError) -> bool:
    """Whether an error came from writing to a stream, not from a file with a name."""
    return error.filename is None and error.errno in (
        errno.EPIPE,
        errno.ENOSPC,
        errno.EIO,
        errno.EBADF,
    )


def closed_output(error: OSError) -> OutputClosedError:
    """The error of an output that cannot be written; silent where its reader has left."""
    if error.errno == errno.EPIPE:
        return OutputClosedError()
    return OutputClosedError(f"Cannot write to standard output: {error.strerror}.")


def report(text: str) -> None:
    """Print a line to standard error, if that is possible."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        pass
