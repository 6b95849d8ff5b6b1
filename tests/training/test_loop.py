"""The training loop: resuming, stopping, reports, non-finite losses, schedules."""

from __future__ import annotations

import math

import pytest
import torch

from cases import random_graph
from graphlatent.errors import NonFiniteLossError, TrainingInterrupted
from graphlatent.io.runfolder import Snapshot
from graphlatent.training.loop import Hooks, Training
from trainings import make_training


def check_bit_identical(a: Training, b: Training) -> None:
    other = b.model.state_dict()
    for name, value in a.model.state_dict().items():
        assert torch.equal(value, other[name]), name
    assert a.history == b.history


def test_training_lowers_the_loss():
    training = make_training("node", "full", sizes=(40,), epochs=60)
    history = training.run()
    assert len(history) == 60
    assert history.loss[-1] < 0.9 * history.loss[0]
    total = history.terms["reconstruction"][0] + 2.0 * history.terms["invariance"][0]
    assert history.loss[0] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(
    ("level", "batching"), [("graph", "graphs"), ("node", "nodes"), ("node", "full")]
)
def test_resumed_after_any_step_is_bit_identical(level, batching):
    uninterrupted = make_training(level, batching)
    snapshots: list[Snapshot] = []
    uninterrupted.run(Hooks(save_due=lambda: True, save=snapshots.append))
    assert len(snapshots) == 4 * {"graphs": 3, "nodes": 3, "full": 1}[batching]
    for snapshot in snapshots:
        # Restoring replaces the whole initial state.
        other = make_training(level, batching, random_state=5)
        other.restore(snapshot)
        other.run()
        check_bit_identical(uninterrupted, other)


def test_the_seed_determines_the_result():
    a, b, c = make_training(), make_training(), make_training(random_state=1)
    for training in (a, b, c):
        training.run()
    check_bit_identical(a, b)
    assert a.history.loss != c.history.loss


def test_the_global_generator_is_not_used():
    before = torch.random.get_rng_state()
    make_training().run()
    assert torch.equal(before, torch.random.get_rng_state())


def test_stopping_saves_a_snapshot_between_two_steps():
    saved: list[Snapshot] = []
    training = make_training()
    answers = iter([False, False, False, False, True])
    with pytest.raises(TrainingInterrupted, match="Stopped after epoch 1 of 4, step 2"):
        training.run(Hooks(save=saved.append, stop_requested=lambda: next(answers)))
    other, whole = make_training(), make_training()
    other.restore(saved[0])
    other.run()
    whole.run()
    check_bit_identical(other, whole)


def test_progress_is_reported_after_every_epoch():
    reports = []
    make_training(epochs=3).run(Hooks(on_epoch=reports.append))
    assert [(p.epoch, p.epochs) for p in reports] == [(1, 3), (2, 3), (3, 3)]
    assert all(math.isfinite(p.loss) for p in reports)


def test_non_finite_loss_stops_and_saved_snapshots_are_finite():
    saved: list[Snapshot] = []
    training = make_training(lr=1e18, epochs=50)
    message = r"not (a )?finite.*The last good checkpoint, if one was saved, is kept. Try a smaller"
    with pytest.raises(NonFiniteLossError, match=message):
        training.run(Hooks(save_due=lambda: True, save=saved.append))
    for snapshot in saved:
        weights = [v for k, v in snapshot.tensors.items() if k.startswith("model.")]
        assert all(torch.isfinite(weight).all() for weight in weights)


def test_non_finite_loss_names_epoch_step_and_terms():
    graph = random_graph([4, 3])
    graph.x[0] = 1e30
    training = make_training("node", "full", graph=graph)
    with pytest.raises(NonFiniteLossError) as caught:
        training.run()
    assert str(caught.value).startswith(
        "The loss is not a finite number at epoch 1, step 1: loss=inf, reconstruction=inf,"
        " invariance="
    )


def test_patience_stops_when_the_loss_does_not_improve():
    training = make_training(
        "node", "full", epochs=500, patience=5, lr=1e-9, mask_value="zeros", mask_ratio=1.0
    )
    history = training.run()
    assert 5 < len(history) < 500
    best = min(history.loss[:-5])
    assert min(history.loss[-5:]) >= best


def test_cosine_schedule_by_hand():
    history = make_training(epochs=4, lr=0.01, schedule="cosine").run()
    expected = [0.01 * 0.5 * (1 + math.cos(math.pi * e / 4)) for e in range(4)]
    assert history.lr == pytest.approx(expected)
    assert make_training(epochs=4, lr=0.01).run().lr == [0.01] * 4


def test_weight_decay_makes_weights_smaller():
    norms = []
    for decay in (0.0, 1.0):
        training = make_training(epochs=30, weight_decay=decay)
        training.run()
        norms.append(sum(float(p.detach().square().sum()) for p in training.model.parameters()))
    assert norms[1] < norms[0]


def test_zero_epochs_keep_the_initial_weights():
    training = make_training(epochs=0)
    before = {k: v.clone() for k, v in training.model.state_dict().items()}
    assert len(training.run()) == 0
    assert all(torch.equal(before[k], v) for k, v in training.model.state_dict().items())


class TestLossReadEveryFewEpochs:
    """On a GPU the loss is copied to the host every few epochs only; here on a CPU."""

    def every_seventh(self, **values) -> Training:
        training = make_training("node", "full", sizes=(12,), epochs=20, **values)
        training.sample_every = 7
        return training

    def test_training_is_the_same(self):
        every = make_training("node", "full", sizes=(12,), epochs=20)
        some = self.every_seventh()
        seen: list[int] = []
        every.run()
        some.run(Hooks(on_epoch=lambda progress: seen.append(progress.epoch)))
        check_bit_identical(every, some)
        assert seen == list(range(1, 21))

    def test_resumed_between_two_reads_is_bit_identical(self):
        whole, snapshots = self.every_seventh(), []
        whole.run(Hooks(save_due=lambda: True, save=snapshots.append))
        for snapshot in snapshots:
            other = self.every_seventh(random_state=5)
            # Restoring discards these epochs.
            for _ in range(3):
                other.run_epoch(Hooks())
            other.restore(snapshot)
            other.run()
            check_bit_identical(whole, other)

    def test_a_failing_hook_loses_no_epoch(self):
        training = self.every_seventh()
        seen: list[int] = []

        def fail_once(progress) -> None:
            seen.append(progress.epoch)
            if progress.epoch == 3:
                raise KeyError("once")

        with pytest.raises(KeyError):
            training.run(Hooks(on_epoch=fail_once))
        training.run(Hooks(on_epoch=fail_once))
        assert seen == list(range(1, 21))
        assert len(training.history) == 20
