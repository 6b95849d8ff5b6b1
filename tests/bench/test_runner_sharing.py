"""What cells and processes of a run share."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from graphlatent.bench import runner
from graphlatent.bench.data import load_bundle
from graphlatent.bench.ledger import read_ledger
from graphlatent.bench.recipe import Recipe
from graphlatent.estimator import Estimator
from ledgers import results, states
from standins import quick, tiny, write_mutag

NODE, GRAPH, PLAIN = "table2/Photo", "table1/MUTAG", "table10/Photo-plain"
FLICKR, PPI = "table2/Flickr", "table2/PPI"


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
        found = results(read_ledger(tmp_path))
        concat, plain = (found[cell, "paper", 0]["linear/fixed"] for cell in (NODE, PLAIN))
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
        first = quick(GRAPH, "propagated")
        second = dataclasses.replace(first, name="own", paper={**first.paper, "degree_cap": 1})
        self.each_gets_what_it_gets_alone(run, first, second, tmp_path, data=tmp_path / "raw")
        assert loaded == [GRAPH, "own", "own"]

    @staticmethod
    def each_gets_what_it_gets_alone(
        run, first: Recipe, second: Recipe, folder: Path, **options: Any
    ) -> None:
        (row,) = first.rows
        run(first, second, ledger=folder / "both", **options)
        run(second, ledger=folder / "alone", **options)
        (alone,) = read_ledger(folder / "alone")
        both = results(read_ledger(folder / "both"))
        assert both["own", row, 0] == alone.results != both[first.name, row, 0]


class TestInductive:
    @pytest.mark.parametrize("name", [FLICKR, PPI])
    def test_from_files_to_records(self, run, tmp_path, name):
        events = run(tiny(name), rows=["raw", "random"])
        assert [(event.row, event.state) for event in events] == [
            ("raw", "done"),
            ("random", "done"),
        ]
        found = {record.row: record.results for record in read_ledger(tmp_path)}
        zeros = ["zeros/fixed"] if name == PPI else []
        assert list(found["raw"]) == ["linear/validation", *zeros]
        expected = ["linear/validation", "linear/fixed", "paper-probe/validation"]
        assert list(found["random"]) == expected
        every = [result for of_row in found.values() for result in of_row.values()]
        assert {(result.metric, len(result.scores)) for result in every} == {("micro-F1", 1)}
        assert {tuple(result.others) for result in every} == {("accuracy",) if name == PPI else ()}
        assert len({result.splits for result in every}) == 1


class TestProcesses:
    @pytest.fixture
    def threads(self, monkeypatch):
        """Threads stand for processes, which take seconds to start."""
        monkeypatch.setattr(
            runner, "ProcessPoolExecutor", lambda jobs, **_: ThreadPoolExecutor(jobs)
        )
        monkeypatch.setattr(torch, "set_num_threads", lambda count: None)

    def test_scores_are_those_of_one_process(self, run, tmp_path, request):
        """test_processes.py has the same with real processes."""
        recipes = [quick(GRAPH, "propagated"), quick(FLICKR, "random")]
        one = run(*recipes, ledger=tmp_path / "one")
        request.getfixturevalue("threads")
        two = run(*recipes, ledger=tmp_path / "two", jobs=2)
        assert sorted(states(one)) == sorted(states(two))
        assert {event.state for event in two} == {"done"}
        first, second = (results(read_ledger(tmp_path / name)) for name in ("one", "two"))
        assert first == second

    def test_a_process_that_dies_is_told(self, run, threads, monkeypatch, tmp_path):
        class Killed(BaseException):
            pass

        def load(recipe, root):
            if recipe.name == NODE:
                raise Killed("out of memory")
            return load_bundle(recipe, root)

        monkeypatch.setattr(runner, "load_bundle", load)
        events = run(quick(NODE), quick(FLICKR, "raw"), jobs=2)
        assert sorted(states(events)) == [(FLICKR, "raw", 0, "done"), (NODE, "*", 0, "failed")]
        failed = [event.text for event in events if event.state == "failed"]
        assert failed == ["Killed: out of memory"]
        assert [record.cell for record in read_ledger(tmp_path)] == [FLICKR]

    def test_each_gets_its_share_of_the_cores(self, run, threads, monkeypatch):
        given = []
        monkeypatch.setattr(torch, "set_num_threads", given.append)
        monkeypatch.setattr(runner.os, "cpu_count", lambda: 7)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
        run(quick(NODE, "raw"), quick(FLICKR, "raw"), jobs=2)
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
