"""The runner: what is written, skipped, missing and failed; that a killed run goes on; that
processes change nothing.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from graphlatent.bench.material import load_material
from graphlatent.bench.measure import Measurement

from graphlatent.bench import material, measure, runner
from graphlatent.bench.ledger import Record, read_ledger, read_record, record_path
from graphlatent.bench.recipe import ROWS, Recipe
from graphlatent.bench.runner import Event, run_cells
from graphlatent.data.splits import random_splits
from graphlatent.errors import ConfigError
from graphlatent.estimator import Estimator
from standins import tiny, write_flickr, write_mutag, write_photo, write_ppi

pytestmark = pytest.mark.slow

NODE, GRAPH, PLAIN, FLICKR, PPI = (
    "table2/Photo",
    "table1/MUTAG",
    "table10/Photo-plain",
    "table2/Flickr",
    "table2/PPI",
)
BEFORE, STANDS = "measured before", "nothing random in it: seed 0 stands for all"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for write in (write_photo, write_mutag, write_flickr, write_ppi):
        write(folder)
    return folder


@pytest.fixture
def run(data, tmp_path, monkeypatch):
    """A function: recipes, and what differs from seed 0 on a CPU -> the events. Three splits of
    nodes are enough.
    """
    monkeypatch.setattr(material, "random_splits", partial(random_splits, num_splits=3))

    def run(*recipes: Recipe, **options: Any) -> list[Event]:
        return run_cells(
            recipes, **{"seeds": [0], "ledger": tmp_path, "data": data, "device": "cpu", **options}
        )

    return run


@pytest.fixture
def loaded(monkeypatch) -> list[str]:
    """The recipes that data was read for."""
    names: list[str] = []

    def load(recipe, root):
        names.append(recipe.name)
        return load_material(recipe, root)

    monkeypatch.setattr(runner, "load_material", load)
    return names


@pytest.fixture
def broken(monkeypatch):
    """A function: rows that fail from now on."""
    row = Measurement.row

    def break_rows(*names: str) -> None:
        def failing(self, recipe, name):
            if name in names:
                raise ValueError(f"no {name} today")
            return row(self, recipe, name)

        monkeypatch.setattr(Measurement, "row", failing)

    return break_rows


def states(events: Iterable[Event]) -> list[tuple[str, str, int, str]]:
    return [(event.cell, event.row, event.seed, event.state) for event in events]


def scores(records: Iterable[Record]) -> dict[Any, Any]:
    return {(r.cell, r.row, r.seed): r.results for r in records}


def quick(cell: str, *rows: str, **changes: Any) -> Recipe:
    return dataclasses.replace(tiny(cell), rows=rows or ("raw", "random"), **changes)


class TestRecords:
    def test_hold_what_a_measurement_gives(self, run, data, tmp_path):
        recipe = quick(GRAPH, "raw", "paper")
        events = run(recipe, seeds=[2], command="graphlatent bench run it")
        assert states(events) == [(GRAPH, "raw", 2, "done"), (GRAPH, "paper", 2, "done")]
        cpu = torch.device("cpu")
        measured = Measurement(load_material(recipe, data), 2, cpu, cpu)
        paper, raw = read_ledger(tmp_path)
        assert (paper.row, raw.row) == ("paper", "raw") and paper.path(tmp_path) == record_path(
            tmp_path, GRAPH, "paper", 2
        )
        assert raw.results == measured.row(recipe, "raw")[0] and raw.training == {}
        results, training = measured.row(recipe, "paper")
        assert paper.results == results
        assert {**paper.training, "seconds": 0} == {**training, "seconds": 0} and paper.training[
            "epochs"
        ] == 6
        about = paper.about
        assert (about["command"], about["device"], about["recipe"]) == (
            "graphlatent bench run it",
            "cpu",
            recipe.fingerprint,
        )
        assert set(about) == {
            "command",
            "recipe",
            "commit",
            "versions",
            "device",
            "hardware",
            "date",
            "seconds",
        }

    def test_an_event_says_the_scores(self, run, tmp_path):
        (event,) = run(quick(GRAPH, "raw"))
        (record,) = read_ledger(tmp_path)
        means = {name: f"{100 * result.mean:.2f}" for name, result in record.results.items()}
        expected = (
            f"linear/validation {means['linear/validation']}, rbf/validation"
            f" {means['rbf/validation']} ("
        )
        assert event.text == f"{expected}{record.about['seconds']} s)"

    def test_events_are_told_as_they_happen(self, run, tmp_path):
        told = []
        events = run(
            quick(GRAPH, "raw", "propagated"),
            on_event=lambda event: told.append((event, len(read_ledger(tmp_path)))),
        )
        assert [event for event, _ in told] == events and [written for _, written in told] == [1, 2]

    def test_a_relative_folder(self, run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        run(quick(GRAPH, "propagated"), ledger=Path("here"))
        assert (tmp_path / "here" / "table1" / "MUTAG" / "propagated-0.json").is_file()


class TestWhichRows:
    def test_of_the_recipe_and_of_the_call(self, run):
        recipes = [quick(NODE, "raw", "random"), quick(GRAPH, "raw", "propagated")]
        assert states(run(*recipes, rows=["propagated", "raw"])) == [
            (NODE, "raw", 0, "done"),
            (GRAPH, "raw", 0, "done"),
            (GRAPH, "propagated", 0, "done"),
        ]

    def test_features_of_nodes_know_no_seed(self, run):
        """Folds are drawn for every seed, so at graph level they do."""
        node, graph = quick(NODE, "raw", "propagated", "random"), quick(GRAPH, "raw", "propagated")
        events = run(node, graph, seeds=[0, 3])
        assert [event.state for event in events] == ["done"] * 5 + ["skipped"] * 2 + ["done"] * 3
        assert [(e.row, e.text) for e in events if e.state == "skipped"] == [
            ("raw", STANDS),
            ("propagated", STANDS),
        ]

    def test_seeds_differ(self, run, tmp_path):
        run(quick(NODE, "random"), quick(GRAPH, "raw"), seeds=[0, 1])
        found = scores(read_ledger(tmp_path))
        for cell, row, same_splits in ((NODE, "random", True), (GRAPH, "raw", False)):
            one, other = (found[cell, row, seed]["linear/validation"] for seed in (0, 1))
            assert one.scores != other.scores and (one.splits == other.splits) == same_splits

    def test_unknown_ones_are_refused_before_anything_is_done(self, run, loaded):
        message = (
            f"The 'rows' parameter of bench run must be among {ROWS}. Got ('raw', 'rwa') instead."
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
        recipes = [quick(NODE), quick(GRAPH)]
        first = run(*recipes)
        assert {event.state for event in first} == {"done"} and loaded == [NODE, GRAPH]
        second = run(*recipes)
        assert [(e.cell, e.row) for e in second] == [(e.cell, e.row) for e in first]
        assert {(e.state, e.text) for e in second} == {("skipped", BEFORE)} and loaded == [
            NODE,
            GRAPH,
        ]

    def test_one_record_lost_is_measured_again_and_is_the_same(self, run, tmp_path):
        recipes = [quick(NODE, "raw", "random", "paper"), quick(GRAPH)]
        run(*recipes)
        before = scores(read_ledger(tmp_path))
        record_path(tmp_path, NODE, "paper", 0).unlink()
        assert [state for *_, state in states(run(*recipes))] == [
            "skipped",
            "skipped",
            "done",
            "skipped",
            "skipped",
        ]
        assert scores(read_ledger(tmp_path)) == before

    def test_a_killed_run_goes_on(self, run, tmp_path):
        def kill(event: Event) -> None:
            if event.row == "random":
                raise KeyboardInterrupt

        recipe = quick(NODE, "raw", "random", "paper")
        with pytest.raises(KeyboardInterrupt):
            run(recipe, on_event=kill)
        assert [record.row for record in read_ledger(tmp_path)] == ["random", "raw"]
        assert states(run(recipe)) == [
            (NODE, "raw", 0, "skipped"),
            (NODE, "random", 0, "skipped"),
            (NODE, "paper", 0, "done"),
        ]

    def test_a_damaged_record_is_measured_again(self, run, tmp_path):
        run(quick(NODE))
        before, path = scores(read_ledger(tmp_path)), record_path(tmp_path, NODE, "raw", 0)
        path.write_text(path.read_text()[:100])
        assert [state for *_, state in states(run(quick(NODE)))] == ["skipped", "done"]
        assert scores(read_ledger(tmp_path)) == before

    def test_a_record_of_another_recipe_is_measured_again(self, run, tmp_path):
        recipe = quick(NODE, "random")
        run(recipe)
        before = read_record(record_path(tmp_path, NODE, "random", 0))
        wider = dataclasses.replace(recipe, paper={**recipe.paper, "hidden_dim": 7})
        assert [event.state for event in run(wider)] == ["done"]
        after = read_record(record_path(tmp_path, NODE, "random", 0))
        assert (
            after.about["recipe"] == wider.fingerprint != before.about["recipe"]
            and after.results != before.results
        )

    @pytest.mark.parametrize(
        ("name", "grid"), [(NODE, "L2_GRID"), (GRAPH, "SVM_L2_GRID"), (GRAPH, "RBF_C")]
    )
    def test_a_record_of_another_grid_is_measured_again(
        self, run, tmp_path, monkeypatch, name, grid
    ):
        recipe = quick(name, "raw")
        run(recipe)
        # As the first records have it
        assert (
            read_record(record_path(tmp_path, name, "raw", 0)).about["recipe"] == recipe.fingerprint
        )
        monkeypatch.setattr(measure, grid, (1e-3,))
        assert [event.state for event in run(recipe)] == ["done"]
        assert [event.state for event in run(recipe)] == ["skipped"]
        assert (
            read_record(record_path(tmp_path, name, "raw", 0))
            .about["recipe"]
            .startswith(f"{recipe.fingerprint}-")
        )


class TestFailures:
    def test_a_row_that_fails_stops_no_other_and_writes_nothing(self, run, broken, tmp_path):
        recipes = [quick(NODE, "raw", "random", "paper"), quick(GRAPH, "random", "propagated")]
        broken("random")
        events = run(*recipes)
        assert [state for *_, state in states(events)] == [
            "done",
            "failed",
            "done",
            "failed",
            "done",
        ]
        assert {e.text for e in events if e.state == "failed"} == {"ValueError: no random today"}
        assert {record.row for record in read_ledger(tmp_path)} == {"raw", "paper", "propagated"}
        broken()
        again = states(run(*recipes))
        assert [(cell, row) for cell, row, _, state in again if state == "done"] == [
            (NODE, "random"),
            (GRAPH, "random"),
        ]

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

    def test_data_not_at_hand(self, run, tmp_path, loaded):
        folder = tmp_path / "raw"
        write_mutag(folder)
        events = run(
            quick(NODE),
            quick(GRAPH, "propagated"),
            quick(FLICKR, "raw"),
            data=folder,
            ledger=tmp_path / "ledger",
        )
        assert [(e.cell, e.row, e.state, e.text) for e in events if e.state != "done"] == [
            (NODE, "raw", "missing", "data not at hand: Photo"),
            (NODE, "random", "missing", "data not at hand: Photo"),
            (FLICKR, "raw", "missing", "data not at hand: Flickr"),
        ]
        assert loaded == [GRAPH]

    def test_what_was_measured_before_is_not_missing(self, run, tmp_path):
        run(quick(NODE, "raw"))
        assert [
            event.state for event in run(quick(NODE, "raw", "random"), data=tmp_path / "nowhere")
        ] == ["skipped", "missing"]

    def test_data_is_looked_for_where_the_environment_says(self, run, data, monkeypatch, tmp_path):
        monkeypatch.setenv("GRAPHLATENT_DATA", str(tmp_path / "nowhere"))
        assert [event.state for event in run(quick(GRAPH, "propagated"), data=None)] == ["missing"]
        monkeypatch.setenv("GRAPHLATENT_DATA", str(data))
        assert [event.state for event in run(quick(GRAPH, "propagated"), data=None)] == ["done"]


class TestSharing:
    def test_cells_of_one_set_share_data_and_trainings(self, run, loaded, monkeypatch, tmp_path):
        trained, snapshots = [], Estimator.snapshots

        def counted(estimator, graph, *, epochs):
            trained.append(list(epochs))
            return snapshots(estimator, graph, epochs=epochs)

        monkeypatch.setattr(Estimator, "snapshots", counted)
        events = run(quick(NODE, "paper"), quick(GRAPH, "propagated"), quick(PLAIN, "paper"))
        # Together, whatever stands between them
        assert [event.cell for event in events] == [NODE, PLAIN, GRAPH]
        assert loaded == [NODE, GRAPH] and trained == [[1, 3, 6]]
        concat, plain = (
            read_record(record_path(tmp_path, cell, "paper", 0)).results["linear/fixed"]
            for cell in (NODE, PLAIN)
        )
        assert {c.candidate for c in concat.choices} == {"epoch 3, embedding + features"}
        assert {c.candidate for c in plain.choices} == {"epoch 3, embedding"}

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            (NODE, {"binarize": True}),
            (NODE, {"metric": "micro-F1"}),
            (FLICKR, {"protocol": "splits"}),
        ],
    )
    def test_cells_on_other_data_do_not(self, run, loaded, tmp_path, name, change):
        self.each_gets_what_it_gets_alone(
            run, quick(name, "raw"), quick(name, "raw", name="own", **change), tmp_path
        )
        assert loaded == [name, "own", "own"]

    def test_nor_do_cells_with_another_degree_cap(self, run, loaded, tmp_path):
        write_mutag(tmp_path / "raw")
        (tmp_path / "raw" / "MUTAG" / "raw" / "MUTAG_node_labels.txt").unlink()
        first = quick(GRAPH, "raw")
        second = dataclasses.replace(first, name="own", paper={**first.paper, "degree_cap": 1})
        self.each_gets_what_it_gets_alone(run, first, second, tmp_path, data=tmp_path / "raw")
        assert loaded == [GRAPH, "own", "own"]

    @staticmethod
    def each_gets_what_it_gets_alone(
        run, first: Recipe, second: Recipe, folder: Path, **options: Any
    ) -> None:
        run(first, second, ledger=folder / "both", **options)
        run(second, ledger=folder / "alone", **options)
        (alone,) = read_ledger(folder / "alone")
        both = scores(read_ledger(folder / "both"))
        assert both["own", "raw", 0] == alone.results != both[first.name, "raw", 0]


class TestInductive:
    @pytest.mark.parametrize("name", [FLICKR, PPI])
    def test_from_files_to_records(self, run, tmp_path, name):
        events = run(tiny(name), rows=["raw", "random", "paper"])
        assert [(event.row, event.state) for event in events] == [
            ("raw", "done"),
            ("random", "done"),
            ("paper", "done"),
        ]
        found = {record.row: record.results for record in read_ledger(tmp_path)}
        assert list(found["raw"]) == [
            "linear/validation",
            *(["zeros/fixed"] if name == PPI else []),
        ]
        assert (
            list(found["random"])
            == list(found["paper"])
            == ["linear/validation", "linear/fixed", "paper-probe/validation"]
        )
        results = [result for of_row in found.values() for result in of_row.values()]
        assert {(result.metric, len(result.scores)) for result in results} == {("micro-F1", 1)}
        assert {tuple(result.others) for result in results} == {
            ("accuracy",) if name == PPI else ()
        }
        assert len({result.splits for result in results}) == 1


class TestProcesses:
    @pytest.fixture
    def threads(self, monkeypatch):
        """Threads stand for processes, which take seconds to start."""
        monkeypatch.setattr(
            runner, "ProcessPoolExecutor", lambda jobs, mp_context: ThreadPoolExecutor(jobs)
        )
        monkeypatch.setattr(torch, "set_num_threads", lambda count: None)

    @pytest.mark.parametrize("kind", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
    def test_scores_are_those_of_one_process(self, run, tmp_path, kind, request):
        recipes = [quick(GRAPH, "propagated", "random"), quick(FLICKR, "random")]
        one = run(*recipes, ledger=tmp_path / "one")
        if kind == "threads":
            request.getfixturevalue("threads")
        two = run(*recipes, ledger=tmp_path / "two", jobs=2)
        assert sorted(states(one)) == sorted(states(two)) and {event.state for event in two} == {
            "done"
        }
        assert scores(read_ledger(tmp_path / "one")) == scores(read_ledger(tmp_path / "two"))

    def test_a_process_that_dies_is_told(self, run, threads, monkeypatch, tmp_path):
        class Killed(BaseException):
            pass

        def load(recipe, root):
            if recipe.name == NODE:
                raise Killed("out of memory")
            return load_material(recipe, root)

        monkeypatch.setattr(runner, "load_material", load)
        events = run(quick(NODE), quick(GRAPH, "propagated"), jobs=2)
        assert sorted(states(events)) == [
            (GRAPH, "propagated", 0, "done"),
            (NODE, "*", 0, "failed"),
        ]
        assert [event.text for event in events if event.state == "failed"] == [
            "Killed: out of memory"
        ]
        assert [record.cell for record in read_ledger(tmp_path)] == [GRAPH]

    def test_each_gets_its_share_of_the_cores(self, run, threads, monkeypatch):
        given = []
        monkeypatch.setattr(torch, "set_num_threads", given.append)
        monkeypatch.setattr(runner.os, "cpu_count", lambda: 7)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
        run(quick(NODE, "raw"), quick(GRAPH, "propagated"), jobs=2)
        run(quick(NODE, "raw"), jobs=16)
        run(quick(NODE, "raw"))
        assert given == [3, 3, 1]

    def test_no_more_threads_than_allowed(self, run, threads, monkeypatch):
        given = []
        monkeypatch.setattr(torch, "set_num_threads", given.append)
        monkeypatch.setattr(runner.os, "cpu_count", lambda: 8)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # as OMP_NUM_THREADS=2 has it
        run(quick(NODE, "raw"), jobs=2)
        assert given == [2]


def test_records_are_plain_json(run, tmp_path):
    run(quick(FLICKR, "random"))
    values = json.loads(
        record_path(tmp_path, FLICKR, "random", 0).read_text(), parse_constant=pytest.fail
    )
    assert (
        values["cell"] == FLICKR and values["results"]["linear/validation"]["metric"] == "micro-F1"
    )
