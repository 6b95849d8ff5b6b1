"""Memory that is used again instead of being given back and asked for again.

A training step makes and frees the same large arrays over and over. On Linux, glibc gives a large array back to the system as soon as it
is freed; the next one is then made of new pages, which the system must fill with zeros one by one, and that can take longer than the
arithmetic. `reused` keeps freed memory while it lasts and gives it back at the end.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of <malloc.h>
_DEFAULT_TRIM, _DEFAULT_MMAPS = 128 * 1024, 65536
_lock = threading.Lock()
_users = 0


@cache
def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version") else None
    except OSError:
        return None


@contextmanager
def reused() -> Iterator[None]:
    """Keep freed memory for the next array while this lasts; afterwards give it back. Does nothing where the C library is not glibc."""
    global _users
    library = _glibc()
    if library is None:
        yield
        return
    with _lock:
        _users += 1
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                library.mallopt(_MMAP_MAX, _DEFAULT_MMAPS)
                library.mallopt(_TRIM_THRESHOLD, _DEFAULT_TRIM)
                library.malloc_trim(0)
