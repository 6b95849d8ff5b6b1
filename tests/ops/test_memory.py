"""Large arrays in huge pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

POLICY = Path("/sys/kernel/mm/transparent_hugepage/enabled")
FAULTS = """
import resource
import torch
import graphlatent

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    before = faults()
    for _ in range(5):
        torch.ones(20_000_000).add(1.0)  # 80 MB each
    seen = faults() - before
print(seen)
"""


def page_faults(**environment: str) -> int:
    own = {k: v for k, v in os.environ.items() if k != "THP_MEM_ALLOC_ENABLE"} | environment
    return int(
        subprocess.run(
            [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, env=own
        ).stdout
    )


@pytest.mark.skipif(
    not POLICY.exists() or "[madvise]" not in POLICY.read_text(),
    reason="the system does not leave it to programs",
)
def test_arrays_are_made_of_few_pages_unless_the_user_says_otherwise():
    assert page_faults() < 0.1 * page_faults(THP_MEM_ALLOC_ENABLE="0")
