"""The subgraph of some nodes: by hand, against a slow rewrite, and what it refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import as_sparse, random_graph
from graphlatent.data.graph import GraphData
from graphlatent.data.induced import induced_subgraph
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense


def chosen(*nodes: int, of: int) -> torch.Tensor:
    mask = torch.zeros(of, dtype=torch.bool)
    mask[list(nodes)] = True
    return mask


@pytest.fixture
def three() -> GraphData:
    """A path 0-1-2-3, an edge 4-5 and a lone node 6, with everything that a graph can carry."""
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (4, 5), (5, 4)]
    return GraphData(
        edge_index=torch.tensor(pairs).T.contiguous(),
        num_nodes=7,
        ptr=torch.tensor([0, 4, 6, 7]),
        x=torch.arange(14.0).reshape(7, 2),
        edge_weight=torch.tensor([1.0, 1.0, 2.0, 2.0, 9.0, 3.0, 3.0, 4.0, 4.0]),
        node_ids=np.array(list("abcdefg")),
        graph_ids=np.array(["path", "edge", "lone"]),
        y=np.arange(7) * 10,
        notes=("as it was read",),
    )


def test_by_hand(three):
    part = induced_subgraph(three, chosen(0, 2, 3, 5, of=7))
    # 1 and 4 are gone with their edges, "lone" with its only node; 2 is now 1 and keeps its
    # self-loop, 3 is now 2
    assert part.edge_index.tolist() == [[1, 1, 2], [1, 2, 1]]
    assert part.edge_weight.tolist() == [9.0, 3.0, 3.0]
    assert part.num_nodes == 4 and part.ptr.tolist() == [0, 3, 4] and part.ptr.dtype == torch.int64
    assert part.x.tolist() == [[0, 1], [4, 5], [6, 7], [10, 11]]
    assert part.node_ids.tolist() == ["a", "c", "d", "f"] and part.graph_ids.tolist() == [
        "path",
        "edge",
    ]
    assert part.y.tolist() == [0, 20, 30, 50]
    assert part.undirected and part.notes == three.notes


def test_labels_of_graphs_go_with_the_graphs(three):
    part = induced_subgraph(dataclasses.replace(three, y=np.array([7, 8, 9])), chosen(1, 6, of=7))
    assert (
        part.y.tolist() == [7, 9]
        and part.graph_ids.tolist() == ["path", "lone"]
        and part.ptr.tolist() == [0, 1, 2]
    )


def test_a_table_of_labels_keeps_its_columns(three):
    part = induced_subgraph(
        dataclasses.replace(three, y=np.eye(7, 3, dtype=np.int64)), chosen(1, 2, 4, of=7)
    )
    assert part.y.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_columns_that_are_not_encoded_yet(three):
    columns = {"colour": np.array(list("rgbrgbr")), "size": np.arange(7)}
    part = induced_subgraph(dataclasses.replace(three, x=None, columns=columns), chosen(2, 6, of=7))
    assert part.x is None
    assert {name: values.tolist() for name, values in part.columns.items()} == {
        "colour": ["b", "r"],
        "size": [2, 6],
    }


def test_what_is_not_there_stays_away():
    part = induced_subgraph(dataclasses.replace(random_graph([5]), x=None), chosen(0, 3, of=5))
    for name in ("x", "columns", "edge_weight", "node_ids", "graph_ids", "y"):
        assert getattr(part, name) is None


def test_sparse_features_stay_sparse():
    graph = as_sparse(random_graph([6, 5], one_hot=True))
    part = induced_subgraph(graph, chosen(1, 4, 9, of=11))
    assert isinstance(part.x, SparseMatrix) and part.x.shape == (3, 4)
    assert torch.equal(to_dense(part.x), to_dense(graph.x)[[1, 4, 9]])


def test_one_node_and_all_nodes(three):
    single = induced_subgraph(three, chosen(1, of=7))
    assert (single.num_nodes, single.num_edges, single.ptr.tolist()) == (1, 0, [0, 1])
    assert single.edge_index.shape == (2, 0)
    assert (
        induced_subgraph(three, torch.ones(7, dtype=torch.bool)).fingerprint()
        == three.fingerprint()
    )


def test_input_is_not_changed(three):
    before, labels = three.fingerprint(), three.y.copy()
    part = induced_subgraph(three, torch.ones(7, dtype=torch.bool))
    part.x.fill_(-1)
    part.y.fill(-1)
    assert three.fingerprint() == before and np.array_equal(three.y, labels)


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_is_the_slow_rewrite(sizes, seed, data):
    graph = random_graph(sizes, seed=seed, weighted=True)
    flags = data.draw(
        st.lists(st.booleans(), min_size=graph.num_nodes, max_size=graph.num_nodes).filter(any)
    )
    part = induced_subgraph(graph, torch.tensor(flags))
    kept = [node for node, flag in enumerate(flags) if flag]
    edges = {
        (s, t): w
        for (s, t), w in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True)
    }
    found = zip(part.edge_index.T.tolist(), part.edge_weight.tolist(), strict=True)
    # the edges by the old names of their ends, in the same order
    assert [((kept[s], kept[t]), w) for (s, t), w in found] == [
        (e, w) for e, w in edges.items() if flags[e[0]] and flags[e[1]]
    ]
    of_graph = [sum(flags[a:b]) for a, b in zip(graph.ptr[:-1], graph.ptr[1:], strict=True)]
    assert torch.diff(part.ptr).tolist() == [count for count in of_graph if count]
    assert torch.equal(part.x, graph.x[kept])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            torch.tensor([0, 2]),
            "A subgraph needs one bool per node, shape (7,). Got torch.int64 of shape (2,).",
        ),
        (
            torch.ones(7),
            "A subgraph needs one bool per node, shape (7,). Got torch.float32 of shape (7,).",
        ),
        (
            torch.ones(6, dtype=torch.bool),
            "A subgraph needs one bool per node, shape (7,). Got torch.bool of shape (6,).",
        ),
        (
            torch.ones(7, 1, dtype=torch.bool),
            "A subgraph needs one bool per node, shape (7,). Got torch.bool of shape (7, 1).",
        ),
        (
            torch.zeros(7, dtype=torch.bool),
            "A subgraph needs at least one node, and none is chosen.",
        ),
    ],
)
def test_failures(three, nodes, message):
    with pytest.raises(InputError) as error:
        induced_subgraph(three, nodes)
    assert str(error.value) == message
