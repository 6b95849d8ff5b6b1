from __future__ import annotations

import math

import pytest
import torch

from cases import make_method, random_graph
from graphlatent.data.batches import FullBatches, GraphBatches, NodeBatches, full_batch
from graphlatent.errors import NonFiniteLossError, TrainingInterrupted
from graphlatent.io.runfolder import Snapshot
from graphlatent.training.loop import Hooks, Training, seeded

CPU = torch.device("cpu")


def make_training(
    level="graph", batching="graphs", *, sizes=(4, 3, 5, 2, 6, 3, 4), graph=None, **values
):
    graph = graph or random_graph(list(sizes), seed=1)
    method = make_method(level, **{"epochs": 4, "lr": 0.01, "mask_ratio": 0.3, **values})
    seed = method.settings.random_state
    model = method.build(graph.x.shape[1], generator=seeded(seed, 0))
    if batching == "nodes":
        batches = NodeBatches(
            graph,
            nodes_per_step=10,
            steps_per_epoch=3,
            prepare=model.prepare,
            device=CPU,
            dtype=torch.float32,
        )
    else:
        whole = full_batch(graph, prepare=model.prepare, device=CPU)
        batches = (
            GraphBatches(whole, graph.ptr, batch_size=3)
            if batching == "graphs"
            else FullBatches(whole)
        )
    return Training(method, model, method.begin(model, batches), device=CPU)


def check_same_bits(a: Training, b: Training) -> None:
    for (name, left), right in zip(
        a.model.state_dict().items(), b.model.state_dict().values(), strict=True
    ):
        assert torch.equal(left, right), name
    assert a.history == b.history


def test_training_lowers_the_loss():
    training = make_training("node", "full", sizes=(40,), epochs=60)
    history = training.run()
    assert len(history) == 60
    assert history.loss[-1] < 0.9 * history.loss[0]
    assert history.loss[0] == pytest.approx(
        history.terms["reconstruction"][0] + 2.0 * history.terms["invariance"][0], rel=1e-5
    )


@pytest.mark.parametrize(
    ("level", "batching"), [("graph", "graphs"), ("node", "nodes"), ("node", "full")]
)
def test_taken_up_after_any_step_is_bit_identical(level, batching):
    uninterrupted = make_training(level, batching)
    snapshots: list[Snapshot] = []
    uninterrupted.run(Hooks(save_due=lambda: True, save=snapshots.append))
    assert len(snapshots) == 4 * {"graphs": 3, "nodes": 3, "full": 1}[batching]
    for snapshot in snapshots:
        # Everything it starts with is replaced
        other = make_training(level, batching, random_state=5)
        other.restore(snapshot)
        other.run()
        check_same_bits(uninterrupted, other)


def test_same_seed_same_bits_other_seed_others():
    a, b, c = make_training(), make_training(), make_training(random_state=1)
    for training in (a, b, c):
        training.run()
    check_same_bits(a, b)
    assert a.history.loss != c.history.loss


def test_the_global_generator_is_neither_used_nor_set():
    before = torch.random.get_rng_state()
    make_training().run()
    assert torch.equal(before, torch.random.get_rng_state())


def test_stopping_saves_between_two_steps():
    saved: list[Snapshot] = []
    training = make_training()
    asked = iter([False, False, False, False, True])
    with pytest.raises(TrainingInterrupted, match="Stopped after epoch 1 of 4, step 2"):
        training.run(Hooks(save=saved.append, stop_requested=lambda: next(asked)))
    other, whole = make_training(), make_training()
    other.restore(saved[0])
    other.run()
    whole.run()
    check_same_bits(other, whole)


def test_progress_is_told_after_every_epoch():
    told = []
    make_training(epochs=3).run(Hooks(on_epoch=told.append))
    assert [(p.epoch, p.epochs) for p in told] == [(1, 3), (2, 3), (3, 3)]
    assert all(math.isfinite(p.loss) for p in told)


def test_non_finite_loss_names_epoch_step_and_terms_and_keeps_the_last_good_state():
    saved: list[Snapshot] = []
    training = make_training(lr=1e30, epochs=50)
    with pytest.raises(
        NonFiniteLossError,
        match=(
            r"not (a )?finite.*The last good checkpoint, if one was saved, is kept. Try a"
            r" smaller lr"
        ),
    ):
        training.run(Hooks(save_due=lambda: True, save=saved.append))
    for snapshot in saved:
        assert all(
            torch.isfinite(v).all() for k, v in snapshot.tensors.items() if k.startswith("model.")
        )


def test_non_finite_loss_message_in_full():
    graph = random_graph([4, 3])
    graph.x[0] = 1e30
    training = make_training("node", "full", graph=graph)
    with pytest.raises(NonFiniteLossError) as caught:
        training.run()
    assert str(caught.value).startswith(
        "The loss is not a finite number at epoch 1, step 1: loss=inf, reconstruction=inf,"
        " invariance="
    )


def test_patience_stops_when_nothing_improves():
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


def test_weight_decay_pulls_weights_down():
    free, held = make_training(epochs=30), make_training(epochs=30, weight_decay=1.0)
    free.run()
    held.run()
    norms = [
        sum(float(p.detach().square().sum()) for p in t.model.parameters()) for t in (free, held)
    ]
    assert norms[1] < norms[0]


def test_no_epochs_leaves_the_start():
    training = make_training(epochs=0)
    before = {k: v.clone() for k, v in training.model.state_dict().items()}
    assert len(training.run()) == 0
    assert all(torch.equal(before[k], v) for k, v in training.model.state_dict().items())


class TestLossesLookedAtNowAndThen:
    """On a GPU the loss is looked at every few epochs only; the same loop on a CPU."""

    def rarely(self, **values) -> Training:
        training = make_training("node", "full", sizes=(12,), epochs=20, **values)
        training.sample_every = 7
        return training

    def test_nothing_else_changes(self):
        often, rarely = make_training("node", "full", sizes=(12,), epochs=20), self.rarely()
        seen: list[int] = []
        often.run()
        rarely.run(Hooks(on_epoch=lambda progress: seen.append(progress.epoch)))
        check_same_bits(often, rarely)
        assert seen == list(range(1, 21))

    def test_taken_up_between_two_looks(self):
        whole, snapshots = self.rarely(), []
        whole.run(Hooks(save_due=lambda: True, save=snapshots.append))
        for snapshot in snapshots:
            other = self.rarely(random_state=5)
            for _ in range(3):  # what it did before is forgotten
                other.run_epoch(Hooks())
            other.restore(snapshot)
            other.run()
            check_same_bits(whole, other)

    def test_a_failing_hook_loses_no_epoch(self):
        training = self.rarely()
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
