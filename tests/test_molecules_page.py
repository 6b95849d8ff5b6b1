"""docs/molecules.md runs as it stands: its files, its commands and its Python."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from commands import run

PAGE = (Path(__file__).parents[1] / "docs" / "molecules.md").read_text()
pytest.importorskip("rdkit")


def blocks(language: str) -> list[str]:
    return [
        code
        for name, code in re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
        if name == language
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    for name, text in zip(("molecules.csv", "new.csv"), blocks("csv"), strict=True):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_its_commands_run(folder):
    (text,) = blocks("")
    for line in text.strip().splitlines():
        program, *arguments = shlex.split(line)
        code, _, err = run(*arguments)
        assert program == "graphlatent" and code == 0, err
    assert pd.read_parquet("new.parquet")["graph"].tolist() == ["butanol", "xylene"]


def test_its_python_runs(folder):
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.strip().splitlines()
    assert first == "(12, 576) [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]"
    assert (second, third) == ("['butanol', 'xylene']", "(12, 576)")
