"""`graphlatent ingest --shards`, and what commands say to a folder of shards."""

from __future__ import annotations

import json
import shutil

import pytest

from commands import fails, run
from graphlatent.io.config_file import read_config
from shard_cases import SIZE, make_store

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::graphlatent.errors.GraphLatentWarning")


@pytest.fixture
def ingest(tmp_path):
    """The command that writes the store in `tmp_path` from its tables."""
    shutil.rmtree(make_store(tmp_path).path)
    nodes = ["--nodes", tmp_path / "nodes.csv", "--label", "group"]
    return ["ingest", tmp_path / "edges.csv", *nodes, "--out", tmp_path / "store"]


def test_ingest_says_what_the_shards_are_and_when_they_are_there(tmp_path, ingest):
    shards = tmp_path / "store" / "shards"
    code, out, err = run(*ingest, "--shards", 2)
    assert code == 0, err
    about = json.loads((shards / "shards.json").read_text())
    lost, total = about["lost_edges"], about["num_distinct_edges"]
    assert f"Wrote 2 shards into {shards}, of 4" in out
    share = f"{lost} of {total} edges ({100 * lost / total:.1f} %) are between them"
    assert f"{share}: training on shards does not see these." in out
    assert f"torchrun --nproc-per-node 2 -m graphlatent train {shards} --out RUN" in out
    code, out, _ = run(*ingest, "--shards", 2)
    assert code == 0
    assert f"{shards} is up to date: 2 shards, of 4" in out
    code, out, _ = run(*ingest, "--shards", 3, "--json")
    told = json.loads(out)
    assert (told["written"], told["shards"]["written"], told["shards"]["count"]) == (False, True, 3)
    assert sum(told["shards"]["nodes"]) == SIZE
    # Without the option nothing is said of shards, and they stay.
    code, out, _ = run(*ingest)
    assert code == 0 and "shards" not in out
    assert (shards / "2").is_dir()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1, "greater than or equal to 2"),
        (
            SIZE + 1,
            f"{SIZE + 1} shards of {SIZE} nodes would leave some without any. Ask for fewer.",
        ),
    ],
)
def test_numbers_that_are_none_of_shards_are_refused(ingest, number, message):
    code, out, err = run(*ingest, "--shards", number)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("command", ["info", "train", "embed"])
def test_a_folder_of_shards_is_refused_by_one_process(tmp_path, ingest, command):
    assert run(*ingest, "--shards", 2)[0] == 0
    shards = tmp_path / "store" / "shards"
    out = [] if command == "info" else ["--out", tmp_path / "new.parquet"]
    first = [tmp_path] if command == "embed" else []
    message = fails(command, *first, shards, *out)
    if command == "embed":
        assert message.startswith(f"{shards} is a folder of shards, on which several processes")
    else:
        assert message.startswith(
            f"{shards} holds shards for 2 processes, and there is 1. Start training on them by:"
            " torchrun --nproc-per-node 2 -m graphlatent train"
        )


def test_one_shard_is_trained_on_as_a_store(tmp_path, ingest):
    assert run(*ingest, "--shards", 2)[0] == 0
    shard, out = tmp_path / "store" / "shards" / "0", tmp_path / "run"
    small = ["--epochs", 1, "--set", "hidden_dim=8", "--batching", "nodes"]
    code, _, err = run("train", shard, "--out", out, *small, "--json")
    assert code == 0, err
    assert (out / "embeddings.parquet").is_file()
    assert read_config(out / "config.toml").settings["batching"] == "nodes"
