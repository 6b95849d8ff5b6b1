"""docs/reliability.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.fuzzers import FUZZERS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE))))
def test_named_tests_exist(path):
    assert (ROOT / path).exists()


def test_every_fuzzer_is_described():
    table = PAGE.partition("| fuzzer |")[2].partition("\n\n")[0]
    described = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    names = [name for cell in described for name in re.findall(r"`([^`]+)`", cell)]
    assert names == [fuzzer.name for fuzzer in FUZZERS]
