"""docs/adding_a_method.md, followed literally: its code becomes a module, and everything works."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from cases import random_graph
from commands import run
from graphlatent.errors import TrainingInterrupted
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods import registry
from graphlatent.training.loop import Hooks
from standins import write_photo

PAGE = Path(__file__).parents[1] / "docs" / "adding_a_method.md"
TOML = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture
def autoencoder(tmp_path, monkeypatch):
    """The module that the page defines, registered while the test runs."""
    (tmp_path / "autoencoder.py").write_text(PYTHON[0])
    monkeypatch.syspath_prepend(tmp_path)
    # So that all methods are in the copy.
    registry.method_names("node")
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    sys.modules.pop("autoencoder", None)
    yield importlib.import_module("autoencoder")
    sys.modules.pop("autoencoder", None)


def test_what_works_now(autoencoder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[1], "page", "exec"), dict(vars(autoencoder)))
    assert "['reconstruction', 'sparsity']" in capsys.readouterr().out
    assert "epoch,loss,reconstruction,sparsity,lr" in Path("run/history.csv").read_text()


def test_resumed_bit_for_bit(autoencoder, tmp_path):
    graph, values = random_graph([12]), {"epochs": 8, "device": "cpu"}
    whole = autoencoder.NodeAutoencoder(**values).fit(graph)
    folder, asked = RunFolder(tmp_path / "run"), []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 5

    hooks = Hooks(save=folder.save_snapshot, stop_requested=stop)
    with pytest.raises(TrainingInterrupted):
        autoencoder.NodeAutoencoder(**values).fit(graph, run=folder, hooks=hooks)
    resumed = autoencoder.NodeAutoencoder(**values).fit(graph, run=folder)
    assert resumed.history_ == whole.history_
    for key, value in whole.model_.state_dict().items():
        assert torch.equal(value, resumed.model_.state_dict()[key])
    np.testing.assert_array_equal(resumed.transform(graph), whole.transform(graph))


def test_from_the_command_line(autoencoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"source": [0, 1, 2, 3], "target": [1, 2, 3, 0]}).to_csv("e.csv", index=False)
    code, out = run("settings", "--method", "autoencoder")[:2]
    assert code == 0 and "sparsity" in out
    words = ["train", "e.csv", "--method", "autoencoder", "--set", "epochs=3", "--out", "run"]
    assert run(*words)[0] == 0
    assert 'method = "autoencoder"' in Path("run/config.toml").read_text()
    assert run("embed", "run", "e.csv", "--out", "new.parquet")[0] == 0
    assert len(pd.read_parquet("new.parquet")) == 4


def test_in_a_table(autoencoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photo(Path("data"))
    Path("own.toml").write_text(TOML[-1])
    words = ["bench", "run", "own.toml", "--results", "mine", "--data", "data", "--seeds", "1"]
    code, out, err = run(*words, "--device", "cpu")
    assert code == 0 and "2 done" in out, err
    records = [json.loads(line) for line in Path("mine/own.jsonl").read_text().splitlines()]
    (found,) = [each for each in records if each["row"] == "autoencoder"]
    assert found["definition"]["settings"]["hidden_dim"] == 16
    assert len(found["results"]["linear/validation"]["scores"]) == 20
    assert "2 skipped" in run(*words)[1]


def test_an_installed_package_announces_its_method(tmp_path):
    """A real distribution on the path, found by its entry point in a process of its own."""
    entry = TOML[0]
    assert 'entry-points."graphlatent.methods"' in entry
    info = tmp_path / "your_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: your-package\nVersion: 1.0\n")
    line = entry.splitlines()[1].replace('"', "")
    (info / "entry_points.txt").write_text(f"[graphlatent.methods]\n{line}\n")
    (tmp_path / "your_package").mkdir()
    (tmp_path / "your_package" / "autoencoder.py").write_text(PYTHON[0])
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from graphlatent.methods.registry import estimator_class\n"
        "print(estimator_class('autoencoder', 'node').__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "NodeAutoencoder", done.stderr
