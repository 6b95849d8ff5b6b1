"""Edges sorted on disk and merged range by range are those that are merged in memory."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphlatent.data.edges import clean_edges, is_symmetric
from graphlatent.data.store.adjacency import (
    AdjacencyOptions,
    AdjacencyWriter,
    EdgeCounts,
    enter_edges,
)
from graphlatent.data.store.npy import NpyWriter, mapped
from graphlatent.data.store.numbering import EdgeBlock
from graphlatent.data.store.runs import SortedRuns
from graphlatent.errors import InputError


def built(folder, blocks, options, *, size, wide_from=2**31):
    """(indptr, indices, weights or None, degree, counts) of the adjacency of blocks of edges."""
    counts = EdgeCounts()
    with closing(SortedRuns(folder, weighted=options.has_weights)) as runs:
        enter_edges(blocks, runs, options, counts, lambda rows: None)
        writer = AdjacencyWriter(folder, options, counts, wide_from)
        names = writer.write(runs, size, lambda rows: None)
    assert not list(folder.glob("*.run"))
    weight = mapped(folder / "weight.npy") if "weight.npy" in names else None
    arrays = [mapped(folder / name) for name in ("indptr.npy", "indices.npy", "degree.npy")]
    return arrays[0], arrays[1], weight, arrays[2], counts


def in_blocks(ends, weight, size):
    for start in range(0, ends.shape[1], size):
        piece = slice(start, start + size)
        yield EdgeBlock(
            ends[0, piece], ends[1, piece], None if weight is None else weight[piece], size
        )


@given(seed=st.integers(0, 10**6))
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
def test_ranges_of_any_size_give_what_merging_in_memory_gives(seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("rows")
    count, num_edges = int(rng.integers(1, 12)), int(rng.integers(1, 300))
    ends = rng.integers(0, count, (2, num_edges))
    if rng.random() < 0.5:
        ends = np.concatenate([ends, ends[::-1]], 1)
    kinds = (None, rng.normal(size=ends.shape[1]), ends.sum(0) / 4 - 1)
    weight = kinds[int(rng.integers(3))]
    merge = ("max", "sum", "mean", "count")[int(rng.integers(4))]
    symmetrize = bool(rng.random() < 0.6)
    options = AdjacencyOptions(count, weight is not None, merge, symmetrize)
    blocks = in_blocks(ends, weight, int(rng.integers(1, 40)))
    indptr, indices, weights, degree, counts = built(
        folder, blocks, options, size=int(rng.integers(1, 50))
    )
    given_weight = None if weight is None else torch.from_numpy(weight).float()
    clean = clean_edges(
        torch.from_numpy(ends), given_weight, num_nodes=count, symmetrize=symmetrize, merge=merge
    )
    # In memory edges are sorted by source; a row has the sources of its node.
    order = np.lexsort((clean.edge_index[0], clean.edge_index[1]))
    source, target = clean.edge_index.numpy()[:, order]
    assert np.array_equal(np.repeat(np.arange(count), np.diff(indptr)), target)
    assert np.array_equal(indices, source) and indices.dtype == np.int32
    assert (weights is None) == (clean.edge_weight is None)
    if weights is not None:
        assert np.array_equal(weights, clean.edge_weight.numpy()[order])
    other = clean.edge_index[0] != clean.edge_index[1]
    assert np.array_equal(degree, np.bincount(clean.edge_index[0][other], minlength=count))
    assert counts.num_self_loops == clean.num_self_loops
    assert counts.num_rows - counts.num_distinct == clean.num_merged
    if symmetrize:
        listed = clean_edges(
            torch.from_numpy(ends), given_weight, num_nodes=count, symmetrize=False, merge=merge
        )
        assert counts.is_symmetric == is_symmetric(
            listed.edge_index, listed.edge_weight, num_nodes=count
        )


def test_a_range_ends_between_pairs(tmp_path):
    rng = np.random.default_rng(0)
    key = rng.integers(0, 5000, 20_000).astype(np.uint64)
    with closing(SortedRuns(tmp_path, weighted=True)) as runs:
        for part in np.array_split(key, 7):
            runs.append(np.sort(part), np.sort(part).astype(np.float32))
        parts = list(runs.ranges(3000))
    assert len(parts) > 4
    assert np.array_equal(np.concatenate([k for k, _ in parts]), np.sort(key))
    assert all(np.array_equal(k.astype(np.float32), w) for k, w in parts)
    pairs = [set((k >> np.uint64(1)).tolist()) for k, _ in parts]
    assert all(not a & b for a, b in pairwise(pairs))
    assert max(len(k) for k, _ in parts) < 3 * 3000


def test_indices_widen_where_numbers_of_nodes_do_not_fit(tmp_path):
    options = AdjacencyOptions(3, False, "max", True)
    for wide_from, dtype in ((4, np.int32), (3, np.int64)):
        blocks = [EdgeBlock(np.array([0, 1]), np.array([1, 2]), None, 2)]
        indices = built(tmp_path, blocks, options, size=100, wide_from=wide_from)[1]
        assert indices.dtype == dtype and indices.tolist() == [1, 0, 2, 1]


def test_numbers_of_nodes_above_2_to_the_31(tmp_path):
    # A billion times the pairs that fit into 32 bits.
    count = 3_000_000_000
    runs = SortedRuns(tmp_path, weighted=False)
    options = AdjacencyOptions(count, False, "max", True)
    ends = np.array([[2_999_999_999, 0], [2_999_999_998, 2_999_999_999]])
    with closing(runs):
        enter_edges(in_blocks(ends, None, 2), runs, options, EdgeCounts(), lambda rows: None)
        ((key, _),) = runs.ranges(100)
    pairs = [divmod(int(k) >> 1, count) for k in key]
    assert sorted(pairs) == sorted(
        [(a, b) for a, b in ends.T.tolist()] + [(b, a) for a, b in ends.T.tolist()]
    )
    with pytest.raises(InputError, match="no more than 3,037,000,499 can be ingested"):
        AdjacencyOptions(3_037_000_500, False, "max", True)


def test_arrays_written_in_pieces_are_read_as_wholes(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    with NpyWriter(tmp_path / "x.npy", np.float32, width=3) as writer:
        writer.append(rows[:1])
        writer.append(rows[1:])
    assert np.array_equal(np.load(tmp_path / "x.npy"), rows)
    assert np.array_equal(mapped(tmp_path / "x.npy"), rows)
    with NpyWriter(tmp_path / "e.npy", "M8[D]"):
        pass
    assert mapped(tmp_path / "e.npy").shape == (0,) and mapped(tmp_path / "e.npy").dtype == "M8[D]"
