"""Processes that can import nothing but what `pip install .` installs.

The tests' own environment holds more (the extra of NetworkX, tools for tests). Instead of building
a second environment, which needs the network, other packages are hidden from the import system.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
# For sitecustomize.py, which Python runs when it starts
_HIDE = """
from importlib.machinery import PathFinder

hidden, find_spec = frozenset({names!r}), PathFinder.find_spec
PathFinder.find_spec = lambda name, *args: (
    None if name.partition(".")[0] in hidden else find_spec(name, *args)
)
"""


def dependencies() -> list[Requirement]:
    """The requirements in `[project.dependencies]` that hold for this Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [
        r for r in map(Requirement, project["dependencies"]) if not r.marker or r.marker.evaluate()
    ]


@cache
def installed_distributions() -> frozenset[str]:
    """Names of the distributions that `pip install .` installs: dependencies, and theirs."""
    found: set[str] = set()
    waiting = [requirement.name for requirement in dependencies()]
    while waiting:
        name = _normalized(waiting.pop())
        if name in found:
            continue
        found.add(name)
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # of another platform
            continue
        waiting += [
            requirement.name
            for requirement in map(Requirement, requires)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return frozenset(found)


def other_modules() -> list[str]:
    """Importable top-level modules that `pip install .` does not install."""
    return sorted(
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if module != "graphlatent"
        and not {_normalized(name) for name in distributions} & installed_distributions()
    )


def run_installed(
    command: list[str], *, folder: Path, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """The command run in `folder`, where a `graphlatent` command and a `python` are on the path."""
    hook = folder / ".only-installed"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(_HIDE.format(names=other_modules()))
    paths = [str(hook), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
    )


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
