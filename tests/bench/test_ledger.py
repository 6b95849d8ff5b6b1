"""Records: what is written is read, the last of a row and seed counts, damage is named."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from graphlatent.bench.differences import by_seed
from graphlatent.bench.fingerprint import define
from graphlatent.bench.ledger import (
    Record,
    append_record,
    compact,
    ledger_file,
    read_ledger,
    results_of,
)
from graphlatent.bench.loading import load_recipe
from graphlatent.bench.rows import find_row
from graphlatent.cli.app import app
from graphlatent.errors import InputError
from graphlatent.probes.results import Choice, ProbeResult

CELL = "table1/MUTAG"


def result(*scores: float, val_score: float = 0.5, splits: str = "s") -> ProbeResult:
    choices = tuple(
        Choice("epoch 1", {"l2": 0.1, "preprocessing": "none"}, val_score) for _ in scores
    )
    return ProbeResult(scores, choices, "On validation.", "accuracy", {"micro-F1": scores}, splits)


def record(cell: str = CELL, row: str = "paper", seed: int = 0, **results: ProbeResult) -> Record:
    return Record(
        cell,
        row,
        seed,
        {"linear/validation": result(0.5, 0.75), **results},
        {"command": "c"},
        {"epochs": 3},
    )


def write(root: Path, **changed: Any) -> Path:
    """A file of one record with some of its values changed by hand."""
    path = append_record(root, record())
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, **changed}) + "\n")
    return path


class TestWriteAndRead:
    def test_the_line_by_hand(self, tmp_path):
        path = append_record(tmp_path, record(seed=3))
        assert path == tmp_path / "table1.jsonl" == ledger_file(tmp_path, CELL)
        assert ledger_file(tmp_path, "wide") == tmp_path / "own.jsonl"
        choice = {
            "candidate": "epoch 1",
            "settings": {"l2": 0.1, "preprocessing": "none"},
            "val_score": 0.5,
        }
        (line,) = path.read_text().splitlines()
        assert json.loads(line) == {
            "cell": CELL,
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
            "definition": {},
        }

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(0, 1), st.integers(0, 99))
    def test_what_was_written_is_read(self, tmp_path_factory, scores, val_score, seed):
        root = tmp_path_factory.mktemp("ledger")
        written = replace(
            record(seed=seed),
            results={"a/b": result(*scores, val_score=val_score)},
            definition=define(load_recipe(CELL), find_row("paper")),
        )
        append_record(root, written)
        assert read_ledger(root) == [written]

    def test_nothing_to_choose_is_null_in_the_file_and_nan_in_the_record(self, tmp_path):
        path = append_record(tmp_path, record(fixed=result(1.0, val_score=math.nan)))
        assert json.loads(path.read_text())["results"]["fixed"]["choices"][0]["val_score"] is None
        (back,) = read_ledger(tmp_path)
        assert math.isnan(back.results["fixed"].choices[0].val_score)
        assert back.results["fixed"].scores == (1.0,)


class TestReadLedger:
    def test_by_cell_row_and_seed(self, tmp_path):
        keys = [("b", "raw", 10), ("a/x", "raw", 2), ("a/x", "paper", 10), ("a/x", "paper", 9)]
        for key in keys:
            append_record(tmp_path, record(*key))
        (tmp_path / "absent.json").write_text("{}")  # no records
        assert [r.key for r in read_ledger(tmp_path)] == sorted(keys)
        assert [r.key for r in read_ledger(tmp_path, ["b", "b", "c"])] == [("b", "raw", 10)]

    def test_nothing_measured(self, tmp_path):
        assert (
            read_ledger(tmp_path)
            == read_ledger(tmp_path / "no folder")
            == read_ledger(tmp_path, [CELL])
            == []
        )

    def test_the_last_line_of_a_row_and_seed_counts(self, tmp_path):
        for score in (0.1, 0.2, 0.3):
            append_record(tmp_path, record(fixed=result(score)))
            append_record(tmp_path, record(seed=1, fixed=result(score + 0.1)))
        assert [r.results["fixed"].scores for r in read_ledger(tmp_path)] == [(0.3,), (0.4,)]

    def test_results_of_one_row_in_the_order_of_seeds(self, tmp_path):
        for seed, score in ((2, 0.2), (1, 0.1)):
            append_record(tmp_path, record(seed=seed, fixed=result(score)))
        append_record(tmp_path, record(row="raw", fixed=result(0.9)))
        records = read_ledger(tmp_path)
        found = results_of(records, cell=CELL, row="paper", result="fixed")
        assert [each.scores for each in found] == [(0.1,), (0.2,)]
        assert results_of(records, cell=CELL, row="paper", result="rbf/test") == []

    def test_a_record_in_the_file_of_another_table(self, tmp_path):
        path = append_record(tmp_path, record())
        other = tmp_path / "table2.jsonl"
        path.rename(other)
        message = (
            f"Line 1 of {other} holds a record of {CELL}, which belongs into {path}. Delete the"
            " line, or move it there."
        )
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            read_ledger(tmp_path)


class TestCompact:
    def test_replaced_lines_go_and_the_rest_is_sorted(self, tmp_path):
        for seed, score in ((1, 0.1), (0, 0.2), (1, 0.3)):
            append_record(tmp_path, record(seed=seed, fixed=result(score)))
        append_record(tmp_path, record("wide"))
        before = read_ledger(tmp_path)
        assert compact(tmp_path) == {tmp_path / "own.jsonl": 0, tmp_path / "table1.jsonl": 1}
        lines = (tmp_path / "table1.jsonl").read_text().splitlines()
        assert [json.loads(line)["seed"] for line in lines] == [0, 1]
        assert read_ledger(tmp_path) == before
        assert compact(tmp_path) == {tmp_path / "own.jsonl": 0, tmp_path / "table1.jsonl": 0}

    def test_a_damaged_file_is_left_as_it_is(self, tmp_path):
        path = append_record(tmp_path, record())
        path.write_text(path.read_text() + "{}\n")
        before = path.read_bytes()
        with pytest.raises(InputError, match=r"^Line 2 of .* is not a record of the ledger"):
            compact(tmp_path)
        assert path.read_bytes() == before
        path.write_bytes(b"\xff\xff\n")
        with pytest.raises(InputError, match="Cannot read the records"):
            compact(tmp_path)


class TestDamage:
    @pytest.mark.parametrize(
        "text",
        ["", "{", "[]", "null", "3", '"record"', "{}", '{"results": []}', '{"results": {"a": 3}}'],
    )
    def test_no_record(self, tmp_path, text):
        path = append_record(tmp_path, record())
        path.write_text(path.read_text() + text + "\n")
        pattern = (
            rf"^Line 2 of {re.escape(str(path))} is not a record of the ledger \(\w+: .*\)\."
            r" Delete the line and run its cell again\.$"
        )
        with pytest.raises(InputError, match=pattern):
            read_ledger(tmp_path)

    def test_a_line_that_was_cut(self, tmp_path):
        """In the middle of a file it is damage; at its end, what a killed process left."""
        path = append_record(tmp_path, record())
        whole = path.read_bytes()
        for length in range(1, len(whole) - 1, 37):
            path.write_bytes(whole[:length] + b"\n" + whole)
            with pytest.raises(InputError, match=r"^Line 1 of .* \(JSONDecodeError: "):
                read_ledger(tmp_path)
            path.write_bytes(whole + whole[:length])
            assert read_ledger(tmp_path) == [record()]

    def test_no_text(self, tmp_path):
        path = append_record(tmp_path, record())
        path.write_bytes(b"\xff" + path.read_bytes())
        with pytest.raises(
            InputError, match=f"^Cannot read the records in {re.escape(str(path))}: 'utf-8' codec"
        ):
            read_ledger(tmp_path)

    @pytest.mark.parametrize(
        "scores", [[], "0.5", [None], ["0.5"], [1.5], [-0.1], [True], [float("nan")], [0.5, 50.0]]
    )
    def test_scores_that_are_none(self, tmp_path, scores):
        values = {**result(0.5).to_dict(), "scores": scores}
        write(tmp_path, results={"linear/fixed": values})
        why = re.escape(
            f"ValueError: scores must be one or more numbers from 0 to 1, got {list(scores)}"
        )
        with pytest.raises(InputError, match=rf"is not a record of the ledger \({why}\)"):
            read_ledger(tmp_path)

    @pytest.mark.parametrize(
        "changed",
        [
            {"about": 3},
            {"training": "long"},
            {"definition": 1},
            {"results": None},
            {"seed": True},
            {"seed": 1.5},
        ],
    )
    def test_a_value_of_another_type(self, tmp_path, changed):
        write(tmp_path, **changed)
        with pytest.raises(InputError, match="is not a record of the ledger"):
            read_ledger(tmp_path)

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
            f"Line 1 of {path} is not a record of the ledger (ValueError: {why}). Delete the line"
            " and run its cell again."
        )
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            read_ledger(tmp_path)
        result = CliRunner().invoke(
            app, ["bench", "table", "1", "--results", str(tmp_path), "--data", str(tmp_path)]
        )
        assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")

    def test_nested_thousands_deep(self, tmp_path):
        (tmp_path / "table1.jsonl").write_text("[" * 100_000 + "\n")
        with pytest.raises(InputError, match=r"is not a record of the ledger \(RecursionError: "):
            read_ledger(tmp_path)


class TestDefinitions:
    """Seeds of a row are gathered where they were measured with the same settings."""

    def ledger(self, root: Path, *alphas: float | None) -> list[Record]:
        whole = define(load_recipe(CELL), find_row("paper"))
        for seed, alpha in enumerate(alphas):
            settings = {**whole["settings"], "alpha": alpha}
            definition = {} if alpha is None else {**whole, "settings": settings}
            append_record(root, replace(record(seed=seed), definition=definition))
        return read_ledger(root)

    def message(self, records: list[Record]) -> str:
        one, other = records[0].fingerprint, records[1].fingerprint
        assert one != other
        return (
            "The seeds of table1/MUTAG, row 'paper', were measured with different settings, so they"
            f" cannot be averaged: seeds 0, 2 with fingerprint {one}; 1 with fingerprint {other}."
            " Run the cell again with all of these seeds: what was measured with other settings is"
            " then measured again."
        )

    @pytest.mark.parametrize("gather", [results_of, by_seed])
    def test_seeds_of_different_settings_are_not_gathered(self, tmp_path, gather):
        records = self.ledger(tmp_path, 1.0, 2.0, 1.0, None)
        row = {"cell": CELL, "row": "paper"}
        with pytest.raises(InputError, match=f"^{re.escape(self.message(records))}$"):
            gather(records, **row, result="linear/validation")
        # None of them has it
        assert len(gather(records, **row, result="linear/fixed")) == 0
        assert len(gather([records[0], records[2]], **row, result="linear/validation")) == 2

    @pytest.mark.parametrize("gather", [results_of, by_seed])
    def test_a_record_without_a_definition_goes_with_any(self, tmp_path, gather):
        records = self.ledger(tmp_path, None, 1.0, None, 1.0)
        found = gather(records, cell=CELL, row="paper", result="linear/validation")
        assert len(found) == 4

    @pytest.mark.parametrize(
        "command", [["table", "1"], ["compare", "table1/MUTAG:paper", "table1/MUTAG:paper"]]
    )
    def test_on_the_command_line(self, tmp_path, command):
        records = self.ledger(tmp_path, 1.0, 2.0, 1.0)
        result = CliRunner().invoke(app, ["bench", *command, "--results", str(tmp_path)])
        assert (result.exit_code, result.stderr) == (2, f"error: {self.message(records)}\n")
