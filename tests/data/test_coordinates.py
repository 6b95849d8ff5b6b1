"""Coordinates of fitted nodes: stored with ids, extended to new nodes."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feature_graphs import objects
from graphlatent.data import coordinates
from graphlatent.data.coordinates import ROUNDS, NodeCoordinates, storable_ids
from graphlatent.data.graph import GraphData
from graphlatent.data.structure import unit_rows
from graphlatent.errors import GraphLatentWarning, InputError


def graph_of(pairs, ids, weights=None):
    """The undirected graph of pairs of positions."""
    num_nodes = len(ids)
    index = torch.tensor([*pairs, *((b, a) for a, b in pairs)], dtype=torch.int64).reshape(-1, 2).T
    weight = None if weights is None else torch.tensor([*weights, *weights])
    ids = ids if isinstance(ids, np.ndarray) else np.array(ids)
    return GraphData(
        index, num_nodes, torch.tensor([0, num_nodes]), edge_weight=weight, node_ids=ids
    )


def known(ids=(10, 20, 30), scale=1.0):
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    return NodeCoordinates(values, np.array(ids), scale)


def test_similarity_is_that_of_all_edges_whatever_the_blocks(monkeypatch):
    pairs = [(i, (7 * i + 1) % 40) for i in range(40)]
    graph = graph_of(pairs, list(range(40)))
    values = unit_rows(torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), floor=0.0)
    source, target = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]].numpy()
    by_hand = (values.numpy()[source] * values.numpy()[target]).sum(1).mean()
    for size in (1, 7, 1000):
        monkeypatch.setattr(coordinates, "_BLOCK", size)
        assert NodeCoordinates.of(graph, values).similarity == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no peak of memory")
def test_similarity_takes_no_matrix_of_all_edges():
    num_nodes, dim = 1000, 128
    index = torch.randint(num_nodes, (2, 1_000_000), generator=torch.Generator().manual_seed(0))
    graph = GraphData(index, num_nodes, torch.tensor([0, num_nodes]), undirected=False)
    values = torch.ones(num_nodes, dim) / dim**0.5
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    assert NodeCoordinates.of(graph, values).similarity == pytest.approx(1.0)
    # The rows of both ends of all edges are 1 GB.
    assert resident("VmHWM") - before < 500e6


def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def test_known_nodes_have_their_rows_in_any_order():
    rows = known(scale=3.0).rows_of(graph_of([(0, 1)], [20, 10]))
    assert rows.tolist() == [[0, 3], [3, 0]]


def test_a_new_node_has_the_weighted_average_of_its_neighbours_with_norm_1():
    rows = known(scale=2.0).rows_of(graph_of([(0, 2), (1, 2)], [10, 20, 99], weights=[3.0, 4.0]))
    np.testing.assert_allclose(rows[2], [2 * 0.6, 2 * 0.8], rtol=1e-6)
    assert rows[:2].tolist() == [[2, 0], [0, 2]]


def test_tiny_weights_count_too():
    rows = known().rows_of(graph_of([(0, 1)], [10, 99], weights=[1e-9]))
    assert rows[1].tolist() == [1, 0]


def test_chains_of_new_nodes_are_reached_up_to_a_number_of_edges():
    length = ROUNDS + 2
    chain = graph_of([(i, i + 1) for i in range(length)], [10, *range(100, 100 + length)])
    with pytest.warns(
        GraphLatentWarning,
        match=f"2 of {length} new nodes are not connected with fitted nodes .* at most {ROUNDS}",
    ):
        rows = known().rows_of(chain)
    assert rows.tolist() == [[1, 0]] * (ROUNDS + 1) + [[0, 0]] * 2


def test_isolated_new_nodes_are_counted_and_fitted_zeros_are_not():
    graph = graph_of([(0, 1)], [10, 98, 99, 30])
    with pytest.warns(GraphLatentWarning, match="1 of 2 new nodes"):
        assert known().rows_of(graph).tolist() == [[1, 0], [1, 0], [0, 0], [0, 0]]


def test_no_known_node_is_refused():
    message = (
        r"None of the 2 node ids is one of the 3 fitted ones: coordinates only extend to nodes that"
        r" are connected with fitted nodes. Fit a model on this graph, or one with structure='none'"
    )
    for ids in ([1, 2], ["10", "20"]):
        with pytest.raises(InputError, match=message):
            known().rows_of(graph_of([(0, 1)], ids))


def test_several_graphs_are_refused():
    graph = graph_of([(0, 1)], [10, 20])
    several = GraphData(graph.edge_index[:, :0], 2, torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match=r"nodes of one graph.*Got 2 graphs. Embed them one by o"):
        known().rows_of(several)


def test_ids_default_to_positions():
    graph = GraphData(torch.zeros(2, 0, dtype=torch.int64), 3, torch.tensor([0, 3]))
    assert storable_ids(graph).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (np.array([3, 1]), [3, 1]),
        (objects(3, np.int64(1)), [3, 1]),
        (objects("a", "b"), ["a", "b"]),
        (objects("a", "a\0"), ["a", "a\0"]),
        (objects("a", 1), ["a", "\0001"]),
        (objects((0, 1), (0, 2)), ["\0(0, 1)", "\0(0, 2)"]),
        (objects(2**70, 1), [f"\0{2**70}", "\0001"]),
    ],
)
def test_ids_of_all_types(ids, expected):
    assert storable_ids(graph_of([(0, 1)], ids)).tolist() == expected


@pytest.mark.parametrize(
    ("fitted", "later", "known"),
    [
        (objects(1, "a"), objects("a"), [1]),
        (objects(1, "a"), np.array([1]), [0]),
        (objects(1, "a"), objects("1"), [-1]),
        (np.array([1, 2]), objects(2, "a"), [1, -1]),
        (np.array([1, 2]), objects("1"), [-1]),
        (objects("1", "2"), np.array([1]), [-1]),
        (objects("1", "2"), objects("2"), [1]),
    ],
)
def test_ids_are_recognised_by_value_and_type(fitted, later, known):
    coordinates = NodeCoordinates(torch.eye(2), storable_ids(graph_of([(0, 1)], fitted)))
    edges = [(0, len(later) - 1)]
    assert coordinates._places(graph_of(edges, later)).tolist() == known


def test_equal_ids_are_refused():
    with pytest.raises(InputError, match="Coordinates need a different id for every node"):
        storable_ids(graph_of([(0, 1)], [5, 5]))


text = st.lists(st.text(max_size=6), min_size=1, max_size=8, unique=True)
integers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8, unique=True)


@settings(max_examples=60, deadline=None)
@given(st.one_of(text, integers), st.floats(1e-3, 1e3))
def test_tensors_give_the_same_coordinates_back(ids, scale):
    graph = graph_of([], objects(*ids))
    stored = NodeCoordinates(torch.randn(len(ids), 3), storable_ids(graph), scale)
    tensors = {name: value.clone() for name, value in stored.to_tensors().items()}
    read = NodeCoordinates.from_tensors(tensors)
    assert read.belongs_to(graph) and read.scale == scale
    assert torch.equal(read.values, stored.values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(read.rows_of(graph), stored.values * scale)


def damaged(**changed):
    """Coordinates of the nodes 'a' and 'b' as tensors, with some of them changed."""
    stored = NodeCoordinates(torch.ones(2, 1), objects("a", "b")).to_tensors()
    return {**stored, **changed}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "These are no coordinates of nodes: 'values'"),
        (
            {"values": torch.ones(2, 1), "scale": torch.ones(()), "ids": torch.arange(3)},
            r"Coordinates must be one row per id, 3 ids. Got \(2, 1\).",
        ),
        (damaged(text_ends=torch.tensor([1.0, 2.0])), "no coordinates of nodes: slice indices"),
        (damaged(text_ends=torch.tensor(1)), "no coordinates of nodes: 'int' object is not sub"),
        (damaged(text_ends=torch.tensor([1])), "must be one row per id, 1 ids"),
        (damaged(text_ends=torch.tensor([0, 0])), "must be a different integer of 64 bits or text"),
        (damaged(ids=torch.tensor([4, 4])), "must be a different integer of 64 bits or text"),
        (
            damaged(ids=torch.tensor([[4], [5]])),
            r"or text for each node. Got int64 of shape \(2, 1",
        ),
        (damaged(ids=torch.tensor([4.0, 5.0])), "or text for each node. Got float32"),
        (damaged(ids=torch.tensor(4)), r"or text for each node. Got int64 of shape \(\)"),
        (damaged(ids=torch.ones(2, dtype=torch.bfloat16)), "no coordinates of nodes: Got unsupp"),
        (damaged(values=torch.ones(2, 1, dtype=torch.complex64)), "Got torch.complex64 with"),
        (damaged(values=torch.ones(2, 1, dtype=torch.bool)), "Got torch.bool with the scale 1"),
        (damaged(values=torch.tensor([[1.0], [math.nan]])), "must be finite float32 numbers"),
        (damaged(scale=torch.tensor(math.nan)), "with the scale nan"),
        (damaged(scale=torch.ones(2)), "no coordinates of nodes: "),
    ],
)
def test_damaged_tensors(tensors, message):
    with pytest.raises(InputError, match=message):
        NodeCoordinates.from_tensors(tensors)
