"""Numbered edges sorted into rows, merged and symmetrised: the adjacency of a store.

Every edge is entered twice, in the row of its target and, marked as reversed, in the row of its
source. So a row has both directions of each of its pairs, and what `edges.clean_edges` decides
about a whole graph is decided row by row. Legend: N nodes, E edges, K entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.edges import MAX_NODES
from graphlatent.data.merging import Merge, checked_float32, reduced_weights
from graphlatent.data.store.layout import DEGREE, INDICES, INDPTR, WEIGHT
from graphlatent.data.store.npy import NpyWriter
from graphlatent.data.store.numbering import EdgeBlock
from graphlatent.data.store.runs import SortedRuns
from graphlatent.data.weights import LARGEST, SMALLEST
from graphlatent.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]
WIDE_FROM = 2**31
"""Of so many nodes, their numbers do not fit into int32."""
# Nodes whose counts are written at a time.
_BLOCK = 1 << 20


@dataclass
class EdgeCounts:
    """What was counted while an adjacency was built, for the notes about it.

    Args:
        num_rows: edges that were read.
        num_distinct: of these, those that differ, by direction.
        num_edges: entries of the adjacency.
        num_self_loops: self-loops among them.
        is_symmetric: every edge had its reverse, with the same weight.
        num_isolated: nodes without a neighbour.
        largest: the largest absolute weight, as it came.
        any_weight: a weight is not 0 in float32.
    """

    num_rows: int = 0
    num_distinct: int = 0
    num_edges: int = 0
    num_self_loops: int = 0
    is_symmetric: bool = True
    num_isolated: int = 0
    largest: float = 0.0
    any_weight: bool = False


@dataclass(frozen=True)
class AdjacencyOptions:
    """How edges become rows.

    Args:
        num_nodes: N.
        weighted: edges come with weights.
        merge: the weight of edges that are there more than once.
        symmetrize: give every edge its reverse.
    """

    num_nodes: int
    weighted: bool
    merge: Merge
    symmetrize: bool

    def __post_init__(self) -> None:
        if self.num_nodes > MAX_NODES:
            raise InputError(
                f"The graph has {self.num_nodes:,} nodes, and no more than {MAX_NODES:,} can be"
                " ingested."
            )

    @property
    def has_weights(self) -> bool:
        """Whether entries have weights: all but those that only count once."""
        return self.weighted and self.merge != "count"

    @property
    def writes_weights(self) -> bool:
        """Whether the adjacency has weights; sums and numbers of edges are weights too."""
        return self.weighted or self.merge != "max"


def enter_edges(
    blocks: Iterable[EdgeBlock],
    runs: SortedRuns,
    options: AdjacencyOptions,
    counts: EdgeCounts,
    told: Callable[[int], None],
    *,
    where: str = "edges",
) -> None:
    """Write both entries of every edge in sorted runs.

    Args:
        blocks: the edges.
        runs: where to write.
        options: how edges become rows.
        counts: is counted further.
        told: is called with the number of edges that were entered.
        where: the edge table, for messages.

    Raises:
        InputError: where a weight is missing, not finite or too large for float32.
    """
    for block in blocks:
        counts.num_rows += len(block.source)
        weight = None
        if block.weight is not None:
            _check_weights(block.weight, counts, where)
            weight = block.weight.astype(np.float32) if options.has_weights else None
        key, weight = _entries(block, weight, options.num_nodes)
        if weight is None:
            key.sort()
        else:
            order = np.argsort(key)
            key, weight = key[order], weight[order]
        if options.merge == "max":
            # Repeated edges are merged early, so that they take no space.
            key, weight = _largest(key, weight)
        runs.append(key, weight)
        told(counts.num_rows)


def _entries(block: EdgeBlock, weight: Array | None, num_nodes: int) -> tuple[Array, Array | None]:
    """The keys of both entries of each edge, and their weights; of a self-loop there is one."""
    source, target = block.source.astype(np.uint64), block.target.astype(np.uint64)
    size, two = np.uint64(num_nodes), np.uint64(2)
    forward = (target * size + source) * two
    other = source != target
    backward = ((source * size + target) * two + np.uint64(1))[other]
    key = np.concatenate([forward, backward])
    return key, None if weight is None else np.concatenate([weight, weight[other]])


def _check_weights(weight: Array, counts: EdgeCounts, where: str) -> None:
    if not len(weight):
        return
    if not np.isfinite(weight).all():
        wrong = weight[~np.isfinite(weight)]
        came = "nothing" if np.isnan(wrong[0]) else str(wrong[0])
        raise InputError(
            f"{where}: the weight column must hold a finite number in every row. Got {came}"
            f" ({len(wrong):,} of {len(weight):,} rows that were read together). Fill them or drop"
            " the rows."
        )
    counts.largest = max(counts.largest, float(np.abs(weight).max()))
    if counts.largest > LARGEST:
        raise InputError(
            f"{where}: the weight column holds numbers too large for float32 (more than"
            f" {LARGEST:.2g}), such as {counts.largest:g}. Divide all weights by a constant."
        )
    counts.any_weight = counts.any_weight or bool(weight.astype(np.float32).any())


def _first(key: Array) -> Array:
    """The positions where a new key begins, in ascending keys."""
    is_first = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _largest(key: Array, weight: Array | None) -> tuple[Array, Array | None]:
    """Each key once, with the largest of its weights."""
    first = _first(key)
    if len(first) == len(key):
        return key, weight
    if weight is not None:
        weight = np.maximum.reduceat(weight, first)
    return key[first], weight


@dataclass
class AdjacencyWriter:
    """Writes rows from ranges of sorted entries.

    Args:
        folder: the store.
        options: how edges become rows.
        counts: is counted further.
        wide_from: of so many nodes, indices are int64.
    """

    folder: Path
    options: AdjacencyOptions
    counts: EdgeCounts
    wide_from: int = WIDE_FROM
    _in_row: Array = field(init=False, repr=False)
    _degree: Array = field(init=False, repr=False)
    _has_neighbour: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        num_nodes = self.options.num_nodes
        self._in_row = np.zeros(num_nodes, dtype=np.int64)
        self._degree = np.zeros(num_nodes, dtype=np.int64)
        self._has_neighbour = np.zeros(num_nodes, dtype=bool)

    def write(self, runs: SortedRuns, size: int, told: Callable[[int], None]) -> list[str]:
        """Write the adjacency, `size` entries at a time; returns the names of the files."""
        options = self.options
        if options.merge != "max" and options.symmetrize:
            # Whether a sum is taken over both directions depends on all edges.
            self.counts.is_symmetric = all(
                _ruled_pairs(key, weight, options).is_symmetric for key, weight in runs.ranges(size)
            )
        dtype = np.int64 if options.num_nodes >= self.wide_from else np.int32
        names = [INDICES, *([WEIGHT] if options.writes_weights else [])]
        with NpyWriter(self.folder / INDICES, dtype) as indices:
            if options.writes_weights:
                with NpyWriter(self.folder / WEIGHT, np.float32) as weights:
                    self._write_ranges(runs, size, indices, weights, told)
            else:
                self._write_ranges(runs, size, indices, None, told)
        self._write_counts()
        return [*names, INDPTR, DEGREE]

    def _write_ranges(
        self,
        runs: SortedRuns,
        size: int,
        indices: NpyWriter,
        weights: NpyWriter | None,
        told: Callable[[int], None],
    ) -> None:
        done = 0
        for key, weight in runs.ranges(size):
            done += len(key)
            if len(key):
                pairs, values = self._merged(key, weight)
                row, col = self._split(pairs)
                self._count(self._in_row, row)
                self.counts.num_edges += len(pairs)
                self.counts.num_self_loops += int((row == col).sum())
                indices.append(col)
                if weights is not None:
                    weights.append(values)
            told(done)

    def _split(self, pairs: Array) -> tuple[Array, Array]:
        size = pairs.dtype.type(self.options.num_nodes)
        row, col = np.divmod(pairs, size)
        return row.astype(np.int64), col.astype(np.int64)

    def _count(self, total: Array, row: Array) -> None:
        """Add the number of times that each row is there; rows are ascending."""
        if len(row):
            begin = int(row[0])
            total[begin : int(row[-1]) + 1] += np.bincount(row - begin)

    def _merged(self, key: Array, weight: Array | None) -> tuple[Array, Any]:
        """The entries that the adjacency has, ascending, and their weights."""
        options = self.options
        if options.merge == "max":
            found = _largest_pairs(*_largest(key, weight), options.num_nodes)
        else:
            found = _ruled_pairs(key, weight, options)
        self._count_pairs(found)
        if not options.symmetrize:
            return found.pair[found.forward], _chosen(found.weight, found.forward)
        if options.merge == "max":
            first = _first(found.pair)
            weight = None if found.weight is None else np.maximum.reduceat(found.weight, first)
            return found.pair[first], weight
        if self.counts.is_symmetric:
            return found.pair[found.forward], _chosen(found.weight, found.forward)
        values = np.ones(len(key)) if weight is None else weight.astype(np.float64)
        pair, total = reduced_weights((key >> np.uint64(1)).astype(np.int64), values, options.merge)
        return pair, checked_float32(total, options.merge)

    def _count_pairs(self, found: _Pairs) -> None:
        row, _ = found.ends
        other = ~found.is_loop
        self._has_neighbour[row[other]] = True
        self.counts.num_distinct += int(found.forward.sum())
        if not (self.options.symmetrize and self.options.merge != "max"):
            self.counts.is_symmetric = self.counts.is_symmetric and found.is_symmetric
        if self.options.symmetrize:
            once = np.zeros(len(row), dtype=bool)
            once[_first(found.pair)] = True
            self._count(self._degree, row[other & once])
        else:
            # Of a directed graph, edges that leave the node.
            self._count(self._degree, row[other & ~found.forward])

    def _write_counts(self) -> None:
        self.counts.num_isolated = int((~self._has_neighbour).sum())
        with NpyWriter(self.folder / INDPTR, np.int64) as indptr:
            indptr.append(np.zeros(1, dtype=np.int64))
            end = 0
            for start in range(0, self.options.num_nodes, _BLOCK):
                ends = end + np.cumsum(self._in_row[start : start + _BLOCK])
                end = int(ends[-1])
                indptr.append(ends)
        with NpyWriter(self.folder / DEGREE, np.int64) as degree:
            degree.append(self._degree)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Each pair of nodes once for each direction in which it is an edge.

    Args:
        pair: row * N + column, ascending, [K].
        forward: it is the edge from column to row, not the reverse, bool [K].
        weight: float32 [K], or None.
        num_nodes: N.
    """

    pair: Array
    forward: Array
    weight: Array | None
    num_nodes: int

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """Row and column, int64 [K]."""
        row, col = np.divmod(self.pair, self.pair.dtype.type(self.num_nodes))
        return row.astype(np.int64), col.astype(np.int64)

    @property
    def is_loop(self) -> Array:
        """Which are self-loops, bool [K]."""
        row, col = self.ends
        return np.asarray(row == col)

    @property
    def is_symmetric(self) -> bool:
        """Whether every edge has its reverse, with the same weight."""
        # Both directions of a pair follow each other; a self-loop is its own reverse.
        same = self.is_loop.copy()
        if len(same) > 1:
            pairs = self.pair[1:] == self.pair[:-1]
            if self.weight is not None:
                pairs &= self.weight[1:] == self.weight[:-1]
            same[:-1] |= pairs
            same[1:] |= pairs
        return bool(same.all())


def _largest_pairs(key: Array, weight: Array | None, num_nodes: int) -> _Pairs:
    return _Pairs(key >> np.uint64(1), (key & np.uint64(1)) == 0, weight, num_nodes)


def _ruled_pairs(key: Array, weight: Array | None, options: AdjacencyOptions) -> _Pairs:
    """The pairs with the sum, mean or number of the weights of each direction."""
    parts = []
    for direction in (0, 1):
        chosen = (key & np.uint64(1)) == direction
        values = np.ones(int(chosen.sum())) if weight is None else weight[chosen].astype(np.float64)
        pair, total = reduced_weights(
            (key[chosen] >> np.uint64(1)).astype(np.int64), values, options.merge
        )
        parts.append((pair, checked_float32(total, options.merge)))
    pair = np.concatenate([pair for pair, _ in parts])
    order = np.argsort(pair, kind="stable")
    forward = np.arange(len(pair)) < len(parts[0][0])
    values = np.concatenate([value for _, value in parts])
    return _Pairs(pair[order], forward[order], values[order], options.num_nodes)


def _chosen(weight: Array | None, which: Array) -> Array | None:
    return None if weight is None else weight[which]


def check_weights(counts: EdgeCounts, *, where: str) -> None:
    """Raise an `InputError` where float32 cannot hold any of the weights exactly."""
    if 0 < counts.largest < SMALLEST:
        raise InputError(
            f"{where}: the weight column holds no value that float32 can hold exactly: the largest"
            f" is {counts.largest:g}, and values below {SMALLEST:.2g} lose digits or become 0."
            " Multiply all weights by a constant."
        )
