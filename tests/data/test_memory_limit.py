from __future__ import annotations

import pytest

from graphlatent.data import memory_limit as module
from graphlatent.data.memory_limit import (
    available_memory,
    limited_memory,
    memory_limit,
    parse_memory,
    readable,
    require_memory,
)
from graphlatent.errors import ConfigError, InputError


@pytest.mark.parametrize(
    ("given", "num_bytes"),
    [(7, 7), ("7", 7), ("4GB", 4 * 10**9), (" 1.5 kb ", 1500), ("2MiB", 2**21), ("1TiB", 2**40)],
)
def test_amounts_of_memory(given, num_bytes):
    assert parse_memory(given) == num_bytes


@pytest.mark.parametrize(
    "given", ["", "much", "-1GB", "0", 0, -3, True, 1.5, "4 G B", "٣GB", "1e9"]
)
def test_what_is_no_amount_of_memory(given):
    with pytest.raises(ConfigError) as caught:
        parse_memory(given)
    assert str(caught.value) == (
        "The 'max_memory' parameter of read_graphs must be a number of bytes above 0, or text such"
        f" as '4GB' or '512MiB'. Got {given!r} instead."
    )


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(22, "22 bytes"), (1000, "1 kB"), (4_200_000_000, "4.2 GB"), (2 * 10**16, "20,000 TB")],
)
def test_amounts_as_text(num_bytes, text):
    assert readable(num_bytes) == text


def test_the_limit_is_half_of_what_is_available_or_what_was_given(monkeypatch):
    monkeypatch.setattr(module, "available_memory", lambda: 10**9)
    assert memory_limit() == 5 * 10**8
    require_memory(5 * 10**8, what="x")
    with pytest.raises(InputError) as caught:
        require_memory(6 * 10**8, what="a.csv, a file of 200 MB,")
    assert str(caught.value) == (
        "a.csv, a file of 200 MB, needs about 600 MB of memory, and reading may take 500 MB, half"
        " of what is available. Read a smaller input, or raise the limit with max_memory,"
        " --max-memory on the command line."
    )
    with limited_memory("10B"):
        with pytest.raises(
            InputError, match=r"11 bytes of memory, and reading may take 10 bytes. R"
        ):
            require_memory(11, what="x")
        with limited_memory(None):
            assert memory_limit() == 10
    assert memory_limit() == 5 * 10**8


def test_what_is_available_is_the_least_of_machine_container_and_process(monkeypatch):
    assert 10**6 < available_memory() < 10**15
    for name in ("machine", "cgroup", "address_space"):
        function = next(each for each in vars(module) if each.endswith(name))
        monkeypatch.setattr(module, function, lambda: None)
    assert available_memory() == 8 * 10**9
    monkeypatch.setattr(module, "_left_of_cgroup", lambda: 7)
    assert available_memory() == 7
    monkeypatch.setattr(module, "_left_of_address_space", lambda: -1)
    assert available_memory() == 0
