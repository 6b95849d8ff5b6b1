"""The run folder: damaged files, resuming, configuration files, killed processes."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cases import make_settings, random_graph
from graphlatent import GraphLaGraph, NodeLaGraph, RunFolder
from graphlatent.config import to_mapping
from graphlatent.errors import ConfigError, OutputError, RunFolderError
from graphlatent.io.atomic import write_atomically
from graphlatent.io.config_file import RunConfig, read_config, write_config
from graphlatent.training.loop import Hooks

SIZES = [5, 4, 3, 6, 2, 7, 4, 3, 5, 6]


@pytest.fixture
def saved(tmp_path) -> Path:
    fitted = NodeLaGraph(hidden_dim=4, epochs=2, device="cpu").fit(random_graph([9]))
    return fitted.save(tmp_path / "model")


class TestDamagedFolder:
    def test_truncated_weights(self, saved):
        path = saved / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(
            RunFolderError, match=r"model.safetensors is not as it was saved: its checksum differs"
        ):
            NodeLaGraph.load(saved)

    def test_changed_weights(self, saved):
        path = saved / "model.safetensors"
        tensors = load_file(path)
        tensors["encoder.convs.0.bias"] += 1
        save_file(tensors, path)
        with pytest.raises(RunFolderError, match="its checksum differs"):
            NodeLaGraph.load(saved)

    def test_missing_weights_with_a_valid_checksum(self, saved):
        path = saved / "model.safetensors"
        tensors = load_file(path)
        del tensors["encoder.convs.0.bias"]
        save_file(tensors, path)
        self.fix_checksum(saved, "model.safetensors")
        with pytest.raises(
            RunFolderError, match=r"do not fit its config.toml.*Missing key.*encoder.convs.0.bias"
        ):
            NodeLaGraph.load(saved)

    def test_invalid_weights_file_with_a_valid_checksum(self, saved):
        (saved / "model.safetensors").write_bytes(b"not a model at all")
        self.fix_checksum(saved, "model.safetensors")
        with pytest.raises(RunFolderError, match=r"model.safetensors is truncated or damaged"):
            NodeLaGraph.load(saved)

    @staticmethod
    def fix_checksum(folder: Path, name: str) -> None:
        import hashlib

        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))

    def test_another_format_version(self, saved):
        manifest = json.loads((saved / "manifest.json").read_text())
        changed = {**manifest, "format": 99, "graphlatent": "7.0"}
        (saved / "manifest.json").write_text(json.dumps(changed))
        message = r"format 99, by graphlatent 7.0; this is graphlatent .* which reads format 1"
        with pytest.raises(RunFolderError, match=message):
            NodeLaGraph.load(saved)

    @pytest.mark.parametrize("name", ["model.safetensors", "features.json"])
    def test_missing_file(self, saved, name):
        (saved / name).unlink()
        with pytest.raises(RunFolderError, match=f"lacks {name}"):
            NodeLaGraph.load(saved)

    def test_unfinished_run(self, saved):
        (saved / "manifest.json").unlink()
        with pytest.raises(
            RunFolderError, match=r"holds an unfinished run.*Go on with it: 'graphlatent train"
        ):
            NodeLaGraph.load(saved)

    def test_not_a_run_folder(self, tmp_path):
        with pytest.raises(
            RunFolderError, match=r"is not a run folder of graphlatent: it has no config.toml"
        ):
            NodeLaGraph.load(tmp_path)

    @pytest.mark.parametrize("text", ["{", "[1]", '{"format": 1}'])
    def test_damaged_manifest(self, saved, text):
        (saved / "manifest.json").write_text(text)
        with pytest.raises(RunFolderError, match=r"manifest.json is damaged|checksum differs"):
            NodeLaGraph.load(saved)

    def test_changed_settings(self, saved):
        path = saved / "config.toml"
        path.write_text(path.read_text().replace("hidden_dim = 4", "hidden_dim = 5"))
        with pytest.raises(RunFolderError, match=r"config.toml is not as it was saved"):
            NodeLaGraph.load(saved)

    def test_damaged_checkpoint(self, tmp_path):
        run = RunFolder(tmp_path / "run")
        graph = random_graph(SIZES)
        estimator = GraphLaGraph(hidden_dim=4, epochs=3, batch_size=4, device="cpu")
        estimator.fit(graph, run=run, hooks=Hooks(save_due=lambda: True, save=run.save_snapshot))
        (run.path / "manifest.json").unlink()
        run.state_path.write_bytes(run.state_path.read_bytes()[:100])
        with pytest.raises(RunFolderError, match=r"last.safetensors is truncated or damaged"):
            estimator.fit(graph, run=run)


class TestResume:
    def start(self, tmp_path) -> RunFolder:
        run = RunFolder(tmp_path / "run")
        steps = iter([False] * 4 + [True] * 100)
        hooks = Hooks(save=run.save_snapshot, stop_requested=lambda: next(steps))
        with pytest.raises(Exception, match="Stopped after epoch 1 of 5"):
            GraphLaGraph(hidden_dim=4, epochs=5, batch_size=4, device="cpu").fit(
                random_graph(SIZES), run=run, hooks=hooks
            )
        assert run.started and not run.complete
        return run

    def test_resumed_equals_uninterrupted(self, tmp_path):
        run = self.start(tmp_path)
        whole, other = (
            GraphLaGraph(hidden_dim=4, epochs=5, batch_size=4, device="cpu") for _ in range(2)
        )
        whole.fit(random_graph(SIZES), run=RunFolder(tmp_path / "whole"))
        other.fit(random_graph(SIZES), run=run)
        for name in ("model.safetensors", "history.csv", "config.toml", "features.json"):
            assert (run.path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name

    def test_changed_settings_are_rejected_with_the_difference(self, tmp_path):
        run = self.start(tmp_path)
        changed = GraphLaGraph(hidden_dim=4, epochs=9, batch_size=4, alpha=1.0, device="cpu")
        with pytest.raises(RunFolderError) as caught:
            changed.fit(random_graph(SIZES), run=run)
        text = str(caught.value)
        assert "epochs: 5 in the run, 9 now" in text and "alpha: 0.0 in the run, 1.0 now" in text
        assert "lr" not in text

    def test_another_input_is_rejected(self, tmp_path):
        run = self.start(tmp_path)
        with pytest.raises(RunFolderError, match=r"edges: .* in the run, .* now; "):
            GraphLaGraph(hidden_dim=4, epochs=5, batch_size=4, device="cpu").fit(
                random_graph(SIZES, seed=9), run=run
            )

    def test_another_level_is_rejected(self, tmp_path):
        run = self.start(tmp_path)
        with pytest.raises(RunFolderError, match="level: graph in the run, node now"):
            NodeLaGraph(device="cpu").fit(random_graph(SIZES), run=run)

    def test_versions_are_recorded(self, tmp_path):
        run = self.start(tmp_path)
        about = run.read_json("versions.json")
        assert about["packages"]["torch"] == torch.__version__
        assert about["random_state"] == 0
        assert about["input"] == random_graph(SIZES).fingerprints()


class TestToml:
    def test_round_trip(self, tmp_path):
        values = {"epochs": 3, "lr": 1e-05, "encoder": 'a "quoted" name', "progress": False}
        config = RunConfig(values, "node", "bgrl", {"source": "payer", "features": ["a", "b"]})
        write_config(tmp_path / "c.toml", config)
        assert read_config(tmp_path / "c.toml") == config

    def test_settings_at_the_top(self, tmp_path):
        (tmp_path / "c.toml").write_text("epochs = 3\n")
        assert read_config(tmp_path / "c.toml") == RunConfig({"epochs": 3}, None, "lagraph")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("epochs = ", "is not valid TOML"),
            ("a = 1\n[settings]\nb = 2", "either all in a table"),
            (None, "Cannot read"),
        ],
    )
    def test_invalid_files_are_rejected(self, tmp_path, text, message):
        if text is not None:
            (tmp_path / "c.toml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_config(tmp_path / "c.toml")


class TestAtomic:
    def test_a_failed_write_keeps_the_old_file_and_no_temporary_one(self, tmp_path):
        path = tmp_path / "file"
        path.write_text("old")

        def fail(temporary: Path) -> None:
            temporary.write_text("half")
            raise OSError(28, "No space left on device")

        with pytest.raises(OutputError, match=r"Cannot write .*file: No space left on device"):
            write_atomically(path, fail)
        assert path.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["file"]


TRAIN = """
import sys, numpy as np
from graphlatent import NodeLaGraph, GraphLaGraph, RunFolder
from graphlatent.training.loop import Hooks
from cases import random_graph
level, folder = sys.argv[1:]
run = RunFolder(folder)
hooks = Hooks(save_due=lambda: True, save=run.save_snapshot,
    on_epoch=lambda p: print(p.epoch, flush=True))
if level == "node":
    values = dict(batching="nodes", nodes_per_step=60, steps_per_epoch=3, schedule="cosine")
    estimator = NodeLaGraph(hidden_dim=16, epochs=20, device="cpu", **values)
    estimator.fit(random_graph([120], density=0.05), run=run, hooks=hooks)
else:
    estimator = GraphLaGraph(hidden_dim=8, epochs=20, batch_size=8, weight_decay=0.01, device="cpu")
    estimator.fit(random_graph([5, 4, 3, 6, 2, 7] * 6), run=run, hooks=hooks)
"""


@pytest.mark.slow
@pytest.mark.parametrize("level", ["node", "graph"])
def test_a_killed_and_resumed_run_is_bit_identical(level, tmp_path):
    """Processes are killed with SIGKILL at several points and resumed until the run is complete."""
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}

    def start(folder: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", TRAIN, level, str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    whole = start(tmp_path / "whole")
    assert whole.communicate()[0].split()[-1] == "20" and whole.returncode == 0
    killed, rng = tmp_path / "killed", np.random.default_rng(0)
    # Kill the process shortly after it has reported each of these epochs.
    for epoch in (1, 7, 14):
        process = start(killed)
        assert process.stdout is not None
        while int(process.stdout.readline() or 20) < epoch:
            pass
        time.sleep(float(rng.uniform(0, 0.05)))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        if epoch == 7:
            # A kill during a write leaves such a file.
            (killed / "state" / ".last.safetensors.1.tmp").write_bytes(b"half a file")
    last = start(killed)
    first_epoch = int(last.communicate()[0].split()[0])
    assert last.returncode == 0 and first_epoch > 14
    for name in ("model.safetensors", "history.csv"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert not list((killed / "state").glob(".*"))


def test_check_same_ignores_the_progress_bar(tmp_path):
    run = RunFolder(tmp_path)
    chosen = make_settings("node", progress=True)
    config = RunConfig(to_mapping(make_settings("node")), "node")
    run.begin(config, features={}, about={"input": {"edges": "x"}})
    same = RunConfig(to_mapping(chosen), "node")
    assert run.check_same(same, fingerprints={"edges": "x"}, features={}) is None
    other = dataclasses.replace(same, method="bgrl")
    with pytest.raises(RunFolderError, match="method: lagraph in the run, bgrl now"):
        run.check_same(other, fingerprints={"edges": "x"}, features={})
    shutil.rmtree(tmp_path)
