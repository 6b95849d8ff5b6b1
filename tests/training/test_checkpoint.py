"""Snapshots that a run could not have saved are refused before anything is restored."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from cases import random_graph
from graphlatent import GraphLaGraph, NodeLaGraph, RunFolder
from graphlatent.errors import RunFolderError, TrainingInterrupted
from graphlatent.io.runfolder import Snapshot
from graphlatent.training.loop import Hooks
from trainings import make_training

WEIGHT = "model.encoder.convs.0.weight"


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """Of a run on graphs, after the second step of the second of four epochs."""
    snapshots: list[Snapshot] = []
    make_training().run(Hooks(save_due=lambda: True, save=snapshots.append))
    return snapshots[4]


def changed(snapshot: Snapshot, **position) -> Snapshot:
    text = json.dumps({**json.loads(snapshot.position), **position})
    return Snapshot(dict(snapshot.tensors), text)


def refused(snapshot: Snapshot) -> str:
    """What is wrong with a snapshot; the run is as it was."""
    training = make_training()
    before = {name: value.clone() for name, value in training.model.state_dict().items()}
    with pytest.raises(ValueError) as caught:
        training.restore(snapshot)
    assert training.epoch == 0 and not training.optimizer.state_dict()["state"]
    for name, value in training.model.state_dict().items():
        assert torch.equal(value, before[name])
    return str(caught.value)


def test_a_run_takes_its_own_snapshot(snapshot):
    position = json.loads(snapshot.position)
    assert (position["epoch"], position["step"]) == (1, 2)
    training = make_training()
    training.restore(snapshot)
    assert (training.epoch, training.step) == (1, 2)
    # Earlier versions did not say which weights have moments.
    del position["moments"]
    training.restore(dataclasses.replace(snapshot, position=json.dumps(position)))


@pytest.mark.parametrize(
    "name",
    [
        *("optimizer.0.exp_avg", "optimizer.1.exp_avg_sq", "optimizer.0.step", WEIGHT),
        *("plan_state", "step_state", "history", "values", "diagnostics"),
    ],
)
@pytest.mark.parametrize("form", ["smaller", "larger", "flat", "type"])
def test_shapes_and_types(snapshot, name, form):
    value = snapshot.tensors[name]
    forms = {
        "smaller": value.reshape(-1)[:0],
        "larger": torch.cat([value.reshape(-1)] * 2),
        "flat": value[None],
        "type": value.to(torch.int32),
    }
    tensors = {**snapshot.tensors, name: forms[form]}
    message = refused(dataclasses.replace(snapshot, tensors=tensors))
    assert message.startswith(f"its {name} must be ") and "Got " in message


def test_missing_and_unknown_tensors(snapshot):
    for name in ("optimizer.0.exp_avg", "optimizer.2.step", WEIGHT, "plan_state", "history"):
        tensors = {key: value for key, value in snapshot.tensors.items() if key != name}
        message = refused(dataclasses.replace(snapshot, tensors=tensors))
        assert message == f"it lacks {name}"
    for name in ("optimizer.99.step", "optimizer.0.max_exp_avg_sq", "model.more", "more"):
        tensors = {**snapshot.tensors, name: torch.zeros(2)}
        message = refused(dataclasses.replace(snapshot, tensors=tensors))
        assert message == f"it has the unknown {name}"
    without = {k: v for k, v in snapshot.tensors.items() if not k.startswith("optimizer.3.")}
    assert "it lacks optimizer.3.exp_avg" in refused(dataclasses.replace(snapshot, tensors=without))


@pytest.mark.parametrize("name", ["optimizer.0.exp_avg", WEIGHT, "history", "values"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(snapshot, name, number):
    value = snapshot.tensors[name].clone()
    value.view(-1)[-1] = number
    tensors = {**snapshot.tensors, name: value}
    message = refused(dataclasses.replace(snapshot, tensors=tensors))
    assert message == f"its {name} holds numbers that are not finite"


def test_moments_and_steps_that_adam_never_has(snapshot):
    second = snapshot.tensors["optimizer.0.exp_avg_sq"] - 1
    tensors = {**snapshot.tensors, "optimizer.0.exp_avg_sq": second}
    assert "exp_avg_sq holds negative" in refused(dataclasses.replace(snapshot, tensors=tensors))
    for step in (0.0, -3.0, 1.5):
        tensors = {**snapshot.tensors, "optimizer.0.step": torch.tensor(step)}
        message = refused(dataclasses.replace(snapshot, tensors=tensors))
        assert message.startswith("its optimizer.0.step must be an integer of at least 1")


def test_generator_states_that_are_none(snapshot):
    for name in ("plan_state", "step_state"):
        tensors = {**snapshot.tensors, name: torch.full_like(snapshot.tensors[name], 255)}
        message = refused(dataclasses.replace(snapshot, tensors=tensors))
        assert message.startswith(f"its {name} is no state of a generator")


@pytest.mark.parametrize("name", ["epoch", "step"])
@pytest.mark.parametrize("value", ["1", -1, True, 1.0, None, [1], 10**30])
def test_positions_of_another_type(snapshot, name, value):
    message = refused(changed(snapshot, **{name: value}))
    assert message.startswith(f"its {name} must be an integer of at least 0") or (
        value == 10**30 and "its values must be torch.float32 of shape" in message
    )


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ({"epoch": 5}, "its epoch must be an integer of at least 0 of at most 4. Got 5"),
        ({"epoch": 2}, r"its history must be torch.float64 of shape \(2, 5\)"),
        ({"step": 1}, r"its values must be torch.float32 of shape \(1, 4\)"),
        ({"term_names": ["other"]}, "its terms must be"),
        ({"term_names": 7}, "its terms must be"),
        ({"method": []}, "the state of its method is no JSON object"),
        ({"moments": [0, "1"]}, "its weights with moments must be some of"),
        ({"moments": [0, 99]}, "its weights with moments must be some of"),
    ],
)
def test_positions_that_do_not_fit(snapshot, position, message):
    with pytest.raises(ValueError, match=message):
        make_training().restore(changed(snapshot, **position))


def test_diagnostics_of_other_epochs_and_selected_weights(snapshot):
    table = snapshot.tensors["diagnostics"].clone()
    assert table[:, 0].tolist() == [0, 1]
    table[1, 0] = 3
    tensors = {**snapshot.tensors, "diagnostics": table}
    other = dataclasses.replace(snapshot, tensors=tensors)
    assert refused(other) == "its diagnostics are not of the epochs [0, 1]"
    # The run has seven graphs.
    for shape in ((3,), (2000, 4), (0, 4), (6, 4), (8, 4), (7, 0)):
        start = torch.zeros(shape)
        tensors = {**snapshot.tensors, "diagnostics_start": start}
        message = refused(dataclasses.replace(snapshot, tensors=tensors))
        assert message.startswith("its diagnostics_start must be torch.float32")
    # Weights of a selected epoch are there exactly where an epoch is selected.
    name = f"selected.{WEIGHT.removeprefix('model.')}"
    tensors = {**snapshot.tensors, name: snapshot.tensors[WEIGHT]}
    assert refused(dataclasses.replace(snapshot, tensors=tensors)) == f"it has the unknown {name}"
    with pytest.raises(ValueError, match=r"it lacks selected\.decoder"):
        make_training(select="objective").restore(snapshot)


def test_steps_after_the_end_of_an_epoch(snapshot):
    values = snapshot.tensors["values"][:1].repeat(3, 1)
    late = dataclasses.replace(
        changed(snapshot, step=3), tensors={**snapshot.tensors, "values": values}
    )
    assert refused(late) == "its step 3 is after the end of the epoch"


@pytest.mark.parametrize("text", ["[]", "1", "{", "[" * 100_000, '{"epoch": ' + "1" * 5000 + "}"])
def test_positions_that_are_no_object(snapshot, text):
    assert refused(dataclasses.replace(snapshot, position=text))


class HalfUsed(torch.nn.Module):
    """An encoder half of whose weights never get a gradient."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.unused, self.used = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
        self.out_dim = 3

    def forward(self, x, edge_index, edge_weight=None):
        return self.used(x)


def test_weights_without_a_gradient_have_no_moments(tmp_path):
    estimator = NodeLaGraph(encoder=HalfUsed(), hidden_dim=3, epochs=4, device="cpu")
    whole = estimator.fit(random_graph([12])).model_.state_dict()
    run, stops = RunFolder(tmp_path / "run"), iter([False, True])
    hooks = Hooks(save=run.save_snapshot, stop_requested=lambda: next(stops))
    with pytest.raises(TrainingInterrupted):
        estimator.fit(random_graph([12]), run=run, hooks=hooks)
    saved = run.load_snapshot()
    assert saved is not None
    moments = json.loads(saved.position)["moments"]
    assert 0 < len(moments) <= max(moments)
    resumed = estimator.fit(random_graph([12]), run=run).model_.state_dict()
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())


def test_a_run_folder_with_a_snapshot_of_another_shape(tmp_path):
    """torch's fused Adam writes behind the end of moments that are smaller than their weights."""
    run, graph = RunFolder(tmp_path / "run"), random_graph([5, 4, 3, 6])
    estimator = GraphLaGraph(hidden_dim=16, epochs=3, batch_size=4, device="cpu")
    estimator.fit(graph, run=run, hooks=Hooks(save_due=lambda: True, save=run.save_snapshot))
    (run.path / "manifest.json").unlink()
    before = run.load_snapshot()
    assert before is not None
    tensors = {**before.tensors, "optimizer.0.exp_avg": torch.zeros(1)}
    run.save_snapshot(dataclasses.replace(before, tensors=tensors))
    message = (
        r"The checkpoint in .* does not fit its settings. Start again with --overwrite. The reason:"
        r" its optimizer.0.exp_avg must be torch.float32 of shape \(.*\). Got .* of shape \(1,\)."
    )
    with pytest.raises(RunFolderError, match=message):
        estimator.fit(graph, run=run)
