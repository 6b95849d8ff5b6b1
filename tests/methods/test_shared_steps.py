"""The loss and gradient of a step that several processes share are those of one process."""

from __future__ import annotations

import json

import pytest

import torchrun

SCRIPT = torchrun.TESTS / "methods/shared_steps.py"


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_loss_and_gradient_of_several_processes_are_those_of_one(tmp_path, processes):
    code, _, err = torchrun.run(processes, SCRIPT, tmp_path / "differences.json")
    assert code == 0, err
    found = json.loads((tmp_path / "differences.json").read_text())
    assert len(found) == 79
    wrong = {k: v for k, v in found.items() if not max(v["loss"], v["gradient"]) < 1e-6}
    assert wrong == {}
    # It is not the mean of the processes' own gradients.
    assert min(each["contrast"] for each in found.values()) > 0.1
