"""Paths as users give them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from graphlatent.errors import bad_argument


def checked_path(value: object, *, name: str, owner: str) -> Path:
    """The path that an argument names; there need not be anything.

    Raises:
        ConfigError: where it is no path, or one that no file system has: empty, too long, or with a
            null byte.
    """
    if isinstance(value, str | os.PathLike) and value != "":
        try:
            path = Path(value)
            os.lstat(path)
            return path
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                return path
            raise bad_argument(
                name, owner=owner, allowed="a shorter path (File name too long)", got=str(value)
            ) from error
        # A null byte, or a path of bytes.
        except (ValueError, TypeError):
            pass
    raise bad_argument(name, owner=owner, allowed="a path", got=value)
