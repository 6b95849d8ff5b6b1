"""Rules for the package as a whole: imports, file sizes, docstrings, public names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphlatent

SOURCE = Path(graphlatent.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# The flow of docs/architecture.md: a module may import from its own stage and from earlier ones.
STAGES = [
    ["_version", "errors", "not_fitted", "display"],
    ["setting_types", "encoder_size"],
    ["config", "setting_docs"],
    ["io"],
    ["ops"],
    ["data"],
    ["nn"],
    ["methods.base"],
    ["training"],
    ["embedding", "embedding_files", "explore"],
    ["estimator", "estimator_files", "estimator_stores"],
    ["methods.registry"],
    ["methods"],
    ["representations", "weisfeiler_lehman"],
    ["theory"],
    ["probes"],
    ["finetuning"],
    ["saved"],
    ["bench"],
    ["report"],
    ["cli", "__main__"],
]


def stage(module: str) -> int:
    """The stage of a module in the flow; a module may have another stage than its package."""
    parts = module.split(".")[1:]
    for name in (".".join(parts[:2]), ".".join(parts[:1])):
        found = [i for i, names in enumerate(STAGES) if name in names]
        if found:
            return found[0]
    return len(STAGES)


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "graphlatent":
            found |= {f"graphlatent.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def module_of(path: Path) -> str:
    return ".".join(["graphlatent", *path.relative_to(SOURCE).with_suffix("").parts])


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name != "__init__.py" or p.parent != SOURCE], ids=module_of
)
def test_imports_point_backwards_along_the_flow(path):
    own = stage(module_of(path))
    later = [m for m in imports(path) if m.startswith("graphlatent") and stage(m) > own]
    assert not later


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_have_at_most_400_lines_and_a_docstring(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    assert ast.get_docstring(ast.parse(text))


def test_every_public_name_occurs_in_a_test():
    tests = "\n".join(
        p.read_text() for p in Path(__file__).parent.rglob("test_*.py") if p != Path(__file__)
    )
    assert [name for name in graphlatent.__all__ if name not in tests] == []


def test_every_public_name_exists_and_has_a_docstring():
    for name in graphlatent.__all__:
        value = getattr(graphlatent, name)
        assert isinstance(value, str) or value.__doc__


def test_import_and_training_need_no_optional_package(tmp_path):
    code = """
import sys
for name in ("networkx", "rdkit"):
    # Importing it then fails.
    sys.modules[name] = None
import numpy as np, graphlatent
edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
print(graphlatent.NodeLaGraph(epochs=2, hidden_dim=4).fit_transform((edges, np.eye(3))).shape)
graphs = [(edges, np.eye(3))] * 3
print(graphlatent.GraphLaGraph(epochs=2, hidden_dim=4).fit_transform(graphs).shape)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split("\n")[:2] == ["(3, 11)", "(3, 42)"], done.stderr


def test_messages_have_the_singular_and_the_plural():
    # In records, which are compared as they stand.
    kept = {"bench/surroundings.py"}
    lazy = re.compile(r"[a-z]\((s|es)\)")
    found = {
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"
        for path in FILES
        if path.relative_to(SOURCE).as_posix() not in kept
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and lazy.search(node.value)
    }
    assert not found, found
