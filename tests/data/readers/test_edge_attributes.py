"""Features of edges out of PyG, NetworkX, GraphML and TU graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphlatent import GraphLaGraph, read_graphs
from graphlatent.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")
Data = pytest.importorskip("torch_geometric.data").Data


def pyg(edge_attr, *, edges=((0, 1, 1, 2), (1, 0, 2, 1)), **more) -> Data:
    return Data(x=torch.eye(3), edge_index=torch.tensor(edges), edge_attr=edge_attr, **more)


def by_edge(graph) -> dict[str, dict[tuple[int, int], set]]:
    """For each attribute, the values of each edge."""
    ends = graph.edge_index[:, graph.edge_columns.edge].T.tolist()
    found: dict = {}
    for name, values in graph.edge_columns.columns.items():
        for (u, v), value in zip(ends, values.tolist(), strict=True):
            found.setdefault(name, {}).setdefault((u, v), set()).add(value)
    return found


class TestPyG:
    def test_integers_are_categories_and_floats_are_numbers(self):
        codes = torch.tensor([[1, 0], [1, 0], [2, 5], [2, 5]])
        graph = read_graphs(pyg(codes), edge_features=["edge_attr"])
        assert by_edge(graph) == {
            "edge_attr[0]": {(0, 1): {"1"}, (1, 0): {"1"}, (1, 2): {"2"}, (2, 1): {"2"}},
            "edge_attr[1]": {(0, 1): {"0"}, (1, 0): {"0"}, (1, 2): {"5"}, (2, 1): {"5"}},
        }
        one = read_graphs(pyg(torch.tensor([0.5, 0.5, 2, 2])), edge_features=["edge_attr"])
        assert by_edge(one)["edge_attr"][1, 2] == {2.0}

    def test_a_chosen_edge_attr_is_no_weight(self):
        graph = read_graphs(pyg(torch.tensor([1, 1, 2, 2])), edge_features=["edge_attr"])
        assert graph.edge_weight is None and not graph.notes
        other = read_graphs(
            pyg(torch.tensor([1, 1, 2, 2]), kind=torch.tensor([3, 3, 4, 4])), edge_features=["kind"]
        )
        assert other.edge_weight is not None and set(other.edge_columns.columns) == {"kind"}

    def test_graphs_without_edges_need_none(self):
        alone = Data(x=torch.eye(3), edge_index=torch.zeros(2, 0, dtype=torch.int64))
        alone.edge_attr = torch.zeros(0, 2, dtype=torch.int64)
        graphs = [pyg(torch.tensor([[1, 0], [1, 0], [2, 5], [2, 5]])), alone]
        graph = read_graphs(graphs, edge_features=["edge_attr"])
        assert graph.num_graphs == 2 and graph.edge_columns.num_edges == 4
        estimator = GraphLaGraph(hidden_dim=4, epochs=1, device="cpu").fit(graph)
        only = read_graphs([alone], edge_features=["edge_attr"])
        assert estimator.transform(only).shape == (1, estimator.embedding_dim_)

    def test_a_batch_is_cut_with_its_attributes(self):
        graphs = [pyg(torch.tensor([float(i)] * 4)) for i in range(3)]
        batch = pytest.importorskip("torch_geometric.data").Batch.from_data_list(graphs)
        graph = read_graphs(batch, edge_features=["edge_attr"])
        assert by_edge(graph)["edge_attr"][6, 7] == {2.0}

    @pytest.mark.parametrize(
        ("edge_attr", "names", "message"),
        [
            (torch.ones(3, 2), ["edge_attr"], "'edge_attr' must have one row for each of the 4"),
            (torch.ones(4, 2), ["kind"], "there is no attribute 'kind' beside edge_index"),
            (None, ["edge_attr"], "there is no attribute 'edge_attr' beside edge_index"),
        ],
    )
    def test_what_cannot_be_read_is_an_error(self, edge_attr, names, message):
        with pytest.raises(InputError) as caught:
            read_graphs(pyg(edge_attr), edge_features=names)
        assert message in str(caught.value)

    def test_all_graphs_need_the_same(self):
        graphs = [pyg(torch.ones(4, 2)), pyg(torch.ones(4, 1))]
        with pytest.raises(InputError, match="All graphs must have the same edge features"):
            read_graphs(graphs, edge_features=["edge_attr"])


class TestNetworkX:
    def test_attributes_of_edges_by_name(self):
        networkx = pytest.importorskip("networkx")
        graph = networkx.Graph()
        graph.add_edge("a", "b", kind="card", amount=2)
        graph.add_edge("b", "c", kind="cash", amount=3.5)
        read = read_graphs(graph, edge_features=["kind", "amount"])
        found = by_edge(read)
        assert found["kind"] == {
            (0, 1): {"card"},
            (1, 0): {"card"},
            (1, 2): {"cash"},
            (2, 1): {"cash"},
        }
        assert found["amount"][2, 1] == {3.5} and not any("not used" in n for n in read.notes)

    def test_an_edge_without_the_attribute_is_named(self):
        networkx = pytest.importorskip("networkx")
        graph = networkx.Graph([("a", "b", {"kind": "x"}), ("b", "c")])
        with pytest.raises(InputError, match=r"edge \('b', 'c'\) has no attribute 'kind'"):
            read_graphs(graph, edge_features=["kind"])


GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="k" for="edge" attr.name="kind" attr.type="string"/>
<graph edgedefault="undirected"><node id="a"/><node id="b"/><node id="c"/>
<edge source="a" target="b"><data key="k">card</data></edge>
<edge source="b" target="c" directed="true"><data key="k">cash</data></edge></graph></graphml>"""


class TestFiles:
    def test_graphml(self, tmp_path):
        path = tmp_path / "g.graphml"
        path.write_text(GRAPHML)
        graph = read_graphs(path, edge_features=["kind"], symmetrize=False)
        assert by_edge(graph)["kind"] == {(0, 1): {"card"}, (1, 0): {"card"}, (1, 2): {"cash"}}
        with pytest.raises(InputError, match=r"no attribute 'colour' \(option 'edge_features'\)"):
            read_graphs(path, edge_features=["colour"])

    def test_tu(self, tmp_path):
        files = {
            "A": "1, 2\n2, 1\n3, 3\n3, 4\n4, 3\n",
            "graph_indicator": "1\n1\n2\n2\n",
            "edge_labels": "0\n0\n7\n2\n2\n",
            "edge_attributes": "0.5, 1\n0.5, 1\n9, 9\n1.5, 2\n1.5, 2\n",
        }
        for name, text in files.items():
            (tmp_path / f"TOY_{name}.txt").write_text(text)
        graph = read_graphs(tmp_path, edge_features=["edge_labels", "edge_attributes"])
        # The self-loop is dropped with its label.
        assert by_edge(graph) == {
            "edge_labels": {(0, 1): {"0"}, (1, 0): {"0"}, (2, 3): {"2"}, (3, 2): {"2"}},
            "edge_attributes[0]": {(0, 1): {0.5}, (1, 0): {0.5}, (2, 3): {1.5}, (3, 2): {1.5}},
            "edge_attributes[1]": {(0, 1): {1.0}, (1, 0): {1.0}, (2, 3): {2.0}, (3, 2): {2.0}},
        }
        assert not any("not used" in note for note in graph.notes)
        with pytest.raises(
            InputError, match=r"must be 'edge_labels' or 'edge_attributes'. Got 'x'"
        ):
            read_graphs(tmp_path, edge_features=["x"])
        (tmp_path / "TOY_edge_labels.txt").write_text("0\n0\n")
        with pytest.raises(InputError, match=r"must have one line for each of the 5 edges. Got 2"):
            read_graphs(tmp_path, edge_features=["edge_labels"])

    def test_the_same_edges_through_any_door_have_the_same_features(self, tmp_path):
        networkx, pandas = pytest.importorskip("networkx"), pytest.importorskip("pandas")
        table = pandas.DataFrame(
            {"source": [0, 1], "target": [1, 2], "kind": ["3", "4"], "amount": [0.5, 2.5]}
        )
        table.to_csv(tmp_path / "edges.csv", index=False)
        graph = networkx.from_pandas_edgelist(table, edge_attr=["kind", "amount"])
        data = pyg(torch.tensor([0.5, 0.5, 2.5, 2.5]), kind=torch.tensor([3, 3, 4, 4]))
        data.x, data.amount = None, data.edge_attr
        del data.edge_attr
        names = ["kind", "amount"]
        wanted = by_edge(read_graphs(graph, edge_features=names))
        assert by_edge(read_graphs(data, edge_features=names)) == wanted
        # In a file the codes are numbers; of a file, text stays text.
        assert by_edge(read_graphs(table, edge_features=names)) == wanted
        from_file = by_edge(read_graphs(tmp_path / "edges.csv", edge_features=names))
        assert from_file["amount"] == wanted["amount"]
        assert from_file["kind"] == {k: {int(*v)} for k, v in wanted["kind"].items()}


def test_arrays_and_adjacencies_have_no_attributes():
    with pytest.raises(InputError, match="an adjacency has none"):
        read_graphs(pytest.importorskip("scipy.sparse").eye(3), edge_features=["kind"])
    with pytest.raises(InputError, match="a tuple of arrays has none"):
        read_graphs((np.array([[0], [1]]), np.eye(2)), edge_features=["kind"])
