"""Cells run one after another: what is recorded, what is skipped, what fails."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch

from graphlatent.bench import probing
from graphlatent.bench.context import Measurement
from graphlatent.bench.data import load_bundle
from graphlatent.bench.fingerprint import define, fingerprint
from graphlatent.bench.ledger import ledger_file, read_ledger
from graphlatent.bench.rows import find_row, row_names
from graphlatent.bench.rows.untrained import RandomRow
from graphlatent.bench.runner import Event
from graphlatent.errors import ConfigError, InputError
from ledgers import drop, results, states
from one_by_one import measure_row
from standins import quick, write_mutag, write_photo

NODE, GRAPH, PLAIN = "table2/Photo", "table1/MUTAG", "table10/Photo-plain"
FLICKR = "table2/Flickr"
BEFORE, STANDS = "measured before", "nothing random in it: only seed 0 is measured"


@pytest.fixture
def no_random(monkeypatch):
    """The row "random" fails."""

    def failing(self, cell):
        raise ValueError("no random today")

    monkeypatch.setattr(RandomRow, "measure", failing)


class TestRecords:
    def test_hold_what_a_measurement_gives(self, run, standin_data, tmp_path):
        recipe = quick(GRAPH, "raw", "paper")
        events = run(recipe, seeds=[2], command="graphlatent bench run it")
        assert states(events) == [(GRAPH, "raw", 2, "done"), (GRAPH, "paper", 2, "done")]
        cpu = torch.device("cpu")
        data = load_bundle(recipe, standin_data)
        shared = Measurement(data, seed=2, device=cpu, probe_device=cpu)
        paper, raw = read_ledger(tmp_path)
        assert (paper.row, raw.row) == ("paper", "raw")
        assert raw.results == measure_row(shared, recipe, "raw").results and raw.training == {}
        expected = measure_row(shared, recipe, "paper")
        assert paper.results == expected.results
        assert {**paper.training, "seconds": 0} == {**expected.training, "seconds": 0}
        assert paper.training["epochs"] == 6
        about = paper.about
        assert (about["command"], about["device"]) == ("graphlatent bench run it", "cpu")
        assert set(about) == {
            "command",
            "commit",
            "versions",
            "device",
            "hardware",
            "date",
            "seconds",
        }
        assert paper.definition == define(recipe, find_row("paper"))
        assert paper.fingerprint == fingerprint(paper.definition) != raw.fingerprint

    def test_an_event_says_the_scores(self, run, tmp_path):
        (event,) = run(quick(GRAPH, "raw"))
        (record,) = read_ledger(tmp_path)
        means = {name: f"{100 * result.mean:.2f}" for name, result in record.results.items()}
        expected = (
            f"linear/validation {means['linear/validation']}, rbf/validation"
            f" {means['rbf/validation']}, svm/validation {means['svm/validation']} ("
        )
        assert event.text == f"{expected}{record.about['seconds']} s)"

    def test_events_are_told_as_they_happen(self, run, tmp_path):
        measured = []

        def listen(event: Event) -> None:
            measured.append((event.row, [record.row for record in read_ledger(tmp_path)]))

        run(quick(NODE, "raw", "propagated"), on_event=listen)
        assert measured == [("raw", ["raw"]), ("propagated", ["propagated", "raw"])]

    def test_a_relative_folder(self, run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        run(quick(NODE, "raw"), ledger=Path("here"))
        assert (tmp_path / "here" / "table2.jsonl").is_file()

    def test_are_plain_json(self, run, tmp_path):
        run(quick(FLICKR, "random"))
        (line,) = ledger_file(tmp_path, FLICKR).read_text().splitlines()
        values = json.loads(line, parse_constant=pytest.fail)
        assert values["cell"] == FLICKR
        assert values["results"]["linear/validation"]["metric"] == "micro-F1"


class TestWhichRows:
    def test_of_the_recipe_and_of_the_call(self, run):
        recipes = [quick(NODE, "raw", "random"), quick(FLICKR, "raw", "propagated")]
        assert states(run(*recipes, rows=["propagated", "raw"])) == [
            (NODE, "raw", 0, "done"),
            (FLICKR, "raw", 0, "done"),
            (FLICKR, "propagated", 0, "done"),
        ]

    def test_features_of_nodes_know_no_seed(self, run):
        """Folds are drawn for every seed, so at graph level they do."""
        node, graph = quick(NODE, "raw", "propagated"), quick(GRAPH, "propagated")
        events = run(node, graph, seeds=[0, 3])
        assert [event.state for event in events] == ["done"] * 3 + ["skipped"] * 2 + ["done"]
        assert [(e.row, e.text) for e in events if e.state == "skipped"] == [
            ("raw", STANDS),
            ("propagated", STANDS),
        ]

    def test_seeds_differ(self, run, tmp_path):
        run(quick(NODE, "random"), quick(GRAPH, "propagated"), seeds=[0, 1])
        found = results(read_ledger(tmp_path))
        for cell, row, same_splits in ((NODE, "random", True), (GRAPH, "propagated", False)):
            one, other = (found[cell, row, seed]["linear/validation"] for seed in (0, 1))
            assert one.scores != other.scores and (one.splits == other.splits) == same_splits

    def test_unknown_ones_are_refused_before_anything_is_done(self, run, loaded):
        message = (
            f"The 'rows' parameter of bench run must be among {row_names()}. Got ('raw', 'rwa')"
            " instead."
        )
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
            run(quick(NODE), rows=["raw", "rwa"])
        assert loaded == []

    def test_a_device_that_is_none(self, run):
        with pytest.raises(
            ConfigError,
            match=r"^device='gpu' is not a torch device\. Use 'auto', 'cpu', 'cuda' or 'cuda:N'\.$",
        ):
            run(quick(NODE), device="gpu")


class TestGoingOn:
    def test_a_second_run_skips_everything_and_reads_no_data(self, run, loaded):
        recipes = [quick(NODE), quick(GRAPH, "propagated")]
        first = run(*recipes)
        assert {event.state for event in first} == {"done"} and loaded == [NODE, GRAPH]
        second = run(*recipes)
        assert [(e.cell, e.row) for e in second] == [(e.cell, e.row) for e in first]
        assert {(e.state, e.text) for e in second} == {("skipped", BEFORE)}
        assert loaded == [NODE, GRAPH]

    def test_one_record_lost_is_measured_again_and_is_the_same(self, run, tmp_path):
        recipes = [quick(NODE, "raw", "paper"), quick(FLICKR, "raw")]
        run(*recipes)
        before = results(read_ledger(tmp_path))
        drop(tmp_path, NODE, "paper", 0)
        again = [state for *_, state in states(run(*recipes))]
        assert again == ["skipped", "done", "skipped"]
        assert results(read_ledger(tmp_path)) == before

    def test_a_killed_run_goes_on(self, run, tmp_path):
        def kill(event: Event) -> None:
            if event.row == "random":
                raise KeyboardInterrupt

        recipe = quick(NODE, "raw", "random", "propagated")
        with pytest.raises(KeyboardInterrupt):
            run(recipe, on_event=kill)
        assert [record.row for record in read_ledger(tmp_path)] == ["random", "raw"]
        assert states(run(recipe)) == [
            (NODE, "raw", 0, "skipped"),
            (NODE, "random", 0, "skipped"),
            (NODE, "propagated", 0, "done"),
        ]

    def test_a_record_that_was_half_written_is_measured_again(self, run, tmp_path):
        recipe = quick(NODE, "raw", "propagated")
        run(recipe)
        before, path = results(read_ledger(tmp_path)), ledger_file(tmp_path, NODE)
        path.write_bytes(path.read_bytes()[:-100])
        assert [state for *_, state in states(run(recipe))] == ["skipped", "done"]
        assert results(read_ledger(tmp_path)) == before

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_a_damaged_ledger_is_refused_before_anything_is_done(self, run, tmp_path, loaded, jobs):
        run(quick(NODE, "raw"))
        loaded.clear()
        path = ledger_file(tmp_path, NODE)
        path.write_text("{}\n" + path.read_text())
        with pytest.raises(InputError, match=f"^Line 1 of {re.escape(str(path))} is not a record"):
            run(quick(NODE), jobs=jobs)
        assert loaded == []

    def test_a_record_of_other_settings_is_measured_again(self, run, tmp_path):
        recipe = quick(NODE, "random")
        run(recipe)
        (before,) = read_ledger(tmp_path)
        wider = dataclasses.replace(recipe, paper={**recipe.paper, "hidden_dim": 7})
        assert [event.state for event in run(wider)] == ["done"]
        (after,) = read_ledger(tmp_path)
        assert after.fingerprint != before.fingerprint and after.results != before.results
        assert after.definition["settings"]["hidden_dim"] == 7
        assert [event.state for event in run(wider)] == ["skipped"]

    @pytest.mark.parametrize(
        ("name", "grid"), [(NODE, "L2_GRID"), (GRAPH, "SVM_L2_GRID"), (GRAPH, "RBF_C")]
    )
    def test_a_record_of_another_grid_is_measured_again(self, run, monkeypatch, name, grid):
        recipe = quick(name, "raw")
        run(recipe)
        monkeypatch.setattr(probing, grid, (1e-3,))
        assert [event.state for event in run(recipe)] == ["done"]
        assert [event.state for event in run(recipe)] == ["skipped"]


class TestFailures:
    def test_a_row_that_fails_stops_no_other_and_writes_nothing(self, run, no_random, tmp_path):
        recipes = [quick(NODE, "raw", "random", "propagated"), quick(FLICKR, "random", "raw")]
        events = run(*recipes)
        failed = [state for *_, state in states(events)]
        assert failed == ["done", "failed", "done", "failed", "done"]
        assert {e.text for e in events if e.state == "failed"} == {"ValueError: no random today"}
        assert {record.row for record in read_ledger(tmp_path)} == {"raw", "propagated"}

    def test_what_failed_is_tried_again(self, run, monkeypatch):
        measure = RandomRow.measure
        monkeypatch.setattr(RandomRow, "measure", lambda self, cell: 1 / 0)
        assert [event.state for event in run(quick(NODE))] == ["done", "failed"]
        monkeypatch.setattr(RandomRow, "measure", measure)
        assert [event.state for event in run(quick(NODE))] == ["skipped", "done"]

    def test_data_that_cannot_be_read_fails_every_row_of_its_cells_only(self, run, tmp_path):
        folder = tmp_path / "raw"
        write_photo(folder)
        write_mutag(folder)
        (folder / "Photo" / "raw" / "amazon_electronics_photo.npz").write_bytes(b"PK damaged")
        events = run(
            quick(NODE),
            quick(PLAIN, "paper"),
            quick(GRAPH, "propagated"),
            data=folder,
            ledger=tmp_path / "ledger",
        )
        assert [(e.cell, e.row, e.state) for e in events] == [
            (NODE, "raw", "failed"),
            (NODE, "random", "failed"),
            (PLAIN, "paper", "failed"),
            (GRAPH, "propagated", "done"),
        ]
        assert all(
            e.text.startswith("InputError: ") and "cannot be read" in e.text for e in events[:3]
        )

    def test_data_that_is_not_available(self, run, tmp_path, loaded):
        folder = tmp_path / "raw"
        write_photo(folder)
        events = run(
            quick(GRAPH, "raw", "random"),
            quick(NODE, "raw"),
            quick(FLICKR, "raw"),
            data=folder,
            ledger=tmp_path / "ledger",
        )
        assert [(e.cell, e.row, e.state, e.text) for e in events if e.state != "done"] == [
            (GRAPH, "raw", "missing", "data not available locally: MUTAG"),
            (GRAPH, "random", "missing", "data not available locally: MUTAG"),
            (FLICKR, "raw", "missing", "data not available locally: Flickr"),
        ]
        assert loaded == [NODE]

    def test_what_was_measured_before_is_not_missing(self, run, tmp_path):
        run(quick(NODE, "raw"))
        again = run(quick(NODE, "raw", "random"), data=tmp_path / "nowhere")
        assert [event.state for event in again] == ["skipped", "missing"]

    def test_data_is_looked_for_where_the_environment_says(
        self, run, standin_data, monkeypatch, tmp_path
    ):
        monkeypatch.setenv("GRAPHLATENT_DATA", str(tmp_path / "nowhere"))
        assert [event.state for event in run(quick(NODE, "raw"), data=None)] == ["missing"]
        monkeypatch.setenv("GRAPHLATENT_DATA", str(standin_data))
        assert [event.state for event in run(quick(NODE, "raw"), data=None)] == ["done"]
