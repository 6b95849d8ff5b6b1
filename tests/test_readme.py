"""README's snippets run as they stand, with the packages that README's `pip install .` brings."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from installed import ROOT, other_modules, run_installed
from pages import blocks, commands_of


def section(name: str) -> str:
    """A section of README."""
    return (ROOT / "README.md").read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]


@pytest.fixture
def folder(tmp_path) -> Path:
    """The files that README's snippets name. New nodes have no label: that is what is new."""
    rng = np.random.default_rng(0)
    for prefix, names in (("", np.arange(40)), ("new_", np.arange(100, 130))):
        pd.DataFrame(
            {"source": rng.choice(names, 120), "target": rng.choice(names, 120), "weight": 1.5}
        ).to_csv(tmp_path / f"{prefix}edges.csv", index=False)
        nodes = pd.DataFrame(
            {
                "id": names,
                "age": rng.integers(18, 80, len(names)),
                "plan": rng.choice(["free", "paid"], len(names)),
                "churned": rng.integers(0, 2, len(names)),
            }
        )
        known = nodes if prefix == "" else nodes.drop(columns="churned")
        known.to_csv(tmp_path / f"{prefix}nodes.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_python(folder):
    (block,) = blocks(section("Use it"), "python")
    code = block.text + "model.save('model'); print(frame.shape[0], frame.index[0])"
    done = run_installed(["python", "-c", code], folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "40 0"
    features = json.loads((folder / "model" / "features.json").read_text())
    assert [column["name"] for column in features["columns"]] == ["age", "plan"]


@pytest.mark.slow
def test_shell(folder):
    train, then, make = blocks(section("Use it"), "")
    assert [words[:2] for words in commands_of(make)] == [["make", "demo"], ["make", "test"]]
    done = run_installed(["sh", "-e", "-c", train.text + then.text], folder=folder)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(folder / "run" / "embeddings.parquet")) == 40
    assert len(pd.read_parquet(folder / "new.parquet")) == 30


def test_installation_names_the_cpu_build_before_the_package():
    text = section("Install")
    assert text.index("whl/cpu") < text.index("pip install .")
    assert all(system in text for system in ("Linux", "macOS", "Windows"))
    # So that `make` finds the version that it would install
    pinned = re.search(r"^torch==[\d.]+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None and f"{pinned[0]} --index-url" in section("Use it")


def test_the_picture_is_there_and_small():
    (name,) = re.findall(r"!\[[^]]+\]\(([^)]+\.png)\)", (ROOT / "README.md").read_text())
    assert 10_000 < (ROOT / name).stat().st_size < 200_000


def test_what_is_imported_is_a_dependency():
    """Packages that the code imports at the top of a file come with `pip install .`."""
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    # Triton comes with torch where there is a GPU, and is imported only there
    outside = imported - set(sys.stdlib_module_names) - {"graphlatent", "triton"}
    assert {"torch", "pandas", "pyarrow"} <= outside
    assert sorted(outside & set(other_modules())) == []


def test_other_packages_cannot_be_imported(tmp_path):
    assert "pytest" in other_modules() and "torch" not in other_modules()
    done = run_installed(["python", "-c", "import pytest"], folder=tmp_path)
    assert "No module named 'pytest'" in done.stderr
