"""Files that block, are damaged or too large: one sentence on the command line, exit code 2."""

from __future__ import annotations

import gzip
import json
import os

import pytest

from commands import fails, run, told
from graphlatent import NodeLaGraph, read_graphs


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes as files")
def test_pipes(tables):
    os.mkfifo(tables / "pipe.csv")
    for command in (
        ("info", tables / "pipe.csv"),
        ("info", tables / "edges.csv", "--nodes", tables / "pipe.csv"),
        ("train", tables / "pipe.csv", "--out", tables / "run"),
    ):
        assert "pipe.csv is a pipe, and only regular files can be read" in fails(*command)


def test_names(tables):
    long = "a" * 300 + ".csv"
    # The standard input of a test is empty.
    for name, message in ((long, "cannot be read: File name too long"), ("-", "(standard input)")):
        assert message in fails("info", name)
        assert message in fails("info", tables / "edges.csv", "--nodes", name)
        assert message in fails("train", name, "--out", tables / "run")


def test_the_limit_on_memory(tables):
    packed = tables / "packed.csv.gz"
    packed.write_bytes(gzip.compress(b"source,target\n" + b"0,1\n" * 10**6))
    message = fails("info", packed, "--max-memory", "2MB")
    assert "packed.csv.gz, unpacked 1.05 MB or more, needs about 3.15 MB of memory, and" in message
    assert "raise the limit with --max-memory" in message
    assert told("info", packed, "--max-memory", "1GB")["nodes"] == 2
    assert "Got 'much' instead" in fails("info", packed, "--max-memory", "much")


def test_control_characters_of_files_do_not_reach_the_terminal(tables):
    """They would clear the screen, set the title, or hide what a message says."""
    graph = read_graphs(tables / "edges.csv", symmetrize=False, merge="max")
    folder = NodeLaGraph(epochs=1, hidden_dim=4).fit(graph).save(tables / "run")
    path, escape = folder / "versions.json", "\x1b]0;title\x07\x1b[2J\x9b"
    path.write_text(json.dumps({**json.loads(path.read_text()), "device": escape}))
    code, out, err = run("info", folder)
    assert code == 0 and repr(escape)[1:-1] in out
    assert not {"\x1b", "\x07", "\x9b"} & set(out + err)
    assert told("info", folder)["device"] == escape
    path = folder / "manifest.json"
    path.write_text(json.dumps({"format": 0, "graphlatent": escape}))
    assert repr(escape)[1:-1] in fails("info", folder)
