"""Only regular files are opened: a pipe or a device would block or never end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pandas as pd
import pytest

from graphlatent.data.readers.array_files import load_arrays
from graphlatent.data.readers.read import read_graphs
from graphlatent.errors import ConfigError, InputError
from graphlatent.io.regular_files import (
    exists,
    files_of,
    is_folder,
    refusing_damage,
    regular_file,
)

EDGES = pd.DataFrame({"source": [0], "target": [0]})
NAMES = ["a.csv", "a.csv.gz", "a.parquet", "a.graphml", "a.npz", "a.txt"]

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes as files")


@pytest.mark.parametrize("name", NAMES)
def test_pipes_and_devices(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (tmp_path / f"z{name}").symlink_to("/dev/zero")
    for path, kind in ((tmp_path / name, "a pipe"), (tmp_path / f"z{name}", "a device")):
        with pytest.raises(InputError) as caught:
            read_graphs(path)
        assert str(caught.value) == (
            f"{path} is {kind}, and only regular files can be read. Write the data to a file first."
        )


def test_pipes_beside_other_files(tmp_path):
    for name in ("n.csv", "l.npy", "a.graphml", "T_A.txt", "T_graph_indicator.txt"):
        (tmp_path / name[0]).mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name[0] / name)
    for folder in "aT":
        with pytest.raises(InputError, match="is a pipe, and only regular files"):
            read_graphs(tmp_path / folder)
    with pytest.raises(InputError, match=r"^nodes: .*n.csv is a pipe"):
        read_graphs(EDGES, nodes=tmp_path / "n" / "n.csv")
    with pytest.raises(InputError, match=r"^labels: .*l.npy is a pipe"):
        load_arrays(tmp_path / "l" / "l.npy", role="labels")


def test_folders_and_what_is_not_there(tmp_path):
    (tmp_path / "n.csv").mkdir()
    with pytest.raises(InputError, match=r"^nodes: .*n.csv is a folder, but a file is needed"):
        read_graphs(EDGES, nodes=tmp_path / "n.csv")
    with pytest.raises(InputError, match=r"There is no file .*n.csv/raw.csv. Check the path"):
        read_graphs(tmp_path / "n.csv" / "raw.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    with pytest.raises(InputError, match=r"loop.csv cannot be read: Too many levels of symbolic"):
        read_graphs(tmp_path / "loop.csv")


def test_names_that_no_file_can_have():
    for name in ("a" * 300 + ".csv", "/" + "a/" * 5000):
        for read in (lambda n=name: read_graphs(n), lambda n=name: read_graphs(EDGES, nodes=n)):
            with pytest.raises(InputError) as caught:
                read()
            assert len(str(caught.value)) < 600
    with pytest.raises(InputError, match=r"'a\\x00.csv' is no name of a file"):
        read_graphs("a\0.csv")


def test_files_that_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "e.csv").write_text("source,target\n0,1\n")
    (tmp_path / "g.graphml").write_text("<graphml/>")

    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(InputError, match=r"e.csv cannot be read: its permissions do not allow"):
            read_graphs(tmp_path / "e.csv")
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refused)
        patch.setattr(Path, "open", refused)
        patch.setattr(Path, "iterdir", refused)
        for path in (tmp_path / "e.csv", tmp_path / "g.graphml", tmp_path):
            with pytest.raises(InputError, match=r"cannot be read.*Permission denied"):
                read_graphs(path)
        patch.setattr(Path, "stat", refused)
        with pytest.raises(InputError, match=r"e.csv cannot be read: Permission denied. Ch"):
            read_graphs(tmp_path / "e.csv")


def test_parts(tmp_path):
    (tmp_path / "b").write_text("12")
    (tmp_path / "a").mkdir()
    assert (regular_file(tmp_path / "b"), exists(tmp_path / "c")) == (2, False)
    assert is_folder(tmp_path / "a") and not is_folder(tmp_path / "b")
    assert [p.name for p in files_of(tmp_path)] == ["a", "b"]


def test_errors_of_other_packages_become_ours():
    said = pytest.raises(InputError, match=r"^a is damaged. The reader says: 'k'. Try again.$")
    with said, refusing_damage("a is damaged", way_out="Try again."):
        raise KeyError("k")
    said = pytest.raises(InputError, match="not enough memory for the sizes that the file states")
    with said, refusing_damage("a is damaged"):
        raise MemoryError
    # That a file cannot be opened says nothing about what it holds.
    said = pytest.raises(InputError, match=r"^edges: a.csv cannot be read: Permission denied.$")
    with said, refusing_damage("edges: a.csv cannot be read as UTF-8 text"):
        raise PermissionError(errno.EACCES, "Permission denied", "a.csv")
    with pytest.raises(ConfigError), refusing_damage("a is damaged"):
        raise ConfigError("ours")
    with pytest.raises(KeyboardInterrupt), refusing_damage("a is damaged"):
        raise KeyboardInterrupt
