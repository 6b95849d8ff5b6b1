from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlatent.bench.loading import load_recipe, read_recipe
from graphlatent.bench.recipe import Published
from graphlatent.errors import ConfigError

PARENT = 'extends = "table1/MUTAG"\n'
OWN = PARENT + 'table = "own"\n'
A_FILE = "A recipe of your own is a file, such as own.toml (in Python: read_recipe)."
NO_NAME = "A name is a table and a cell, such as 'table1/NCI1'."


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


class TestExtends:
    def test_by_hand(self, tmp_path):
        mine = read_recipe(
            write(
                tmp_path,
                OWN + 'line = "wide"\n[settings]\nhidden_dim = 64\n[ours]\nhidden_dim = "Mine."\n',
            )
        )
        parent = load_recipe("table1/MUTAG")
        assert mine.paper == {**parent.paper, "hidden_dim": 64} and mine.paper["lr"] == 1e-5
        assert mine.ours == {**parent.ours, "hidden_dim": "Mine."}
        changed = {
            "name": "mine",
            "table": "own",
            "line": "wide",
            "paper": mine.paper,
            "ours": mine.ours,
            "published": None,
            "best": {},
        }
        assert mine == dataclasses.replace(parent, **changed)
        assert parent == load_recipe("table1/MUTAG")

    def test_the_example_of_the_docs(self, tmp_path):
        page = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
        mine = read_recipe(
            write(tmp_path, page.split("## Your own")[1].split("```toml\n")[1].split("```")[0])
        )
        assert (mine.line, mine.settings().hidden_dim, mine.ours["hidden_dim"]) == (
            "LaGraph, width 64",
            64,
            "Twice the paper's width.",
        )

    def test_a_chain_of_own_files(self, tmp_path):
        write(
            tmp_path,
            OWN + "[settings]\nalpha = 3\nlr = 0.5\n[published]\nmean = 50\nsource = 'here'\n",
            "base.toml",
        )
        mine = read_recipe(str(write(tmp_path, 'extends = "base.toml"\n[settings]\nlr = 0.25\n')))
        assert (mine.paper["alpha"], mine.paper["lr"], mine.paper["mask_ratio"]) == (3, 0.25, 0.05)
        assert mine.published is None and read_recipe(
            tmp_path / "base.toml"
        ).published == Published(50, "here")

    @given(
        values=st.fixed_dictionaries(
            {}, optional={k: st.floats(0.01, 1) for k in ("alpha", "lr", "mask_ratio", "noise_std")}
        )
    )
    def test_what_is_given_wins_and_the_rest_is_inherited(self, values, tmp_path_factory):
        text = (
            OWN + "[settings]\n" + "".join(f"{key} = {value!r}\n" for key, value in values.items())
        )
        mine = read_recipe(write(tmp_path_factory.mktemp("own"), text))
        assert mine.paper == {**load_recipe("table1/MUTAG").paper, **values}

    def test_a_circle(self, tmp_path):
        write(tmp_path, 'extends = "a.toml"\n', "b.toml")
        with pytest.raises(ConfigError) as error:
            read_recipe(write(tmp_path, 'extends = "b.toml"\n', "a.toml"))
        assert (
            str(error.value)
            == "Recipes must not extend each other in a circle: a.toml -> b.toml -> a.toml. Leave"
            " out one 'extends'."
        )
        with pytest.raises(ConfigError, match=r"in a circle: c\.toml -> c\.toml\."):
            read_recipe(write(tmp_path, 'extends = "c.toml"\n', "c.toml"))

    @pytest.mark.parametrize(
        "parent", ["../x", "../x.toml", "sub/x.toml", "/etc/hosts.toml", "", ".toml"]
    )
    def test_is_no_path(self, tmp_path, parent):
        write(tmp_path, OWN, "x.toml")
        (tmp_path / "sub").mkdir()
        write(tmp_path / "sub", OWN, "x.toml")
        with pytest.raises(ConfigError) as error:
            read_recipe(write(tmp_path / "sub", f'extends = "{parent}"\n'))
        assert str(error.value) == f"There is no recipe {parent!r}. {NO_NAME} {A_FILE}"

    def test_is_a_name(self, tmp_path):
        with pytest.raises(ConfigError) as error:
            read_recipe(write(tmp_path, "extends = 1\n"))
        assert (
            str(error.value)
            == "The 'extends' parameter of recipe 'mine' must be the name of a recipe. Got 1"
            " instead."
        )


class TestFailures:
    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("table1/MUTG", "Did you mean 'table1/MUTAG'?"),
            ("table1/mutag", "Did you mean 'table1/MUTAG'?"),
            ("table1/../table1/MUTAG", "Did you mean 'table1/MUTAG'?"),
            ("../x", NO_NAME),
            ("/etc/passwd", NO_NAME),
            ("", NO_NAME),
        ],
    )
    def test_names_that_are_not_there(self, name, hint):
        with pytest.raises(ConfigError) as error:
            load_recipe(name)
        assert str(error.value) == f"There is no recipe {name!r}. {hint} {A_FILE}"

    def test_bad_files(self, tmp_path):
        with pytest.raises(ConfigError, match=r"^.*mine\.toml is not valid TOML: Invalid value"):
            read_recipe(write(tmp_path, "a = \n"))
        (tmp_path / "mine.toml").write_bytes(b"a = '\xff'")
        with pytest.raises(
            ConfigError, match=r"^.*mine\.toml is not valid TOML: 'utf-8' codec can't decode"
        ):
            read_recipe(tmp_path / "mine.toml")
        with pytest.raises(
            ConfigError, match=r"^Cannot read .*none\.toml: No such file or directory\.$"
        ):
            read_recipe(tmp_path / "none.toml")

    def test_missing_keys(self, tmp_path):
        with pytest.raises(ConfigError) as error:
            read_recipe(write(tmp_path, 'table = "own"\n'))
        assert (
            str(error.value)
            == "Missing in recipe 'mine': 'column', 'line', 'dataset', 'level', 'protocol',"
            " 'metric', 'rows', 'settings', 'evaluation'. Give it there, or extend a recipe that"
            " has it."
        )

    def test_an_unknown_data_set(self, tmp_path):
        with pytest.raises(
            ConfigError,
            match=(
                r"^The data set of recipe 'mine' is not known\. .* Known are NCI1, .* Did you mean"
                r" 'MUTAG'\?$"
            ),
        ):
            read_recipe(write(tmp_path, OWN + 'dataset = "MUTAGG"\n'))

    def test_ours_is_about_what_the_recipe_gives(self, tmp_path):
        with pytest.raises(
            ConfigError,
            match=(
                r"^Unknown key 'last_norm' in \[ours\] of recipe 'mine'\. Known keys: activation,"
                r" alpha, "
            ),
        ):
            read_recipe(
                write(tmp_path, OWN + "[ours]\nlast_norm = 'A setting, but not given here.'\n")
            )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('colum = "x"', "Unknown key 'colum' in recipe 'mine'. Did you mean 'column'?"),
            ("[setings]", "Unknown key 'setings' in recipe 'mine'. Did you mean 'settings'?"),
            (
                "[settings]\nlrr = 1",
                "Unknown setting 'lrr' in [settings] of recipe 'mine'. Did you mean 'lr'?",
            ),
            (
                "[released]\nepoch = 1",
                "Unknown setting 'epoch' in [released] of recipe 'mine'. Did you mean 'epochs'?",
            ),
            (
                "[settings]\nbatching = 'full'",
                (
                    "Unknown setting 'batching' in [settings] of recipe 'mine'. Did you mean"
                    " 'batch_size'?"
                ),
            ),
            (
                "[published]\nmeen = 1",
                "Unknown key 'meen' in [published] of recipe 'mine'. Did you mean 'mean'?",
            ),
            (
                "[evaluation]\nprobe_epochs = 3",
                (
                    "Unknown key 'probe_epochs' in [evaluation] of recipe 'mine'. Did you mean"
                    " 'epochs'?"
                ),
            ),
            (
                "[evaluation]\nxyz = 3",
                "Unknown key 'xyz' in [evaluation] of recipe 'mine'. Known keys: budget, epochs.",
            ),
            (
                "[ours]\nlrx = 'Why.'",
                "Unknown key 'lrx' in [ours] of recipe 'mine'. Did you mean 'lr'?",
            ),
        ],
    )
    def test_unknown_keys(self, tmp_path, text, message):
        with pytest.raises(ConfigError) as error:
            read_recipe(write(tmp_path, PARENT + text + "\n"))
        assert str(error.value) == message
