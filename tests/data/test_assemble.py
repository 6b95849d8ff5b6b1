from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.assemble import assemble
from graphlatent.data.graph import RawGraph
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense

BOTH = np.array([[0, 1], [1, 0]])


def raw(**changes):
    return RawGraph(**{"edge_index": BOTH, "num_nodes": 2, "name": "g", **changes})


def test_two_graphs_lie_side_by_side():
    graph = assemble(
        [
            raw(x=np.eye(2), y=[1, 0]),
            raw(edge_index=np.zeros((2, 0), int), num_nodes=1, x=[[5, 6]], y=[2], name="h"),
        ]
    )
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert graph.ptr.tolist() == [0, 2, 3]
    assert (graph.num_graphs, graph.num_nodes, graph.num_edges) == (2, 3, 2)
    assert graph.graph_of_node.tolist() == [0, 0, 1]
    assert graph.degree.tolist() == [1, 1, 0]
    assert graph.x.tolist() == [[1, 0], [0, 1], [5, 6]]
    assert graph.x.dtype == torch.float32
    assert graph.y.tolist() == [1, 0, 2]
    assert graph.undirected
    assert graph.notes == ("1 node has no neighbour; it is embedded from its own features.",)


def test_symmetrize_says_so_once():
    one_way = raw(edge_index=[[0], [1]])
    with pytest.warns(GraphLatentWarning, match="^Edges are read as undirected. Keep directions: "):
        graph = assemble([one_way])
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert "symmetrize=False" in graph.notes[0] and graph.symmetrized


def test_directions_are_kept_on_request():
    graph = assemble([raw(edge_index=[[0], [1]])], symmetrize=False)
    assert graph.edge_index.tolist() == [[0], [1]]
    assert not graph.undirected


def test_an_undirected_source_needs_no_warning_and_keeps_both_directions():
    for symmetrize in (True, False):
        graph = assemble([raw(edge_index=[[0], [1]], directed=False)], symmetrize=symmetrize)
        assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
        assert graph.undirected
        assert graph.notes == ()


def test_undirected_and_directed_graphs_together():
    graphs = [raw(edge_index=[[0], [1]], directed=False), raw(edge_index=[[0], [1]], directed=True)]
    assert assemble(graphs, symmetrize=False).edge_index.tolist() == [[0, 1, 2], [1, 0, 3]]
    with pytest.warns(GraphLatentWarning, match="Edges are read as undirected"):
        assert assemble(graphs).num_edges == 4


def test_no_edges_is_allowed_and_said():
    with pytest.warns(
        GraphLatentWarning,
        match="The input has no edges: every node is embedded from its own features",
    ):
        graph = assemble([raw(edge_index=np.zeros((2, 0)), num_nodes=1)])
    assert graph.num_edges == 0
    with pytest.warns(GraphLatentWarning, match="None of the 2 graphs has an edge"):
        assemble([raw(edge_index=[[], []]), raw(edge_index=[[], []])])


def test_duplicates_and_loops_are_noted():
    graph = assemble([raw(edge_index=[[0, 1, 0, 1], [1, 0, 1, 1]])])
    assert graph.notes == (
        "1 repeated edge was merged: each counts once.",
        "1 node has an edge to itself.",
    )
    assert graph.degree.tolist() == [1, 1]


def test_weights_of_graphs_without_any_are_one():
    graph = assemble([raw(edge_weight=[[2.0], [2.0]]), raw()])
    assert graph.edge_weight.tolist() == [2, 2, 1, 1]


def csr_tensor():
    with warnings.catch_warnings():  # torch says that its CSR layout is in beta
        warnings.simplefilter("ignore")
        return torch.eye(2).to_sparse_csr()


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.csr_matrix(np.eye(2)),
        lambda: sp.coo_array(np.eye(2)),
        lambda: torch.eye(2).to_sparse(),
        csr_tensor,
        lambda: SparseMatrix.from_scipy(sp.eye(2)),
    ],
)
def test_sparse_features_stay_sparse(make):
    graph = assemble([raw(x=make())])
    assert isinstance(graph.x, SparseMatrix)
    assert graph.x.dtype == torch.float32
    assert graph.x.to_dense().tolist() == [[1, 0], [0, 1]]


def test_sparse_beside_dense_features_become_sparse():
    graph = assemble([raw(x=sp.csr_matrix(np.eye(2))), raw(x=np.array([[0.0, 3.0], [0.0, 0.0]]))])
    assert isinstance(graph.x, SparseMatrix)
    assert to_dense(graph.x).tolist() == [[1, 0], [0, 1], [0, 3], [0, 0]]


def test_half_precision_and_gradients_are_no_trouble():
    x = torch.eye(2, dtype=torch.bfloat16, requires_grad=True)
    graph = assemble([raw(x=x, edge_weight=torch.ones(2, requires_grad=True))])
    assert graph.x.dtype == torch.float32
    assert not graph.x.requires_grad
    assert not graph.edge_weight.requires_grad


def test_input_arrays_are_copied_not_shared():
    x = np.eye(2, dtype=np.float32)
    graph = assemble([raw(x=x)])
    x[:] = 7
    assert graph.x.tolist() == [[1, 0], [0, 1]]


def test_ids_and_columns_are_joined():
    graph = assemble(
        [
            raw(node_ids=np.array(["a", "b"]), graph_id="first", columns={"c": np.array([1, 2])}),
            raw(node_ids=np.array([7, 8]), graph_id="second", columns={"c": np.array([0.5, 1.5])}),
        ]
    )
    assert graph.node_ids.tolist() == ["a", "b", 7, 8]
    assert graph.graph_ids.tolist() == ["first", "second"]
    assert graph.columns["c"].tolist() == [1, 2, 0.5, 1.5]


def test_labels_per_graph_and_of_several_targets():
    assert assemble([raw(y=torch.tensor([3])), raw(y=4)]).y.tolist() == [3, 4]
    assert assemble([raw(y=np.zeros((1, 5))), raw(y=np.ones((1, 5)))]).y.shape == (2, 5)
    assert assemble([raw(y=[1, 2]), raw()]).y is None


def test_with_features_replaces_columns():
    graph = assemble([raw(columns={"c": np.array([1, 2])})]).with_features(torch.ones(2, 3))
    assert graph.columns is None
    assert graph.x.shape == (2, 3)


def test_fingerprint_tells_graphs_apart():
    base = assemble([raw(x=np.eye(2))])
    assert base.fingerprint() == assemble([raw(x=np.eye(2))]).fingerprint()
    others = [
        assemble([raw()]),
        assemble([raw(x=2 * np.eye(2))]),
        assemble([raw(x=sp.csr_matrix(np.eye(2)))]),
        assemble([raw(x=sp.csr_matrix(np.eye(2, 3)))]),
        assemble([raw(x=np.eye(2), node_ids=np.array(["a", "b"]))]),
        assemble([raw(x=np.eye(2), edge_weight=[2, 2])]),
        assemble([raw(columns={"a": np.array([1, 2])})]),
        assemble([raw(columns={"b": np.array([1, 2])})]),
    ]
    assert len({g.fingerprint() for g in [base, *others]}) == 9
    assert dataclasses.replace(base, y=np.array([1, 2])).fingerprint() == base.fingerprint()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 8)), min_size=1, max_size=4),
    st.integers(0, 999),
)
def test_each_graph_keeps_its_own_edges(sizes, seed):
    rng = np.random.default_rng(seed)
    parts = [
        raw(edge_index=rng.integers(0, n, (2, e)), num_nodes=n, directed=False) for n, e in sizes
    ]
    parts.append(raw())  # so that there is an edge
    graph = assemble(parts)
    start = 0
    for part in parts:
        expected = {
            (int(a), int(b)) for u, v in np.asarray(part.edge_index).T for a, b in ((u, v), (v, u))
        }
        inside = (graph.edge_index[0] >= start) & (graph.edge_index[0] < start + part.num_nodes)
        assert {
            (a - start, b - start) for a, b in graph.edge_index[:, inside].T.tolist()
        } == expected
        start += part.num_nodes
    assert start == graph.num_nodes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": 0}, "g has no nodes. Leave empty graphs out"),
        (
            {"edge_index": np.ones((3, 2), int)},
            (
                r"edge_index must have shape \(2, number of edges\). Got shape \(3, 2\). It looks"
                r" trans"
            ),
        ),
        ({"edge_index": [0, 1]}, r"Got shape \(2,\)"),
        (
            {"edge_index": [[0.0], [1.0]]},
            "edge_index must hold integers, the row numbers of nodes. Got float64",
        ),
        ({"edge_index": [[0, 1], [1]]}, "edge_index must be a regular array"),
        ({"edge_index": [[0], [5]]}, "ids from 0 to 1, since there are 2 nodes. Got 5"),
        ({"edge_index": [[-1], [1]]}, "Got -1. Number the nodes from 0"),
        ({"edge_weight": [1.0]}, r"edge_weight must have one number per edge, 2. Got shape \(1,\)"),
        ({"edge_weight": [1.0, np.nan]}, "edge_weight holds NaN or infinite values"),
        ({"edge_weight": ["a", "b"]}, "edge_weight must be numbers. Got values of type <U1"),
        (
            {"x": np.ones(2)},
            (
                r"features must be a 2-D array, \(nodes, features\). Got 1 dimension.* pass x\[:,"
                r" None\]"
            ),
        ),
        ({"x": np.ones((3, 1))}, "one row per node. Got 3 rows for 2 nodes"),
        ({"x": np.ones((2, 0))}, "features have no columns"),
        (
            {"x": np.array([["a"], ["b"]])},
            "features must be numbers. Got values of type <U1. Encode text columns",
        ),
        (
            {"x": np.array([[1.0], [np.nan]])},
            (
                r"features hold 1 NaN or infinite value, the first \(nan\) at row 1,"
                r" column 0"
            ),
        ),
        ({"x": np.array([[1e300], [0.0]])}, r"the first \(inf\) at row 0, column 0"),
        (
            {"x": sp.csr_matrix([[0.0, np.inf], [0.0, 0.0]])},
            r"the first \(inf\) at row 0, column 1",
        ),
        (
            {"y": [1, 2, 3]},
            r"y must hold one label per node, or one per graph.*Got shape \(3,\) for 2 nodes",
        ),
    ],
)
def test_what_cannot_be_used_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        assemble([raw(**changes)])


def test_graphs_that_do_not_fit_each_other():
    with pytest.raises(InputError, match="There are no graphs in the input"):
        assemble([])
    with pytest.raises(InputError, match="h has no features while other graphs have"):
        assemble([raw(x=np.eye(2)), raw(name="h")])
    with pytest.raises(InputError, match=r"same number of features. g has 2, h has 3"):
        assemble([raw(x=np.eye(2)), raw(x=np.ones((2, 3)), name="h")])
    with pytest.raises(InputError, match=r"same feature columns. g has \['a'\], h has \['b'\]"):
        assemble([raw(columns={"a": np.zeros(2)}), raw(columns={"b": np.zeros(2)}, name="h")])
    with pytest.raises(InputError, match="Column 'a' holds numbers in g but not in h"):
        assemble(
            [raw(columns={"a": np.zeros(2)}), raw(columns={"a": np.array(["x", "y"])}, name="h")]
        )
    with pytest.raises(
        InputError,
        match=r"h: y must hold one label per node, or one per graph, the same way in all graphs",
    ):
        assemble([raw(y=[1]), raw(y=[1, 2], name="h")])
