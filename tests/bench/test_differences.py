from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from graphlatent.bench.differences import (
    CellRow,
    by_seed,
    compare,
    difference,
    for_every_seed,
    parse_cell_rows,
    summary_of,
)
from graphlatent.bench.ledger import Record, append_record, read_ledger
from graphlatent.errors import ConfigError, InputError
from ledgers import measure, probe_result

PAPER, RANDOM = CellRow("table1/MUTAG", "paper"), CellRow("table1/MUTAG", "random")
FIRST, SECOND = [[0.8, 0.9], [0.7, 0.8]], [[0.7, 0.7], [0.7, 0.6]]
NAME = "linear/validation"
shares = st.integers(0, 1000).map(lambda right: right / 1000)  # of 1000 rows


def fails(message: str):
    return pytest.raises((InputError, ConfigError), match=f"^{re.escape(message)}$")


def results(scores, **kinds):
    return {seed: probe_result(each, **kinds) for seed, each in enumerate(scores)}


@pytest.fixture
def two(tmp_path):
    """A ledger with two rows of one cell."""
    measure(tmp_path, "table1/MUTAG", "paper", {NAME: FIRST})
    measure(tmp_path, "table1/MUTAG", "random", {NAME: SECOND})
    return tmp_path


def compared(root, first=PAPER, second=RANDOM, result=NAME):
    return compare(read_ledger(root), first=first, second=second, result=result)


class TestDifference:
    def test_by_hand(self):
        found = difference(results(FIRST), results(SECOND), name="x")
        # score by score 0.1, 0.2 and 0.0, 0.2; means of the seeds 0.15 and 0.10
        assert found.mean == pytest.approx(0.125) and found.summary is not None
        assert found.summary.std_splits == pytest.approx(math.sqrt((0.005 + 0.02) / 2))
        assert found.summary.std_seeds == pytest.approx(0.05 / math.sqrt(2))

    @given(st.lists(st.lists(shares, min_size=3, max_size=3), min_size=1, max_size=4), st.data())
    def test_two_ways_round_are_opposite(self, scores, data):
        others = data.draw(
            st.lists(
                st.lists(shares, min_size=3, max_size=3), min_size=len(scores), max_size=len(scores)
            )
        )
        one, other = (
            difference(*pair, name="x")
            for pair in ((results(scores), results(others)), (results(others), results(scores)))
        )
        assert one.mean == pytest.approx(-other.mean)
        assert one.summary is not None and other.summary is not None
        assert one.summary.low == pytest.approx(-other.summary.high, abs=1e-12)

    def test_one_seed_is_a_paired_t_test(self):
        one, other = np.array([0.8, 0.9, 0.7, 0.75]), np.array([0.7, 0.9, 0.65, 0.6])
        found = difference(results([one]), results([other]), name="x").summary
        reference = stats.ttest_rel(one, other).confidence_interval(0.95)
        assert found is not None and (found.low, found.high) == pytest.approx(
            (reference.low, reference.high)
        )

    def test_seeds_that_both_have_are_paired(self):
        found = difference(
            {0: probe_result([0.9]), 2: probe_result([0.5])},
            {2: probe_result([0.4]), 3: probe_result([0.0])},
            name="x",
        )
        assert (
            found.summary is not None
            and found.summary.num_seeds == 1
            and found.mean == pytest.approx(0.1)
        )

    @pytest.mark.parametrize(
        "other", [{0: probe_result([0.4, 0.6], splits="others")}, {1: probe_result([0.4, 0.6])}]
    )
    def test_other_splits_or_seeds_are_not_paired(self, other):
        found = difference({0: probe_result([0.6, 0.9])}, other, name="x")
        assert found.summary is None and found.mean == pytest.approx(0.25)

    def test_results_that_do_not_match_are_named(self):
        message = (
            "table1/MUTAG, row paper, seeds 0, 1: A summary needs one or more results of the same"
            " metric, all over the same number of splits. Delete the records that differ and run"
            " the cell again."
        )
        with fails(message):
            summary_of(
                {0: probe_result([0.5]), 1: probe_result([0.5, 0.5])},
                name="table1/MUTAG, row paper",
            )


class TestForEverySeed:
    def test_raw_features_stand_for_every_seed_with_the_same_splits(self):
        other = {
            0: probe_result([0.1]),
            1: probe_result([0.2]),
            2: probe_result([0.3], splits="others"),
        }
        only = probe_result([0.5])
        assert for_every_seed({0: only}, row="raw", other=other) == {0: only, 1: only}

    def test_what_is_random_stands_for_itself(self):
        only, other = {0: probe_result([0.5])}, {0: probe_result([0.1]), 1: probe_result([0.2])}
        assert for_every_seed(only, row="random", other=other) == only
        assert for_every_seed(other, row="raw", other=only) == other  # measured for each seed

    def test_in_a_comparison(self, tmp_path):
        one = {"splits": "of all seeds"}
        for seed, scores in enumerate(FIRST):
            append_record(
                tmp_path,
                Record("table2/CS", "paper", seed, {NAME: probe_result(scores, **one)}, {}),
            )
        append_record(
            tmp_path, Record("table2/CS", "raw", 0, {NAME: probe_result([0.5, 0.6], **one)}, {})
        )
        found = compared(tmp_path, CellRow("table2/CS", "paper"), CellRow("table2/CS", "raw"))
        assert found.seeds == (0, 1) and found.only_one == ()
        assert found.second_means == pytest.approx(
            (0.55, 0.55)
        ) and found.difference.mean == pytest.approx(0.25)


class TestCompare:
    def test_by_hand(self, two):
        found = compared(two)
        assert found.seeds == (0, 1) and found.only_one == () and found.metric == "accuracy"
        assert found.first_means == pytest.approx(
            (0.85, 0.75)
        ) and found.second_means == pytest.approx((0.7, 0.65))
        assert found.difference.mean == pytest.approx(0.125)
        # each seed has splits of its own: variance of the mean 0.00125 / 2 of seeds, with 1 degree
        # of freedom
        assert found.difference.low == pytest.approx(
            0.125 - stats.t.ppf(0.975, 1) * math.sqrt(0.000625)
        )
        assert not found.excludes_zero
        assert (
            found.words
            == "The interval includes 0: it is not shown which of table1/MUTAG:paper and"
            " table1/MUTAG:random scores higher."
        )

    def test_an_interval_that_excludes_0_says_which_is_higher(self, two):
        measure(two, "table1/MUTAG", "raw", {NAME: [[0.2, 0.3], [0.1, 0.2]]})
        for first, second in (
            (PAPER, CellRow("table1/MUTAG", "raw")),
            (CellRow("table1/MUTAG", "raw"), PAPER),
        ):
            found = compared(two, first, second)
            assert found.excludes_zero
            assert (
                found.words == "The interval excludes 0: table1/MUTAG:paper scores higher than"
                " table1/MUTAG:raw."
            )

    def test_the_same_scores_are_not_told_apart(self, two):
        found = compared(two, PAPER, PAPER)
        assert (found.difference.low, found.difference.mean, found.difference.high) == (0, 0, 0)
        assert not found.excludes_zero

    def test_one_score_gives_no_interval(self, tmp_path):
        for row, score in (("paper", 0.9), ("random", 0.1)):
            measure(tmp_path, "table1/MUTAG", row, {NAME: [[score]]})
        found = compared(tmp_path)
        assert (
            not found.excludes_zero
            and found.words == "One seed and one split give no interval, and nothing to conclude."
        )

    def test_cells_of_the_same_data_set(self, tmp_path):
        first, second = (
            CellRow("table9/MUTAG-ce-embed", "paper"),
            CellRow("table9/MUTAG-mse-embed", "paper"),
        )
        measure(tmp_path, first.cell, "paper", {NAME: FIRST}, seeds=[4, 5])
        measure(tmp_path, second.cell, "paper", {NAME: [*SECOND, [0.1, 0.1]]}, seeds=[4, 5, 6])
        found = compared(tmp_path, first, second)
        assert (
            found.seeds == (4, 5)
            and found.only_one == (6,)
            and found.difference.mean == pytest.approx(0.125)
        )

    def test_cells_of_ones_own(self, tmp_path):
        for cell, scores in (("wide", FIRST), ("narrow", SECOND)):
            measure(tmp_path, cell, "paper", {NAME: scores})
        assert compared(
            tmp_path, CellRow("wide", "paper"), CellRow("narrow", "paper")
        ).difference.mean == pytest.approx(0.125)


class TestFailures:
    def test_not_measured(self, two):
        there = "Measured of table1/MUTAG: paper (linear/validation); random (linear/validation)."
        with fails(f"'rbf/test' of table1/MUTAG:paper was not measured. {there}"):
            compared(two, result="rbf/test")
        with fails(
            "'linear/validation' of table1/NCI1:paper was not measured. Measured of table1/NCI1:"
            " nothing."
        ):
            compared(two, CellRow("table1/NCI1", "paper"), CellRow("table1/NCI1", "raw"))

    def test_an_unknown_cell(self, two):
        own = "A recipe of your own is a file, such as own.toml (in Python: read_recipe)."
        with fails(f"There is no recipe 'table1/MUTAGG'. Did you mean 'table1/MUTAG'? {own}"):
            compared(two, CellRow("table1/MUTAGG", "paper"))

    def test_other_data(self, two):
        measure(two, "table1/NCI1", "paper", {NAME: FIRST})
        message = (
            "table1/NCI1:paper is measured on NCI1 and table1/MUTAG:paper is measured on MUTAG. A"
            " comparison needs the same data set."
        )
        with fails(message):
            compared(two, CellRow("table1/NCI1", "paper"), PAPER)

    def test_no_seed_in_common(self, two):
        measure(two, "table1/MUTAG", "raw", {NAME: FIRST}, seeds=[7, 8])
        with fails(
            "table1/MUTAG:paper and table1/MUTAG:raw have no seed in common: 0, 1 and 7, 8. Run"
            " both with the same seeds."
        ):
            compared(two, PAPER, CellRow("table1/MUTAG", "raw"))

    def test_other_splits(self, two):
        measure(two, "table1/MUTAG", "raw", {NAME: FIRST}, splits="others")
        with fails(
            "A paired difference needs both results on the same rows, splits and seeds. Probe them"
            " again, alike."
        ):
            compared(two, PAPER, CellRow("table1/MUTAG", "raw"))

    def test_other_metrics(self, two):
        measure(two, "table1/MUTAG", "raw", {NAME: FIRST}, metric="micro-F1")
        with fails(
            "table1/MUTAG:paper and table1/MUTAG:raw are scored by different metrics, accuracy and"
            " micro-F1: they cannot be compared."
        ):
            compared(two, PAPER, CellRow("table1/MUTAG", "raw"))


class TestParsing:
    def test_both_forms(self):
        assert parse_cell_rows(["table1/MUTAG", "paper", "random"]) == (PAPER, RANDOM)
        assert parse_cell_rows(["table1/MUTAG:paper", "a:b"]) == (PAPER, CellRow("a", "b"))

    @pytest.mark.parametrize(
        "tokens",
        [
            [],
            ["a"],
            ["a", "b"],
            ["a:b", "c"],
            ["a:b", ":c"],
            ["a:", "b:c"],
            ["a:b:c", "d:e"],
            ["a", "b:c", "d"],
            list("abcd"),
        ],
    )
    def test_neither(self, tokens):
        message = (
            "A comparison is CELL ROW ROW, such as 'table1/MUTAG paper random', or CELL:ROW"
            " CELL:ROW, such as 'table9/MUTAG-ce-embed:paper table9/MUTAG-mse-embed:paper'. Got"
            f" '{' '.join(tokens)}'."
        )
        with fails(message):
            parse_cell_rows(tokens)


def test_results_by_seed_are_of_that_cell_and_row_alone(two):
    measure(two, "table1/NCI1", "paper", {NAME: [[0.1]], "rbf/test": [[0.2]]})
    records = read_ledger(two)
    assert {
        seed: each.scores
        for seed, each in by_seed(
            records, cell="table1/NCI1", row="paper", result="rbf/test"
        ).items()
    } == {0: (0.2,)}
    assert by_seed(records, cell="table1/MUTAG", row="paper", result="rbf/test") == {}
