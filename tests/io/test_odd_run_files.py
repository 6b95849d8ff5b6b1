"""Pipes, devices, folders and huge files in the place of a run's files: refused, and never read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cases import random_graph
from commands import fails
from graphlatent import NodeLaGraph, RunFolder
from graphlatent.errors import ConfigError, RunFolderError
from graphlatent.io.tensors import load_tensors

READ = ("config.toml", "features.json", "model.safetensors")


@pytest.fixture
def folder(tmp_path) -> Path:
    small = NodeLaGraph(hidden_dim=4, epochs=2, device="cpu")
    return small.fit(random_graph([9])).save(tmp_path / "run")


def replace(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            # Without taking room on the disk.
            file.truncate(1 << 43)
    else:
        path.symlink_to(kind)


@pytest.mark.parametrize("kind", ["pipe", "folder", "huge", "/dev/zero"])
@pytest.mark.parametrize("name", READ)
def test_a_model_is_not_loaded(folder, name, kind):
    replace(folder / name, kind)
    with pytest.raises((RunFolderError, ConfigError), match=rf"Cannot read .*{name}|has no config"):
        NodeLaGraph.load(folder)


@pytest.mark.parametrize("kind", ["pipe", "huge", "/dev/zero"])
@pytest.mark.parametrize("name", ["features.json", "versions.json", "model.safetensors"])
def test_the_message_says_what_it_is(folder, name, kind):
    replace(folder / name, kind)
    told = "are more than can be read" if kind == "huge" else "only regular files are read"
    json = name.endswith("json")
    with pytest.raises(RunFolderError, match=rf"Cannot read .*{name}: .*{told}"):
        RunFolder(folder).read_json(name) if json else load_tensors(folder / name)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
def test_commands(folder, kind):
    replace(folder / "versions.json", kind)
    assert "only regular files are read" in fails("info", folder)
    replace(folder / "features.json", kind)
    assert "only regular files are read" in fails("embed", folder, "x.csv", "--out", "y.csv")


def test_what_is_no_run_says_what_to_give(tmp_path):
    for read in (RunFolder(tmp_path).read_config, RunFolder(tmp_path).read_model):
        with pytest.raises(RunFolderError, match=r"no config.toml. Give the folder that"):
            read()
