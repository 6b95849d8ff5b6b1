"""What `batching="auto"` chooses, and training on pieces through the estimators."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
import tomllib
import torch

from cases import random_graph
from graphlatent import NodeBGRL, NodeDGI, NodeLaGraph
from graphlatent.config import resolve, to_mapping
from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.memory_limit import limited_memory
from graphlatent.errors import ConfigError, GraphLatentWarning, InputError
from graphlatent.methods.lagraph.settings import PIECE_STEPS, NodeLaGraphSettings
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.training import batching as module
from graphlatent.training import setup
from graphlatent.training.batching import GraphSize, chosen_batching, full_batch_bytes
from graphlatent.training.setup import set_up
from piece_cases import CPU, drawn_graph

SMALL = {"hidden_dim": 6, "epochs": 2, "device": "cpu", "progress": False, "nodes_per_step": 9}
SIZE = GraphSize(1_000_000, 20_000_000, 100_000_000)


def chosen(monkeypatch, available, size=SIZE, **values):
    monkeypatch.setattr(module, "memory_limit", lambda: available)
    settings = NodeLaGraphSettings(**values)
    return chosen_batching(settings, size, device=CPU, owner="NodeLaGraph").batching


class TestChoice:
    def test_the_whole_graph_where_it_fits(self, monkeypatch):
        assert chosen(monkeypatch, 64 * 10**9) == "full"
        small = GraphSize(100, 400, 1000)
        assert chosen(monkeypatch, 10**9, small) == "full"

    def test_clusters_where_it_does_not(self, monkeypatch):
        said = (
            r"^Training on the whole graph at once would take about 12\.7 GB of memory, and 4 GB"
            r" may be used: batching='clusters' was chosen, with about 5,000 nodes a step\. Set"
            r" batching to choose otherwise\.$"
        )
        pytest.importorskip("pymetis")
        with pytest.warns(GraphLatentWarning, match=said):
            assert chosen(monkeypatch, 4 * 10**9) == "clusters"

    def test_a_limit_of_the_user_counts(self):
        pytest.importorskip("pymetis")
        with limited_memory("1GB"), pytest.warns(GraphLatentWarning, match="1 GB may be used"):
            settings = chosen_batching(NodeLaGraphSettings(), SIZE, device=CPU, owner="NodeLaGraph")
        assert settings.batching == "clusters"

    def test_neighbors_without_pymetis(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pymetis", None)
        with pytest.warns(GraphLatentWarning, match="'neighbors' was chosen, as pymetis is not"):
            assert chosen(monkeypatch, 4 * 10**9) == "neighbors"

    @pytest.mark.parametrize("way", ["full", "nodes", "clusters", "neighbors"])
    def test_a_choice_of_the_user_stays(self, monkeypatch, way):
        assert chosen(monkeypatch, 0, batching=way) == way

    def test_more_of_anything_needs_more(self):
        least = full_batch_bytes(SIZE, hidden_dim=128, num_layers=2)
        for name in ("num_nodes", "num_edges", "feature_values"):
            more = dataclasses.replace(SIZE, **{name: 2 * getattr(SIZE, name)})
            assert full_batch_bytes(more, hidden_dim=128, num_layers=2) > least
        assert full_batch_bytes(SIZE, hidden_dim=256, num_layers=2) > least

    def test_sizes_of_graphs(self):
        graph = random_graph([10])
        assert GraphSize.of(graph) == GraphSize(10, graph.num_edges, 40)
        assert GraphSize.of(CSRGraph.of(graph)) == GraphSize(10, graph.num_edges, 40)
        assert GraphSize.of(graph.without_features()).feature_values == 10


class TestSettings:
    @pytest.mark.parametrize(
        ("num_nodes", "epochs"), [(4_000, 100), (200_000, 12), (10**6, 2), (10**7, 1), (10**8, 1)]
    )
    @pytest.mark.parametrize("way", ["clusters", "neighbors"])
    def test_epochs_on_pieces_end_after_about_as_many_steps(self, num_nodes, epochs, way):
        settings = NodeLaGraphSettings(batching=way).adapted_to(num_nodes)
        assert resolve(settings, owner="NodeLaGraph").epochs == epochs
        steps = -(-num_nodes // 5000)
        assert epochs in (100, 1) or epochs * steps <= 1.25 * PIECE_STEPS

    def test_given_epochs_stay(self):
        assert NodeLaGraphSettings(batching="clusters", epochs=77).adapted_to(10**7).epochs == 77

    def test_workers_are_no_part_of_a_result(self):
        values = to_mapping(resolve(NodeLaGraphSettings(num_workers=3), owner="NodeLaGraph"))
        assert "num_workers" not in values and values["num_neighbors"] == 10

    def test_all_neighbours_are_written_as_none(self):
        settings = resolve(NodeLaGraphSettings(num_neighbors=None), owner="NodeLaGraph")
        assert to_mapping(settings)["num_neighbors"] == "none"

    @pytest.mark.parametrize("way", ["clusters", "neighbors"])
    def test_steps_per_epoch_follow_from_the_pieces(self, way):
        said = (
            f"^steps_per_epoch of NodeLaGraph has no effect with batching='{way}', where an epoch"
            " sees every node once. Leave it out, or set nodes_per_step.$"
        )
        with pytest.raises(ConfigError, match=said):
            resolve(NodeLaGraphSettings(batching=way, steps_per_epoch=2), owner="NodeLaGraph")


@pytest.mark.parametrize("cls", [NodeLaGraph, NodeBGRL, NodeDGI])
@pytest.mark.parametrize("way", ["nodes", "clusters", "neighbors"])
class TestEstimators:
    def test_fit_save_load_and_resume(self, tmp_path, cls, way):
        graph = drawn_graph(1, size=30, density=0.2)
        values = {**SMALL, "batching": way, "num_neighbors": 2, "parts_per_step": 2}
        fitted = cls(**values).fit(graph, run=tmp_path / "run")
        rows = fitted.transform(graph)
        assert rows.shape[0] == 30 and np.isfinite(rows).all()
        assert fitted.settings_.batching == way
        loaded = cls.load(tmp_path / "run")
        assert np.array_equal(loaded.transform(graph), rows)
        again = cls(**values, num_workers=0).fit(graph, run=tmp_path / "run")
        assert np.array_equal(again.transform(graph), rows)

    def test_measurements_are_of_rows_that_count(self, cls, way):
        graph = drawn_graph(1, size=30, density=0.2)
        values = {**SMALL, "batching": way, "num_neighbors": 2, "parts_per_step": 2}
        measured = cls(**values).fit(graph).history_.diagnostics
        assert len(measured["epoch"]) == 3 and np.isfinite(measured["effective_rank"]).all()


def test_auto_is_stored_as_what_was_chosen_and_kept_on_resuming(tmp_path, monkeypatch):
    pytest.importorskip("pymetis")
    graph = drawn_graph(1, size=30, density=0.2)
    with monkeypatch.context() as patch:
        patch.setattr(module, "memory_limit", lambda: 1000)
        with pytest.warns(GraphLatentWarning, match="batching='clusters' was chosen"):
            first = NodeLaGraph(**SMALL).fit(graph, run=tmp_path / "run")
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["settings"]["batching"] == "clusters"
    # With more memory than before the run is still of clusters.
    again = NodeLaGraph(**SMALL).fit(graph, run=tmp_path / "run")
    assert again.settings_.batching == "clusters"
    assert again.history_.loss == first.history_.loss
    assert NodeLaGraph(**SMALL).fit(graph).settings_.batching == "full"


@pytest.fixture
def mapped(tmp_path):
    """A graph in memory, and the same memory-mapped."""
    graph = drawn_graph(2, size=40, density=0.15)
    rows = CSRGraph.of(graph)
    parts = {
        "indptr": rows.indptr,
        "indices": rows.indices.to(torch.int32),
        "weight": rows.weight,
        "x": graph.x,
    }
    found = {}
    for name, value in parts.items():
        np.save(tmp_path / f"{name}.npy", value.numpy())
        found[name] = torch.from_numpy(np.load(tmp_path / f"{name}.npy", mmap_mode="c"))
    other = CSRGraph(
        found["indptr"], found["indices"], found["weight"], MatrixRows(found["x"]), True
    )
    return graph, other


@pytest.mark.parametrize("preset", ["plus", "paper"])
@pytest.mark.parametrize("way", ["full", "nodes", "clusters", "neighbors"])
def test_a_memory_mapped_graph_trains_as_one_in_memory(mapped, way, preset):
    losses = []
    for graph in mapped:
        values = {**SMALL, "batching": way, "preset": preset, "num_neighbors": 2}
        settings = resolve(NodeLaGraphSettings(**values), owner="NodeLaGraph")
        method = NodeLaGraph.method(settings, level="node")
        training, everything = set_up(graph, method, device=CPU)
        losses.append(training.run().loss)
        assert everything().num_nodes == 40
    assert losses[0] == losses[1]


@pytest.mark.parametrize("form", ["auto", "dense", "sparse"])
def test_features_of_a_memory_mapped_graph_have_the_form_of_the_setting(mapped, form):
    settings = resolve(
        NodeLaGraphSettings(**SMALL, batching="clusters", features=form), owner="NodeLaGraph"
    )
    method = NodeLaGraph.method(settings, level="node")
    training, _ = set_up(mapped[1], method, device=CPU)
    batch = training.batches.take(torch.tensor([0]))
    assert isinstance(batch.x, SparseMatrix) == (form == "sparse")
    training.run()
    whole, _ = set_up(mapped[0], NodeLaGraph.method(settings, level="node"), device=CPU)
    assert whole.run().loss == training.history.loss


def test_lost_sums_of_a_graph_by_rows_are_said():
    graph = drawn_graph(2, size=40, density=0.15)
    weight = graph.edge_weight.clone()
    weight[(graph.edge_index == 5).any(0)] = 1e9
    graph = dataclasses.replace(graph, edge_weight=weight)
    settings = resolve(
        NodeLaGraphSettings(**SMALL, batching="neighbors", encoder="gin"), owner="NodeLaGraph"
    )
    said = []
    for form in (graph, CSRGraph.of(graph)):
        with pytest.warns(GraphLatentWarning, match="sums over neighbours") as found:
            set_up(form, NodeLaGraph.method(settings, level="node"), device=CPU)
        said.append(str(found[0].message))
    assert said[0] == said[1]


def test_clusters_are_kept_in_the_folder_that_is_given(mapped, tmp_path):
    pytest.importorskip("pymetis")
    settings = resolve(NodeLaGraphSettings(**SMALL, batching="clusters"), owner="NodeLaGraph")
    method = NodeLaGraph.method(settings, level="node")
    set_up(mapped[1], method, device=CPU, cache=tmp_path / "cache")
    assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".bin"]


def test_negative_weights_are_refused_before_the_first_step():
    graph = drawn_graph(2, size=40, density=0.15)
    graph = dataclasses.replace(graph, edge_weight=-graph.edge_weight)
    with pytest.raises(InputError, match="needs edge weights of 0 or more"):
        NodeLaGraph(**SMALL, batching="neighbors").fit(graph)


def test_a_custom_encoder_sees_pieces():
    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 6)

        def forward(self, x, edge_index, edge_weight):
            rows = self.linear(x)
            weight = 1 if edge_weight is None else edge_weight[:, None]
            return rows + torch.zeros_like(rows).index_add(
                0, edge_index[1], rows[edge_index[0]] * weight
            )

    graph = random_graph([30], density=0.2)
    rows = NodeLaGraph(
        encoder=Mean(), **SMALL, batching="neighbors", num_neighbors=2
    ).fit_transform(graph)
    assert rows.shape[0] == 30 and np.isfinite(rows).all()


def test_threads_follow_from_the_sampled_neighbourhoods_of_a_step(monkeypatch):
    work = []
    monkeypatch.setattr(setup, "threads_for", lambda multiplications: work.append(multiplications))
    graph = drawn_graph(1, size=1000, density=0.01)
    for values in ({"batching": "clusters"}, {"batching": "neighbors", "num_neighbors": 2}):
        settings = NodeLaGraphSettings(nodes_per_step=10, **values)
        setup.suited_threads(graph, resolve(settings, owner="NodeLaGraph"))
    # A seed, its 2 neighbours, and theirs.
    assert work[1] == pytest.approx(9 * work[0])
