"""What a record says about where it was measured."""

from __future__ import annotations

import re

import torch

from graphlatent.bench.surroundings import surroundings


def test_surroundings_say_with_what_on_what_and_when():
    found = surroundings(torch.device("cpu"))
    assert set(found) == {"commit", "versions", "device", "hardware", "date"}
    assert found["versions"]["torch"] == torch.__version__ and found["device"] == "cpu"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"]) and re.search(
        r"CPU, \d+ thread", found["hardware"]
    )


def test_a_copy_without_history_can_say_its_commit(monkeypatch):
    monkeypatch.setenv("GRAPHLATENT_COMMIT", "abc1234")
    assert surroundings(torch.device("cpu"))["commit"] == "abc1234"
