"""Options that several commands share, and where their values are kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from commands import fails, run
from graphlatent import GraphLaGraph, NodeLaGraph
from graphlatent.cli.app import app
from graphlatent.cli.models import estimator_for
from graphlatent.cli.options import InputOptions, with_option_groups
from graphlatent.data.readers.options import TableOptions, options_of_run
from graphlatent.errors import ConfigError
from graphlatent.io.config_file import read_config
from graphlatent.io.runfolder import RunFolder
from training_commands import FAST, train


@dataclass(frozen=True)
class Group:
    first: Annotated[str | None, typer.Option("--first")] = None
    several: Annotated[list[int] | None, typer.Option("--several")] = None


def test_fields_of_a_group_are_options_of_the_command():
    own = typer.Typer()

    @own.command()
    @with_option_groups
    def command(path: Annotated[Path, typer.Argument()], group: Group, flag: bool = False) -> None:
        """What it does."""
        typer.echo(json.dumps([str(path), group.first, group.several, flag]))

    found = CliRunner().invoke(own, ["p", "--first", "a", "--several", "1", "--several", "2"])
    assert json.loads(found.stdout) == ["p", "a", [1, 2], False]
    assert json.loads(CliRunner().invoke(own, ["q"]).stdout)[:2] == ["q", None]
    shown = CliRunner().invoke(own, ["--help"]).stdout
    assert "--first" in shown and "--several" in shown and "What it does" in shown


def test_commands_that_read_a_graph_have_the_same_options():
    options = ["--nodes", "--source", "--target", "--weight", "--id", "--label", "--features"]
    for command in ("train", "embed", "info", "links"):
        shown = CliRunner().invoke(app, [command, "--help"])
        assert [option for option in options if option not in shown.stdout] == [], command


def test_paragraphs_of_help_are_not_broken_where_the_code_breaks_them():
    shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).stdout
    assert "torchrun --nproc-per-node 2 -m graphlatent train" in shown


def test_columns_that_were_not_given_are_as_before():
    before = TableOptions(source="a", label="y", features=("x",))
    assert InputOptions().table_options() == TableOptions()
    assert InputOptions().table_options(before) == before
    given = InputOptions(target_column="b", label=["u", "v"], features="p, q,")
    assert given.table_options(before) == TableOptions(
        source="a", target="b", label=("u", "v"), features=("p", "q")
    )


def test_a_run_keeps_how_its_input_was_read(tables):
    assert train(tables, "--label", "city", "--features", "age")[0] == 0
    expected = TableOptions(label=("kind", "city"), features=("age",))
    assert options_of_run(RunFolder(tables / "run")) == expected
    assert "reading" not in json.loads((tables / "run" / "results.json").read_text())
    # It is no setting
    assert read_config(tables / "run" / "config.toml").settings["epochs"] == 3
    config = ["--config", tables / "run" / "config.toml", "--out", tables / "again"]
    assert run("train", tables / "edges.csv", *config)[0] == 0
    assert options_of_run(RunFolder(tables / "again")) == TableOptions()
    assert options_of_run(RunFolder(tables / "nowhere")) == TableOptions()


@pytest.mark.parametrize("reading", ["reading = 5", "[reading]\nlabel = 5", "[reading]\nnew = 'a'"])
def test_a_run_that_does_not_say_how_its_input_was_read(tables, reading):
    train(tables)
    config = tables / "run" / "config.toml"
    text = config.read_text().partition("[reading]")[0]
    config.write_text(f"{reading}\n{text}" if "[" not in reading else f"{text}{reading}\n")
    graph = [tables / "edges.csv", "--nodes", tables / "nodes.csv", "--out", tables / "e.parquet"]
    assert str(config) in fails("embed", tables / "run", *graph)
    # Embeddings say which run they are of, and a run is known by its config.toml too.
    labels = ["--labels", tables / "nodes.csv", "--label", "kind", "--raw", tables / "nodes.csv"]
    assert "another file of this run was changed" in fails("probe", tables / "run", *labels)


def test_a_saved_model_was_read_in_no_particular_way(tmp_path):
    edges = pd.DataFrame({"source": [0, 1], "target": [1, 0]})
    folder = NodeLaGraph(epochs=1, hidden_dim=2).fit(edges).save(tmp_path / "m")
    assert options_of_run(RunFolder(folder)) == TableOptions()


def test_estimators_by_level_and_method():
    assert (estimator_for("node"), estimator_for("graph")) == (NodeLaGraph, GraphLaGraph)
    with pytest.raises(ConfigError, match=r"must be 'node' or 'graph'. Got 'edge'"):
        estimator_for("edge")
    with pytest.raises(ConfigError, match=r"There is no method 'new' at node level.*'lagraph'"):
        estimator_for("node", "new")


def test_a_method_by_name(tables):
    found = json.loads(train(tables, "--method", "dgi", "--json")[1])
    assert (found["method"], found["level"]) == ("dgi", "node")
    assert json.loads(run("info", tables / "run", "--json")[1])["method"] == "dgi"
    (tables / "run" / "manifest.json").unlink()
    resume = ["--out", tables / "run", "--resume", "--method", "lagraph"]
    assert fails("train", tables / "edges.csv", *resume) == (
        f"{tables / 'run'} is a run of method 'dgi'; --method lagraph does not fit. Leave --method"
        " out, or use another --out."
    )
    # The file names its method, the command line goes before it
    config = ["--config", tables / "run" / "config.toml"]
    again = run("train", tables / "edges.csv", *config, "--out", tables / "again", "--json")
    assert json.loads(again[1])["method"] == "dgi"
    assert "alpha" in json.loads(run("settings", "--json")[1])
    assert "alpha" not in json.loads(run("settings", "--method", "dgi", "--json")[1])
    assert "no method 'new' at node level" in fails("settings", "--method", "new")
    links = run("links", tables / "edges.csv", "--method", "dgi", *FAST, "--seeds", 1, "--json")
    assert json.loads(links[1])["method"] == "dgi"


def test_an_encoder_that_only_python_knows(tables):
    (tables / "own.toml").write_text('[settings]\nencoder = "custom:Mine"\n')
    options = ["--config", tables / "own.toml", "--out", tables / "run"]
    assert fails("train", tables / "edges.csv", *options).startswith(
        "This run was trained with your own encoder; continue it from Python"
    )


def test_settings_of_a_graph_level_run_are_read_back(tables):
    options = ["--level", "graph", "--out", tables / "g", *FAST]
    assert run("train", tables / "edges.csv", *options)[0] == 0
    assert run("embed", tables / "g", tables / "edges.csv", "--out", tables / "g.csv")[0] == 0
