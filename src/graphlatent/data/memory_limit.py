"""A limit on the memory that reading may take, checked before memory is allocated.

A file of a few kilobytes can ask for gigabytes: a compressed file, a number of nodes. Readers
estimate what they are about to allocate and call `require_memory`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from graphlatent.errors import InputError, bad_argument

SHARE = 0.5
"""Share of the available memory that reading may take where no limit was given."""
# Where the system does not say how much is available.
_UNKNOWN = 8 * 10**9
# Needs below this are not compared with what is available: asking for it takes longer.
_SMALL = 32 * 10**6

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{c}B": 1000 ** (i + 1) for i, c in enumerate("KMGT")}
_UNITS |= {f"{c}IB": 1024 ** (i + 1) for i, c in enumerate("KMGT")}

_limit: ContextVar[int | None] = ContextVar("memory limit of readers", default=None)


def parse_memory(value: int | str, *, owner: str = "read_graphs", name: str = "max_memory") -> int:
    """An amount of memory in bytes, given as a number or as text such as '4GB' or '512 MiB'.

    Raises:
        ConfigError: where it is neither, or not above 0.
    """
    amount = math.nan
    if isinstance(value, int) and not isinstance(value, bool):
        amount = value
    elif isinstance(value, str):
        found = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)\s*", value, re.ASCII)
        if found and found[2].upper() in _UNITS:
            amount = float(found[1]) * _UNITS[found[2].upper()]
    if not amount >= 1:
        raise bad_argument(
            name,
            owner=owner,
            allowed="a number of bytes above 0, or text such as '4GB' or '512MiB'",
            got=value,
        )
    return int(amount)


@contextmanager
def limited_memory(max_memory: int | str | None) -> Iterator[None]:
    """A context in which readers keep to `max_memory`; None: to what applied before."""
    if max_memory is None:
        yield
        return
    token = _limit.set(parse_memory(max_memory))
    try:
        yield
    finally:
        _limit.reset(token)


def memory_limit() -> int:
    """How many bytes reading may take here."""
    limit = _limit.get()
    return int(SHARE * available_memory()) if limit is None else limit


def require_memory(num_bytes: int, *, what: str) -> None:
    """Nothing, where reading `what` keeps within the limit.

    Args:
        num_bytes: an estimate of what will be allocated.
        what: the file or graph and, where it helps, the size that is the reason.

    Raises:
        InputError: where it does not; the message has both figures.
    """
    if _limit.get() is None and num_bytes < _SMALL:
        return
    limit = memory_limit()
    if num_bytes > limit:
        raise exceeded(num_bytes, limit=limit, what=what)


def exceeded(num_bytes: int, *, limit: int, what: str) -> InputError:
    """The error of `require_memory`, for readers that count while they read."""
    return InputError(
        f"{what} needs about {readable(num_bytes)} of memory, and reading may take"
        f" {readable(limit)}{'' if _limit.get() else ', half of what is available'}. Read a"
        " smaller input, or raise the limit with max_memory, --max-memory on the command line."
    )


def available_memory() -> int:
    """Bytes of memory that this process can still get, as far as the system says."""
    found = [_available_on_machine(), _left_of_cgroup(), _left_of_address_space()]
    return max(min((each for each in found if each is not None), default=_UNKNOWN), 0)


def readable(num_bytes: int) -> str:
    """A number of bytes as text, such as '4.2 GB'."""
    if num_bytes < 1000:
        return f"{num_bytes} bytes"
    unit = next((u for u in ("kB", "MB", "GB") if num_bytes < 1000 * _UNITS[u.upper()]), "TB")
    amount = num_bytes / _UNITS[unit.upper()]
    return f"{amount:,.3g} {unit}" if amount < 1000 else f"{int(amount):,} {unit}"


def _available_on_machine() -> int | None:
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(x for x in lines if x.startswith("MemAvailable:")).split()[1])
    # Not Linux: all memory of the machine.
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _left_of_cgroup() -> int | None:
    """What a container may use, of which a part is in use already."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            return int((Path("/sys/fs/cgroup") / name).read_text(encoding="ascii"))
    return None


def _left_of_address_space() -> int | None:
    """What `ulimit -v` leaves."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            return soft - used * resource.getpagesize()
    return None
