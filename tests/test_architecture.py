"""What holds for the tree as a whole."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import graphlatent

SOURCE = Path(graphlatent.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# The flow of docs/architecture.md: a module may import from its own stage and from earlier ones.
STAGES = [
    ["_version", "errors"],
    ["config"],
    ["io"],
    ["ops"],
    ["data"],
    ["nn"],
    ["methods.base"],
    ["training"],
    ["embedding"],
    ["estimator"],
    ["methods.registry"],
    ["methods"],
    ["representations"],
    ["probes"],
    ["bench"],
    ["report"],
    ["cli", "__main__"],
]


def stage(module: str) -> int:
    """The place of a module in the flow; a module may have a place apart from its package's."""
    parts = module.split(".")[1:]
    for name in (".".join(parts[:2]), ".".join(parts[:1])):
        found = [i for i, names in enumerate(STAGES) if name in names]
        if found:
            return found[0]
    return len(STAGES)


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    found |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    from_package = [
        f"graphlatent.{alias.name}"
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom) and n.module == "graphlatent"
        for alias in n.names
    ]
    return (found - {"graphlatent"} if from_package else found) | set(from_package)


def module_of(path: Path) -> str:
    return ".".join(["graphlatent", *path.relative_to(SOURCE).with_suffix("").parts])


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name != "__init__.py" or p.parent != SOURCE], ids=module_of
)
def test_imports_point_backwards_along_the_flow(path):
    own = stage(module_of(path))
    ahead = [m for m in imports(path) if m.startswith("graphlatent") and stage(m) > own]
    assert not ahead


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_stay_small_and_have_a_docstring(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    assert ast.get_docstring(ast.parse(text))


def test_everything_public_is_tested():
    tests = "\n".join(
        p.read_text() for p in Path(__file__).parent.rglob("test_*.py") if p != Path(__file__)
    )
    assert [name for name in graphlatent.__all__ if name not in tests] == []


def test_everything_public_is_there_and_documented():
    for name in graphlatent.__all__:
        value = getattr(graphlatent, name)
        assert isinstance(value, str) or value.__doc__


def test_import_and_training_need_no_optional_package(tmp_path):
    code = """
import sys
for name in ("networkx",):
    sys.modules[name] = None  # importing it fails
import numpy as np, graphlatent
edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
print(graphlatent.NodeLaGraph(epochs=2, hidden_dim=4).fit_transform((edges, np.eye(3))).shape)
graphs = [(edges, np.eye(3))] * 3
print(graphlatent.GraphLaGraph(epochs=2, hidden_dim=4).fit_transform(graphs).shape)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split("\n")[:2] == ["(3, 4)", "(3, 12)"], done.stderr
