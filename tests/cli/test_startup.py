"""What is imported when: help answers without torch, and public names are found all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import get_type_hints

import pytest

import graphlatent
from graphlatent.cli.probe import KINDS
from graphlatent.probes.evaluation import plan

SLOW_IMPORTS = ("torch", "sklearn", "scipy", "pandas", "pyarrow", "matplotlib", "numpy")
COMMANDS = (
    *("demo", "train", "embed", "probe", "links", "info", "settings", "doctor"),
    *("data", "data list"),
    *("bench", "bench list", "bench run", "bench table", "bench compare", "bench fill"),
    *("bench compact", "map", "neighbors", "cluster", "outliers", "export", "bound", "denoise"),
    *("finetune", "predict", "ingest"),
)


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_and_version_import_nothing_slow():
    code = f"""
import json, sys
from typer.testing import CliRunner
from graphlatent.cli.app import app
asked = [["--help"], ["--version"], *([*each.split(), "--help"] for each in {COMMANDS!r})]
codes = [CliRunner().invoke(app, arguments).exit_code for arguments in asked]
print(json.dumps([codes, [name for name in {SLOW_IMPORTS!r} if name in sys.modules]]))
"""
    codes, imported = json.loads(run_python(code))
    assert set(codes) == {0}
    assert imported == []


@pytest.mark.parametrize(
    ("given", "used"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")]
)
def test_waiting_threads_sleep_unless_set_otherwise(given, used):
    """Torch's threads read the variable when torch is imported, so it is set before."""
    code = f"""
import os, sys
os.environ.pop("OMP_WAIT_POLICY", None)
os.environ.update({given!r})
sys.argv = ["graphlatent", "--version"]
from graphlatent.cli import main
try:
    main()
except SystemExit:
    print(os.environ["OMP_WAIT_POLICY"], "torch" in sys.modules)
"""
    assert run_python(code).splitlines()[-1] == f"{used} False"


def test_every_command_is_asked_for_help():
    from graphlatent.cli.app import app, bench, data

    groups = [("", app), ("data ", data), ("bench ", bench)]
    names = {
        prefix + (command.name or command.callback.__name__)
        for prefix, group in groups
        for command in group.registered_commands
    }
    assert names | {"data", "bench"} == set(COMMANDS)


def test_importing_the_package_imports_nothing_slow():
    code = f"import sys, graphlatent; print([n for n in {SLOW_IMPORTS!r} if n in sys.modules])"
    assert run_python(code) == "[]\n"


def test_help_answers_at_once():
    """Generously: it takes a fifth of a second, and took two and a half with torch."""
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        command = [sys.executable, "-m", "graphlatent", "--help"]
        subprocess.run(command, capture_output=True, check=True)
        seconds.append(time.monotonic() - began)
    # Relative to Python's own start, which is slow too on a busy machine.
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import typing"], check=True)
    assert min(seconds) < 1.5 + 10 * (time.monotonic() - began)


def test_public_names():
    code = """
import graphlatent
assert set(graphlatent.__all__) <= set(dir(graphlatent))
from graphlatent import *
assert NodeLaGraph is graphlatent.NodeLaGraph is graphlatent.methods.lagraph.estimators.NodeLaGraph
assert graphlatent.errors.NotFittedError.__name__ == "NotFittedError"
print(graphlatent.probes.linear_probe.__name__, graphlatent.load_estimator.__name__)
"""
    assert run_python(code) == "linear_probe load_estimator\n"


def test_methods_are_registered_without_importing_them():
    code = """
from graphlatent.methods.registry import estimator_class, method_names
print(estimator_class("dgi", "node").__name__, method_names("node"))
"""
    assert run_python(code) == "NodeDGI ['bgrl', 'dgi', 'lagraph']\n"


def test_the_homes_of_public_names_are_those_that_type_checkers_see():
    assert set(graphlatent._HOMES) == set(graphlatent.__all__) - {"__version__"}
    with open(os.path.join(os.path.dirname(graphlatent.__file__), "__init__.py")) as file:
        text = file.read()
    for name, home in graphlatent._HOMES.items():
        (line,) = [li for li in text.splitlines() if li.startswith(f"    from graphlatent.{home} ")]
        assert name in line


def test_unknown_names():
    with pytest.raises(AttributeError, match=r"module 'graphlatent' has no attribute 'NodeGraph'"):
        _ = graphlatent.NodeGraph
    with pytest.raises(AttributeError, match=r"'graphlatent.errors' has no attribute 'Other'"):
        _ = graphlatent.errors.Other


def test_kinds_of_probes_are_those_of_the_library():
    assert plan.KINDS == KINDS


def test_not_fitted_is_of_both_families():
    from sklearn.exceptions import NotFittedError

    found = graphlatent.errors.NotFittedError
    assert issubclass(found, NotFittedError)
    assert issubclass(found, graphlatent.GraphLatentError)
    assert get_type_hints(graphlatent.errors.not_fitted)["owner"] is str
