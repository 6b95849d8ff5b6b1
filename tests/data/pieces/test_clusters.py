"""Clusters: every part once an epoch, few edges between parts, and the cache of a partition."""

from __future__ import annotations

import hashlib
import os
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator
from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.memory_limit import limited_memory
from graphlatent.data.pieces import ClusterPieces
from graphlatent.data.pieces import partition as module
from graphlatent.data.pieces.clusters import num_parts
from graphlatent.data.pieces.growing import grown_parts
from graphlatent.data.pieces.partition import partition, structure_fingerprint
from graphlatent.errors import GraphLatentWarning, MissingDependencyError
from piece_cases import CPU, drawn_graph, plain


def communities(groups=8, size=40, *, inside=8, outside=1, seed=0):
    """A graph by rows with planted groups, and the group of each node, in a random order."""
    gen = np.random.default_rng(seed)
    count = groups * size
    node = np.repeat(np.arange(count), inside + outside)
    group = node // size
    other = group * size + gen.integers(0, size, len(node))
    far = np.tile(np.arange(inside + outside) >= inside, count)
    other = np.where(far, gen.integers(0, count, len(node)), other)
    order = gen.permutation(count)
    pairs = np.stack([order[node], order[other]])
    pairs = np.unique(np.concatenate([pairs, pairs[::-1]], 1), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    indptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs[0], minlength=count), out=indptr[1:])
    labels = np.empty(count, dtype=np.int64)
    labels[order] = np.arange(count) // size
    x = torch.rand(count, 3, generator=generator(seed))
    rows = CSRGraph(torch.from_numpy(indptr), torch.from_numpy(pairs[1]), None, MatrixRows(x))
    return rows, torch.from_numpy(labels)


def cut_share(graph, parts):
    """The share of the edges between parts."""
    row = torch.repeat_interleave(torch.arange(graph.num_nodes), torch.diff(graph.indptr))
    return float((parts[row] != parts[graph.indices.long()]).double().mean())


def clusters(graph, parts, *, parts_per_step=2):
    return ClusterPieces(graph, parts, parts_per_step=parts_per_step, prepare=plain, device=CPU)


@settings(deadline=None)
@given(seed=st.integers(0, 9999), count=st.integers(1, 9), parts_per_step=st.integers(1, 9))
def test_every_node_is_in_one_step_of_an_epoch(seed, count, parts_per_step):
    graph = CSRGraph.of(drawn_graph(seed))
    parts = torch.randint(count, (14,), generator=generator(seed))
    source = clusters(graph, parts, parts_per_step=parts_per_step)
    plan = source.plan(generator(seed))
    assert len(plan) == source.num_steps
    assert all(1 <= len(step) <= parts_per_step for step in plan)
    batches = [source.take(step) for step in plan]
    nodes = torch.cat([batch.node_id for batch in batches])
    assert torch.sort(nodes).values.tolist() == list(range(14))
    for batch in batches:
        wanted = graph.induced(batch.node_id)
        assert torch.equal(batch.structure.edge_index, wanted.edge_index)
        assert batch.counts is None


def test_epochs_join_other_parts_and_the_last_step_is_no_smaller():
    rows, labels = communities()
    source = clusters(rows, labels, parts_per_step=3)
    gen = generator(0)
    first, second = source.plan(gen), source.plan(gen)
    assert [len(step) for step in first] == [3, 3, 2]
    assert {tuple(sorted(s.tolist())) for s in first} != {tuple(sorted(s.tolist())) for s in second}
    batch = source.take(first[0])
    assert {int(labels[n]) for n in batch.node_id} == set(first[0].tolist())


@pytest.mark.parametrize(
    ("num_nodes", "nodes_per_step", "parts_per_step", "wanted"),
    [
        (100, 100, 10, 1),
        (100, 1000, 10, 1),
        (100_000, 5000, 10, 200),
        (100, 99, 1, 2),
        (3, 1, 9, 3),
    ],
)
def test_number_of_parts(num_nodes, nodes_per_step, parts_per_step, wanted):
    found = num_parts(num_nodes, nodes_per_step=nodes_per_step, parts_per_step=parts_per_step)
    assert found == wanted


class TestPartition:
    def test_metis_finds_planted_groups(self):
        pytest.importorskip("pymetis")
        rows, labels = communities()
        parts = partition(rows, 8)
        assert torch.bincount(parts, minlength=8).max() <= 48
        assert cut_share(rows, parts) < cut_share(rows, labels) + 0.05
        assert torch.equal(parts, partition(rows, 8))

    def test_of_a_directed_graph_with_self_loops(self):
        pytest.importorskip("pymetis")
        graph = CSRGraph.of(drawn_graph(3, size=30, directed=True))
        parts = partition(graph, 3)
        assert sorted(parts.unique().tolist()) == [0, 1, 2]

    def test_one_part(self):
        assert partition(CSRGraph.of(drawn_graph(0)), 1).tolist() == [0] * 14

    def test_is_kept_in_a_folder(self, tmp_path, monkeypatch):
        pytest.importorskip("pymetis")
        rows, _ = communities()
        parts = partition(rows, 8, cache=tmp_path)
        (file,) = tmp_path.iterdir()
        assert file.name == f"parts-8-{structure_fingerprint(rows)}.bin"
        monkeypatch.setattr(module, "_computed", None)
        assert torch.equal(partition(rows, 8, cache=tmp_path), parts)
        # Another graph, or another number of parts, is computed.
        other, _ = communities(seed=1)
        for arguments in ((rows, 7), (other, 8)):
            with pytest.raises(TypeError):
                partition(*arguments, cache=tmp_path)

    @pytest.mark.parametrize("damage", ["empty", "short", "bit", "range", "link", "pipe"])
    def test_a_damaged_file_is_computed_again(self, tmp_path, damage):
        pytest.importorskip("pymetis")
        rows, _ = communities(groups=2)
        parts = partition(rows, 2, cache=tmp_path)
        (file,) = tmp_path.iterdir()
        content = file.read_bytes()
        # A node in the other part: a partition too, but not the one that was computed.
        flipped = content[:-4] + bytes([1 - content[-4]]) + content[-3:]
        too_high = np.full(80, 2, np.int32).tobytes()
        wrong = {
            "empty": b"",
            "short": content[:-4],
            "bit": flipped,
            "range": hashlib.sha256(too_high).digest() + too_high,
        }
        if damage in wrong:
            file.write_bytes(wrong[damage])
        else:
            file.unlink()
            (tmp_path / "other").write_bytes(flipped)
            file.symlink_to(tmp_path / "other") if damage == "link" else os.mkfifo(file)
        assert torch.equal(partition(rows, 2, cache=tmp_path), parts)
        assert file.read_bytes() == content and not file.is_symlink()

    def test_a_folder_that_cannot_be_written_to_or_is_a_link_keeps_none(self, tmp_path):
        pytest.importorskip("pymetis")
        rows, _ = communities(groups=2)
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "file").write_text("mine")
        for cache in (tmp_path / "link", tmp_path / "file"):
            assert torch.equal(partition(rows, 2, cache=cache), partition(rows, 2))
        assert not any((tmp_path / "elsewhere").iterdir())
        assert (tmp_path / "file").read_text() == "mine"

    def test_beyond_the_memory_of_metis_parts_are_grown(self):
        pytest.importorskip("pymetis")
        rows, _ = communities()
        said = (
            r"^METIS would need about 722 kB of memory for this graph, and 1 kB may be used: its"
            r" parts come from label propagation, with more edges between them\.$"
        )
        with limited_memory("1kB"), pytest.warns(GraphLatentWarning, match=said):
            parts = partition(rows, 8)
        assert torch.equal(parts, grown_parts(rows, 8))

    def test_of_a_large_graph_it_says_that_it_takes_minutes(self, monkeypatch):
        pytest.importorskip("pymetis")
        rows, _ = communities()
        monkeypatch.setattr(module, "_LONG_EDGES", rows.num_edges)
        said = f"^METIS cuts the graph into 8 parts, .* {rows.num_edges:,} stored edges"
        with pytest.warns(GraphLatentWarning, match=said):
            partition(rows, 8)

    def test_without_pymetis(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pymetis", None)
        said = (
            r"^batching='clusters' needs the package 'pymetis'\. Install it with: pip install"
            r" 'graphlatent\[scale\]'\. Or use batching='neighbors', which does without\.$"
        )
        with pytest.raises(MissingDependencyError, match=said):
            partition(communities()[0], 8)


class TestGrownParts:
    def test_groups_stay_together(self):
        rows, labels = communities()
        parts = grown_parts(rows, 8)
        shuffled = parts[torch.randperm(320, generator=generator(0))]
        assert cut_share(rows, labels) < 0.2 < 0.8 < cut_share(rows, shuffled)
        assert cut_share(rows, parts) < 0.5
        assert torch.equal(parts, grown_parts(rows, 8))

    @settings(deadline=None)
    @given(seed=st.integers(0, 9999), count=st.integers(1, 20))
    def test_sizes_are_limited(self, seed, count):
        graph = CSRGraph.of(drawn_graph(seed, density=0.15))
        parts = grown_parts(graph, count)
        sizes = torch.bincount(parts)
        assert int(parts.min()) >= 0 and int(parts.max()) < count
        assert int(sizes.max()) <= np.ceil(1.1 * 14 / min(count, 14))

    def test_without_edges(self):
        graph = drawn_graph(0)
        graph = graph.with_edges(torch.zeros(graph.num_edges, dtype=torch.bool))
        assert torch.bincount(grown_parts(CSRGraph.of(graph), 2)).max() <= 8
