"""Memory that is used again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graphlatent import memory
from graphlatent.memory import reused

FAULTS = """
import resource, sys, torch
from contextlib import nullcontext
from graphlatent.memory import reused

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

with reused() if sys.argv[1] == "reused" else nullcontext():
    for i in range(6):
        before = faults()
        for _ in range(5):
            torch.ones(20_000_000).add(1.0)  # 80 MB each
        seen = faults() - before
print(seen)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc gives memory back so eagerly")
def test_pages_are_asked_for_once():
    counts = {
        way: int(subprocess.run([sys.executable, "-c", FAULTS, way], capture_output=True, text=True, check=True).stdout)
        for way in ("reused", "plain")
    }
    assert counts["reused"] < 0.1 * counts["plain"]


def test_nested_and_failing_uses_end_well():
    def fail() -> None:
        with reused(), reused():
            assert memory._users in (0, 2)  # 0 where the C library is another
            raise KeyError("inside")

    with pytest.raises(KeyError):
        fail()
    assert memory._users == 0


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory, "_glibc", lambda: None)
    with reused():
        assert memory._users == 0
