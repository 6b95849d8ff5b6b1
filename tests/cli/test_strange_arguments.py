"""Arguments of a stranger: one line, exit code 2, no traceback, nothing that waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from commands import fails
from graphlatent.cli import main
from graphlatent.io.config_file import RunConfig, read_config, write_config
from training_commands import FAST, train

LONG = "a" * 300
NOT_UTF8 = "\udcff"


@pytest.fixture
def typed(monkeypatch, capsys, tables):
    """The exit code, standard output and standard error of a command line."""
    monkeypatch.chdir(tables)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    # The commands set it; undone after the test.
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["graphlatent", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        found = capsys.readouterr()
        return ended.value.code, found.out, found.err

    return call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "No such command 'trian'. Did you mean 'train'? See 'graphlatent --help'."),
        (["bench", "runn"], "No such command 'runn'. Did you mean 'run'? See 'graphlatent bench"),
        (["train"], "Missing argument 'INPUT'. See 'graphlatent train --help'."),
        (["train", "edges.csv"], "Missing option '--out'. See 'graphlatent train --help'."),
        (["train", "edges.csv", "--epoch", "3"], "No such option: --epoch"),
        (["train", "a.csv", "b.csv", "--out", "r"], "Got unexpected extra argument"),
        (["demo", "--seed", "abc"], "Invalid value for '--seed': "),
        (["demo", "--seed", "9" * 30], "Invalid value for '--seed': "),
        (["probe"], "Missing argument 'EMBEDDINGS'. See 'graphlatent probe --help'."),
        (["probe", "run", "--labels", "x.csv", "--splits", "9" * 30], "for '--splits': "),
        (["probe", "run", "--labels", "x.csv", "--seeds", "9" * 30], "for '--seeds': "),
        (["links", "edges.csv", "--seeds", "9" * 30], "Invalid value for '--seeds': "),
        (["bench", "run", "table1/MUTAG", "--jobs", "9" * 30], "for '--jobs': "),
        ([f"train{NOT_UTF8}"], "No such command"),
    ],
)
def test_typing_mistakes(typed, arguments, message):
    code, out, err = typed(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1
    # Versions of typer differ in small words.
    assert message.split(".")[0] in err
    assert " --help'." in err


def test_no_arguments_at_all(typed):
    code, out, err = typed()
    assert code == 2 and "Usage" in out + err and "error: " not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", f"{LONG}.csv", "--out", "run"),
        ("train", "edges.csv", "--out", LONG),
        ("train", "edges.csv", "--nodes", f"{LONG}.csv", "--out", "run"),
        ("train", "edges.csv", "--config", LONG, "--out", "run"),
        ("embed", LONG, "edges.csv", "--out", "x.csv"),
        ("probe", LONG, "--labels", "nodes.csv"),
        ("links", "edges.csv", "--out", LONG),
        ("info", LONG),
        ("demo", "--out", LONG),
        ("data", "list", "--root", LONG),
        ("bench", "run", f"{LONG}.toml"),
        ("bench", "list", "--data", LONG),
        ("bench", "table", "1", "--results", LONG),
    ],
)
def test_names_that_are_too_long(tables, monkeypatch, arguments):
    monkeypatch.chdir(tables)
    message = fails(*arguments)
    assert "aaa..." in message and "File name too long" in message and len(message) < 200


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = " + b"[" * 100_000, "is nested too deeply"),
        (b"epochs = " + b"9" * 5_000, "holds an int of thousands of digits"),
        ("epochs = 2".encode("utf-16"), "is not valid TOML: 'utf-8' codec"),
        (b"epochs = 2\n\0", "is not valid TOML: "),
        (b"level = 3\n[settings]", "level must be 'node' or 'graph'. Got 3 instead."),
        (b"level = {a = 1}\n[settings]", "level must be 'node' or 'graph'. Got {'a': 1}"),
        (b"epochs = [1]", "The setting 'epochs' must be an int"),
        (b"epochs = 2020-01-01", "The setting 'epochs' must be an int"),
        (b"lr = inf", "The setting 'lr' must be a float"),
        (b"lr = true", "The setting 'lr' must be a float"),
        (b"hidden_dim = 1" + b"0" * 400, "and at most 2,147,483,647. Got 1000000"),
    ],
)
def test_settings_files(tables, content, message):
    (tables / "s.toml").write_bytes(content)
    options = ["--out", tables / "run", "--config", tables / "s.toml"]
    assert message in fails("train", tables / "edges.csv", *options)
    assert not (tables / "run").exists()


def test_a_settings_file_with_a_byte_order_mark(tables):
    (tables / "s.toml").write_bytes(b"\xef\xbb\xbfepochs = 2\n")
    assert train(tables, "--config", tables / "s.toml")[0] == 0


def test_settings_files_that_are_no_files(tables):
    os.mkfifo(tables / "pipe")
    for path in (tables / "pipe", "/dev/zero", "/dev/stdin" if sys.platform == "linux" else "/dev"):
        command = ["train", tables / "edges.csv", "--out", tables / "run", "--config", path]
        assert "and only regular files are read" in fails(*command)
    assert "Is a directory" in fails(*command[:-1], tables)
    (tables / "own.toml").symlink_to(tables / "pipe")
    assert "It is a pipe, and only" in fails("bench", "run", tables / "own.toml")


def test_run_folders_that_cannot_be_made(tables, monkeypatch):
    """Found before anything is read: the input does not even exist."""
    monkeypatch.chdir(tables)
    (tables / "dangling").symlink_to("nowhere")
    for out in ("edges.csv/run", "dangling"):
        assert "not a folder that can be written to" in fails("train", "none.csv", "--out", out)
        assert "not a folder that can be written to" in fails("demo", "--out", out)


def test_read_only_folders(tables, monkeypatch):
    monkeypatch.chdir(tables)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert "not a folder that can be written to" in fails("train", "none.csv", "--out", "run")
    assert "not a folder that can be written to" in fails("demo", "--out", "run")
    # Before anything is measured
    assert "not a folder that can be written to" in fails("bench", "run", "table1/MUTAG")
    command = ("embed", "run", "none.csv", "--out", "x.csv")
    assert "not a folder that can be written to" in fails(*command)


def test_names_that_are_not_utf8(tables, monkeypatch, typed):
    for command in (["train", "none.csv", "--out"], ["links", "none.csv", "--out"]):
        assert "name is not valid UTF-8" in fails(*command, f"run{NOT_UTF8}")
    # What is shown as it came in has a question mark there.
    code, _, err = typed("info", NOT_UTF8)
    assert code == 2 and err.startswith("error: There is no file, folder or data set named '?'.")
    assert "is not valid UTF-8" in fails(
        "train", "edges.csv", "--source", NOT_UTF8, "--out", "other", *FAST
    )
    assert "There is no file, folder or data set named" in fails(
        "train", NOT_UTF8, "--out", "other"
    )


def test_names_of_columns_survive_in_the_settings_file(tmp_path):
    """JSON writes characters beyond U+FFFF as pairs of escapes, which TOML does not know."""
    names = {"source": "from \U0001f600", "target": 'to "\x7f\x01\\', "label": ["é"]}
    write_config(tmp_path / "config.toml", RunConfig({"epochs": 1}, "node", reading=names))
    assert read_config(tmp_path / "config.toml").reading == names


@pytest.mark.parametrize("definition", [{"a": 1}, {"method": []}, [[1]], "x", 3])
def test_records_with_a_wrong_definition(tmp_path, definition):
    import json

    result = {"scores": [0.5], "metric": "accuracy", "selection": "x", "splits": "y"}
    record = {
        "cell": "table1/MUTAG",
        "row": "raw",
        "seed": 0,
        "about": {},
        "training": {},
        "definition": definition,
        "results": {"linear/validation": {**result, "choices": [], "others": {}}},
    }
    (tmp_path / "table1.jsonl").write_text(json.dumps(record) + "\n")
    assert "is not a record of the ledger" in fails("bench", "table", "1", "--results", tmp_path)


def test_records_in_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "table1.jsonl")
    assert "it is a pipe or a device" in fails("bench", "table", "1", "--results", tmp_path)


def test_sets_without_data_nested_too_deeply(tmp_path):
    (tmp_path / "absent.json").write_text("[" * 100_000)
    (tmp_path / "page.md").write_text("<!-- table 1 -->\n<!-- end -->\n")
    message = fails("bench", "fill", tmp_path / "page.md", "--results", tmp_path)
    assert "absent.json must be a JSON object" in message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["settings"], ["settings", "--json"]])
def test_output_that_cannot_be_written(arguments):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "graphlatent", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: Cannot write to standard output: No space left on device.\n"


@pytest.mark.parametrize("arguments", [["--help"], ["settings"], ["settings", "--json"]])
def test_a_reader_that_has_left(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "graphlatent", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_closed_streams():
    command = f"{sys.executable} -m graphlatent --version"
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(
            f"{command} {closed}", shell=True, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
