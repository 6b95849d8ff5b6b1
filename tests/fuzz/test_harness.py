"""The fuzzers find what they are for: readers that are broken on purpose are reported."""

from __future__ import annotations

import dataclasses
import os
import random
import time

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from fuzz.compare import embeddings
from fuzz.drawn import draw
from fuzz.harness import Fuzzer, Outcome, Place, SilentChange, import_everything, prepare, run_cases
from fuzz.mutate import damaged
from fuzz.round_trips import plain
from fuzz.run import main
from fuzz.text_tables import text_tables
from graphlatent import NodeLaGraph, read_graphs
from graphlatent.data.readers import read
from graphlatent.errors import InputError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked processes")


@pytest.fixture(scope="module", autouse=True)
def imports():
    import_everything()


def outcomes(case, tmp_path, *, number: int = 3, **limits) -> list[Outcome]:
    fuzzer = Fuzzer("tried", case, 1, **{"seconds": 20, **limits})
    found = dict(run_cases(fuzzer, range(number), prepared=tmp_path))
    assert list(found) == list(range(number))
    return list(found.values())


def kinds(case, tmp_path, **limits) -> list[str]:
    return [outcome.kind for outcome in outcomes(case, tmp_path, **limits)]


def ordinary(rng: random.Random, place: Place) -> None:
    (place.folder / "edges.csv").write_text("source,target,weight\n0,1,2\n1,2,3\n")
    read_graphs(place.folder / "edges.csv")


def broken(monkeypatch, read_path) -> None:
    monkeypatch.setattr(read, "read_path", read_path)


def changed(monkeypatch, change) -> None:
    """Readers hand on a changed graph."""
    right = read.assemble
    monkeypatch.setattr(read, "assemble", lambda *a, **k: change(right(*a, **k)))


def test_an_ordinary_case_is_accepted(tmp_path):
    assert kinds(ordinary, tmp_path) == ["accepted"] * 3
    assert kinds(plain, tmp_path) == ["accepted"] * 3


def test_threads_that_were_started_before_a_case_do_not_hang_it(tmp_path):
    def parallel(*_):
        torch.ones(10**6).exp().sum()
        KMeans(3, n_init=1, random_state=0).fit(np.random.default_rng(0).random((3000, 5)))

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2):
            parallel()
            assert kinds(parallel, tmp_path, number=1) == ["accepted"]
    finally:
        torch.set_num_threads(before)


def test_an_error_of_ours_is_a_refusal_and_any_other_a_traceback(tmp_path, monkeypatch):
    def ours(*args, **kwargs):
        raise InputError("no such thing")

    def another(*args, **kwargs):
        raise ValueError("broken here")

    broken(monkeypatch, ours)
    assert outcomes(ordinary, tmp_path) == [Outcome("refused", "no such thing")] * 3
    broken(monkeypatch, another)
    for found in outcomes(ordinary, tmp_path):
        assert found.kind == "traceback" and "broken here" in found.detail


@pytest.mark.parametrize("text", ["", "one\ntwo\nthree"])
def test_a_message_is_one_or_two_lines(tmp_path, monkeypatch, text):
    def ours(*args, **kwargs):
        raise InputError(text)

    broken(monkeypatch, ours)
    assert set(kinds(ordinary, tmp_path)) == {"message"}


def test_a_reader_that_hangs(tmp_path, monkeypatch):
    broken(monkeypatch, lambda *a, **k: time.sleep(60))
    assert kinds(ordinary, tmp_path, number=2, seconds=0.5) == ["hang", "hang"]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="limits need Linux")
def test_a_reader_that_takes_too_much_memory(tmp_path, monkeypatch):
    for allocate in (np.empty, torch.empty, bytearray):
        broken(monkeypatch, lambda *a, allocate=allocate, **k: len(allocate(2**28)))
        assert set(kinds(ordinary, tmp_path, megabytes=100)) == {"memory"}
        # With more memory it fails in another way.
        assert kinds(ordinary, tmp_path, megabytes=4096, number=1) == ["traceback"]


def test_a_reader_that_ends_the_process(tmp_path, monkeypatch):
    broken(monkeypatch, lambda *a, **k: os._exit(3))
    found = outcomes(ordinary, tmp_path)
    assert {each.kind for each in found} == {"killed"} and "exit code 3" in found[0].detail
    broken(monkeypatch, lambda *a, **k: os.abort())
    assert "signal 6" in outcomes(ordinary, tmp_path)[0].detail


def test_graphs_that_are_read_wrongly_are_silent_changes(tmp_path, monkeypatch):
    def nan_features(data):
        x = torch.full((data.num_nodes, 2), float("nan"))
        return dataclasses.replace(data, x=x, columns={"f": np.full(data.num_nodes, np.nan)})

    def one_edge_less(data):
        weight = None if data.edge_weight is None else data.edge_weight[1:]
        return dataclasses.replace(data, edge_index=data.edge_index[:, 1:], edge_weight=weight)

    def other_ids(data):
        return dataclasses.replace(data, node_ids=np.arange(data.num_nodes) + 100)

    for change in (nan_features, one_edge_less, other_ids):
        with monkeypatch.context() as patched:
            changed(patched, change)
            found = outcomes(plain, tmp_path)
            assert {each.kind for each in found} == {"silent change"}, (change, found)


def test_refused_ordinary_graphs_are_found(tmp_path, monkeypatch):
    def refuse(data):
        raise InputError("not today")

    changed(monkeypatch, refuse)
    (found, *_) = outcomes(plain, tmp_path)
    assert found.kind == "silent change" and "refused an ordinary graph: not today" in found.detail


def test_embeddings_that_are_not_finite_are_found(tmp_path, monkeypatch):
    def case(rng, place):
        embeddings(read_graphs((np.array([[0, 1], [1, 0]]), np.eye(2))), where="")

    nan = np.full((2, 3), np.nan, dtype=np.float32)
    monkeypatch.setattr(NodeLaGraph, "transform", lambda self, X: nan)
    assert set(kinds(case, tmp_path)) == {"silent change"}


def test_damaged_tables_of_a_broken_reader(tmp_path, monkeypatch):
    def no_text(*args, **kwargs):
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "broken here")

    broken(monkeypatch, no_text)
    found = kinds(text_tables, tmp_path, number=10)
    assert set(found) == {"traceback"}


def test_what_fails_only_after_another_case_says_so(tmp_path):
    seen: list[int] = []

    def case(rng, place):
        seen.append(1)
        if len(seen) > 1:
            raise SilentChange("changed by what came before")

    first, *others = outcomes(case, tmp_path)
    assert first.kind == "accepted"
    assert all("only after other cases from 0 on" in each.detail for each in others)


def test_the_report_counts_failures_and_names_the_seed(tmp_path, monkeypatch, capsys):
    def case(rng, place):
        if rng.random() < 0.5:
            raise ValueError("broken here")

    monkeypatch.setattr("fuzz.run.FUZZERS", (Fuzzer("tried", case, 1),))
    monkeypatch.setattr("fuzz.run.import_everything", lambda: None)
    assert main(["--cases", "20", "--seed", "5"]) == 1
    said = capsys.readouterr().out
    assert "make fuzz FUZZER=tried SEED=" in said and "ValueError: broken here" in said
    monkeypatch.setattr("fuzz.run.FUZZERS", (Fuzzer("tried", lambda rng, place: None, 1),))
    assert main(["--cases", "20", "--seed", "5"]) == 0
    assert "0 failures" in capsys.readouterr().out


def test_a_case_depends_on_its_number_alone():
    assert draw(random.Random("tables 5"), awkward=True) == draw(
        random.Random("tables 5"), awkward=True
    )
    assert damaged(b"a,b\n1,2\n", random.Random("x")) == damaged(b"a,b\n1,2\n", random.Random("x"))
    assert draw(random.Random("tables 5")) != draw(random.Random("tables 6"))


def test_what_cannot_be_prepared_is_an_error(tmp_path):
    def write(folder):
        raise ValueError("no space")

    with pytest.raises(RuntimeError, match="no space"):
        prepare(Fuzzer("tried", ordinary, 1, prepare=write), tmp_path / "prepared")
