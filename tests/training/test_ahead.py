"""Pieces that are cut ahead: the same batches by any number of threads, errors, stopping."""

from __future__ import annotations

import threading

import pytest
import torch

from cases import generator
from graphlatent import NodeBGRL, NodeLaGraph
from graphlatent.config import resolve
from graphlatent.data.batches import FullBatches, full_batch
from graphlatent.errors import TrainingInterrupted
from graphlatent.training.ahead import Plans, cut_ahead
from graphlatent.training.hooks import Hooks
from graphlatent.training.setup import set_up
from piece_cases import CPU, drawn_graph, neighbor_pieces, plain

SMALL = {
    "hidden_dim": 6,
    "epochs": 3,
    "device": "cpu",
    "progress": False,
    "nodes_per_step": 7,
    "num_neighbors": 2,
    "parts_per_step": 2,
}
WAYS = ("nodes", "clusters", "neighbors")
pytestmark = pytest.mark.filterwarnings("ignore:METIS would need")


def begun(way, cls=NodeLaGraph, *, graph=None, **values):
    """A training before its first step."""
    steps = {"steps_per_epoch": 4} if way == "nodes" else {}
    estimator = cls(**{**SMALL, **steps, "batching": way, **values})
    settings = resolve(estimator.settings_class(**estimator.get_params()), owner="test")
    graph = drawn_graph(1, size=30, density=0.2) if graph is None else graph
    return set_up(graph, cls.method(settings, level="node"), device=CPU)[0]


def weights(training):
    return {name: value.clone() for name, value in training.model.state_dict().items()}


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("pieces")]


@pytest.mark.parametrize("cls", [NodeLaGraph, NodeBGRL])
@pytest.mark.parametrize("way", WAYS)
def test_any_number_of_workers_gives_the_same_bits(way, cls):
    found = []
    for workers in (0, 1, 2, 5):
        training = begun(way, cls, num_workers=workers)
        found.append((training.run().loss, weights(training)))
        assert len(training.batches.plan(generator(0))) >= 4
    for losses, state in found[1:]:
        assert losses == found[0][0]
        assert all(torch.equal(state[name], found[0][1][name]) for name in state)
    assert threads() == []


@pytest.mark.parametrize("way", WAYS)
def test_resumed_in_the_middle_of_an_epoch_is_bit_identical(way):
    whole = begun(way, num_workers=2)
    whole.run()
    snapshots = []
    watched = begun(way, num_workers=1)
    watched.run(Hooks(save_due=lambda: True, save=snapshots.append))
    assert len(snapshots) >= 12
    for snapshot in snapshots[1:8]:
        other = begun(way, num_workers=2, random_state=0)
        other.restore(snapshot)
        other.run()
        assert other.history.loss == whole.history.loss
        for name, value in weights(whole).items():
            assert torch.equal(weights(other)[name], value)


def plans(source, *, epochs=1, done=0):
    return Plans(source.plan, generator(0).get_state(), epochs=epochs, done=done)


def test_a_worker_cuts_the_next_step_while_this_one_runs():
    source = neighbor_pieces(drawn_graph(1, size=20))
    cut, taken = [], source.take
    source.take = lambda index: (cut.append(threading.current_thread().name), taken(index))[1]
    upcoming = plans(source)
    with cut_ahead(source, upcoming, num_workers=1) as batches:
        plan, _ = upcoming.take()
        batches.take(plan[0])
        with pytest.raises(ValueError, match="in the order of the plan"):
            batches.take(plan[2])
    assert len(cut) >= 1 and all(name.startswith("pieces") for name in cut)
    assert threads() == []


def test_plans_are_those_of_epochs_one_after_another_however_far_they_are_read():
    source = neighbor_pieces(drawn_graph(1, size=20))
    gen = generator(0)
    wanted = [(source.plan(gen), gen.get_state()) for _ in range(3)]
    for num_read in range(4):
        upcoming = plans(source, epochs=3, done=2)
        read = [upcoming.read_ahead() for _ in range(num_read)]
        for epoch, (steps, state) in enumerate(wanted):
            plan, after = upcoming.take()
            assert torch.equal(torch.stack(plan), torch.stack(steps))
            assert torch.equal(after, state)
            if epoch < num_read:
                # The very tensors, of the first epoch without the steps that are done.
                left = plan[2:] if epoch == 0 else plan
                assert [id(step) for step in read[epoch]] == [id(step) for step in left]
        assert upcoming.read_ahead() is None


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_step_of_the_next_epoch_is_cut_while_the_last_of_this_one_runs(workers):
    """An epoch of one random subset would otherwise never have anything cut ahead."""
    values = {"steps_per_epoch": 1, "epochs": 4, "diagnostics": False}
    training = begun("nodes", num_workers=workers, **values)
    source, cut = training.batches, []
    taken = source.take
    source.take = lambda index: (cut.append(index), taken(index))[1]
    stepped, seen = training.stepper, []

    def step(batches, index):
        values = stepped(batches, index)
        seen.append((len(batches.cutting), index))
        return values

    step.reset = stepped.reset
    training.stepper = step
    training.run()
    assert [count for count, _ in seen] == [min(workers, 3 - done) for done in range(4)]
    # No step is cut that is not taken.
    assert sorted(map(id, cut)) == sorted(id(index) for _, index in seen)
    assert threads() == []


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_error_in_a_worker_ends_the_training(workers):
    training = begun("neighbors", num_workers=workers)
    taken, count = training.batches.take, []

    def failing(index):
        count.append(index)
        if len(count) == 4:
            raise OSError("no space left on the moon")
        return taken(index)

    training.batches.take = failing
    with pytest.raises(OSError, match="the moon"):
        training.run()
    assert threads() == []


def test_a_stop_waits_for_the_workers():
    training = begun("clusters", num_workers=2)
    saved = []
    hooks = Hooks(stop_requested=lambda: training.step == 2, save=saved.append)
    with pytest.raises(TrainingInterrupted):
        training.run(hooks)
    assert len(saved) == 1 and threads() == []


def test_other_sources_are_not_wrapped():
    whole = FullBatches(full_batch(drawn_graph(0), prepare=plain, device=CPU))
    with cut_ahead(whole, plans(whole), num_workers=2) as batches:
        assert batches is whole
    pieces = neighbor_pieces(drawn_graph(0))
    with cut_ahead(pieces, plans(pieces), num_workers=0) as batches:
        assert batches is pieces
