"""Two machines train one model: each has its own shard, or both have the whole store."""

from __future__ import annotations

import json
import shutil

import pytest

import hosts
import torchrun
from graphlatent import NodeLaGraph
from graphlatent.training.sharding import shard_store
from processes_data import ON_HOSTS, bits
from shard_cases import SIZE, make_store

pytest.importorskip("duckdb")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning"),
]
SCRIPT = torchrun.TESTS / "training/on_two_hosts.py"


@pytest.fixture(scope="module")
def connected(tmp_path_factory):
    """Two hosts with their shards and the whole store."""
    reason = hosts.refusal()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    store = make_store(folder)
    shard_store(store, 2)
    with hosts.two_hosts(folder) as both:
        for number, disk in enumerate(both.disks):
            here = disk / "shards"
            here.mkdir()
            shutil.copyfile(store.path / "shards" / "shards.json", here / "shards.json")
            shutil.copytree(store.path / "shards" / str(number), here / str(number))
            shutil.copytree(store.path, disk / "store", ignore=shutil.ignore_patterns("shards"))
        shutil.rmtree(store.path)
        yield both


@pytest.fixture(scope="module")
def found(connected):
    """What the processes of both hosts have written."""
    for code, _, err in connected.run(SCRIPT, connected.disk):
        assert code == 0, err
    return [json.loads((disk / "found.json").read_text()) for disk in connected.disks]


@pytest.fixture(scope="module")
def command(connected):
    """The outcome of `graphlatent train` on the shards of both hosts."""
    given = [f"{name}={value}" for name, value in ON_HOSTS.items()]
    settings = [word for each in given for word in ("--set", each)]
    shards, run = connected.disk / "shards", connected.disk / "run"
    train = ["-m", "graphlatent", "train", shards, "--out", run]
    return connected.run(*train, *settings, "--timeout", 120)


def test_each_host_has_only_its_own_shard(found):
    assert sorted(each["rank"] for each in found) == [0, 1]
    assert [each["size"] for each in found] == [2, 2]
    assert [each["disk"] for each in found] == [["shards", "store"]] * 2
    assert [each["shards"] for each in found] == [["0", "shards.json"], ["1", "shards.json"]]


@pytest.mark.parametrize("data", ["shards", "store"])
def test_the_model_is_equal_on_both_hosts(found, data):
    assert found[0][f"of {data}"] == found[1][f"of {data}"]


def test_shards_and_the_whole_store_give_other_models(found):
    assert found[0]["of shards"] != found[0]["of store"]


def test_train_writes_the_run_on_the_first_host(connected, found, command):
    assert [code for code, _, _ in command] == [0, 0], command
    (first,) = [disk for disk in connected.disks if (disk / "run").exists()]
    assert bits(NodeLaGraph.load(first / "run")) == found[0]["of shards"]
    results = json.loads((first / "run" / "results.json").read_text())
    assert (results["input"]["nodes"], results["input"]["shards"]) == (SIZE, 2)
    assert results["embeddings"] is None


def test_one_process_speaks_for_all(connected, found, command):
    said = [out + err for _, out, err in command]
    for words in (
        "are between shards, and training does not see them",
        "Trained 3 epochs",
        "so that no embeddings were written",
    ):
        assert sum(text.count(words) for text in said) == 1
