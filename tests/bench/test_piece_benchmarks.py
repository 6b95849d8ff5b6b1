"""The benchmarks of pieces run, on small graphs, and count what they say they count."""

from __future__ import annotations

import importlib
import itertools
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from cases import generator, random_graph
from graphlatent.data.synthetic import latent_graph

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    if not FOLDER.is_dir():
        pytest.skip("there are no benchmarks beside the source")
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


@pytest.mark.parametrize("preset", ["paper", "plus"])
@pytest.mark.parametrize("way", ["clusters", "neighbors", "nodes", "full"])
def test_memory_is_of_the_first_steps(load, monkeypatch, tmp_path, way, preset):
    pytest.importorskip("pymetis")
    module = load("pieces")
    made = latent_graph(num_nodes=120, num_classes=3, feature_dim=9)
    monkeypatch.setitem(module.GRAPHS, "Flickr-shape", made)
    case = {"shape": "Flickr-shape", "preset": preset, "way": way, "size": 30}
    case["size"] = None if way == "full" else 30
    if way == "clusters":
        module.metis_case(case, tmp_path)
        assert len(list(tmp_path.iterdir())) == 1
    found = module.memory_case(case, tmp_path)
    assert found["steps"] == module.MEMORY_STEPS


@pytest.mark.parametrize("preset", ["paper", "plus"])
def test_every_way_takes_about_as_many_steps(load, preset):
    module = load("pieces")
    for way, size, epochs in (("nodes", 100, 40), ("neighbors", 100, 4), ("clusters", 500, 20)):
        case = {"shape": "Reddit-shape", "preset": preset, "way": way, "size": size}
        settings = module.settings_of(case, num_nodes=1000, steps=40)
        assert (settings.batching, settings.nodes_per_step) == (way, size)
        assert settings.epochs == epochs and settings.preset == preset


def test_training_beside_pyg(load, monkeypatch):
    module = load("pieces_pyg")
    for name, value in {"FEATURES": 4, "HIDDEN": 6, "SEEDS": 8, "NEIGHBORS": 2}.items():
        monkeypatch.setattr(module, name, value)
    graph = random_graph([40], density=0.2)
    for what, workers in itertools.product(("sampling", "training"), (0, 1)):
        times = module.our_times(graph.x, graph.edge_index, what=what, workers=workers, steps=7)
        assert len(times) == 8 and times == sorted(times)
    # One batch as of NeighborLoader, again and again: its loss falls.
    torch.manual_seed(0)
    batch = Data(x=torch.rand(40, 4, generator=generator(0)), edge_index=graph.edge_index)
    batch.batch_size = 8
    losses = list(module.pyg_steps(itertools.repeat(batch, 40)))
    assert min(losses[30:]) < min(losses[:3])


def test_throughput_counts_the_nodes_of_epochs(load, monkeypatch, tmp_path):
    module = load("pieces_processes")
    monkeypatch.setattr(module, "HIDDEN", 6)
    graph = random_graph([50], density=0.2)
    np.save(tmp_path / "x.npy", graph.x.numpy())
    np.save(tmp_path / "edge_index.npy", graph.edge_index.numpy())
    clock = itertools.count(0, 5)
    # The module's own name: others go on with the real clock.
    now = SimpleNamespace(perf_counter=lambda: float(next(clock)), process_time=time.process_time)
    monkeypatch.setattr(module, "time", now)
    found = module.train(tmp_path, preset="paper", batching="neighbors", epochs=3, workers=1)
    # Three epochs of 50 nodes, of 5 seconds each by this clock.
    assert found["nodes_per_second"] == 10.0 and len(found["peak_bytes"]) == 1
