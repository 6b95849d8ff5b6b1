"""What first users stumbled over, so that the next ones do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from cases import random_graph
from graphlatent import NodeLaGraph, read_graphs
from graphlatent.errors import ConfigError, GraphLatentWarning


def node(**values) -> NodeLaGraph:
    return NodeLaGraph(**{"hidden_dim": 8, "epochs": 3, "device": "cpu", **values})


class TestFoundByUsers:
    """What a first user stumbled over, so that the next one does not."""

    def test_numpy_and_other_numbers_survive_saving(self, tmp_path):
        from fractions import Fraction

        data = random_graph([9])
        for i, lr in enumerate(
            (np.float64(1e-3), np.float32(1e-3), np.logspace(-3, -2, 2)[0], Fraction(1, 1000))
        ):
            fitted = node(lr=lr, hidden_dim=np.int64(4)).fit(data)
            loaded = NodeLaGraph.load(fitted.save(tmp_path / str(i)))
            np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
            assert len(loaded.history_) == 3

    def test_warnings_point_at_the_line_of_the_user(self):
        edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
        nodes = pd.DataFrame({"id": list("abc"), "since": ["2024-01-01", "2024-02-01", "2024-03"]})
        nodes["since"] = pd.to_datetime(nodes["since"], format="mixed")

        def first_hour():
            model = node().fit(read_graphs(edges, nodes=nodes))
            model.embed((edges, nodes.assign(extra=1.0)))

        with pytest.warns(GraphLatentWarning) as found:
            first_hour()
        found = [each for each in found if each.category is GraphLatentWarning]
        texts = " ".join(str(warning.message) for warning in found)
        assert "read as undirected" in texts and "Dates" in texts and "'extra'" in texts
        assert {warning.filename for warning in found} == {__file__}

    def test_parameters_changed_after_fit_wait_for_the_next_fit(self, tmp_path):
        data = random_graph([9])
        fitted = node().fit(data)
        before = fitted.transform(data)
        fitted.set_params(hidden_dim=16, num_layers=5, encoder="gin", embedding="encoder")
        np.testing.assert_array_equal(fitted.transform(data), before)
        loaded = NodeLaGraph.load(fitted.save(tmp_path / "m"))
        np.testing.assert_array_equal(loaded.transform(data), before)
        assert fitted.fit(data).transform(data).shape == (9, 16)

    def test_nodes_of_several_graphs_can_be_told_apart(self, tmp_path):
        edges = pd.DataFrame({"source": [1, 2, 1], "target": [2, 3, 2], "graph": list("AAB")})
        with pytest.warns(UserWarning, match="Edges are read as undirected"):
            embedded = node().fit(edges).embed(edges)
        frame = embedded.to_pandas()
        assert list(frame.index) == [("A", 1), ("A", 2), ("A", 3), ("B", 1), ("B", 2)]
        back = pd.read_parquet(embedded.save(tmp_path / "e.parquet"))
        assert list(back.columns[:2]) == ["graph", "id"] and back["graph"].tolist() == list("AAABB")
        with np.load(embedded.save(tmp_path / "e.npz")) as file:
            assert file["graphs"].tolist() == list("AAABB")

    def test_directions_cannot_be_asked_for_after_reading(self):
        edges = (np.array([[0, 1], [1, 2]]), np.eye(3))
        with pytest.warns(UserWarning, match="Edges are read as undirected"):
            both = read_graphs(edges)
        with pytest.raises(
            ConfigError,
            match=(
                r"symmetrize=False of NodeLaGraph came too late.*read_graphs\(...,"
                r" symmetrize=False\)"
            ),
        ):
            node(symmetrize=False).fit(both)
        assert node(symmetrize=False).fit_transform(read_graphs(edges, symmetrize=False)).shape == (
            3,
            3 + 3 + 1 + 8,
        )

    def test_ids_of_any_kind_can_be_saved(self, tmp_path):
        import networkx as nx

        for i, names in enumerate([["a", ("t", 1), 3], [(0, 0), (0, 1), (1, 1)], [1, "1", 2]]):
            path = nx.path_graph(3)
            embedded = (
                node()
                .fit(nx.relabel_nodes(path, dict(enumerate(names))))
                .embed(nx.relabel_nodes(path, dict(enumerate(names))))
            )
            assert list(embedded.to_pandas().index) == names
            back = pd.read_csv(embedded.save(tmp_path / f"{i}.csv"))
            assert back["id"].tolist() == [repr(n) for n in names]
            assert pd.read_parquet(embedded.save(tmp_path / f"{i}.parquet"))["id"].is_unique
            with np.load(embedded.save(tmp_path / f"{i}.npz")) as file:
                assert len(set(file["ids"].tolist())) == 3

    def test_networkx_says_what_it_leaves_out(self):
        import networkx as nx

        graph = nx.path_graph(3)
        graph.edges[0, 1]["weight"] = 2.0
        graph.nodes[0]["age"] = 3
        with pytest.warns(UserWarning, match="left out|no .weight.") as said:
            read_graphs(graph)
        text = " ".join(str(w.message) for w in said)
        assert (
            "1 of 2 edges have no 'weight'" in text
            and "not every node has are left out: 'age'" in text
        )

    def test_a_path_is_a_run_folder_and_no_grad_is_no_obstacle(self, tmp_path):
        with torch.no_grad():
            fitted = node().fit(random_graph([6]), run=tmp_path / "run")
        assert NodeLaGraph.load(tmp_path / "run").history_ == fitted.history_

    def test_a_damaged_history_does_not_stop_embedding(self, tmp_path):
        folder = node().fit(random_graph([6])).save(tmp_path / "m")
        (folder / "history.csv").write_bytes(b"\xff\xfe")
        with pytest.warns(UserWarning, match=r"history.csv is damaged"):
            assert NodeLaGraph.load(folder).transform(random_graph([6])).shape == (6, 4 + 4 + 1 + 8)

    def test_saving_over_a_run_leaves_nothing_of_it(self, tmp_path):
        folder = node().fit(random_graph([6])).save(tmp_path / "m")
        (folder / "embeddings.parquet").write_text("old")
        (folder / "results.json").write_text("{}")
        (folder / "mine.txt").write_text("kept")
        node().fit(random_graph([7])).save(folder, overwrite=True)
        names = {p.name for p in folder.iterdir()}
        assert (
            "embeddings.parquet" not in names
            and "results.json" not in names
            and "mine.txt" in names
        )

    @pytest.mark.parametrize("device", ["mps", "meta"])
    def test_other_devices_are_refused(self, device):
        with pytest.raises(ConfigError, match=f"device='{device}' is not supported"):
            node(device=device).fit(random_graph([4]))

    def test_another_default_dtype_of_torch_changes_nothing(self, tmp_path):
        edges = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 0], "weight": [1.0, 2.0, 3.0]})
        nodes = pd.DataFrame({"id": [0, 1, 2], "kind": ["a", "b", "a"], "size": [1.0, 2.5, 3.0]})
        with pytest.warns(UserWarning, match="Edges are read as undirected"):
            usual = node().fit_transform((edges, nodes))
        torch.set_default_dtype(torch.float64)
        try:
            with pytest.warns(UserWarning, match="Edges are read as undirected"):
                data = read_graphs((edges, nodes))
            fitted = node().fit(data)
            rows = fitted.transform(data)
            assert (
                NodeLaGraph.load(fitted.save(tmp_path / "m")).model_.encoder.convs[0].weight.dtype
                == torch.float32
            )
        finally:
            torch.set_default_dtype(torch.float32)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, usual, rtol=1e-4, atol=1e-5)
