from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from graphlatent.data.graph import GraphData
from graphlatent.data.readers.options import TableOptions
from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import GraphLatentWarning, InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense

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
        ((edges, nodes), None),
        (edges, nodes),
        ((pa.Table.from_pandas(edges), nodes), None),
        (tmp_path / "e.csv", tmp_path / "n.parquet"),
        ((str(tmp_path / "e.csv"), tmp_path / "n.parquet"), None),
    ]
    prints = set()
    for data, table in sources:
        graph = read_graphs(data, nodes=table)
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
    with pytest.warns(GraphLatentWarning, match="Edges are read as undirected") as caught:
        assert read_graphs(one_way).num_edges == 2
    assert caught[0].filename == __file__
    assert read_graphs(one_way, symmetrize=False).num_edges == 1


# Matrices and arrays


def test_adjacency_weights_and_zeros():
    matrix = sp.csr_matrix(np.array([[0, 2.0], [2.0, 0]]))
    assert read_graphs(matrix).edge_weight.tolist() == [2, 2]
    assert read_graphs(matrix.astype(bool)).edge_weight is None
    stored = sp.csr_matrix(
        (np.array([0.0, 1.0, 1.0]), (np.array([0, 0, 1]), np.array([0, 1, 0]))), shape=(2, 2)
    )
    assert read_graphs(stored).edge_index.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(
        InputError,
        match=r"graph: an adjacency must be a square matrix, \(nodes, nodes\). Got shape \(2, 3\)",
    ):
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
    with pytest.raises(
        InputError,
        match=r"graph 0 is of type list.* for one graph pass the tuple \(edge_index, x\)",
    ):
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
    for kind, text in {
        "A": "1, 2\n2, 1\n",
        "graph_indicator": "1\n1\n2\n",
        "graph_labels": "1\n-1\n",
    }.items():
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


def test_a_path_that_is_nothing(tmp_path):
    with pytest.raises(InputError, match=r"^There is no file nope.csv. Check the path.$"):
        read_graphs("nope.csv")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,1\n")
    meant = tmp_path / "edges.csv"
    with pytest.raises(InputError, match=rf"no file .*egdes.csv. Did you mean {meant}\?$"):
        read_graphs(tmp_path / "egdes.csv")
    with pytest.raises(InputError, match=rf"^nodes: .*no file .*edge.csv. Did you mean {meant}\?$"):
        read_graphs(meant, nodes=tmp_path / "edge.csv")
    with pytest.raises(InputError, match=r"^nodes: there is no file .*x.csv. Check the path.$"):
        read_graphs(meant, nodes=tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"named 'mutagg'. Did you mean the data set 'MUTAG'\?$"):
        read_graphs("mutagg")
    with pytest.raises(InputError, match=r"named 'payments'. 'graphlatent data list' lists"):
        read_graphs("payments")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            3,
            (
                "The input is of type int, which is no graph that can be read. Accepted are a path"
                " or data set name"
            ),
        ),
        (None, "The input is of type NoneType"),
        (
            np.ones((3, 4)),
            (
                r"type ndarray.*An array of shape \(3, 4\) alone is not enough: pass"
                r" \(edge_index, x\)"
            ),
        ),
        (torch.ones(5, 2), r"type Tensor.*looks like pairs: pass \(array.T, None\)"),
        (np.eye(2), r"Two nodes or two edges\? .* pass scipy.sparse.csr_matrix\(array\)"),
        (pl.LazyFrame({"source": [1], "target": [2]}), r"Call its collect\(\) first"),
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
    for name, arguments in (
        ("features", {"node_attributes": ["a"]}),
        ("weight", {"weight": "w"}),
        ("label", {"label": "y"}),
        ("label", {"options": TableOptions(label=("y", "z"))}),
        ("features", {"options": TableOptions(features=("a",))}),
    ):
        with pytest.raises(
            InputError,
            match=(
                rf"The option '{name}' names attributes or columns of NetworkX graphs, GraphML"
                r" files and tables; an? .* has none. Leave it out."
            ),
        ):
            read_graphs(source, **arguments)
    with pytest.raises(InputError, match=r"'nodes' is the node table that goes with an edge table"):
        read_graphs(source, nodes="n.csv")


def test_the_node_table_twice():
    edges, nodes = pd.DataFrame({"source": [1], "target": [1]}), pd.DataFrame({"id": [1]})
    with pytest.raises(InputError, match=r"The node table came twice"):
        read_graphs((edges, nodes), nodes=nodes)
