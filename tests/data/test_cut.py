from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.assemble import assemble
from graphlatent.data.cut import cut_graphs, take_apart
from graphlatent.data.graph import RawGraph
from graphlatent.ops.sparse import SparseMatrix, to_dense


def test_by_hand():
    joined = RawGraph(
        edge_index=torch.tensor([[2, 0, 3], [3, 1, 2]]),
        num_nodes=4,
        x=torch.arange(8).reshape(4, 2),
        columns=None,
        edge_weight=torch.tensor([1.0, 2.0, 3.0]),
        node_ids=np.array(["a", "b", "c", "d"]),
        y=torch.tensor([5, 6]),
        name="joined",
        directed=False,
    )
    first, second = cut_graphs(joined, ptr=np.array([0, 2, 4]), graph_ids=["g", "h"])
    assert first.edge_index.tolist() == [[0], [1]]
    assert second.edge_index.tolist() == [[0, 1], [1, 0]]
    assert second.edge_weight.tolist() == [1, 3]
    assert second.x.tolist() == [[4, 5], [6, 7]]
    assert second.node_ids.tolist() == ["c", "d"]
    assert (first.y.tolist(), second.y.tolist()) == ([5], [6])
    assert (second.graph_id, second.name, second.directed) == ("h", "joined, graph 'h'", False)


def test_labels_by_node_and_empty_graphs():
    joined = RawGraph(edge_index=[[], []], num_nodes=3, y=[7, 8, 9])
    pieces = cut_graphs(joined, ptr=np.array([0, 1, 1, 3]))
    assert [p.num_nodes for p in pieces] == [1, 0, 2]
    assert [p.y.tolist() for p in pieces] == [[7], [], [8, 9]]
    assert pieces[1].name == "graph, graph 1 (from 0)"


@pytest.mark.parametrize("kind", ["scipy", "own", "torch"])
def test_sparse_features(kind):
    dense = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    own = SparseMatrix.from_scipy(sp.csr_matrix(dense))
    x = {"scipy": sp.coo_matrix(dense), "own": own, "torch": torch.tensor(dense).to_sparse()}[kind]
    _, second = cut_graphs(RawGraph(edge_index=[[], []], num_nodes=3, x=x), ptr=np.array([0, 1, 3]))
    assert second.x.toarray().tolist() == dense[1:].tolist()


@pytest.mark.filterwarnings("ignore:.* repeated edges? w")
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans(), st.integers(0, 99))
def test_taking_apart_and_assembling_changes_nothing(sizes, columns, seed):
    rng = np.random.default_rng(seed)
    graphs = [
        RawGraph(
            edge_index=np.concatenate([rng.integers(0, n, (2, 3)), [[0], [0]]], axis=1),
            num_nodes=n,
            x=None if columns else rng.normal(size=(n, 2)),
            columns={"c": rng.normal(size=n)} if columns else None,
            edge_weight=rng.random(4) + 0.5,
            node_ids=np.array([f"{i}-{j}" for j in range(n)]),
            graph_id=f"g{i}",
            y=[i],
            directed=False,
        )
        for i, n in enumerate(sizes)
    ]
    graph = assemble(graphs)
    again = assemble(take_apart(graph))
    assert again.fingerprint() == graph.fingerprint()
    assert np.array_equal(again.y, graph.y)
    assert columns or torch.equal(to_dense(again.x), to_dense(graph.x))
