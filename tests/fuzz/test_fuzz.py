"""A few hundred cases of every fuzzer; `make fuzz` runs many more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.fuzzers import FUZZERS

TESTS = Path(__file__).parents[1]
CASES, SEED = 300, 0

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked processes")


def run_fuzzers(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`python -m fuzz.run`, in a process without pytest's threads."""
    paths = [str(TESTS.parent / "src"), str(TESTS), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "fuzz.run", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_a_few_hundred_cases_of_every_kind(tmp_path):
    done = run_fuzzers("--cases", CASES, "--seed", SEED, "--json", tmp_path / "report.json")
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-2000:]}"
    counts = json.loads((tmp_path / "report.json").read_text())["counts"]
    assert list(counts) == [fuzzer.name for fuzzer in FUZZERS]
    # Cases that are all refused, or all accepted, would find little.
    accepted = sum(each["accepted"] for each in counts.values())
    refused = sum(each["refused"] for each in counts.values())
    assert accepted > CASES / 5 and refused > CASES / 5
