"""Results: means, deviations, intervals and paired differences by hand, and through JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t, ttest_1samp

from graphlatent.errors import InputError
from graphlatent.probes.results import Choice, ProbeResult, paired, summarize


def result(*scores, splits="s", metric="accuracy"):
    return ProbeResult(
        tuple(scores), (Choice("", {}, 0.5),) * len(scores), "by hand", metric=metric, splits=splits
    )


def results(table, *, shared=True):
    """One result per row; splits shared by all rows, or every row's own."""
    return [result(*row, splits="s" if shared else f"s {i}") for i, row in enumerate(table)]


def interval(mean, parts):
    """The formula of `summarize`: parts are (variance of the mean, degrees of freedom)."""
    total = sum(v for v, _ in parts)
    freedom = total**2 / sum(v**2 / d for v, d in parts)
    half = t.ppf(0.975, freedom) * math.sqrt(total)
    return pytest.approx((mean - half, mean + half))


# --- one result ---


def test_mean_and_spread_of_one_result_by_hand():
    one = result(0.5, 0.7, 0.9)
    assert one.mean == pytest.approx(0.7)
    assert one.std == pytest.approx(math.sqrt(0.08 / 3))  # divided by their number, as tables do


def test_through_json_and_back():
    choices = (
        Choice("epoch 3", {"preprocessing": "row", "strength": 1e-3}, 0.25),
        Choice("", {"neighbours": 5}, 1.0),
    )
    before = ProbeResult(
        (0.5, 0.75), choices, "in words", "micro-F1", {"accuracy": (0.9, 0.8)}, "0123abcd"
    )
    text = json.dumps(before.to_dict(), allow_nan=False)
    assert json.loads(text) == {
        "scores": [0.5, 0.75],
        "choices": [
            {
                "candidate": "epoch 3",
                "settings": {"preprocessing": "row", "strength": 1e-3},
                "val_score": 0.25,
            },
            {"candidate": "", "settings": {"neighbours": 5}, "val_score": 1.0},
        ],
        "selection": "in words",
        "metric": "micro-F1",
        "others": {"accuracy": [0.9, 0.8]},
        "splits": "0123abcd",
    }
    assert ProbeResult.from_dict(json.loads(text)) == before


# --- summaries ---


def test_one_seed_by_hand():
    summary = summarize([result(0.5, 0.7, 0.9)])
    # Deviations -0.2, 0, 0.2: 0.08 / 2
    assert (summary.mean, summary.std_splits) == pytest.approx((0.7, 0.2))
    assert math.isnan(summary.std_seeds)
    assert (summary.low, summary.high) == interval(0.7, [(0.04 / 3, 2)])
    assert (summary.low, summary.high) == pytest.approx(
        (0.7 - 0.2 / math.sqrt(3) * 4.302653, 0.7 + 0.2 / math.sqrt(3) * 4.302653)
    )
    assert (summary.num_seeds, summary.num_splits, summary.n) == (1, 3, 3)


@pytest.mark.parametrize("shared", [True, False])
def test_several_seeds_by_hand(shared):
    summary = summarize(results([[0.5, 0.7], [0.6, 1.0], [0.6, 0.8]], shared=shared))
    assert summary.mean == pytest.approx(0.7)
    of_splits = (0.02 + 0.08 + 0.02) / 3  # half the squared difference of two
    of_seeds = (0.1**2 + 0.1**2 + 0) / 2  # means 0.6, 0.8, 0.7
    assert summary.std_splits == pytest.approx(math.sqrt(of_splits))
    assert summary.std_seeds == pytest.approx(math.sqrt(of_seeds))
    assert (summary.num_seeds, summary.num_splits, summary.n) == (3, 2, 6)
    if shared:
        of_split_means = (0.8 / 3) ** 2 / 2  # means 1.7 / 3 and 2.5 / 3
        assert (summary.low, summary.high) == interval(
            0.7, [(of_split_means / 2, 1), (of_seeds / 3, 2)]
        )
    else:  # 4.302653: the 97.5 % point of t with 2 degrees of freedom
        half = 4.302653 * math.sqrt(0.01 / 3)
        assert (summary.low, summary.high) == pytest.approx((0.7 - half, 0.7 + half), abs=1e-6)


def test_shared_splits_with_numbers_of_a_printed_table():
    summary = summarize(results([[0.5, 0.7], [0.7, 0.9]]))
    # seeds' means and splits' means are both 0.6 and 0.8: 0.02 / 2 each, 1 degree of freedom each,
    # 2 together
    half = 4.302653 * math.sqrt(0.01 + 0.01)
    assert (summary.low, summary.high) == pytest.approx((0.7 - half, 0.7 + half), abs=1e-6)


@pytest.mark.parametrize("fingerprints", [("a", "a", "b"), ("a", "b", "c")])
def test_splits_are_shared_only_where_all_seeds_share_them(fingerprints):
    rows = [[0.5, 0.7], [0.6, 1.0], [0.6, 0.8]]
    summary = summarize(
        [result(*row, splits=splits) for row, splits in zip(rows, fingerprints, strict=True)]
    )
    assert (summary.low, summary.high) == interval(0.7, [(0.01 / 3, 2)])


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 5), st.integers(2, 6), st.integers(0, 10_000))
def test_against_scipy_and_the_mean_squares_of_a_two_way_table(num_seeds, num_splits, seed):
    table = np.random.default_rng(seed).random((num_seeds, num_splits))
    mean = sum(map(sum, table)) / table.size
    own, one = summarize(results(table, shared=False)), summarize(results(table[:1]))
    ends = ttest_1samp([sum(row) / num_splits for row in table], 0).confidence_interval(0.95)
    assert (own.low, own.high) == pytest.approx((ends.low, ends.high))
    ends = ttest_1samp(table[0], 0).confidence_interval(0.95)
    assert (one.low, one.high) == pytest.approx((ends.low, ends.high))
    parts = []
    # A factor's mean square / number of scores: its part of the variance of the mean
    for lines in (table, table.T):
        square = sum(len(line) * (sum(line) / len(line) - mean) ** 2 for line in lines)
        parts.append((square / (len(lines) - 1) / table.size, len(lines) - 1))
    crossed = summarize(results(table))
    assert (crossed.low, crossed.high) == interval(mean, parts)


def test_one_split_has_a_spread_over_seeds_only():
    summary = summarize([result(0.5), result(0.7)])
    assert math.isnan(summary.std_splits)
    assert summary.std_seeds == pytest.approx(math.sqrt(0.02))
    assert (summary.low, summary.high) == interval(0.6, [(0.02 / 2, 1)])


def test_a_single_score_has_no_interval():
    summary = summarize([result(0.5)])
    assert summary.mean == 0.5
    assert all(
        math.isnan(value)
        for value in (summary.std_splits, summary.std_seeds, summary.low, summary.high)
    )


@pytest.mark.parametrize("shared", [True, False])
def test_scores_that_are_all_alike_have_an_interval_without_width(shared):
    summary = summarize(results([[0.5, 0.5], [0.5, 0.5]], shared=shared))
    assert (summary.std_splits, summary.std_seeds, summary.low, summary.high) == (
        0.0,
        0.0,
        0.5,
        0.5,
    )
    one = summarize([result(0.5, 0.5)])
    assert (one.std_splits, one.low, one.high) == (0.0, 0.5, 0.5) and math.isnan(one.std_seeds)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 10_000))
def test_seeds_that_say_the_same_on_shared_splits_tell_no_more_than_one(
    num_seeds, num_splits, seed
):
    row = np.random.default_rng(seed).random(num_splits)
    one, many = summarize(results([row])), summarize(results([row] * num_seeds))
    assert (many.low, many.high) == pytest.approx((one.low, one.high))
    # Seeds with splits of their own are only told apart by their means
    alike = summarize(results([row] * num_seeds, shared=False))
    assert (alike.low, alike.high) == pytest.approx((one.mean, one.mean))


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(2, 6),
    st.integers(0, 10_000),
    st.floats(-0.3, 0.3),
    st.booleans(),
)
def test_order_does_not_matter_and_a_shift_moves_the_interval_along(
    num_seeds, num_splits, seed, shift, shared
):
    rng = np.random.default_rng(seed)
    scores = rng.random((num_seeds, num_splits))

    def numbers(table):
        summary = summarize(results(table, shared=shared))
        return np.array(
            [summary.mean, summary.low, summary.high, summary.std_splits, summary.std_seeds]
        )

    plain = numbers(scores)
    np.testing.assert_allclose(numbers(rng.permutation(scores)), plain, atol=1e-12)
    np.testing.assert_allclose(numbers(scores[:, rng.permutation(num_splits)]), plain, atol=1e-12)
    if not shared:  # the first splits of two seeds have nothing in common
        np.testing.assert_allclose(numbers(rng.permuted(scores, axis=1)), plain, atol=1e-12)
    np.testing.assert_allclose(
        numbers(scores + shift), plain + np.array([shift] * 3 + [0, 0]), atol=1e-12
    )
    assert plain[1] < plain[0] < plain[2]


def test_the_interval_holds_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    tables = 0.8 + rng.normal(size=(600, 1, 5)) * 0.02
    inside = [
        s.low <= 0.8 <= s.high
        for s in (summarize([result(*row) for row in table]) for table in tables)
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("shared", [True, False])
def test_the_interval_of_five_seeds_and_ten_splits_holds_the_mean_as_often_as_it_says(shared):
    rng, draws = np.random.default_rng(0), 250
    of_seeds, noise = rng.normal(size=(draws, 5, 1)) * 0.01, rng.normal(size=(draws, 5, 10)) * 0.01
    # The larger part, so that it matters whether seeds share it
    of_splits = rng.normal(size=(draws, 1 if shared else 5, 10)) * 0.03
    tables = 0.8 + of_seeds + of_splits + noise
    inside = [
        s.low <= 0.8 <= s.high
        for s in (summarize(results(table, shared=shared)) for table in tables)
    ]
    assert 0.90 <= np.mean(inside) <= 0.985


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [result()],
        [result(0.5), result(0.5, 0.6)],
        [result(0.5), result(0.5, metric="micro-F1")],
    ],
)
def test_results_that_do_not_match_have_no_summary(wrong):
    with pytest.raises(InputError) as caught:
        summarize(wrong)
    assert (
        str(caught.value)
        == "A summary needs one or more results of the same metric, all over the same number of"
        " splits."
    )


# --- paired differences ---


@pytest.mark.parametrize("shared", [True, False])
def test_paired_difference_by_hand(shared):
    first, second = (
        results(table, shared=shared)
        for table in ([[0.9, 0.5], [0.8, 0.6]], [[0.8, 0.5], [0.6, 0.6]])
    )
    summary = paired(first, second)
    of_splits = (0.1**2 / 2 + 0.2**2 / 2) / 2  # differences 0.1, 0 and 0.2, 0
    of_seeds = 0.05**2 / 2  # means 0.05 and 0.1
    of_split_means = 0.15**2 / 2  # means 0.15 and 0
    assert (summary.mean, summary.std_splits, summary.std_seeds) == pytest.approx(
        (0.075, math.sqrt(of_splits), math.sqrt(of_seeds))
    )
    parts = [(of_split_means / 2, 1), (of_seeds / 2, 1)] if shared else [(of_seeds / 2, 1)]
    assert (summary.low, summary.high) == interval(0.075, parts)
    assert summary.n == 4


def test_what_splits_share_cancels():
    first, second = result(0.5, 0.7, 0.9), result(0.4, 0.6, 0.8)
    difference = paired([first], [second])
    assert (difference.low, difference.mean, difference.high) == pytest.approx((0.1, 0.1, 0.1))
    # Apart, they could not be told from each other
    assert summarize([first]).low < summarize([second]).mean


def test_a_result_without_seeds_is_compared_with_every_seed():
    raw, learnt = result(0.4, 0.5), [result(0.6, 0.6), result(0.7, 0.8)]
    assert paired(learnt, [raw]) == paired(learnt, [raw, raw])
    assert paired([raw], learnt).mean == pytest.approx(-paired(learnt, [raw]).mean)


@pytest.mark.parametrize(
    "second",
    [
        [result(0.5, 0.6, splits="other")],
        [result(0.5, 0.6), result(0.5, 0.6, splits="other")],
        [result(0.5, 0.6)] * 3,
        [result(0.5, 0.6, metric="micro-F1")] * 2,
    ],
)
def test_results_on_different_splits_are_not_compared(second):
    with pytest.raises(InputError) as caught:
        paired([result(0.5, 0.6)] * 2, second)
    assert (
        str(caught.value)
        == "A paired difference needs both results on the same rows, splits and seeds. Probe them"
        " again, alike."
    )
