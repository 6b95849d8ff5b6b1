"""`graphlatent doctor`, and `python -m graphlatent`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from commands import run, told
from graphlatent import NodeLaGraph
from graphlatent.cli import doctor
from graphlatent.io.config_file import read_toml

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_a_sound_installation():
    found = told("doctor")
    assert found["packages"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    test = found["self_test"]
    assert test["passed"] and test["reason"] == ""
    assert test["loss_last"] < test["loss_first"]
    assert test["accuracy"] > 0.9 > test["accuracy_raw"]


def test_what_is_not_installed_and_how_to_install_it(monkeypatch):
    monkeypatch.setitem(doctor.EXTRAS, "umap-learnt", ("umap", "maps by UMAP"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    code, out, _ = run("doctor")
    assert code == 0
    assert "umap-learnt, for maps by UMAP: not installed; pip install 'graphlatent[umap]'" in out
    assert "(OMP_NUM_THREADS=1)" in out and "Self-test: passed" in out


def test_a_broken_installation(monkeypatch):
    def broken(self, *args, **kwargs):
        raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(NodeLaGraph, "fit", broken)
    code, out, err = run("doctor")
    assert (code, err) == (1, "")
    assert "Self-test: failed" in out and "ImportError: libgomp.so.1: cannot open" in out
    code, out, _ = run("doctor", "--json")
    assert code == 1 and json.loads(out)["self_test"]["passed"] is False


def test_an_installation_that_computes_wrong_numbers(monkeypatch):
    true = NodeLaGraph.transform
    monkeypatch.setattr(NodeLaGraph, "transform", lambda self, graph: 0 * true(self, graph))
    code, out, _ = run("doctor")
    assert code == 1 and "the communities are not told apart" in out


def test_the_extras_are_those_of_the_project():
    declared = read_toml(PROJECT)["project"]["optional-dependencies"]
    for name in ("all", "dev"):
        declared.pop(name)
    named = {(extra, package) for package, (extra, _) in doctor.EXTRAS.items()}
    assert named == {
        (extra, each.partition(">")[0]) for extra, packages in declared.items() for each in packages
    }


@pytest.mark.parametrize("command", [["--version"], ["settings", "--json"]])
def test_the_package_is_the_command_line(command):
    done = subprocess.run(
        [sys.executable, "-m", "graphlatent", *command], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(("graphlatent ", "{"))
