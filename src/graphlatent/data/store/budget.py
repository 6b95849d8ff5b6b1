"""How the memory that ingesting may take is divided, and what it needs at least."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graphlatent.data.memory_limit import readable
from graphlatent.errors import InputError

# What pyarrow, DuckDB and Python hold beside what they account for.
_SLACK = 200 << 20
# DuckDB needs buffers for each of its threads before it can move anything to disk.
_LEAST_DATABASE = 96 << 20
_SHARE_OF_DATABASE = 0.75
_LEAST_CHUNK, _LARGEST_CHUNK = 1 << 15, 1 << 20
_BYTES_PER_CHUNK_EDGE = 160
_LEAST_BUCKET, _LARGEST_BUCKET = 1 << 16, 1 << 25
BYTES_PER_ENTRY = 96
"""Memory for each entry of the adjacency of a bucket that is being merged."""
BYTES_PER_NODE = 24
"""Memory for each node: its edges counted, its degree, and whether it has a neighbour."""


@dataclass(frozen=True)
class MemoryBudget:
    """A limit on the memory of this process, in bytes.

    Args:
        limit: what the process may take.
        used: what it took before anything was read.
    """

    limit: int
    used: int

    @classmethod
    def of(cls, limit: int) -> MemoryBudget:
        """The budget of this process. Raises `InputError` where the limit is too small."""
        budget = cls(limit, resident())
        budget._require(budget.used + _SLACK + _LEAST_DATABASE + (64 << 20), "any graph")
        return budget

    def require_nodes(self, num_nodes: int) -> None:
        """Raise an `InputError` where the limit is too small for so many nodes."""
        least = self.used + _SLACK + BYTES_PER_NODE * num_nodes + BYTES_PER_ENTRY * _LEAST_BUCKET
        self._require(least, f"{num_nodes:,} nodes")

    def _require(self, num_bytes: int, what: str) -> None:
        if num_bytes > self.limit:
            raise self.too_small(num_bytes, what)

    def too_small(self, num_bytes: int, what: str) -> InputError:
        """The error about a limit below what is needed."""
        return InputError(
            f"The option 'memory' is too small: {readable(self.limit)}, and to ingest {what} needs"
            f" at least {readable(num_bytes)}, of which {readable(self.used)} are Python and its"
            " packages. Raise it."
        )

    @property
    def database(self) -> int:
        """What DuckDB may take."""
        free = self.limit - self.used - _SLACK
        return max(int(_SHARE_OF_DATABASE * free), _LEAST_DATABASE)

    @property
    def chunk(self) -> int:
        """How many edges are numbered at a time."""
        free = (self.limit - self.used) // 16
        return min(max(free // _BYTES_PER_CHUNK_EDGE, _LEAST_CHUNK), _LARGEST_CHUNK)

    @property
    def column_bytes(self) -> int:
        """How much memory columns of nodes that are read together may take."""
        return max((self.limit - self.used) // 4, 16 << 20)

    def bucket(self, num_nodes: int) -> int:
        """How many entries of the adjacency are merged at a time."""
        free = self.limit - self.used - _SLACK - BYTES_PER_NODE * num_nodes
        return min(max(free // BYTES_PER_ENTRY, _LEAST_BUCKET), _LARGEST_BUCKET)


def resident() -> int:
    """The memory that this process takes, in bytes; 0 where the system does not say."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(x for x in lines if x.startswith("VmRSS:")).split()[1])
    return 0
