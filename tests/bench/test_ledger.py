from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from graphlatent.bench.differences import by_seed
from graphlatent.bench.ledger import (
    Record,
    read_ledger,
    read_record,
    record_path,
    results_of,
    surroundings,
    write_record,
)
from graphlatent.cli.app import app
from graphlatent.errors import InputError
from graphlatent.probes.results import Choice, ProbeResult


def result(*scores: float, val_score: float = 0.5, splits: str = "s") -> ProbeResult:
    choices = tuple(
        Choice("epoch 1", {"strength": 0.1, "preprocessing": "none"}, val_score) for _ in scores
    )
    return ProbeResult(scores, choices, "On validation.", "accuracy", {"micro-F1": scores}, splits)


def record(
    cell: str = "table1/MUTAG", row: str = "paper", seed: int = 0, **results: ProbeResult
) -> Record:
    return Record(
        cell,
        row,
        seed,
        {"linear/validation": result(0.5, 0.75), **results},
        {"command": "c"},
        {"epochs": 3},
    )


def write(root: Path, **changed: Any) -> Path:
    """A record's file with some of its values changed by hand."""
    path = write_record(root, record())
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, **changed}))
    return path


class TestWriteAndRead:
    def test_the_file_by_hand(self, tmp_path):
        path = write_record(tmp_path, record(seed=3))
        assert (
            path
            == tmp_path / "table1" / "MUTAG" / "paper-3.json"
            == record_path(tmp_path, "table1/MUTAG", "paper", 3)
        )
        choice = {
            "candidate": "epoch 1",
            "settings": {"strength": 0.1, "preprocessing": "none"},
            "val_score": 0.5,
        }
        assert json.loads(path.read_text()) == {
            "cell": "table1/MUTAG",
            "row": "paper",
            "seed": 3,
            "results": {
                "linear/validation": {
                    "scores": [0.5, 0.75],
                    "choices": [choice, choice],
                    "selection": "On validation.",
                    "metric": "accuracy",
                    "others": {"micro-F1": [0.5, 0.75]},
                    "splits": "s",
                }
            },
            "about": {"command": "c"},
            "training": {"epochs": 3},
        }

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(0, 1), st.integers(0, 99))
    def test_what_was_written_is_read(self, tmp_path_factory, scores, val_score, seed):
        root = tmp_path_factory.mktemp("ledger")
        written = replace(record(seed=seed), results={"a/b": result(*scores, val_score=val_score)})
        assert read_record(write_record(root, written)) == written

    def test_nothing_to_choose_is_null_in_the_file_and_nan_in_the_record(self, tmp_path):
        path = write_record(tmp_path, record(fixed=result(1.0, val_score=math.nan)))
        assert json.loads(path.read_text())["results"]["fixed"]["choices"][0]["val_score"] is None
        back = read_record(path).results["fixed"]
        assert math.isnan(back.choices[0].val_score) and back.scores == (1.0,)


class TestReadLedger:
    def test_by_cell_row_and_seed(self, tmp_path):
        keys = [("b", "raw", 10), ("a/x", "raw", 2), ("a/x", "paper", 10), ("a/x", "paper", 9)]
        for key in keys:
            write_record(tmp_path, record(*key))
        (tmp_path / "absent.json").write_text("{}")  # no record, and no name of one
        assert [(r.cell, r.row, r.seed) for r in read_ledger(tmp_path)] == sorted(keys)
        assert [(r.cell, r.row, r.seed) for r in read_ledger(tmp_path, ["b", "b"])] == [
            ("b", "raw", 10)
        ]

    def test_nothing_measured(self, tmp_path):
        assert (
            read_ledger(tmp_path)
            == read_ledger(tmp_path / "no folder")
            == read_ledger(tmp_path, ["table1/MUTAG"])
            == []
        )

    def test_results_of_one_row_in_the_order_of_seeds(self, tmp_path):
        for seed, score in ((2, 0.2), (1, 0.1)):
            write_record(tmp_path, record(seed=seed, fixed=result(score)))
        write_record(tmp_path, record(row="raw", fixed=result(0.9)))
        found = results_of(read_ledger(tmp_path), cell="table1/MUTAG", row="paper", result="fixed")
        assert [each.scores for each in found] == [(0.1,), (0.2,)]
        assert (
            results_of(read_ledger(tmp_path), cell="table1/MUTAG", row="paper", result="rbf/test")
            == []
        )

    def test_a_copy_is_not_counted_twice(self, tmp_path):
        path = write_record(tmp_path, record())
        copy = path.with_name("paper-1.json")
        copy.write_text(path.read_text())
        message = f"{copy} holds the record that belongs into {path}. Delete it, or move it there."
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            read_ledger(tmp_path)


class TestDamage:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "null",
            "3",
            '"record"',
            "{}",
            '{"results": []}',
            '{"results": {"a": 3}}',
            "\x00",
        ],
    )
    def test_no_record(self, tmp_path, text):
        path = tmp_path / "paper-0.json"
        path.write_text(text)
        pattern = (
            rf"^{re.escape(str(path))} is not a record of the ledger \(\w+: .*\)\. Delete it and"
            r" run its cell again\.$"
        )
        with pytest.raises(InputError, match=pattern):
            read_record(path)

    def test_every_truncation(self, tmp_path):
        path = write_record(tmp_path, record())
        whole = path.read_bytes().rstrip()
        for length in range(0, len(whole), 7):
            path.write_bytes(whole[:length])
            with pytest.raises(
                InputError, match=r"is not a record of the ledger \(JSONDecodeError: "
            ):
                read_record(path)

    def test_no_text(self, tmp_path):
        path = write_record(tmp_path, record())
        path.write_bytes(b"\xff" + path.read_bytes())
        with pytest.raises(
            InputError, match=r"is not a record of the ledger \(UnicodeDecodeError: "
        ):
            read_record(path)

    @pytest.mark.parametrize(
        "scores", [[], "0.5", [None], ["0.5"], [1.5], [-0.1], [True], [float("nan")], [0.5, 50.0]]
    )
    def test_scores_that_are_none(self, tmp_path, scores):
        values = {**result(0.5).to_dict(), "scores": scores}
        path = write(tmp_path, results={"linear/fixed": values})
        why = re.escape(
            f"ValueError: scores must be one or more numbers from 0 to 1, got {list(scores)}"
        )
        with pytest.raises(InputError, match=rf"is not a record of the ledger \({why}\)"):
            read_record(path)

    @pytest.mark.parametrize(
        "changed",
        [{"about": 3}, {"training": "long"}, {"results": None}, {"seed": True}, {"seed": 1.5}],
    )
    def test_a_value_of_another_type(self, tmp_path, changed):
        with pytest.raises(InputError, match="is not a record of the ledger"):
            read_record(write(tmp_path, **changed))

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            ({"cell": 5}, "cell must be text, got 5"),
            ({"row": None}, "row must be text, got None"),
            ({"seed": "one"}, "seed must be an integer, got 'one'"),
            ({"seed": None}, "seed must be an integer, got None"),
            (
                {"results": {"a": {**result(0.5).to_dict(), "selection": 5}}},
                "selection must be text, got 5",
            ),
            (
                {"results": {"a": {**result(0.5).to_dict(), "metric": []}}},
                "metric must be text, got []",
            ),
            (
                {"results": {"a": {**result(0.5).to_dict(), "splits": None}}},
                "splits must be text, got None",
            ),
            (
                {"results": {"a": {**result(0.5).to_dict(), "others": {"f": "x"}}}},
                "f must be one number for each of the 1 scores, got ['x']",
            ),
            (
                {"results": {"a": {**result(0.5).to_dict(), "others": {"f": [1, 0]}}}},
                "f must be one number for each of the 1 scores, got [1, 0]",
            ),
        ],
    )
    def test_words_and_numbers_that_are_none(self, tmp_path, changed, why):
        path = write(tmp_path, **changed)
        message = (
            f"{path} is not a record of the ledger (ValueError: {why}). Delete it and run its cell"
            " again."
        )
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            read_ledger(tmp_path)
        result = CliRunner().invoke(
            app, ["bench", "table", "1", "--results", str(tmp_path), "--data", str(tmp_path)]
        )
        assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")

    def test_nested_thousands_deep(self, tmp_path):
        path = tmp_path / "paper-0.json"
        path.write_text("[" * 100_000)
        with pytest.raises(InputError, match=r"is not a record of the ledger \(RecursionError: "):
            read_record(path)


class TestRecipes:
    MESSAGE = (
        "The seeds of table1/MUTAG, row 'paper', were measured with different recipes, so they"
        " cannot be averaged: seeds 0, 2 with recipe abc; 1 with recipe def. Run the cell again"
        " with all of these seeds: what was measured with another recipe is then measured anew."
    )

    def ledger(self, root: Path, *recipes: str | None) -> list[Record]:
        for seed, recipe in enumerate(recipes):
            write_record(
                root, replace(record(seed=seed), about={} if recipe is None else {"recipe": recipe})
            )
        return read_ledger(root)

    @pytest.mark.parametrize("gather", [results_of, by_seed])
    def test_seeds_of_different_recipes_are_not_gathered(self, tmp_path, gather):
        records = self.ledger(tmp_path, "abc", "def", "abc", None)
        with pytest.raises(InputError, match=f"^{re.escape(self.MESSAGE)}$"):
            gather(records, cell="table1/MUTAG", row="paper", result="linear/validation")
        # None of them has it
        assert len(gather(records, cell="table1/MUTAG", row="paper", result="linear/fixed")) == 0
        assert (
            len(
                gather(
                    [records[0], records[2]],
                    cell="table1/MUTAG",
                    row="paper",
                    result="linear/validation",
                )
            )
            == 2
        )

    @pytest.mark.parametrize("gather", [results_of, by_seed])
    def test_no_recipe_goes_with_any(self, tmp_path, gather):
        records = [
            *self.ledger(tmp_path, None, "abc", None, "abc"),
            replace(record(row="raw"), about={"recipe": "def"}),
        ]
        assert (
            len(gather(records, cell="table1/MUTAG", row="paper", result="linear/validation")) == 4
        )

    @pytest.mark.parametrize(
        "command", [["table", "1"], ["compare", "table1/MUTAG:paper", "table1/MUTAG:paper"]]
    )
    def test_on_the_command_line(self, tmp_path, command):
        self.ledger(tmp_path, "abc", "def", "abc")
        result = CliRunner().invoke(app, ["bench", *command, "--results", str(tmp_path)])
        assert (result.exit_code, result.stderr) == (2, f"error: {self.MESSAGE}\n")


def test_surroundings_say_with_what_on_what_and_when():
    found = surroundings(torch.device("cpu"))
    assert set(found) == {"commit", "versions", "device", "hardware", "date"}
    assert found["versions"]["torch"] == torch.__version__ and found["device"] == "cpu"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"]) and re.search(
        r"CPU, \d+ thread", found["hardware"]
    )


def test_a_copy_without_history_can_say_its_commit(monkeypatch):
    monkeypatch.setenv("GRAPHLATENT_COMMIT", "abc1234")
    assert surroundings(torch.device("cpu"))["commit"] == "abc1234"
