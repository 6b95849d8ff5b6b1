"""Diagnostics during training: they change nothing, are repeated exactly, and survive a resume."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from cases import random_graph
from graphlatent import GraphLaGraph, NodeBGRL, NodeDGI, NodeLaGraph, RunFolder
from graphlatent.errors import ConfigError, TrainingInterrupted
from graphlatent.io.history import History
from graphlatent.methods.base import combine
from graphlatent.training.diagnostics import (
    NUM_GRAPHS,
    NUM_ROWS,
    Monitor,
    is_measured,
    measured_epochs,
)
from graphlatent.training.hooks import Hooks
from graphlatent.training.measures import alignment, effective_rank
from trainings import make_training

GRAPH = random_graph([9, 7, 8, 6, 9, 5, 8, 7], seed=2)
SMALL = {"hidden_dim": 6, "epochs": 7, "device": "cpu", "random_state": 1}
CASES = {
    "node": NodeLaGraph(**SMALL),
    "paper, node": NodeLaGraph(**SMALL, preset="paper"),
    "parts of nodes": NodeLaGraph(**SMALL, batching="nodes", nodes_per_step=20, steps_per_epoch=2),
    "graph": GraphLaGraph(**SMALL, batch_size=3),
    "paper, graph": GraphLaGraph(**SMALL, preset="paper", batch_size=3),
    "general": GraphLaGraph(**SMALL, preset="paper", engine="general", batch_size=3),
    "bgrl": NodeBGRL(**SMALL),
    "dgi": NodeDGI(**SMALL),
}


class Noisy(nn.Module):
    """An encoder with dropout and running averages, which a forward pass in training changes."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.dropout, self.out_dim = nn.Dropout(0.5), 6

    def forward(self, x, edge_index, edge_weight=None):
        return self.dropout(self.norm(self.linear(x)))


def weights(estimator):
    return estimator.model_.state_dict()


def same(first, second):
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize("case", CASES)
def test_weights_are_the_same_to_the_bit_with_and_without(case):
    estimator = CASES[case]
    with_them = type(estimator)(**estimator.get_params()).fit(GRAPH)
    values = {**estimator.get_params(), "diagnostics": False}
    without = type(estimator)(**values).fit(GRAPH)
    assert same(weights(with_them), weights(without))
    assert with_them.history_.loss == without.history_.loss
    assert not without.history_.diagnostics and without.history_.gradient_norm is None
    measured = with_them.history_.diagnostics
    assert measured["epoch"] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert all(np.isfinite(column).all() for column in measured.values())
    assert ("alignment" in measured) == (case != "dgi")
    again = type(estimator)(**estimator.get_params()).fit(GRAPH)
    assert again.history_ == with_them.history_


def test_a_custom_encoder_is_not_changed_by_a_measurement():
    def fitted(diagnostics):
        torch.manual_seed(0)
        values = {**SMALL, "encoder": Noisy(), "diagnostics": diagnostics}
        torch.manual_seed(1)
        found = NodeLaGraph(**values).fit(GRAPH)
        return weights(found), torch.random.get_rng_state()

    (first, state), (second, other) = fitted(True), fitted(False)
    assert same(first, second) and torch.equal(state, other)


def test_rows_and_views_of_a_measurement():
    """Against the encoder and the mask, run by hand."""
    training = make_training("node", "full", sizes=(30,))
    monitor = Monitor(training.method, training.batches)
    found = monitor.measure(training.model)
    batch = training.batches.everything
    with torch.no_grad():
        plain = training.model.encode(batch.x, batch.structure)[-1]
        assert found["effective_rank"] == pytest.approx(effective_rank(plain), rel=1e-5)
        generator = torch.Generator().manual_seed(20_200_208)
        views = training.method.views(training.model, batch, generator=generator)
        # The mask's size is round(0.3 * 30), and its rows are those of the plain view.
        assert views.first.shape == (9, 5)
        equal = (views.first[:, None] == plain[None]).all(2)
        assert equal.any(1).all()
        assert not torch.allclose(views.first, views.second)
    assert found["alignment"] == pytest.approx(alignment(views.first, views.second))
    assert training.model.training


def test_many_rows_are_sampled_and_large_sets_of_graphs_too():
    one = make_training("node", "full", sizes=(6,) * 200)
    assert len(Monitor(one.method, one.batches).rows) == NUM_ROWS
    many = make_training("graph", "graphs", sizes=(2,) * 1100)
    monitor = Monitor(many.method, many.batches)
    assert monitor.batch.num_graphs == len(monitor.rows) == NUM_GRAPHS


@pytest.mark.parametrize("level", ["node", "graph"])
def test_the_gradient_norm_is_that_of_the_step(level):
    training = make_training(level, "full", epochs=1)
    other = make_training(level, "full", epochs=1)
    other.model.train()
    step = other.method.step(other.model, other.batches.everything, generator=other.step_generator)
    combine(step).total.backward()
    squares = [float(p.grad.double().square().sum()) for p in other.model.parameters()]
    norm = training.run().gradient_norm
    assert norm == [pytest.approx(sum(squares) ** 0.5, rel=1e-5)]


def test_a_gradient_norm_whose_square_overflows_stops_no_training():
    """Squares of float32 overflow from 1.8e19 on, where the gradient and the loss are finite."""
    edges, x = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.randn(4, 3) * 1e18
    losses = [
        NodeLaGraph(preset="paper", epochs=3, diagnostics=on).fit((edges, x)).history_
        for on in (True, False)
    ]
    assert losses[0].loss == losses[1].loss
    assert 1.9e19 < max(losses[0].gradient_norm) < float("inf")


def test_the_schedule_gets_sparser_and_ends_with_the_last_epoch():
    assert measured_epochs(20, 20) == [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 20]
    assert len(measured_epochs(100, 100)) == 20 and len(measured_epochs(1000, 1000)) == 30
    assert is_measured(777, 777) and not is_measured(777, 1000)


def interrupted(estimator, path, at):
    """Fitted with an interruption after every `at` steps."""
    for _ in range(100):
        run = RunFolder(path)
        count = iter(range(10**6))
        hooks = Hooks(save=run.save_snapshot, stop_requested=lambda n=count: next(n) == at)
        try:
            return estimator.fit(GRAPH, run=run, hooks=hooks)
        except TrainingInterrupted:
            continue
    raise AssertionError("training does not end")


@pytest.mark.parametrize(
    "values",
    [
        {"select": "effective_rank"},
        {"select": "objective", "lr": 0.3},
        {"select": "before_collapse"},
        {"on_collapse": "stop"},
    ],
    ids=str,
)
def test_a_run_that_is_interrupted_again_and_again_ends_with_the_same_bytes(tmp_path, values):
    estimator = GraphLaGraph(**{**SMALL, "batch_size": 3, "preset": "paper", **values})
    whole = estimator.fit(GRAPH, run=tmp_path / "whole")
    history, state = whole.history_, weights(whole)
    parts = interrupted(type(estimator)(**estimator.get_params()), tmp_path / "parts", at=1)
    assert parts.history_ == history and same(weights(parts), state)
    for name in ("model.safetensors", "history.csv"):
        first, second = ((tmp_path / run / name).read_bytes() for run in ("whole", "parts"))
        assert first == second, name
    loaded = GraphLaGraph.load(tmp_path / "parts")
    assert loaded.history_.selected_epoch == history.selected_epoch is not None


def test_history_with_diagnostics_is_written_and_read_exactly():
    history = History.of(["a"], gradient_norm=True)
    history.append_diagnostics(0, {"effective_rank": 1 / 3, "recovery": 1.0})
    history.append(1.0, {"a": 0.1}, 1e-3, gradient_norm=2 / 3)
    history.append(0.5, {"a": 0.2}, 1e-3, gradient_norm=1e-20)
    history.append_diagnostics(2, {"effective_rank": 0.25, "recovery": -0.5})
    history.selected_epoch = 0
    assert history.to_csv().splitlines() == [
        "epoch,loss,a,lr,gradient_norm,effective_rank,recovery,selected",
        f"0,,,,,{1 / 3!r},1.0,1",
        f"1,1.0,0.1,0.001,{2 / 3!r},,,0",
        "2,0.5,0.2,0.001,1e-20,0.25,-0.5,0",
    ]
    assert History.from_csv(history.to_csv()) == history
    position = {"term_names": ["a"], "diagnostic_names": ["effective_rank", "recovery"]}
    tensors = {"history": history.to_tensor(), "diagnostics": history.diagnostics_to_tensor()}
    read = History.from_snapshot(tensors, position)
    assert dataclasses.replace(read, selected_epoch=0) == history


@pytest.mark.parametrize(
    ("values", "name"),
    [({"select": "objective"}, "select"), ({"on_collapse": "stop"}, "on_collapse")],
)
def test_choices_need_diagnostics(values, name):
    message = (
        f"^The '{name}' parameter of NodeLaGraph has no effect without diagnostics=True. Set that,"
        f" or leave '{name}' out.$"
    )
    with pytest.raises(ConfigError, match=message):
        NodeLaGraph(diagnostics=False, **values).fit(GRAPH)
