"""Wrong values in recipe files are named, with what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlatent.bench.loading import read_recipe
from graphlatent.bench.recipe_files import table_files
from graphlatent.bench.rows import row_names
from graphlatent.errors import ConfigError

PARENT = 'extends = "table1/MUTAG"\n'
ROWS = row_names()
TABLES = (*(table.name for table in table_files()), "own")


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


class TestFailures:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "line = 3",
                (
                    "The 'line' parameter of recipe 'mine' must be text that is not empty. Got 3"
                    " instead."
                ),
            ),
            (
                'table = "4"',
                f"The 'table' parameter of recipe 'mine' must be one of {TABLES}. Got '4' instead.",
            ),
            (
                'line = " "',
                (
                    "The 'line' parameter of recipe 'mine' must be text that is not empty. Got ' '"
                    " instead."
                ),
            ),
            (
                'metric = "auc"',
                (
                    "The 'metric' parameter of recipe 'mine' must be one of ('accuracy',"
                    " 'micro-F1'). Got 'auc' instead."
                ),
            ),
            (
                'level = "edge"',
                (
                    "The 'level' parameter of recipe 'mine' must be one of ('graph', 'node'). Got"
                    " 'edge' instead."
                ),
            ),
            (
                'protocol = "splits"',
                (
                    "The 'protocol' parameter of recipe 'mine', whose data set is MUTAG, must be"
                    " one of ('folds', 'few-labels'). Got 'splits' instead."
                ),
            ),
            (
                'protocol = "loo"',
                (
                    "The 'protocol' parameter of recipe 'mine' must be one of ('folds',"
                    " 'few-labels', 'splits', 'inductive', 'inductive-graphs'). Got 'loo' instead."
                ),
            ),
            (
                'dataset = "CS"',
                (
                    "The 'level' parameter of recipe 'mine' must be 'node' for the data set CS. Got"
                    " 'graph' instead."
                ),
            ),
            (
                "binarize = 1",
                "The 'binarize' parameter of recipe 'mine' must be true or false. Got 1 instead.",
            ),
            (
                'rows = ["paper", "papers"]',
                (
                    "The 'rows' parameter of recipe 'mine' must be a list of different names out"
                    f" of {ROWS}. Got ['paper', 'papers'] instead."
                ),
            ),
            (
                'rows = ["raw", "raw"]',
                (
                    "The 'rows' parameter of recipe 'mine' must be a list of different names out"
                    f" of {ROWS}. Got ['raw', 'raw'] instead."
                ),
            ),
            (
                "rows = []",
                (
                    "The 'rows' parameter of recipe 'mine' must be a list of different names out"
                    f" of {ROWS}. Got [] instead."
                ),
            ),
            (
                'rows = "paper"',
                (
                    "The 'rows' parameter of recipe 'mine' must be a list of different names out"
                    f" of {ROWS}. Got 'paper' instead."
                ),
            ),
            (
                "settings = 3",
                (
                    "The 'settings' parameter of recipe 'mine' must be a table [settings]. Got 3"
                    " instead."
                ),
            ),
            (
                "[settings]\nalpha = 'x'",
                (
                    "The 'alpha' parameter of [settings] of recipe 'mine' must be a float in the"
                    " range [0, inf). Got 'x' instead."
                ),
            ),
            (
                "[settings]\nepochs = 7",
                (
                    "The 'epochs' parameter of [settings] of recipe 'mine' must be the last of its"
                    " evaluation epochs, 50. Got 7 instead."
                ),
            ),
            (
                "[settings]\nobjective = 'ce-embed'",
                (
                    "objective='ce-embed' of [released] of recipe 'mine' needs"
                    " output_activation='none': its outputs are logits."
                ),
            ),
            (
                "[settings]\nrandom_state = 1",
                (
                    "The setting 'random_state' has no place in [settings] of recipe 'mine': it is"
                    " given when the recipe is run."
                ),
            ),
            (
                "[released]\ndevice = 'cpu'",
                (
                    "The setting 'device' has no place in [released] of recipe 'mine': it is given"
                    " when the recipe is run."
                ),
            ),
            (
                "[ours]\nlr = 1",
                (
                    "The 'lr' parameter of [ours] of recipe 'mine' must be text that is not empty."
                    " Got 1 instead."
                ),
            ),
            (
                "[evaluation]\nepochs = [1, 50, 10]",
                (
                    "The 'epochs' parameter of [evaluation] of recipe 'mine' must be a list of one"
                    " or more ascending ints of at least 0. Got [1, 50, 10] instead."
                ),
            ),
            (
                "[evaluation]\nepochs = [true]",
                (
                    "The 'epochs' parameter of [evaluation] of recipe 'mine' must be a list of one"
                    " or more ascending ints of at least 0. Got [True] instead."
                ),
            ),
            (
                "[evaluation]\nbudget = 7",
                (
                    "The 'budget' parameter of [evaluation] of recipe 'mine' must be one of its"
                    " epochs, [1, 2, 5, 10, 20, 50]. Got 7 instead."
                ),
            ),
            (
                "[evaluation]\nbudget = 5.0",
                (
                    "The 'budget' parameter of [evaluation] of recipe 'mine' must be an int from 0."
                    " Got 5.0 instead."
                ),
            ),
            (
                "[published]\nmean = 1",
                (
                    "Missing in [published] of recipe 'mine': 'source'. Give it there: a published"
                    " number is not inherited."
                ),
            ),
            (
                "[published]\nsource = 'x'\nmean = 101",
                (
                    "The 'mean' parameter of [published] of recipe 'mine' must be a number from 0"
                    " to 100. Got 101 instead."
                ),
            ),
            (
                "[published]\nsource = 'x'\nmean = nan",
                (
                    "The 'mean' parameter of [published] of recipe 'mine' must be a number from 0"
                    " to 100. Got nan instead."
                ),
            ),
            (
                "[published]\nsource = 'x'\nmean = 1\nruns = true",
                (
                    "The 'runs' parameter of [published] of recipe 'mine' must be an int from 1."
                    " Got True instead."
                ),
            ),
        ],
    )
    def test_wrong_values(self, tmp_path, text, message):
        with pytest.raises(ConfigError) as error:
            read_recipe(write(tmp_path, PARENT + text + "\n"))
        assert str(error.value) == message
