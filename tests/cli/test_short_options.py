"""Short names of settings, --verbose, plain help pages and shell completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from commands import fails, run
from graphlatent.io.config_file import read_config
from training_commands import FAST

COMMANDS = ("", "demo", "train", "embed", "probe", "links", "info", "settings", "data list")
COMMANDS = (*COMMANDS, "bench", "bench run", "bench list", "bench table", "bench compact")


def settings_of(folder):
    return read_config(folder / "config.toml").settings


def test_short_names_are_settings(tables):
    out = ["--out", tables / "run"]
    short = ["--epochs", 2, "--lr", 0.01, "--seed", 7, "--device", "cpu", "--dim", 5]
    code, text, err = run("train", tables / "edges.csv", *out, *short, "--json")
    assert code == 0, err
    found = settings_of(tables / "run")
    names = ("epochs", "lr", "random_state", "device", "embedding_dim")
    assert [found[name] for name in names] == [2, 0.01, 7, "cpu", 5]
    assert json.loads(text)["embedding_dim"] == 5


def test_dim_is_the_width_of_the_encoder_where_the_embedding_is_its_output(tables):
    options = ["--dim", 5, "--epochs", 1, "--json"]
    for method in (["--method", "dgi"], ["--set", "preset=paper"]):
        code, text, _ = run(
            "train", tables / "edges.csv", "--out", tables / method[1], *method, *options
        )
        assert (code, json.loads(text)["embedding_dim"]) == (0, 5)
        assert settings_of(tables / method[1])["hidden_dim"] == 5


def test_a_setting_is_given_once(tables):
    out = ["--out", tables / "run"]
    message = fails("train", tables / "edges.csv", *out, "--epochs", 2, "--set", "epochs=3")
    assert message == (
        "The setting 'epochs' is given twice, by --set and by a flag of its own. Give it once."
    )
    twice = ["--dim", 3, "--set", "embedding_dim=3"]
    assert "'embedding_dim' is given twice" in fails("train", tables / "edges.csv", *out, *twice)


def test_short_names_go_before_a_file_and_are_checked(tables):
    (tables / "own.toml").write_text("epochs = 3\nhidden_dim = 8\n")
    options = ["--config", tables / "own.toml", "--out", tables / "run"]
    assert run("train", tables / "edges.csv", *options, "--epochs", 1)[0] == 0
    assert settings_of(tables / "run")["epochs"] == 1
    wrong = ["--out", tables / "r", "--lr", "-1"]
    assert fails("train", tables / "edges.csv", *wrong) == (
        "The setting 'lr' must be a float in the range (0, inf). Got -1.0 instead."
    )


def test_links_takes_them_too(tables):
    options = ["--epochs", 1, "--dim", 4, "--seeds", 1, "--seed", 3, "--json"]
    code, text, err = run("links", tables / "edges.csv", *options)
    assert code == 0, err
    assert json.loads(text)["settings"]["embedding_dim"] == 4
    assert json.loads(text)["seeds"] == [3]


def test_verbose_says_settings_versions_and_times(tables):
    options = ["--out", tables / "run", "-v", *FAST]
    code, _, err = run("train", tables / "edges.csv", *options)
    assert code == 0, err
    for text in ("input read in", "graphlatent 0", "torch ", "device cpu", "mask_ratio=0.75"):
        assert text in err
    assert "embeddings computed and written in" in err and "CPU threads in training: " in err
    assert "mask_ratio" not in run("train", tables / "edges.csv", "--out", tables / "q", *FAST)[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_words_for_what_options_take(command):
    code, text, _ = run(*command.split(), "--help")
    assert code == 0
    for name in ("<bool>", "<str>", "<path>", "list[str]", "<list"):
        assert name not in text.partition("Options")[2]


@pytest.mark.parametrize(("typed", "meant"), [("tr", "train"), ("bench comp", "compare")])
def test_shell_completion(typed, meant):
    words = f"graphlatent {typed}"
    environment = {
        **os.environ,
        "_GRAPHLATENT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    code = "import sys; sys.argv = ['graphlatent']; from graphlatent.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert meant in done.stdout.split()


def test_defaults_that_the_size_changes_are_said(tables, monkeypatch):
    from graphlatent.methods.lagraph import settings

    monkeypatch.setattr(settings, "SMALL_GRAPH", 1)
    monkeypatch.setattr(settings, "LARGE_GRAPH", 10)
    monkeypatch.setattr(settings, "_NODE_EPOCHS", 500)
    code, out, err = run("train", tables / "edges.csv", "--out", tables / "run")
    assert code == 0, err
    assert (
        "note: a graph of this size has other defaults, so that training ends in minutes:"
        " hidden_dim=128, epochs=12; for those of smaller graphs: --set hidden_dim=512 --epochs 100"
    ) in err
    assert "Trained 12 epochs" in out
    # Nothing is said of what was set.
    options = ["--out", tables / "own", "--set", "hidden_dim=8", "--epochs", 2]
    assert "other defaults" not in run("train", tables / "edges.csv", *options)[2]


def test_commands_are_listed_in_the_order_of_their_use():
    _, out, _ = run("--help")
    names = ("demo", "train", "info", "embed", "probe", "map", "neighbors", "doctor", "bench")
    places = [out.index(f"│ {name} ") for name in names]
    assert places == sorted(places)


def test_help_names_the_kind_of_what_an_option_takes():
    _, out, _ = run("train", "--help")
    for flag, kind in (("--drop", "COLUMN"), ("--until", "DATE"), ("--edge-features", "COLUMNS")):
        (line,) = [line for line in out.splitlines() if f" {flag} " in line]
        assert line.split()[2] == kind, line
