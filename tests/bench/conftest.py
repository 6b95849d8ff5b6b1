"""Stand-ins of the data sets on disk, written and read once for all tests of the bench."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphlatent.bench import data as data_module
from graphlatent.bench import probing, runner
from graphlatent.bench.data import DatasetBundle, load_bundle
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.runner import Event, run_cells
from graphlatent.data.splits import random_splits
from graphlatent.methods.lagraph.settings import GraphLaGraphSettings, NodeLaGraphSettings
from graphlatent.probes.svm import outer_fold_splits
from one_by_one import FOLDS, RBF_C
from standins import tiny, write_flickr, write_mutag, write_photo, write_ppi, write_ppi_small

NODE, GRAPH = "table2/Photo", "table1/MUTAG"
INDUCTIVE = ("table2/Flickr", "table2/PPI", "table2/PPI-small")


OURS = {
    "node": {"hidden_dim": 5, "epochs": 12, "lr": 0.02},
    "graph": {"hidden_dim": 5, "epochs": 4, "lr": 0.02},
}


@pytest.fixture(scope="module")
def small_defaults() -> Iterator[None]:
    """Our defaults as they are train a wide encoder for long: smaller ones stand for them."""
    made = {
        "node": lambda: NodeLaGraphSettings(**OURS["node"]),
        "graph": lambda: GraphLaGraphSettings(**OURS["graph"]),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "default_settings", lambda self: made[self.level]())
        yield


@pytest.fixture(scope="module")
def small_probes() -> Iterator[None]:
    """Fewer folds and settings than there are, for probes of graphs and their equals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_module, "outer_fold_splits", partial(outer_fold_splits, num_folds=FOLDS))
        patch.setattr(probing, "RBF_C", RBF_C)
        yield


@pytest.fixture(scope="session")
def standin_data(tmp_path_factory) -> Path:
    """A data root with all stand-ins; not to be changed."""
    folder = tmp_path_factory.mktemp("standins")
    for write in (write_photo, write_mutag, write_flickr, write_ppi, write_ppi_small):
        write(folder)
    return folder


@pytest.fixture(scope="session")
def bundles(standin_data) -> dict[str, DatasetBundle]:
    """By cell what is measured on; of the random splits of nodes the first five."""
    found = {name: load_bundle(tiny(name), standin_data) for name in (NODE, GRAPH, *INDUCTIVE)}
    return {**found, NODE: dataclasses.replace(found[NODE], splits=found[NODE].splits[:5])}


@pytest.fixture
def run(standin_data, tmp_path, monkeypatch, small_probes):
    """A function: recipes, and what differs from seed 0 on a CPU -> the events. Three splits of
    nodes are enough.
    """
    monkeypatch.setattr(data_module, "random_splits", partial(random_splits, num_splits=3))

    def run(*recipes: Recipe, **options: Any) -> list[Event]:
        usual = {"seeds": [0], "ledger": tmp_path, "data": standin_data, "device": "cpu"}
        return run_cells(recipes, **{**usual, **options})

    return run


@pytest.fixture
def loaded(monkeypatch) -> list[str]:
    """The recipes that data was read for."""
    names: list[str] = []

    def load(recipe, root):
        names.append(recipe.name)
        return load_bundle(recipe, root)

    monkeypatch.setattr(runner, "load_bundle", load)
    return names
