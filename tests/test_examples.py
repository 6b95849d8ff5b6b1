"""Every example runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from installed import run_installed

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
    done = run_installed(["python", str(path)], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert EXPECTED[path.name] in done.stdout


def test_every_example_is_expected():
    assert {p.name for p in EXAMPLES} == set(EXPECTED)
