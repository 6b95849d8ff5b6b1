"""`graphlatent bench run`: what cannot be measured is refused before anything is, in full
sentences.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from commands import error_output as fails
from commands import run
from graphlatent.bench import runner
from graphlatent.bench.ledger import read_ledger
from graphlatent.bench.loading import recipes_of
from graphlatent.bench.rows import row_names
from graphlatent.bench.runner import Event
from graphlatent.cli.bench_run import MOST_SEEDS, parsed_seeds
from graphlatent.errors import ConfigError
from standins import write_mutag

OWN = 'extends = "table1/MUTAG"\ntable = "own"\n'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    """An empty folder to be in, and no data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHLATENT_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def handed(monkeypatch) -> list[dict]:
    """What the runner is asked for; nothing is measured."""
    calls: list[dict] = []

    def fake(recipes, **options):
        calls.append({"names": [recipe.name for recipe in recipes], **options})
        return [Event("a/b", "raw", 0, "skipped")]

    monkeypatch.setattr(runner, "run_cells", fake)
    return calls


def refused(*args: object) -> str:
    """The whole message of a `bench run` that must fail as a user error: exit code 2, no traceback,
    nothing measured.
    """
    code, out, err = run("bench", "run", *args)
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ") and err.count("\n") == 1 and not Path("results").exists()
    return err.removeprefix("error: ").strip()


class TestRecipes:
    def test_two_of_the_same_name(self, handed):
        for folder in ("a", "b"):
            Path(folder).mkdir()
            Path(folder, "same.toml").write_text(OWN)
        assert (
            refused("a/same.toml", "table1/MUTAG", "b/same.toml")
            == "a/same.toml and b/same.toml have the same name, so their records would be the same."
            " Rename one of them."
        )
        assert handed == []
        Path("b/same.toml").rename("b/other.toml")
        # One file twice is one recipe
        assert run("bench", "run", "a/same.toml", "b/other.toml", "a/../a/same.toml")[0] == 0
        assert handed[0]["names"] == ["same", "other"]

    @pytest.mark.parametrize(
        "text", ["a = " + "[" * 5_000 + "]" * 5_000, "a = " + "{b = " * 5_000 + "1" + "}" * 5_000]
    )
    def test_nested_thousands_deep(self, text):
        Path("deep.toml").write_text(OWN + text)
        assert (
            refused("deep.toml")
            == "deep.toml is nested too deeply. Write its tables and lists without"
            " nesting."
        )


class TestRows:
    @pytest.mark.parametrize("text", ["", " ", ",", " , "])
    def test_none(self, handed, text):
        assert (
            refused("table9/MUTAG-ce-embed", "--rows", text)
            == "--rows must be one or more of ('paper',), separated"
            f" by commas. Got {text!r} instead."
        )
        assert handed == []

    def test_of_no_named_cell(self, handed):
        assert (
            refused("table9/MUTAG-ce-embed", "--rows", "raw, paper,random")
            == "None of the named cells has rows raw, random of --rows. They have: paper."
        )
        assert handed == []
        # One of them has it
        assert (
            run(
                "bench",
                "run",
                "table9/MUTAG-ce-embed",
                "table1/MUTAG",
                "--rows",
                "raw, paper,random",
            )[0]
            == 0
        )
        assert handed[0]["rows"] == ["raw", "paper", "random"]

    def test_of_no_name(self):
        assert (
            refused("table1/MUTAG", "--rows", "row")
            == f"--rows must be among {row_names()}. Got ('row',)"
            " instead."
        )


class TestSeeds:
    @pytest.mark.parametrize(
        "text", ["0-99999999999", "99999999999", "0-1000", "1001", "0-600,400-1200", "0,1-1000"]
    )
    def test_too_many(self, handed, text):
        message = f"--seeds must be 1,000 seeds at most. Got {text!r} instead."
        assert refused("table1/MUTAG", "--seeds", text) == message
        assert handed == []

    @pytest.mark.parametrize("text", ["9" * 5_000, "0-" + "9" * 5_000])
    def test_numbers_that_no_seed_is(self, text):
        message = "--seeds must be how many, such as 5, or which, such as 0-4 or 0,2,7. Got "
        shown = f"'{text[:79]}... ({len(text) + 2:,} characters)"
        assert refused("table1/MUTAG", "--seeds", text) == f"{message}{shown} instead."

    @pytest.mark.parametrize("text", ["1000", "0-999", "0-600,400-999", "7000-7999"])
    def test_just_enough(self, text):
        assert len(parsed_seeds(text)) == MOST_SEEDS

    @given(st.lists(st.tuples(st.integers(0, 1_500), st.integers(0, 700)), min_size=1, max_size=4))
    def test_as_a_slow_count_says(self, parts):
        expected = list(
            dict.fromkeys(seed for start, more in parts for seed in range(start, start + more + 1))
        )
        text = ",".join(f"{start}-{start + more}" for start, more in parts)
        if len(expected) > MOST_SEEDS:
            with pytest.raises(ConfigError, match="1,000 seeds at most"):
                parsed_seeds(text)
        else:
            assert parsed_seeds(text) == expected


class TestPlaces:
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_no_folder_of_data(self, jobs, monkeypatch):
        """Threads stand for processes, which take seconds to start."""
        monkeypatch.setattr(
            runner, "ProcessPoolExecutor", lambda jobs, **_: ThreadPoolExecutor(jobs)
        )
        assert (
            refused(
                "table1/MUTAG",
                "--rows",
                "raw",
                "--seeds",
                "1",
                "--data",
                "nowhere",
                "--device",
                "cpu",
                "--jobs",
                jobs,
            )
            == "There is no folder nowhere, so table1/MUTAG cannot be measured. Give the folder of"
            " the data sets by --data, or leave it out to use GRAPHLATENT_DATA."
        )

    def test_an_empty_folder_of_data_is_one(self, elsewhere):
        options = ["--rows", "raw", "--seeds", "1", "--data", elsewhere, "--device", "cpu"]
        code, out, err = run("bench", "run", "table1/MUTAG", *options)
        assert (code, out) == (2, "0 done, 0 skipped, 1 without data, 0 failed\n")
        assert err == (
            f"error: Nothing was measured. The data set MUTAG is not in {elsewhere}. Download it"
            f" with 'GRAPHLATENT_DATA={elsewhere} graphlatent info MUTAG', or name the folder that"
            " has it by --data.\n"
        )

    def test_rows_that_are_measured_already_do_not_hide_missing_data(self, elsewhere):
        write_mutag(elsewhere / "data")
        command = ["bench", "run", "--rows", "raw", "--seeds", "1", "--device", "cpu"]
        assert run(*command, "table1/MUTAG")[0] == 0
        code, out, err = run(*command, "table1/MUTAG", "table1/NCI1", "table1/DD")
        assert (code, out) == (2, "0 done, 1 skipped, 2 without data, 0 failed\n")
        assert "Nothing was measured. The data sets DD, NCI1 are not in" in err
        assert "Download them with 'graphlatent info DD', and so on" in err

    @pytest.mark.parametrize("results", ["taken", "taken/below/it"])
    def test_a_file_in_the_place_of_the_records(self, handed, results):
        Path("taken").write_text("")
        assert (
            refused("table1/MUTAG", "--results", results)
            == "--results must be a folder of records, and taken is a file. Name another folder; it"
            " is made where it is not."
        )
        assert handed == []
        assert run("bench", "run", "table1/MUTAG", "--results", "new/below/it")[0] == 0


class TestDevice:
    @pytest.mark.parametrize("jobs", [1, 2])
    @pytest.mark.parametrize(
        "options", [["--device", "cuda"], ["--device", "cpu", "--probe-device", "cuda"]]
    )
    def test_no_gpu(self, handed, monkeypatch, options, jobs):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert (
            refused("table1/MUTAG", *options, "--jobs", jobs)
            == "--device cuda asks for a GPU, and torch finds none here. Use --device cpu or"
            " 'auto'."
        )
        assert handed == []

    def test_the_command_says_where_it_was_probed(self, handed):
        run(
            "bench",
            "run",
            "table1/MUTAG",
            "--seeds",
            "1",
            "--device",
            "cpu",
            "--probe-device",
            "auto",
        )
        run("bench", "run", "table1/MUTAG", "--seeds", "1", "--device", "cpu")
        command = "graphlatent bench run table1/MUTAG --seeds 1 --device cpu"
        assert [call["command"] for call in handed] == [f"{command} --probe-device auto", command]


class TestRun:
    def test_from_data_to_a_table(self, elsewhere):
        write_mutag(elsewhere / "data")
        code, out, err = run(
            "bench",
            "run",
            "table1/MUTAG",
            "table1/NCI1",
            "--rows",
            "propagated",
            "--seeds",
            "0-1",
            "--device",
            "cpu",
        )
        assert code == 0, err
        assert out.splitlines()[-1] == "2 done, 0 skipped, 2 without data, 0 failed"
        assert "note: The data set NCI1 is not in" in err
        assert [(r.cell, r.row, r.seed) for r in read_ledger(elsewhere / "results")] == [
            ("table1/MUTAG", "propagated", 0),
            ("table1/MUTAG", "propagated", 1),
        ]
        about = read_ledger(elsewhere / "results")[0].about
        assert (
            about["command"]
            == "graphlatent bench run table1/MUTAG table1/NCI1 --rows propagated --seeds 0-1"
            " --device cpu"
        )
        shown = run("bench", "table", "1")[1]
        (line,) = [
            line for line in shown.splitlines() if line.startswith("| propagated features |")
        ][:1]
        assert "±" in line.split(" | ")[4]
        assert (
            run("bench", "run", "table1/MUTAG", "--rows", "propagated", "--seeds", "0-1")[1]
            == "0 done, 2 skipped, 0 without data, 0 failed\n"
        )

    def test_what_is_handed_on_and_told(self, elsewhere, monkeypatch):
        handed = {}
        events = [
            Event("a/b", "raw", 0, "done", "50.0"),
            Event("a/b", "raw", 1, "failed", "ValueError: [no]"),
            Event("a/b", "raw", 2, "skipped"),
        ]

        def fake(recipes, *, on_event, **options):
            handed.update(options, names=[recipe.name for recipe in recipes])
            for event in events:
                on_event(event)
            return events

        monkeypatch.setattr(runner, "run_cells", fake)
        (elsewhere / "wide.toml").write_text('extends = "table1/MUTAG"\ntable = "own"\n')
        command = [
            "bench",
            "run",
            "wide.toml",
            "--table",
            "1",
            "--rows",
            "raw, paper",
            "--seeds",
            "3,0-1",
            "--jobs",
            "2",
        ]
        code, out, err = run(*command, "--data", "d", "--results", "r")
        assert code == 1  # something failed
        assert out == "[1/54] a/b raw, seed 0: 50.0\n1 done, 1 skipped, 0 without data, 1 failed\n"
        assert err == "failed: [2/54] a/b raw, seed 1: ValueError: [no]\n"
        assert handed == {
            "names": ["wide", *(recipe.name for recipe in recipes_of("1"))],
            "seeds": [3, 0, 1],
            "rows": ["raw", "paper"],
            "ledger": Path("r"),
            "data": Path("d"),
            "device": "auto",
            "probe_device": None,
            "jobs": 2,
            "command": (
                "graphlatent bench run wide.toml --table 1 --rows 'raw, paper' --seeds 3,0-1"
                " --device auto"
            ),
        }
        found = json.loads(run(*command, "--json")[1])
        assert (found["done"], found["failed"], found["missing"], len(found["events"])) == (
            1,
            1,
            0,
            3,
        )

    def test_seeds(self):
        assert parsed_seeds("0-4") == [0, 1, 2, 3, 4] and parsed_seeds("7, 2-3,2") == [7, 2, 3]
        assert parsed_seeds("5") == [0, 1, 2, 3, 4] and parsed_seeds("5-5") == [5]

    @pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "0.5"])
    def test_no_seeds(self, text):
        message = (
            "--seeds must be how many, such as 5, or which, such as"
            f" 0-4 or 0,2,7. Got {text!r} instead."
        )
        assert message in fails("bench", "run", "table1/MUTAG", f"--seeds={text}")

    def test_failures(self):
        assert "error: Nothing to run. Name cells, such as table1/MUTAG, or a table" in fails(
            "bench", "run"
        )
        assert "There is no recipe 'table1/MUTAK'." in fails("bench", "run", "table1/MUTAK")
        assert "--table must be one of ('1'," in fails("bench", "run", "--table", "4")
        assert "--rows must be among ('raw'," in fails(
            "bench", "run", "table1/MUTAG", "--rows", "row"
        )
