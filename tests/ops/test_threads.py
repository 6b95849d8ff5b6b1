"""The number of threads: one for small work, unless the user has chosen; it is restored."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from graphlatent import NodeLaGraph, load_estimator
from graphlatent.explore import projection
from graphlatent.io.runfolder import RunFolder
from graphlatent.ops import threads
from graphlatent.ops.threads import SMALL_WORK, library_threads_for, threads_for
from graphlatent.training.loop import Hooks


def ring(num_nodes):
    one = np.arange(num_nodes)
    other = (one + 1) % num_nodes
    edges = np.array([[*one, *other], [*other, *one]])
    return edges, np.eye(num_nodes, 8, dtype=np.float32)


RING = ring(5)
SMALL = NodeLaGraph(epochs=1, hidden_dim=4)


@pytest.fixture
def two_threads(monkeypatch):
    """A machine with two cores on which nobody has chosen a number of threads."""
    before = torch.get_num_threads()
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_default_numbers", lambda: {2})
    torch.set_num_threads(2)
    yield monkeypatch
    torch.set_num_threads(before)


def used_in_training(estimator, graph=RING) -> set[int]:
    seen = set()
    estimator.fit(graph, hooks=Hooks(on_epoch=lambda _: seen.add(torch.get_num_threads())))
    return seen


def test_small_work_has_one_thread_and_large_work_all(two_threads):
    with threads_for(SMALL_WORK):
        assert torch.get_num_threads() == 1
        with threads_for(1.0):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with threads_for(SMALL_WORK + 1):
        assert torch.get_num_threads() == 2


def test_the_number_is_restored_after_an_error(two_threads):
    with pytest.raises(KeyError), threads_for(1.0):
        raise KeyError
    assert torch.get_num_threads() == 2


def most_library_threads():
    """The most threads that an OpenMP or BLAS library of this process would take."""
    return max(pool["num_threads"] for pool in threadpool_info())


def test_small_work_of_libraries_has_one_thread(two_threads):
    with threadpool_limits(limits=2):
        with library_threads_for(SMALL_WORK):
            assert most_library_threads() == torch.get_num_threads() == 1
        assert most_library_threads() == torch.get_num_threads() == 2
        with library_threads_for(SMALL_WORK + 1):
            assert most_library_threads() == 2
        two_threads.setenv("OMP_NUM_THREADS", "2")
        with library_threads_for(1.0):
            assert most_library_threads() == 2


@pytest.mark.parametrize(("num_rows", "expected"), [(1_500, 1), (5_000, 2)])
def test_a_small_map_is_laid_out_with_one_thread(two_threads, num_rows, expected):
    seen = []

    class Layout:
        def __init__(self, **_):
            pass

        def fit_transform(self, rows):
            seen.append(most_library_threads())
            return rows[:, :2]

    two_threads.setattr(projection, "TSNE", Layout)
    with threadpool_limits(limits=2):
        projection.project(np.random.default_rng(0).random((num_rows, 3)), method="tsne")
    assert seen == [expected]


@pytest.mark.parametrize("name", threads.VARIABLES)
def test_a_number_in_the_environment_is_kept(two_threads, name):
    two_threads.setenv(name, "2")
    with threads_for(1.0):
        assert torch.get_num_threads() == 2
    assert used_in_training(SMALL) == {2}


def test_a_number_that_is_not_the_default_is_kept(two_threads):
    torch.set_num_threads(3)
    with threads_for(1.0):
        assert torch.get_num_threads() == 3
    assert used_in_training(SMALL) == {3}


def test_a_fresh_process_has_chosen_nothing():
    """What torch takes by default is recognised as such, on this machine."""
    code = (
        "import torch; from graphlatent.ops.threads import chosen_by_user as c; print(c());"
        " torch.set_num_threads(7); print(c())"
    )
    environment = {k: v for k, v in os.environ.items() if k not in threads.VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["False", "True"]


def test_hyper_threads_count_once(monkeypatch, tmp_path):
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings)
    monkeypatch.setattr(threads, "_TOPOLOGY", tmp_path)
    assert threads._cores({0, 1, 2, 3}) == 2
    assert threads._cores({0, 2}) == 1
    # Nothing is known of these.
    assert threads._cores({4, 5}) == 2


def test_training_of_a_small_graph_has_one_thread_which_the_run_records(two_threads, tmp_path):
    run = RunFolder(tmp_path / "run")
    seen = set()
    hooks = Hooks(on_epoch=lambda _: seen.add(torch.get_num_threads()))
    model = NodeLaGraph(epochs=1, hidden_dim=4).fit(RING, run=run, hooks=hooks)
    assert seen == {1} and torch.get_num_threads() == 2
    assert run.read_json("versions.json")["threads"] == 1
    saved = RunFolder(model.save(tmp_path / "saved"))
    assert saved.read_json("versions.json")["threads"] == model.num_threads_ == 1
    # Embedding has one thread too, so that the bits are those of training.
    same = load_estimator(tmp_path / "saved").transform(RING)
    assert (same == model.transform(RING)).all() and torch.get_num_threads() == 2


def test_a_large_step_has_all_threads(two_threads):
    two_threads.setattr(threads, "SMALL_WORK", 10.0)
    assert used_in_training(SMALL) == {2}


def test_snapshots_leave_the_number_of_the_caller(two_threads):
    numbers = [torch.get_num_threads() for _ in SMALL.snapshots(RING, epochs=[0, 1])]
    assert numbers == [2, 2]


def test_a_custom_number_of_steps_counts_the_nodes_of_a_step(two_threads):
    """A large graph in small parts is small work."""
    graph = ring(300)
    two_threads.setattr(threads, "SMALL_WORK", 4.0 * 60 * (4 + 2 + 8))
    assert used_in_training(NodeLaGraph(epochs=1, hidden_dim=4), graph) == {2}
    parts = NodeLaGraph(epochs=1, hidden_dim=4, batching="nodes", nodes_per_step=60)
    assert used_in_training(parts, graph) == {1}
