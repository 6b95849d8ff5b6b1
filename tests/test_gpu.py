"""What only a GPU can show: captured steps, precision, and the same training there as here."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from cases import as_sparse, random_graph
from graphlatent import GraphLaGraph, NodeBGRL, NodeDGI, NodeLaGraph
from graphlatent.data.synthetic import latent_graph
from graphlatent.training import stepper
from graphlatent.training.loop import Training
from graphlatent.training.peak_memory import PeakMemory

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def node_graph(kind: str):
    graph = random_graph([60, 40], num_features=12, weighted=kind == "weighted", density=0.1)
    if kind == "directed":
        keep = torch.rand(graph.num_edges) < 0.6
        return dataclasses.replace(graph, edge_index=graph.edge_index[:, keep], undirected=False)
    return as_sparse(graph) if kind == "sparse" else graph


def curve(graph, cls=NodeLaGraph, **values):
    form = "dense" if isinstance(graph.x, torch.Tensor) else "sparse"  # as it comes
    return np.array(
        cls(**{"hidden_dim": 32, "epochs": 45, "device": "cuda", "features": form, **values})
        .fit(graph)
        .history_.loss
    )


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted", "directed"])
@pytest.mark.parametrize(
    "values",
    [{}, {"encoder": "gin", "num_layers": 3}, {"objective": "mse-output", "decoder_layers": 2}],
    ids=str,
)
def test_fast_and_general_draw_and_learn_the_same(kind, values):
    graph = node_graph(kind)
    fast, general = (
        curve(graph, precision="fp32", engine=engine, **values)[:20]
        for engine in ("auto", "general")
    )
    np.testing.assert_allclose(fast, general, rtol=2e-3)  # rounding grows with the steps


def run(capture: bool, monkeypatch, graph, **values):
    original = Training.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.stepper.capture = capture

    monkeypatch.setattr(Training, "__init__", init)
    return curve(graph, **values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"schedule": "cosine", "weight_decay": 1e-3},
        {"precision": "bf16"},
        {"steps_per_epoch": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_captured_steps_are_the_same_steps(kind, values, monkeypatch):
    captured, plain = (
        run(capture, monkeypatch, node_graph(kind), **values) for capture in (True, False)
    )
    np.testing.assert_allclose(captured, plain, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted"])
@pytest.mark.parametrize("cls", [NodeDGI, NodeBGRL])
def test_captured_steps_of_other_methods_are_the_same_steps(cls, kind, monkeypatch):
    values = {"cls": cls, "precision": "fp32", "patience": None}
    captured, plain = (
        run(capture, monkeypatch, node_graph(kind), **values) for capture in (True, False)
    )
    np.testing.assert_allclose(captured, plain, rtol=1e-3)


@pytest.mark.parametrize("cls", [NodeDGI, NodeBGRL])
def test_steps_of_other_methods_are_captured(cls, monkeypatch):
    replays = []
    original = stepper._Captured.__call__
    monkeypatch.setattr(
        stepper._Captured, "__call__", lambda self, i: (replays.append(1), original(self, i))[1]
    )
    curve(node_graph("sparse"), cls, epochs=10, patience=None)
    assert len(replays) == 8


@pytest.mark.parametrize(
    "values", [{}, {"decoder_layers": 1, "readout": "mean"}, {"encoder": "gcn"}], ids=str
)
def test_captured_mini_batches_are_the_same(values, monkeypatch):
    graph = random_graph([5, 4, 3, 6, 2, 7, 4, 3, 5, 6, 1], one_hot=True)
    values = {"batch_size": 4, "precision": "fp32", **values}
    captured, plain = (
        run(capture, monkeypatch, graph, cls=GraphLaGraph, **values)[:10]
        for capture in (True, False)
    )
    np.testing.assert_allclose(
        captured, plain, rtol=1e-3
    )  # pooling adds in any order on a GPU, and training amplifies it: the first epochs


@pytest.mark.parametrize("objective", ["mse-output", "ce-embed", "ce-output", "denoise"])
@pytest.mark.parametrize("cls", [NodeLaGraph, GraphLaGraph])
def test_every_objective_in_bf16(cls, objective):
    graph = random_graph([12, 9, 11], num_features=6, one_hot=True)
    assert np.isfinite(curve(graph, cls, precision="bf16", objective=objective, epochs=5)).all()


def test_captured_steps_change_to_blocks_and_go_on():
    graph = dataclasses.replace(random_graph([30]), x=torch.ones(30, 3))
    for features in (graph, as_sparse(graph)):
        loss = curve(features, hidden_dim=8, epochs=300, lr=0.03, alpha=0.1)
        assert np.isfinite(loss).all() and loss[-1] < 0.1 * loss[0]


@pytest.mark.parametrize(("precision", "close"), [("tf32", 0.01), ("bf16", 0.05)])
def test_lower_precision_learns_nearly_the_same(precision, close):
    graph = node_graph("dense")
    np.testing.assert_allclose(
        curve(graph, precision=precision), curve(graph, precision="fp32"), rtol=close
    )


def test_resumed_on_a_gpu(tmp_path):
    from graphlatent.errors import TrainingInterrupted
    from graphlatent.io.runfolder import RunFolder
    from graphlatent.training.loop import Hooks

    graph, values = node_graph("dense"), {"hidden_dim": 32, "epochs": 60, "device": "cuda"}
    whole = NodeLaGraph(**values).fit(graph)
    run, asked = RunFolder(tmp_path / "run"), []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 33

    with pytest.raises(TrainingInterrupted):
        NodeLaGraph(**values).fit(
            graph, run=run, hooks=Hooks(save=run.save_snapshot, stop_requested=stop)
        )
    resumed = NodeLaGraph(**values).fit(graph, run=RunFolder(tmp_path / "run"))
    assert len(resumed.history_) == 60
    np.testing.assert_allclose(resumed.history_.loss, whole.history_.loss, rtol=1e-4)
    np.testing.assert_allclose(
        resumed.transform(graph), whole.transform(graph), rtol=1e-2, atol=1e-3
    )


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    "values",
    [{}, {"decoder_layers": 1, "readout": "mean"}, {"encoder": "gcn"}, {"decoder": "gnn"}],
    ids=str,
)
def test_graph_level(sparse, values):
    graph = random_graph([5, 4, 3, 6, 2, 7, 4, 3, 5, 6, 1], one_hot=True)
    graph = as_sparse(graph) if sparse else graph
    loss = curve(graph, GraphLaGraph, batch_size=4, **values)
    assert np.isfinite(loss).all()
    assert loss[-1] < loss[0]


class TestPeakMemory:
    def test_only_what_is_held_in_between_and_beyond_what_was_there(self):
        device = torch.device("cuda")
        there = torch.zeros(2**20, device=device)  # 4 MiB
        memory = PeakMemory(device)
        with memory:
            held = torch.zeros(2**21, device=device)  # 8 MiB
        larger = torch.zeros(2**23, device=device)
        del larger
        with memory:
            pass
        assert memory.peak == 2**23 and there.numel() + held.numel() > 0

    def test_fewer_nodes_a_step_need_less(self):
        graph = latent_graph(num_nodes=20_000, feature_dim=64).graph
        peaks = []
        for nodes in (500, 10_000):
            model = NodeLaGraph(
                hidden_dim=256, epochs=2, batching="nodes", nodes_per_step=nodes, device="cuda"
            ).fit(graph)
            peaks.append(model.peak_memory_)
        assert peaks[0] < peaks[1] / 3
