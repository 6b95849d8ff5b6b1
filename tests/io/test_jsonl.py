"""Lines that are appended are whole or not there, whoever is killed and whoever else appends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlatent.errors import OutputError
from graphlatent.io.jsonl import append_line, read_lines, rewrite_lines

# Appends ten lines.
APPEND = """
import sys
from graphlatent.io.jsonl import append_line
from pathlib import Path
for i in range(10):
    append_line(Path(sys.argv[2]), {"of": sys.argv[3], "i": i, "long": "x" * 20_000})
"""


def values(path: Path) -> list[object]:
    return [json.loads(line) for line in read_lines(path)]


class TestAppend:
    def test_by_hand(self, tmp_path):
        path = tmp_path / "new" / "file.jsonl"
        append_line(path, {"a": 1, "b": "é"})
        append_line(path, [1.5, None])
        assert path.read_bytes() == '{"a":1,"b":"é"}\n[1.5,null]\n'.encode()
        assert read_lines(path) == ['{"a":1,"b":"é"}', "[1.5,null]"]

    def test_no_file_has_no_lines(self, tmp_path):
        assert read_lines(tmp_path / "none.jsonl") == []

    @given(st.integers(0, 80))
    def test_what_a_killed_process_left_costs_no_earlier_line(self, tmp_path_factory, cut):
        """Wherever the second of two lines was cut, the first stays and a third follows it."""
        path = tmp_path_factory.mktemp("killed") / "file.jsonl"
        first, second, third = ({"number": i, "text": "ab\n" * 20} for i in range(3))
        append_line(path, first)
        whole = path.stat().st_size
        append_line(path, second)
        line = path.stat().st_size - whole
        path.write_bytes(path.read_bytes()[: whole + min(cut, line)])
        # A line whose end alone is missing is whole
        kept = [first, *([second] if cut >= line - 1 else [])]
        assert values(path) == kept
        append_line(path, third)
        assert values(path) == [*kept, third]

    def test_a_long_unfinished_line_is_removed(self, tmp_path):
        path = tmp_path / "file.jsonl"
        append_line(path, 1)
        with path.open("ab") as file:
            file.write(b'"' + b"x" * 200_000)
        append_line(path, 2)
        assert path.read_bytes() == b"1\n2\n"

    def test_no_nan(self, tmp_path):
        with pytest.raises(ValueError, match="not JSON compliant"):
            append_line(tmp_path / "file.jsonl", float("nan"))
        assert not (tmp_path / "file.jsonl").exists()

    def test_a_folder_in_its_place(self, tmp_path):
        with pytest.raises(OutputError, match=r"^Cannot write .*: Is a directory\. Choose another"):
            append_line(tmp_path, 1)


def test_several_processes_append_whole_lines(tmp_path):
    path = tmp_path / "file.jsonl"
    source = Path(sys.modules["graphlatent"].__file__).parent
    command = [sys.executable, "-c", APPEND, str(source), str(path)]
    started = [subprocess.Popen([*command, name]) for name in ("a", "b", "c")]
    assert [process.wait() for process in started] == [0, 0, 0]
    found = values(path)
    assert sorted((each["of"], each["i"]) for each in found) == [
        (name, i) for name in "abc" for i in range(10)
    ]


class TestRewrite:
    def test_lines_are_replaced(self, tmp_path):
        path = tmp_path / "file.jsonl"
        for i in (2, 1, 3):
            append_line(path, i)
        rewrite_lines(path, sorted)
        assert path.read_bytes() == b"1\n2\n3\n"

    def test_a_failure_leaves_the_file_as_it_was(self, tmp_path):
        path = tmp_path / "file.jsonl"
        append_line(path, 1)
        with pytest.raises(ZeroDivisionError):
            rewrite_lines(path, lambda lines: [str(1 / 0)])
        assert path.read_bytes() == b"1\n" and os.listdir(tmp_path) == ["file.jsonl"]

    def test_who_waited_for_the_lock_appends_to_the_new_file(self, tmp_path, monkeypatch):
        """The file that was opened may have been replaced before its lock was given."""
        import graphlatent.io.jsonl as module

        path, flock = tmp_path / "file.jsonl", module.fcntl.flock
        append_line(path, "old")
        replaced = []

        def replace_first(file, kind):
            if not replaced:
                replaced.append(True)
                (tmp_path / "other").write_text('"new"\n')
                os.replace(tmp_path / "other", path)
            flock(file, kind)

        monkeypatch.setattr(module.fcntl, "flock", replace_first)
        append_line(path, "last")
        assert values(path) == ["new", "last"]
