"""Every example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from installed import run_installed

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
EXPECTED = {
    "own_csv.py": "saved",
    "make_data.py": "wrote products.csv: 400 rows",
    "networkx_graph.py": "embedded 34 members",
    "molecules.py": "embeddings of 100 molecules: (100, ",
    "molecules_bbbp.py": "GraphLaGraph: test AUC 0.",
    "custom_encoder.py": "loaded gives the same: True",
    "sklearn_pipeline.py": "cross-validated accuracy:",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [p for p in EXAMPLES if p.name != "molecules_bbbp.py"], ids=lambda p: p.name
)
def test_example_runs(path, tmp_path):
    done = run_installed(["python", str(path)], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert EXPECTED[path.name] in done.stdout


@pytest.mark.slow
def test_molecules_by_their_scaffolds(data_root, tmp_path):
    pytest.importorskip("rdkit")
    (path,) = [p for p in EXAMPLES if p.name == "molecules_bbbp.py"]
    table = data_root("BBBP") / "BBBP" / "raw" / "BBBP.csv"
    done = subprocess.run(
        [sys.executable, str(path), str(table)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "2,039 molecules; 11 rows are skipped" in done.stdout
    scores = re.findall(r"(.+): test AUC (0\.\d+)", done.stdout)
    assert len(scores) == 5
    # Better than chance by two standard errors, and without a leak of labels.
    assert all(0.58 < float(score) < 0.85 for _, score in scores)


def test_an_example_without_its_data_says_where_to_get_them(tmp_path):
    pytest.importorskip("rdkit")
    (path,) = [p for p in EXAMPLES if p.name == "molecules_bbbp.py"]
    command = [sys.executable, str(path), str(tmp_path / "no.csv")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "moleculenet.org" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_example_is_expected():
    assert {p.name for p in EXAMPLES} == set(EXPECTED)
