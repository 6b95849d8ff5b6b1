"""Several processes train one model: equal everywhere, resumed by any number, refused in time."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import torch

import torchrun
from graphlatent import GraphLaGraph
from graphlatent.data import sharing
from graphlatent.data.batches import FullBatches, GraphBatches
from graphlatent.data.csr import CSRGraph, MatrixRows
from graphlatent.data.pieces import ClusterPieces
from graphlatent.data.sharing import moved_step, shared_plan
from graphlatent.errors import ConfigError, RunFolderError, TrainingInterrupted
from graphlatent.io.history import History
from graphlatent.io.runfolder import RunFolder
from graphlatent.training.loop import Hooks
from processes_data import OF_GRAPHS, graphs

SCRIPT = torchrun.TESTS / "training/shared_trainings.py"


def interrupted_by_one(path) -> None:
    """A run that one process has stopped after two epochs."""
    run, steps = RunFolder(path), iter(range(100))
    hooks = Hooks(stop_requested=lambda: next(steps) >= 6, save=run.save_snapshot)
    with pytest.raises(TrainingInterrupted):
        GraphLaGraph(**OF_GRAPHS).fit(graphs(), run=run, hooks=hooks)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What two processes have found, and their folder."""
    folder = tmp_path_factory.mktemp("trained")
    interrupted_by_one(folder / "of_one")
    code, _, err = torchrun.run(2, SCRIPT, folder)
    assert code == 0, err
    return json.loads((folder / "found.json").read_text()), folder


@pytest.mark.parametrize("name", ["graphs", "pieces", "NodeLaGraph", "NodeBGRL", "NodeDGI"])
def test_all_processes_have_the_same_weights_and_history(trained, name):
    found = trained[0][name]
    assert len(found["bits"]) == 2
    assert len(set(found["bits"])) == len(set(found["history"])) == 1
    assert len(History.from_csv(found["history"][0])) == 6


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(trained):
    found = trained[0]
    assert len(set(found["interrupted"])) == 1
    assert found["interrupted"][0].startswith("Stopped after epoch 1 of 6, step 2.")
    assert found["resumed"] == found["graphs"]


def test_a_complete_run_is_used_as_it_is(trained):
    assert trained[0]["complete"] == trained[0]["graphs"]


def test_embeddings_are_those_of_one_process_in_the_order_of_the_input(trained):
    found, folder = trained
    assert max(found["embedding"]) < 1e-6
    assert found["equal rows"] == found["node rows"] == 1
    model = GraphLaGraph.load(folder / "graphs")
    assert model.embed(graphs()).values.shape == (50, model.embedding_dim_)


def test_one_process_goes_on_where_two_have_stopped(trained):
    found, folder = trained
    stopped = RunFolder(folder / "for_one").read_history()
    assert 0 < len(stopped) < 6
    history = GraphLaGraph(**OF_GRAPHS).fit(graphs(), run=folder / "for_one").history_
    assert len(history) == 6
    assert history.loss[: len(stopped)] == stopped.loss
    # The first epochs are those of two processes; other masks are drawn from there on.
    by_two = History.from_csv(found["graphs"]["history"][0])
    assert by_two.loss[: len(stopped)] == stopped.loss
    assert by_two.loss != history.loss


def test_two_processes_go_on_where_one_has_stopped(trained, tmp_path):
    found = trained[0]["of one"]
    assert len(set(found["bits"])) == 1
    interrupted_by_one(tmp_path / "again")
    stopped = RunFolder(tmp_path / "again").read_history()
    history = History.from_csv(found["history"][0])
    assert 0 < len(stopped) < len(history) == 6
    assert history.loss[: len(stopped)] == stopped.loss


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "full",
            "2 processes cannot share the steps of batching='full', each of which sees the whole"
            " graph. Use another batching, such as batching='nodes', or one process with several"
            " threads, without torchrun.",
        ),
        (
            "norm",
            "The encoder's encoder.module.norm is torch's BatchNorm1d, whose statistics are of one"
            " process; there are 2. Use graphlatent.nn.norm.BatchNorm in your encoder, or one"
            " process, without torchrun.",
        ),
        (
            "input",
            "Process 1 has read another input than process 0: edges, feature matrix differ. Every"
            " process needs the same files, on every machine.",
        ),
        (
            "method",
            "The method 'alone' cannot be trained by 2 processes together: its class does not say"
            " parallel = True. Train it in one process, without torchrun.",
        ),
    ],
)
def test_what_processes_cannot_share_is_refused_by_all(trained, what, message):
    assert trained[0][f"refused {what}"] == [message, message]


def cluster_source(parts) -> ClusterPieces:
    """Nodes without edges in given parts."""
    none = torch.zeros(0, dtype=torch.int64)
    rows = MatrixRows(torch.zeros(len(parts), 1))
    graph = CSRGraph(torch.zeros(len(parts) + 1, dtype=torch.int64), none, None, rows)
    cpu = torch.device("cpu")
    return ClusterPieces(graph, torch.tensor(parts), parts_per_step=1, prepare=None, device=cpu)


@pytest.mark.parametrize(("other", "differs"), [([0, 0, 1, 1], False), ([0, 1, 0, 1], True)])
def test_processes_that_have_found_other_clusters_are_refused(monkeypatch, other, differs):
    monkeypatch.setattr(sharing, "current", lambda: True)
    found = cluster_source(other).fingerprint()
    monkeypatch.setattr(sharing, "gathered_json", lambda own: [own, own, found])
    message = "Process 2 has cut the graph into other pieces than process 0"
    with pytest.raises(ConfigError, match=message) if differs else nullcontext():
        sharing.agree_on_steps(cluster_source([0, 0, 1, 1]))


# The parts of a plan.


class Pieces:
    """A source that passes over the numbers from 0 to `count`."""

    def __init__(self, count: int) -> None:
        self.count = count

    def plan(self, generator):
        return [torch.tensor([i]) for i in torch.randperm(self.count, generator=generator)]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("count", "size"), [(7, 1), (7, 2), (6, 2), (7, 3), (2, 3)])
def test_a_pass_over_pieces_has_each_of_them(count, size):
    source = Pieces(count)
    plans = [shared_plan(source, generator(), rank=r, size=size) for r in range(size)]
    assert {len(plan) for plan in plans} == {-(-count // size)}
    taken = [int(piece) for step in zip(*plans, strict=True) for piece in step]
    assert taken[:count] == [int(piece) for piece in source.plan(generator())]
    assert set(taken[count:]) <= set(range(count))


def test_steps_that_are_drawn_independently_are_as_many_for_each():
    source = Pieces(5)
    source.independent = True
    plans = [shared_plan(source, generator(), rank=r, size=2) for r in range(2)]
    assert [len(plan) for plan in plans] == [5, 5]
    assert moved_step(3, source, before=1, now=2) == 3


def test_the_graphs_of_a_mini_batch_are_shared():
    batch = torch.empty(0)
    whole = type("Whole", (), {"graph_id": batch, "structure": None, "num_graphs": 11})()
    source = GraphBatches(whole, torch.arange(12), batch_size=4)
    plans = [shared_plan(source, generator(), rank=r, size=3) for r in range(3)]
    steps = [torch.cat(step).tolist() for step in zip(*plans, strict=True)]
    assert steps == [step.tolist() for step in source.plan(generator())]
    # The last mini-batch has three graphs.
    assert [[len(part) for part in plan] for plan in plans] == [[2, 2, 1], [1, 1, 1], [1, 1, 1]]
    assert moved_step(2, source, before=3, now=1) == 2


@pytest.mark.parametrize(
    ("step", "before", "now", "expected"), [(3, 2, 2, 3), (3, 2, 1, 6), (5, 1, 2, 3), (4, 2, 3, 3)]
)
def test_steps_of_a_pass_are_counted_in_those_of_another_number(step, before, now, expected):
    assert moved_step(step, Pieces(12), before=before, now=now) == expected


@pytest.mark.parametrize("number", [0, -1, True, "2", 1.0, None])
def test_a_checkpoint_with_a_wrong_number_of_processes_is_refused(tmp_path, number):
    interrupted_by_one(tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    snapshot = run.load_snapshot()
    position = {**json.loads(snapshot.position), "processes": number}
    run.save_snapshot(type(snapshot)(snapshot.tensors, json.dumps(position)))
    message = f"its number of processes must be an integer of at least 1. Got {number!r}"
    with pytest.raises(RunFolderError) as error:
        GraphLaGraph(**OF_GRAPHS).fit(graphs(), run=run)
    assert message in str(error.value)


def test_a_run_of_one_process_does_not_say_so(tmp_path):
    interrupted_by_one(tmp_path / "run")
    assert "processes" not in json.loads(RunFolder(tmp_path / "run").load_snapshot().position)


def test_a_full_batch_has_one_process():
    batch = type("Whole", (), {"node_id": torch.arange(3)})()
    source = FullBatches(batch, steps_per_epoch=2)
    assert len(shared_plan(source, generator(), rank=0, size=1)) == 2
