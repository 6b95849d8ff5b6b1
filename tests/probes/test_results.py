"""Results: means, the two spreads, intervals and paired differences by hand, and the way through JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from graphlatent.errors import InputError
from graphlatent.probes.results import Choice, ProbeResult, paired, summarize


def result(*scores, splits="s", metric="accuracy"):
    return ProbeResult(tuple(scores), (Choice("", {}, 0.5),) * len(scores), "by hand", metric=metric, splits=splits)


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
    choices = (Choice("epoch 3", {"preprocessing": "row", "strength": 1e-3}, 0.25), Choice("", {"neighbours": 5}, 1.0))
    before = ProbeResult((0.5, 0.75), choices, "in words", "micro-F1", {"accuracy": (0.9, 0.8)}, "0123abcd")
    text = json.dumps(before.to_dict(), allow_nan=False)
    assert json.loads(text) == {
        "scores": [0.5, 0.75],
        "choices": [
            {"candidate": "epoch 3", "settings": {"preprocessing": "row", "strength": 1e-3}, "val_score": 0.25},
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
    assert (summary.mean, summary.std_splits) == pytest.approx((0.7, 0.2))  # deviations -0.2, 0, 0.2: 0.08 / 2
    assert math.isnan(summary.std_seeds)
    assert (summary.low, summary.high) == interval(0.7, [(0.04 / 3, 2)])
    assert (summary.low, summary.high) == pytest.approx((0.7 - 0.2 / math.sqrt(3) * 4.302653, 0.7 + 0.2 / math.sqrt(3) * 4.302653))
    assert (summary.num_seeds, summary.num_splits, summary.n) == (1, 3, 3)


def test_several_seeds_by_hand():
    summary = summarize([result(0.5, 0.7), result(0.6, 1.0), result(0.6, 0.8)])
    assert summary.mean == pytest.approx(0.7)
    of_splits = (0.02 + 0.08 + 0.02) / 3  # half the squared difference of two
    of_seeds = (0.1**2 + 0.1**2 + 0) / 2  # means 0.6, 0.8, 0.7
    assert summary.std_splits == pytest.approx(math.sqrt(of_splits))
    assert summary.std_seeds == pytest.approx(math.sqrt(of_seeds))
    assert (summary.low, summary.high) == interval(0.7, [(of_splits / 2, 3), (of_seeds / 3, 2)])
    assert (summary.num_seeds, summary.num_splits, summary.n) == (3, 2, 6)


def test_one_split_has_a_spread_over_seeds_only():
    summary = summarize([result(0.5), result(0.7)])
    assert math.isnan(summary.std_splits)
    assert summary.std_seeds == pytest.approx(math.sqrt(0.02))
    assert (summary.low, summary.high) == interval(0.6, [(0.02 / 2, 1)])


def test_a_single_score_has_no_interval():
    summary = summarize([result(0.5)])
    assert summary.mean == 0.5
    assert all(math.isnan(value) for value in (summary.std_splits, summary.std_seeds, summary.low, summary.high))


def test_scores_that_are_all_alike_have_an_interval_without_width():
    summary = summarize([result(0.5, 0.5), result(0.5, 0.5)])
    assert (summary.std_splits, summary.std_seeds, summary.low, summary.high) == (0.0, 0.0, 0.5, 0.5)


@given(st.integers(1, 4), st.integers(2, 6), st.integers(0, 10_000), st.floats(-0.3, 0.3))
def test_order_does_not_matter_and_a_shift_moves_the_interval_along(num_seeds, num_splits, seed, shift):
    rng = np.random.default_rng(seed)
    scores = rng.random((num_seeds, num_splits))

    def numbers(table):
        summary = summarize([result(*row) for row in table])
        return np.array([summary.mean, summary.low, summary.high, summary.std_splits, summary.std_seeds])

    plain = numbers(scores)
    np.testing.assert_allclose(numbers(rng.permutation(scores)), plain, atol=1e-12)
    np.testing.assert_allclose(numbers(scores[:, rng.permutation(num_splits)]), plain, atol=1e-12)
    np.testing.assert_allclose(numbers(scores + shift), plain + np.array([shift] * 3 + [0, 0]), atol=1e-12)
    assert plain[1] < plain[0] < plain[2]


def test_the_interval_holds_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    tables = 0.8 + rng.normal(size=(2000, 1, 5)) * 0.02
    inside = [s.low <= 0.8 <= s.high for s in (summarize([result(*row) for row in table]) for table in tables)]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("results", [[], [result()], [result(0.5), result(0.5, 0.6)], [result(0.5), result(0.5, metric="micro-F1")]])
def test_results_that_do_not_match_have_no_summary(results):
    with pytest.raises(InputError) as caught:
        summarize(results)
    assert str(caught.value) == "A summary needs one or more results of the same metric, all over the same number of splits."


# --- paired differences ---


def test_paired_difference_by_hand():
    first, second = [result(0.9, 0.5), result(0.8, 0.6)], [result(0.8, 0.5), result(0.6, 0.6)]
    summary = paired(first, second)
    of_splits = (0.1**2 / 2 + 0.2**2 / 2) / 2  # differences 0.1, 0 and 0.2, 0
    of_seeds = 0.05**2 / 2
    assert (summary.mean, summary.std_splits, summary.std_seeds) == pytest.approx((0.075, math.sqrt(of_splits), math.sqrt(of_seeds)))
    assert (summary.low, summary.high) == interval(0.075, [(of_splits / 2, 2), (of_seeds / 2, 1)])
    assert summary.n == 4


def test_what_splits_share_cancels():
    first, second = result(0.5, 0.7, 0.9), result(0.4, 0.6, 0.8)
    difference = paired([first], [second])
    assert (difference.low, difference.mean, difference.high) == pytest.approx((0.1, 0.1, 0.1))
    assert summarize([first]).low < summarize([second]).mean  # apart, they could not be told from each other


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
    assert str(caught.value) == ("A paired difference needs both results on the same rows, splits and seeds. Probe them again, alike.")
