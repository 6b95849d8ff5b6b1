"""Every example runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
EXPECTED = {
    "own_csv.py": "saved",
    "networkx_graph.py": "embedded 34 members",
    "molecules.py": "embeddings of 100 molecules: (100, ",
    "custom_encoder.py": "loaded gives the same: True",
    "sklearn_pipeline.py": "cross-validated accuracy:",
}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[path.name] in done.stdout


def test_every_example_is_expected():
    assert {p.name for p in EXAMPLES} == set(EXPECTED)
