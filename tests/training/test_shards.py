"""Two processes with a shard each train one model, which one process finishes in the same way."""

from __future__ import annotations

import json

import numpy as np
import pytest

import torchrun
from graphlatent import NodeLaGraph
from graphlatent.data.store.store import GraphStore
from graphlatent.errors import RunFolderError
from graphlatent.io.history import History
from graphlatent.io.runfolder import RunFolder
from graphlatent.training.sharding import shard_store
from shard_cases import SIZE, make_store

pytest.importorskip("duckdb")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning"),
]
SCRIPT = torchrun.TESTS / "training/shared_shards.py"
TRAINED = ["clusters", "nodes", "neighbors", "paper", "degrees", "on whole"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What two processes have found, and their folder."""
    folder = tmp_path_factory.mktemp("shards")
    kinds = {"columns": "columns", "few": "dense", "wide": "sparse", "none": "none"}
    for name, kind in kinds.items():
        (folder / name).mkdir()
        # Wider than matrices whose products of columns are all computed.
        shard_store(make_store(folder / name, kind, width=2200), 2)
    code, _, err = torchrun.run(2, SCRIPT, folder)
    assert code == 0, err
    return json.loads((folder / "found.json").read_text()), folder


@pytest.mark.parametrize("name", TRAINED)
def test_all_processes_have_the_same_weights_and_history(trained, name):
    found = trained[0][name]
    assert len(found["bits"]) == 2
    assert len(set(found["bits"])) == len(set(found["history"])) == 1
    assert len(History.from_csv(found["history"][0])) == 6


def test_by_default_steps_see_clusters(trained):
    assert trained[0]["auto"] == ["clusters", "clusters"]


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(trained):
    found = trained[0]
    assert found["interrupted"][0].startswith("Stopped after epoch 1 of 6")
    assert found["resumed"] == found["clusters"]


def test_a_run_on_shards_goes_on_with_the_whole_store(trained):
    found, folder = trained
    stopped = RunFolder(folder / "for_one").read_history()
    assert 0 < len(stopped) < 6
    for history in (
        History.from_csv(found["on whole"]["history"][0]),
        NodeLaGraph(**trained_with(folder)).fit(whole(folder), run=folder / "for_one").history_,
    ):
        assert len(history) == 6
        assert history.loss[: len(stopped)] == stopped.loss
        assert history.diagnostics["recovery"][0] == 1


def whole(folder) -> GraphStore:
    return GraphStore.open(folder / "columns" / "store")


def trained_with(folder) -> dict:
    """The settings of the run with clusters."""
    given = RunFolder(folder / "for_one").read_config().settings
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize("case", ["columns", "few", "wide", "gin"])
def test_batch_norm_and_head_are_those_of_all_shards(trained, case):
    found = trained[0][f"finished {case}"]
    assert len(set(found["bits"])) == 1
    assert found["both"]["norms"] < 1e-6
    assert found["both"]["embedding"] < 1e-5
    # One shard alone would be far from it.
    assert found["shard"]["norms"] > 0.05
    assert found["shard"]["embedding"] > 0.05


def test_what_is_estimated_before_training_is_of_all_shards(trained):
    found = trained[0]
    assert found["similarity"] < 1e-5
    for case in ("columns", "few", "wide", "gin"):
        terms = found[f"finished {case}"]["terms"]
        assert terms[0] == terms[1]


def test_the_run_has_no_embeddings_and_embeds_the_whole_store(trained):
    folder = trained[1]
    run = RunFolder(folder / "run_clusters")
    assert run.complete and not run.embeddings_path.exists()
    found = NodeLaGraph.load(run.path).embed(whole(folder))
    assert found.values.shape[0] == SIZE
    assert list(found.ids) == list(whole(folder).ids())
    assert np.isfinite(found.values).all()


def test_one_shard_is_another_input_than_all(trained):
    folder = trained[1]
    shard = GraphStore.open(folder / "columns" / "store" / "shards" / "0")
    settings = trained_with(folder)
    with pytest.raises(RunFolderError, match="run_clusters: edges: other values"):
        NodeLaGraph(**settings).fit(shard, run=folder / "run_clusters")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("full", "is one of 2 shards, and this needs the whole graph. Train with batching="),
        ("read", "is one of 2 shards, and this needs the whole graph."),
        ("embed", "is a folder of shards, on which several processes train. Give the whole"),
    ],
)
def test_what_needs_the_whole_graph_is_refused_by_all(trained, what, message):
    messages = trained[0][f"refused {what}"]
    assert len(messages) == 2
    assert all(message in each for each in messages)
