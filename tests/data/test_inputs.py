from __future__ import annotations

import subprocess
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from graphlatent.data.graph import GraphData
from graphlatent.data.inputs import read_graphs
from graphlatent.data.sparse import SparseMatrix, to_dense
from graphlatent.data.tables import TableOptions
from graphlatent.errors import GraphLatentWarning, InputError

# One path 0 - 1 - 2, in all its forms. Both directions are listed wherever a form has directions.
EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
ADJACENCY = sp.csr_matrix((np.ones(4), (EDGES[0], EDGES[1])), shape=(3, 3))


def data(**changes):
    return Data(**{"x": torch.tensor(X), "edge_index": torch.tensor(EDGES), **changes})


class ListDataset(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def path_graph():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, dict(enumerate(X.tolist())), "x")
    return graph


FORMS = {
    "pyg": data(),
    "pyg sparse x": data(x=torch.tensor(X).to_sparse()),
    "batch of one": Batch.from_data_list([data()]),
    "dataset of one": ListDataset([data()]),
    "networkx": path_graph(),
    "networkx directed": path_graph().to_directed(),
    "networkx multi": nx.MultiGraph(path_graph()),
    "adjacency": (ADJACENCY, X),
    "adjacency array": (sp.coo_array(ADJACENCY), sp.csr_matrix(X)),
    "torch adjacency": (torch.tensor(ADJACENCY.toarray()).to_sparse(), X),
    "own adjacency": (SparseMatrix.from_scipy(ADJACENCY), torch.tensor(X)),
    "arrays": (EDGES, X),
    "tensors": (torch.tensor(EDGES), torch.tensor(X)),
    "lists": (EDGES.tolist(), X.tolist()),
    "list of one": [data()],
    "tuple of one": (data(),),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_graph(form):
    graph = read_graphs(FORMS[form])
    assert graph.edge_index.tolist() == EDGES.tolist()
    assert to_dense(graph.x).tolist() == X.tolist()
    assert graph.num_graphs == 1
    assert graph.edge_weight is None
    assert graph.undirected


def test_tables_are_the_same_graph_too(tmp_path):
    edges = pd.DataFrame({"source": EDGES[0], "target": EDGES[1]})
    nodes = pd.DataFrame({"id": range(3), "a": X[:, 0], "b": X[:, 1]})
    edges.to_csv(tmp_path / "e.csv", index=False)
    nodes.to_parquet(tmp_path / "n.parquet")
    sources = [
        {"source": (edges, nodes)},
        {"source": edges, "nodes": nodes},
        {"source": (pa.Table.from_pandas(edges), nodes)},
        {"source": tmp_path / "e.csv", "nodes": tmp_path / "n.parquet"},
        {"source": (str(tmp_path / "e.csv"), tmp_path / "n.parquet")},
    ]
    prints = set()
    for arguments in sources:
        graph = read_graphs(**arguments)
        assert graph.edge_index.tolist() == EDGES.tolist()
        assert graph.columns["b"].tolist() == [2, 4, 6]
        prints.add(graph.fingerprint())
    assert len(prints) == 1
    assert read_graphs(edges).columns is None
    assert read_graphs((edges, None)).node_ids.tolist() == [0, 1, 2]
    assert list(read_graphs((edges, nodes), node_attributes=["b"]).columns) == ["b"]


def test_graph_data_is_handed_back():
    graph = read_graphs((EDGES, X))
    assert read_graphs(graph) is graph
    assert isinstance(graph, GraphData)


def test_symmetrize():
    one_way = (np.array([[0], [1]]), None)
    with pytest.warns(GraphLatentWarning, match=r"1 edges had no reverse") as caught:
        assert read_graphs(one_way).num_edges == 2
    assert caught[0].filename == __file__
    assert read_graphs(one_way, symmetrize=False).num_edges == 1


# PyTorch Geometric


def test_pyg_weights_and_labels():
    graph = read_graphs(data(edge_weight=torch.tensor([1.0, 1, 2, 2]), y=torch.tensor([0, 1, 0])))
    assert graph.edge_weight.tolist() == [1, 1, 2, 2]
    assert graph.y.tolist() == [0, 1, 0]
    for shape in ((4,), (4, 1)):
        assert read_graphs(data(edge_attr=torch.full(shape, 3.0))).edge_weight.tolist() == [3] * 4
    assert read_graphs(data(edge_attr=torch.ones(4, 2))).edge_weight is None
    both = data(edge_attr=torch.full((4,), 3.0), edge_weight=torch.full((4,), 5.0))
    assert read_graphs(both).edge_weight.tolist() == [5] * 4


def test_pyg_without_features_or_edges():
    assert read_graphs(Data(edge_index=torch.tensor(EDGES), num_nodes=5)).num_nodes == 5
    assert read_graphs(Data(edge_index=torch.tensor(EDGES))).num_nodes == 3
    with pytest.warns(GraphLatentWarning, match=r"no edges"):
        assert read_graphs(Data(x=torch.ones(2, 1))).num_nodes == 2
    with pytest.warns(GraphLatentWarning, match=r"no edges"):
        assert read_graphs(Data(num_nodes=4)).num_nodes == 4
    with pytest.raises(InputError, match=r"graph is a PyG Data with neither 'edge_index' nor 'x'. Give it edges"):
        read_graphs(Data())


def test_pyg_transposed_adjacency():
    adjacency = torch.tensor([[0, 1.0, 0], [0, 0, 1], [0, 0, 0]])
    graph = read_graphs(Data(adj_t=adjacency.T.to_sparse(), x=torch.ones(3, 1)), symmetrize=False)
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight is None
    weighted = read_graphs(Data(adj_t=(2 * adjacency.T).to_sparse(), x=torch.ones(3, 1)), symmetrize=False)
    assert weighted.edge_weight.tolist() == [2, 2]


def test_pyg_batch_is_several_graphs():
    graphs = [data(y=torch.tensor([3])), Data(x=torch.ones(1, 2), edge_index=torch.zeros(2, 0, dtype=torch.int64), y=torch.tensor([4]))]
    for form in (Batch.from_data_list(graphs), graphs, tuple(graphs), ListDataset(graphs)):
        graph = read_graphs(form)
        assert graph.ptr.tolist() == [0, 3, 4]
        assert graph.edge_index.tolist() == EDGES.tolist()
        assert graph.y.tolist() == [3, 4]
        assert graph.x.tolist() == [*X.tolist(), [1, 1]]


def test_pyg_data_with_a_batch_vector():
    graph = read_graphs(data(batch=torch.tensor([0, 0, 0])))
    assert graph.num_graphs == 1
    two = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), batch=torch.tensor([0, 0, 1, 1]))
    assert read_graphs(two).ptr.tolist() == [0, 2, 4]
    two.batch = torch.tensor([1, 1, 0, 0])
    with pytest.raises(InputError, match=r"graph: 'batch' must name the graph of each of the 4 nodes, in ascending order"):
        read_graphs(two)


def test_pyg_hetero_is_refused():
    with pytest.raises(InputError, match=r"graph is a PyG HeteroData.* Turn it into one kind with to_homogeneous\(\)"):
        read_graphs(HeteroData())
    with pytest.raises(InputError, match=r"graph 1 is a PyG HeteroData"):
        read_graphs([data(), HeteroData()])


# NetworkX


def test_networkx_names_order_and_columns():
    graph = nx.Graph()
    graph.add_node("z", age=3, tag="a", odd=1)
    graph.add_node("b", age=4.5, tag="b")
    graph.add_edge("z", "b")
    read = read_graphs(graph)
    assert read.node_ids.tolist() == ["z", "b"]
    assert read.edge_index.tolist() == [[0, 1], [1, 0]]
    assert {name: values.tolist() for name, values in read.columns.items()} == {"age": [3, 4.5], "tag": ["a", "b"]}
    assert list(read_graphs(graph, node_attributes=["tag"]).columns) == ["tag"]
    assert read_graphs(graph, node_attributes=[]).columns is None


def test_networkx_kinds_of_values():
    graph = nx.path_graph(2)
    values = {"truth": [True, np.bool_(False)], "number": [np.float32(1.5), torch.tensor(2)], "mixed": [1, "a"], "huge": [2**70, 1]}
    for name, pair in values.items():
        nx.set_node_attributes(graph, dict(enumerate(pair)), name)
    columns = read_graphs(graph).columns
    assert columns["truth"].dtype == bool
    assert columns["number"].tolist() == [1.5, 2]
    assert columns["mixed"].tolist() == [1, "a"]
    assert columns["huge"].tolist() == [2**70, 1]


def test_networkx_names_of_any_kind():
    assert read_graphs(nx.grid_2d_graph(1, 2)).node_ids.tolist() == [(0, 0), (0, 1)]
    graph = nx.Graph([("a", 1)])
    assert read_graphs(graph).node_ids.tolist() == ["a", 1]
    assert read_graphs(nx.path_graph(3)).node_ids.tolist() == [0, 1, 2]


def test_networkx_weights():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=2, cost=5)
    graph.add_edge(1, 2, weight=3)
    assert read_graphs(graph).edge_weight.tolist() == [2, 2, 3, 3]
    with pytest.raises(InputError, match=r"graph: edge attribute 'cost' must be a number everywhere. Edge \(1, 2\) has nothing"):
        read_graphs(graph, weight="cost")
    del graph[1][2]["weight"]
    assert read_graphs(graph).edge_weight is None
    graph[1][2]["cost"] = 7
    assert read_graphs(graph, weight="cost").edge_weight.tolist() == [5, 5, 7, 7]
    assert read_graphs(graph, options=TableOptions(weight="cost")).edge_weight.tolist() == [5, 5, 7, 7]
    graph[0][1]["cost"] = "much"
    with pytest.raises(InputError, match=r"Edge \(0, 1\) has 'much'"):
        read_graphs(graph, weight="cost")


def test_networkx_directions_and_parallel_edges():
    directed = nx.DiGraph([(0, 1)])
    assert read_graphs(directed, symmetrize=False).edge_index.tolist() == [[0], [1]]
    with pytest.warns(GraphLatentWarning, match=r"1 edges had no reverse"):
        assert read_graphs(directed).num_edges == 2
    assert read_graphs(nx.Graph([(0, 1)]), symmetrize=False).num_edges == 2
    multi = nx.MultiGraph([(0, 1), (0, 1), (1, 1)])
    read = read_graphs(multi)
    assert read.edge_index.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert any("1 duplicate edges" in note for note in read.notes)


def test_networkx_vectors_become_a_matrix():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: np.array([1.0, 2.0]), 1: torch.tensor([3.0, 4.0])}, "x")
    nx.set_node_attributes(graph, {0: (5,), 1: [6]}, "z")
    assert read_graphs(graph).x.tolist() == [[1, 2, 5], [3, 4, 6]]
    nx.set_node_attributes(graph, 1, "label")
    with pytest.raises(InputError, match=r"\['x', 'z'\] hold vectors and \['label'\] single values.*node_attributes=\['x', 'z'\]"):
        read_graphs(graph)
    assert read_graphs(graph, node_attributes=["z"]).x.tolist() == [[5], [6]]


def test_networkx_mistakes():
    graph = nx.path_graph(2)
    graph.nodes[0]["a"] = 1
    with pytest.raises(InputError, match=r"graph: node 1 has no attribute 'a'. Give it to all nodes, or leave it out"):
        read_graphs(graph, node_attributes=["a"])
    with pytest.raises(InputError, match=r"node_attributes must be a list of names. Got the text 'a'; write \['a'\]"):
        read_graphs(graph, node_attributes="a")
    nx.set_node_attributes(graph, {0: [1], 1: [1, 2]}, "x")
    with pytest.raises(InputError, match=r"'x' must be a vector of one length on every node. Node 0 has shape \(1,\), node 1 has"):
        read_graphs(graph)
    nx.set_node_attributes(graph, {0: ["p"], 1: ["q"]}, "x")
    with pytest.raises(InputError, match=r"attribute 'x' must be a vector of numbers on every node. Got values of type <U1"):
        read_graphs(graph)
    with pytest.raises(InputError, match=r"graph has no nodes"):
        read_graphs(nx.Graph())
    with pytest.raises(InputError, match=r"a NetworkX graph brings its own nodes. Leave 'nodes' out"):
        read_graphs(graph, nodes=pd.DataFrame({"id": [0, 1]}))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.floats(0, 1), st.booleans(), st.integers(0, 99))
def test_networkx_and_scipy_agree(num_nodes, density, directed, seed):
    graph = nx.gnp_random_graph(num_nodes, density, seed=seed, directed=directed)
    graph.add_edge(0, 0)  # so that there is an edge, and a self-loop
    adjacency = nx.to_scipy_sparse_array(graph)
    for symmetrize in (False, True) if not directed else (False,):
        one, other = read_graphs(graph, symmetrize=symmetrize), read_graphs(adjacency, symmetrize=symmetrize)
        assert torch.equal(one.edge_index, other.edge_index)


# Matrices and arrays


def test_adjacency_weights_and_zeros():
    matrix = sp.csr_matrix(np.array([[0, 2.0], [2.0, 0]]))
    assert read_graphs(matrix).edge_weight.tolist() == [2, 2]
    assert read_graphs(matrix.astype(bool)).edge_weight is None
    stored = sp.csr_matrix((np.array([0.0, 1.0, 1.0]), (np.array([0, 0, 1]), np.array([0, 1, 0]))), shape=(2, 2))
    assert read_graphs(stored).edge_index.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(InputError, match=r"graph: an adjacency must be a square matrix, \(nodes, nodes\). Got shape \(2, 3\)"):
        read_graphs(sp.csr_matrix((2, 3)))
    with pytest.raises(InputError, match=r"one row per node. Got 3 rows for 2 nodes"):
        read_graphs((matrix, X))


def test_arrays_without_features_and_with_weights():
    graph = read_graphs((EDGES, None))
    assert (graph.num_nodes, graph.x) == (3, None)
    assert read_graphs((EDGES, X, np.array([1, 1, 2, 2]))).edge_weight.tolist() == [1, 1, 2, 2]
    assert read_graphs((EDGES, sp.csr_matrix(X))).x.shape == (3, 2)
    with pytest.raises(InputError, match=r"graph has neither edges nor features, so no nodes"):
        read_graphs((np.zeros((2, 0), dtype=int), None))
    with pytest.raises(InputError, match=r"must hold integers"):
        read_graphs((EDGES.astype(float), None))
    with pytest.raises(InputError, match=r"It looks transposed: pass edge_index.T"):
        read_graphs((EDGES.T[:3], None))


# Lists


def test_a_list_may_mix_forms(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n0,1\n1,0\n")
    sources = [data(), (EDGES, X), path_graph(), (ADJACENCY, X), read_graphs([data(), data()])]
    graph = read_graphs(sources)
    assert graph.num_graphs == 6
    assert graph.node_ids is None
    for i in range(6):
        inside = (graph.edge_index[0] >= 3 * i) & (graph.edge_index[0] < 3 * i + 3)
        assert (graph.edge_index[:, inside] - 3 * i).tolist() == EDGES.tolist()
    assert read_graphs([tmp_path / "e.csv", ADJACENCY]).ptr.tolist() == [0, 2, 5]


def test_list_mistakes_name_the_graph():
    with pytest.raises(InputError, match=r"There are no graphs in the input"):
        read_graphs([])
    with pytest.raises(InputError, match=r"graph 1: features must have one row per node"):
        read_graphs([data(), (ADJACENCY, X[:2])])
    with pytest.raises(InputError, match=r"graph 0 is of type list.* for one graph pass the tuple \(edge_index, x\)"):
        read_graphs(EDGES.tolist())
    with pytest.raises(InputError, match=r"a list of graphs came. Put pairs"):
        read_graphs([data()], nodes=pd.DataFrame({"id": [1]}))


def test_many_small_graphs():
    graph = read_graphs([data() for _ in range(500)])
    assert (graph.num_graphs, graph.num_nodes, graph.num_edges) == (500, 1500, 2000)


# Names, paths, and everything else


def test_data_set_names(tmp_path, monkeypatch):
    raw = tmp_path / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    for kind, text in {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n2\n", "graph_labels": "1\n-1\n"}.items():
        (raw / f"MUTAG_{kind}.txt").write_text(text)
    monkeypatch.setenv("GRAPHLATENT_DATA", str(tmp_path))
    graph = read_graphs("mutag")
    assert graph.ptr.tolist() == [0, 2, 3]
    assert graph.y.tolist() == [1, 0]
    assert read_graphs(["mutag", "mutag"]).num_graphs == 4
    with pytest.raises(InputError, match=r"a data set brings its own nodes"):
        read_graphs("mutag", nodes="n.csv")
    monkeypatch.chdir(tmp_path)
    assert read_graphs("MUTAG").y.tolist() == [1, -1]  # the folder of that name goes first


def test_a_path_that_is_nothing():
    with pytest.raises(InputError, match=r"'nope.csv' is neither an existing file or folder nor a known data set. Accepted are .*MUTAG"):
        read_graphs("nope.csv")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "The input is of type int, which is no graph that can be read. Accepted are a path or data set name"),
        (None, "The input is of type NoneType"),
        (np.eye(3), r"The input is of type ndarray.*A dense array alone is not enough: pass \(edge_index, x\)"),
        (torch.eye(3), "The input is of type Tensor.*A dense array alone is not enough"),
        ((i for i in range(3)), r"The input is of type generator.*pass list\(...\) of it"),
        ((), r"graph: a tuple is one graph in parts, but \(\) is no such graph. Accepted are"),
        ((EDGES,), r"but \(ndarray\) is no such graph"),
        ((EDGES, X, None, None), r"but \(ndarray, ndarray, NoneType, NoneType\) is no such graph"),
        ((ADJACENCY, X, np.ones(4)), r"but \(csr_matrix, ndarray, ndarray\) is no such graph"),
        ((pd.DataFrame(), X), r"but \(DataFrame, ndarray\) is no such graph"),
        ((3, 4), r"but \(int, int\) is no such graph"),
    ],
)
def test_what_is_no_graph(source, message):
    with pytest.raises(InputError, match=message):
        read_graphs(source)


@pytest.mark.parametrize("source", [data(), ADJACENCY, (EDGES, X)])
def test_options_that_mean_nothing_are_refused(source):
    for arguments in ({"node_attributes": ["a"]}, {"weight": "w"}):
        with pytest.raises(InputError, match=r"'node_attributes' and 'weight' name attributes of NetworkX graphs, GraphML files and"):
            read_graphs(source, **arguments)
    with pytest.raises(InputError, match=r"'nodes' is the node table that goes with an edge table"):
        read_graphs(source, nodes="n.csv")


def test_the_node_table_twice():
    edges, nodes = pd.DataFrame({"source": [1], "target": [1]}), pd.DataFrame({"id": [1]})
    with pytest.raises(InputError, match=r"The node table came twice"):
        read_graphs((edges, nodes), nodes=nodes)


def test_arrays_need_no_other_library():
    """Reading arrays imports neither PyTorch Geometric, pyarrow, pandas nor NetworkX."""
    code = (
        "import sys, numpy as np, graphlatent.data.features; from graphlatent.data.inputs import read_graphs;"
        "read_graphs((np.array([[0, 1], [1, 0]]), np.eye(2)));"
        "print([m for m in ('torch_geometric', 'pyarrow', 'pandas', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
