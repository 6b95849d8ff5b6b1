"""Tests that need a GPU: captured steps, precision, peak memory."""

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
    # Features are not converted.
    form = "dense" if isinstance(graph.x, torch.Tensor) else "sparse"
    small = {"hidden_dim": 32, "epochs": 45, **({"preset": "paper"} if cls is NodeLaGraph else {})}
    defaults = {**small, "device": "cuda", "features": form}
    return np.array(cls(**{**defaults, **values}).fit(graph).history_.loss)


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted", "directed"])
@pytest.mark.parametrize(
    "values",
    [{}, {"encoder": "gin", "num_layers": 3}, {"objective": "mse-output", "decoder_layers": 2}],
    ids=str,
)
def test_both_engines_give_the_same_loss_curve(kind, values):
    graph = node_graph(kind)
    fast, general = (
        curve(graph, precision="fp32", engine=engine, **values)[:20]
        for engine in ("auto", "general")
    )
    # Rounding errors grow with the number of steps.
    np.testing.assert_allclose(fast, general, rtol=2e-3)


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted", "directed"])
def test_both_engines_give_the_same_loss_curve_of_the_default(kind):
    graph = node_graph(kind)
    fast, general = (
        curve(graph, preset="plus", precision="fp32", engine=engine)[:20]
        for engine in ("auto", "general")
    )
    np.testing.assert_allclose(fast[0], general[0], rtol=1e-5)
    # A cosine does not depend on the length of a vector, so that some gradients are 0 but for
    # rounding, and Adam makes full steps of them.
    np.testing.assert_allclose(fast, general, rtol=1e-2)


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
def test_captured_steps_give_the_same_loss_curve(kind, values, monkeypatch):
    captured, plain = (
        run(capture, monkeypatch, node_graph(kind), **values) for capture in (True, False)
    )
    np.testing.assert_allclose(captured, plain, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted"])
@pytest.mark.parametrize("cls", [NodeDGI, NodeBGRL])
def test_captured_steps_of_other_methods_give_the_same_loss_curve(cls, kind, monkeypatch):
    values = {"cls": cls, "precision": "fp32", "patience": None}
    captured, plain = (
        run(capture, monkeypatch, node_graph(kind), **values) for capture in (True, False)
    )
    np.testing.assert_allclose(captured, plain, rtol=1e-3)


@pytest.mark.parametrize("cls", [NodeDGI, NodeBGRL])
def test_steps_of_other_methods_are_captured(cls, monkeypatch):
    replays = []
    original = stepper._CapturedStep.__call__

    def spy(self, index):
        replays.append(1)
        return original(self, index)

    monkeypatch.setattr(stepper._CapturedStep, "__call__", spy)
    curve(node_graph("sparse"), cls, epochs=10, patience=None)
    assert len(replays) == 8


@pytest.mark.parametrize(
    "values", [{}, {"decoder_layers": 1, "readout": "mean"}, {"encoder": "gcn"}], ids=str
)
def test_captured_mini_batches_give_the_same_loss_curve(values, monkeypatch):
    graph = random_graph([5, 4, 3, 6, 2, 7, 4, 3, 5, 6, 1], one_hot=True)
    values = {"batch_size": 4, "precision": "fp32", **values}
    captured, plain = (
        run(capture, monkeypatch, graph, cls=GraphLaGraph, **values)[:10]
        for capture in (True, False)
    )
    # The first epochs only: pooling on a GPU adds in no fixed order, which training amplifies.
    np.testing.assert_allclose(captured, plain, rtol=1e-3)


@pytest.mark.parametrize("objective", ["mse-output", "ce-embed", "ce-output", "denoise"])
@pytest.mark.parametrize("cls", [NodeLaGraph, GraphLaGraph])
def test_every_objective_in_bf16(cls, objective):
    graph = random_graph([12, 9, 11], num_features=6, one_hot=True)
    assert np.isfinite(curve(graph, cls, precision="bf16", objective=objective, epochs=5)).all()


def test_captured_steps_can_change_to_blocks():
    graph = dataclasses.replace(random_graph([30]), x=torch.ones(30, 3))
    for features in (graph, as_sparse(graph)):
        loss = curve(features, hidden_dim=8, epochs=300, lr=0.03, alpha=0.1)
        assert np.isfinite(loss).all() and loss[-1] < 0.1 * loss[0]


@pytest.mark.parametrize(("precision", "rtol"), [("tf32", 0.01), ("bf16", 0.05)])
def test_lower_precision_gives_nearly_the_same_loss_curve(precision, rtol):
    graph = node_graph("dense")
    exact = curve(graph, precision="fp32")
    np.testing.assert_allclose(curve(graph, precision=precision), exact, rtol=rtol)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    from graphlatent.errors import TrainingInterrupted
    from graphlatent.io.runfolder import RunFolder
    from graphlatent.training.loop import Hooks

    graph, values = node_graph("dense"), {"hidden_dim": 32, "epochs": 60, "device": "cuda"}
    whole = NodeLaGraph(**values).fit(graph)
    run, steps = RunFolder(tmp_path / "run"), []

    def stop() -> bool:
        steps.append(1)
        return len(steps) == 33

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
    [
        {},
        {"decoder_layers": 1, "readout": "mean"},
        {"encoder": "gcn"},
        {"preset": "paper", "decoder": "gnn"},
    ],
    ids=str,
)
def test_graph_level_training_lowers_the_loss(sparse, values):
    graph = random_graph([5, 4, 3, 6, 2, 7, 4, 3, 5, 6, 1], one_hot=True)
    graph = as_sparse(graph) if sparse else graph
    loss = curve(graph, GraphLaGraph, batch_size=4, **values)
    assert np.isfinite(loss).all()
    assert loss[-1] < loss[0]


class TestPeakMemory:
    def test_only_memory_allocated_in_with_blocks_is_measured(self):
        device = torch.device("cuda")
        # 4 MiB
        before = torch.zeros(2**20, device=device)
        memory = PeakMemory(device)
        with memory:
            # 8 MiB
            inside = torch.zeros(2**21, device=device)
        larger = torch.zeros(2**23, device=device)
        del larger
        with memory:
            pass
        assert memory.peak == 2**23 and before.numel() + inside.numel() > 0

    def test_fewer_nodes_per_step_need_less_memory(self):
        graph = latent_graph(num_nodes=20_000, feature_dim=64).graph
        peaks = []
        for nodes in (500, 10_000):
            model = NodeLaGraph(
                hidden_dim=256, epochs=2, batching="nodes", nodes_per_step=nodes, device="cuda"
            ).fit(graph)
            peaks.append(model.peak_memory_)
        assert peaks[0] < peaks[1] / 3
