"""Huge pages for large tensors."""

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
    env = {k: v for k, v in os.environ.items() if k != "THP_MEM_ALLOC_ENABLE"} | environment
    command = [sys.executable, "-c", FAULTS]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)


@pytest.mark.skipif(
    not POLICY.exists() or "[madvise]" not in POLICY.read_text(),
    reason="the system does not let programs choose the page size",
)
def test_huge_pages_are_used_unless_the_user_disables_them():
    assert page_faults() < 0.1 * page_faults(THP_MEM_ALLOC_ENABLE="0")
