"""Resuming by command: what is missing or damaged, other conditions, two commands at a time."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from cases import partitioned
from commands import fails, run
from graphlatent import NodeLaGraph, RunFolder
from graphlatent.data.communities import edge_prediction
from graphlatent.errors import RunFolderError, TrainingInterrupted
from graphlatent.training import encoding
from graphlatent.training.loop import Hooks
from training_commands import train

PIECES = ("embeddings.parquet", "results.json")


def content(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def unfinished(tables: Path, *more: object) -> Path:
    """A run folder with a snapshot after the last epoch, and without a manifest."""
    code, _, err = train(tables, "--save-every", 0, *more)
    assert code == 0, err
    (tables / "run" / "manifest.json").unlink()
    return tables / "run"


def flip(path: Path, position: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize("missing", [PIECES[:1], PIECES[1:], PIECES])
def test_a_complete_run_gets_what_it_lacks(tables, missing):
    assert train(tables)[0] == 0
    before = content(tables / "run")
    for name in missing:
        (tables / "run" / name).unlink()
    code, out, err = train(tables, "--resume")
    assert code == 0, err
    assert "is trained; what it lacks is written" in err and "40 embeddings" in out
    after = content(tables / "run")
    results = [json.loads(each.pop("results.json")) for each in (before, after)]
    assert before == after
    for each in results:
        del each["seconds"]
    assert results[0] == results[1]
    assert "is complete; there is nothing to resume" in fails(*command(tables), "--resume")


def command(tables: Path) -> list[object]:
    edges, nodes = tables / "edges.csv", tables / "nodes.csv"
    return ["train", edges, "--nodes", nodes, "--label", "kind", "--out", tables / "run"]


def test_a_complete_run_does_not_take_another_input(tables):
    assert train(tables)[0] == 0
    (tables / "run" / "embeddings.parquet").unlink()
    text = (tables / "edges.csv").read_text()
    (tables / "edges.csv").write_text(text.rstrip().rsplit("\n", 1)[0] + "\n")
    assert "edges: numbers [2, " in fails(*command(tables), "--resume")
    assert not (tables / "run" / "embeddings.parquet").exists()


@pytest.mark.parametrize("name", ["versions.json", "features.json"])
def test_a_file_that_is_missing_beside_a_snapshot(tables, name):
    folder = unfinished(tables)
    (folder / name).unlink()
    before = content(folder)
    message = fails(*command(tables), "--resume")
    assert f"lacks {name}, so that its run cannot be continued. Copy the whole folder" in message
    assert content(folder) == before


def test_changed_or_damaged_features_are_refused(tables):
    """The model would be loaded with an encoding that it was not trained with."""
    folder = unfinished(tables)
    values = json.loads((folder / "features.json").read_text())
    values["columns"][0]["mean"] += 1
    for text, told in (
        (json.dumps(values), "Cannot resume {}: encoding of column "),
        ('{"kind": 7}', "{}/features.json is damaged: "),
        ('{"kind', "{}/features.json is damaged: "),
    ):
        (folder / "features.json").write_text(text)
        before = content(folder)
        assert told.format(folder) in fails(*command(tables), "--resume")
        assert content(folder) == before


def test_a_number_that_float32_rounds_to_the_same_is_another_input(tables):
    folder = unfinished(tables)
    nodes = pd.read_csv(tables / "nodes.csv").astype({"age": float})
    nodes.loc[0, "age"] += 1e-12
    nodes.to_csv(tables / "nodes.csv", index=False)
    before = content(folder)
    assert "column 'age': other values. Use the same input" in fails(*command(tables), "--resume")
    assert content(folder) == before


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("decoder_layers = 1" + "0" * 30, "setting 'decoder_layers' must be"),
        ("lr = inf", "The setting 'lr' must be"),
        ("lr = 2026-01-01", "The setting 'lr' must be"),
    ],
)
def test_settings_in_the_folder_that_are_not_allowed(tables, line, told):
    path = unfinished(tables) / "config.toml"
    name, _, value = line.partition(" = ")
    path.write_text(re.sub(rf"^{name} = .*$", line, path.read_text(), flags=re.MULTILINE))
    assert told in fails(*command(tables), "--resume")
    code, out, err = run("info", path.parent, "--json")
    assert code == 0, err
    shown = json.loads(out)["settings"][name]
    assert str(shown) == value


def test_a_flipped_bit_in_the_checkpoint(tables):
    folder = unfinished(tables)
    flip(folder / "state" / "last.safetensors", -1000)
    message = fails(*command(tables), "--resume")
    assert "last.safetensors is not as it was saved: its checksum differs" in message


def test_a_flipped_bit_in_the_embeddings(tables):
    assert train(tables)[0] == 0
    flip(tables / "run" / "embeddings.parquet", 300)
    arguments = ("--labels", tables / "nodes.csv", "--label", "kind")
    for source in (tables / "run", tables / "run" / "embeddings.parquet"):
        message = fails("probe", source, *arguments)
        assert "embeddings.parquet is not as it was saved: its checksum differs" in message


def test_embeddings_of_another_run_are_not_taken_for_those_of_this_one(tables):
    assert train(tables, "--seed", 1)[0] == 0
    other = (tables / "run" / "embeddings.parquet").read_bytes()
    assert train(tables, "--seed", 2, "--overwrite")[0] == 0
    path = tables / "run" / "embeddings.parquet"
    own = path.read_bytes()
    path.write_bytes(other)
    labels = ("--labels", tables / "nodes.csv", "--label", "kind")
    for arguments in (("probe", tables / "run", *labels), ("map", tables / "run", "--overwrite")):
        assert "embeddings.parquet is of another run, or another file" in fails(*arguments)
    # By itself it is a file like any other.
    assert run("cluster", path, "--k", 2, "--out", tables / "c.csv")[0] == 0
    path.write_bytes(own)
    assert run("cluster", tables / "run", "--k", 2, "--out", tables / "d.csv")[0] == 0


def test_another_number_of_threads_is_noted(tables):
    folder = unfinished(tables)
    about = json.loads((folder / "versions.json").read_text())
    code, _, err = train(tables, "--resume")
    assert code == 0 and "last bits" not in err
    (folder / "manifest.json").unlink()
    about["packages"]["torch"] = "2.6.0"
    (folder / "versions.json").write_text(json.dumps({**about, "threads": about["threads"] + 7}))
    code, _, err = train(tables, "--resume")
    assert code == 0
    note = " ".join(err.split())
    assert "The resumed run will differ in its last bits from an uninterrupted one" in note
    assert "version of torch: 2.6.0 in the run" in note
    assert f"number of threads: {about['threads'] + 7} in the run, {about['threads']} now" in note
    # An earlier version did not record it.
    (folder / "manifest.json").unlink()
    del about["threads"], about["packages"]
    (folder / "versions.json").write_text(json.dumps(about))
    code, _, err = train(tables, "--resume")
    assert code == 0 and "last bits" not in err


@pytest.mark.parametrize("featured", [False, True])
def test_a_decision_about_coordinates_is_that_of_the_run(tmp_path, monkeypatch, featured):
    """A measurement decides whether they are used; elsewhere it may decide otherwise."""
    graph = partitioned(0.8)
    if featured:
        x = torch.randn(graph.num_nodes, 5, generator=torch.Generator().manual_seed(0))
        graph = dataclasses.replace(graph, x=x)
    estimator = NodeLaGraph(
        hidden_dim=8, epochs=3, device="cpu", structure_dim=12, structure="auto", progress=False
    )
    estimator.fit(graph, run=tmp_path / "whole")
    run, stops = RunFolder(tmp_path / "run"), iter([False, True])
    hooks = Hooks(save=run.save_snapshot, stop_requested=lambda: next(stops))
    with pytest.raises(TrainingInterrupted):
        estimator.fit(graph, run=run, hooks=hooks)
    assert json.loads((run.path / "features.json").read_text())["structure_dim"] == 12
    real = edge_prediction(graph)
    monkeypatch.setattr(encoding, "edge_prediction", lambda _: Flipped(real))
    estimator.fit(graph, run=run)
    for name in ("model.safetensors", "features.json"):
        assert (run.path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    estimator.fit(graph, run=tmp_path / "new")
    assert "structure_dim" not in json.loads((tmp_path / "new" / "features.json").read_text())


class Flipped:
    """The opposite of a prediction of edges."""

    def __init__(self, real: object) -> None:
        self.succeeds, self.fails = not real.succeeds, not real.fails


def test_reading_writes_nothing(tables):
    folder = unfinished(tables)
    (folder / "state" / ".last.safetensors.77.tmp").write_bytes(b"of a running process")
    before, time_of_change = content(folder), folder.stat().st_mtime_ns
    assert run("info", folder)[0] == 0
    assert content(folder) == before and folder.stat().st_mtime_ns == time_of_change


@pytest.mark.slow
class TestTwoProcesses:
    def start(self, tables: Path, *more: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "graphlatent", "train", str(tables / "edges.csv"), "--out"]
        words += [str(tables / "run"), "--save-every", "0", "--set", "device=cpu", "--quiet"]
        words += ["--set", "hidden_dim=64", "--set", "epochs=400", *more]
        return subprocess.Popen(words, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE)

    def test_a_running_command_is_left_alone(self, tables):
        """`info` does not delete its temporary files, and no other command writes beside it."""
        process = self.start(tables)
        state = tables / "run" / "state" / "last.safetensors"
        deadline = time.monotonic() + 60
        while not state.exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        # So that it cannot end meanwhile.
        process.send_signal(signal.SIGSTOP)
        for more in ("--overwrite", "--resume"):
            message = fails("train", tables / "edges.csv", "--out", tables / "run", more)
            assert f"is being written by process {process.pid} on " in message
        process.send_signal(signal.SIGCONT)
        while process.poll() is None:
            code, _, err = run("info", tables / "run")
            assert code == 0, err
        _, err = process.communicate()
        assert process.returncode == 0, err
        assert RunFolder(tables / "run").complete
        assert not [name for name in os.listdir(tables / "run") if name.startswith(".")]


def test_an_unfinished_run_is_told_from_a_finished_one(tables):
    folder = unfinished(tables)
    state = f"{folder} holds an unfinished run, after 3 of 3 epochs. Go on with it: 'graphlatent"
    state += f" train ... --out {folder} --resume'."
    message = train(tables)[2]
    assert state in message and "by --overwrite" in message
    (folder / "embeddings.parquet").unlink()
    assert fails("map", folder, "--color", "age") == state
    # Damaged, it is still known to be unfinished.
    (folder / "state" / "last.safetensors").write_bytes(b"no state")
    assert "holds an unfinished run. Go on" in train(tables)[2]
    assert train(tables, "--overwrite")[0] == 0


def test_a_forgotten_node_table_is_named(tables):
    folder = unfinished(tables)
    edges = ("train", tables / "edges.csv", "--out", folder, "--resume")
    message = fails(*edges)
    started = f"Cannot resume {folder}: it was started with the node table {tables / 'nodes.csv'}"
    assert message.startswith(f"{started} (--nodes); ")
    assert "column 'age': numbers [40] in the run, none now" in message
    # A run of an earlier version does not say where its input was.
    about = json.loads((folder / "versions.json").read_text())
    assert about.pop("place")["node_table"] == str(tables / "nodes.csv")
    (folder / "versions.json").write_text(json.dumps(about))
    assert "column 'age': numbers [40] in the run, none now" in fails(*edges)
    assert train(tables, "--resume")[0] == 0


def test_another_input_is_refused_before_its_features_are_encoded(tmp_path):
    """Coordinates in an embedding beside features: the encoding fits no graph without them."""
    x = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
    graph = dataclasses.replace(partitioned(0.8), x=x)
    run = RunFolder(tmp_path / "run")
    model = NodeLaGraph(epochs=3, hidden_dim=8, device="cpu", structure_dim=12, progress=False)
    steps = iter([False, True])
    hooks = Hooks(save=run.save_snapshot, stop_requested=lambda: next(steps))
    with pytest.raises(TrainingInterrupted):
        model.fit(graph, run=run, hooks=hooks)
    features = json.loads((run.path / "features.json").read_text())
    assert features["coordinates_in"] == "embedding" and features["structure_dim"]
    with pytest.raises(RunFolderError, match=r"Cannot resume .*feature matrix: .* none now"):
        model.fit(dataclasses.replace(graph, x=None), run=run)
