"""Scores of overlapping communities: by hand, against slow rewrites, and their properties."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import graphlatent.probes.communities as communities
from graphlatent.probes.communities import (
    SCORES,
    average_f1,
    membership_table,
    omega_index,
    overlapping_nmi,
)

TRUTH = membership_table([[0, 1], [2, 3]], num_rows=4)
FOUND = membership_table([[0, 1], [1, 2, 3]], num_rows=4)
covers = st.tuples(st.integers(2, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 10_000))


def random_covers(case):
    num_rows, first, second, seed = case
    rng = np.random.default_rng(seed)
    return rng.random((num_rows, first)) < 0.5, rng.random((num_rows, second)) < 0.4


def as_sets(members):
    return [set(np.flatnonzero(column)) for column in members.T if column.any()]


def slow_f1(truth, found):
    def f1(a, b):
        precision, recall = len(a & b) / len(b), len(a & b) / len(a)
        return 2 * precision * recall / (precision + recall) if a & b else 0.0

    first, second = as_sets(truth), as_sets(found)
    if not first or not second:
        return 0.0
    return (
        np.mean([max(f1(a, b) for b in second) for a in first])
        + np.mean([max(f1(a, b) for a in first) for b in second])
    ) / 2


def slow_nmi(truth, found):
    """Two yes-or-no variables at a time, as the paper words it, in natural logarithms."""
    everyone = set(range(len(truth)))

    def h(rows):
        share = len(rows) / len(everyone)
        return -share * math.log(share) if share > 0 else 0.0

    def entropy(a):
        return h(a) + h(everyone - a)

    def conditional(a, b):
        both, neither, one, other = h(a & b), h(everyone - a - b), h(a - b), h(b - a)
        return (
            both + neither + one + other - entropy(b)
            if both + neither >= one + other
            else entropy(a)
        )

    first, second = as_sets(truth), as_sets(found)
    whole = max(sum(map(entropy, first)), sum(map(entropy, second)))
    if whole == 0:
        return float(bool(first) and bool(second))
    known = sum(entropy(a) - min([conditional(a, b) for b in second] + [entropy(a)]) for a in first)
    known += sum(
        entropy(b) - min([conditional(b, a) for a in first] + [entropy(b)]) for b in second
    )
    return known / 2 / whole


def slow_omega(truth, found):
    pairs = list(combinations(range(len(truth)), 2))
    in_truth, in_found = ([int((m[i] & m[j]).sum()) for i, j in pairs] for m in (truth, found))
    agreed = np.mean([a == b for a, b in zip(in_truth, in_found, strict=True)])
    by_chance = sum(in_truth.count(k) * in_found.count(k) for k in set(in_truth)) / len(pairs) ** 2
    return 1.0 if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)


# --- the scores ---


def test_scores_by_hand():
    assert average_f1(TRUTH, FOUND) == pytest.approx((1 + 4 / 5) / 2)
    # Entropies in bits: 1 + 1 and 1 + 0.8113. Of the second communities the joint entropy is 1.5:
    # given the other, 0.6887 and 0.5 are left.
    three_quarters = 2 - 0.75 * math.log2(3)
    assert overlapping_nmi(TRUTH, FOUND) == pytest.approx(
        ((2 - (1.5 - three_quarters)) + (1 + three_quarters - 0.5)) / 2 / 2
    )
    # Pairs that share a community: 01 and 23; 01, 12, 13 and 23. They agree on 4 of 6, by chance on
    # (2 * 4 + 4 * 2) / 36.
    assert omega_index(TRUTH, FOUND) == pytest.approx((4 / 6 - 16 / 36) / (1 - 16 / 36))


@settings(max_examples=40, deadline=None)
@given(covers)
def test_scores_are_the_slow_rewrites(case):
    truth, found = random_covers(case)
    assert average_f1(truth, found) == pytest.approx(slow_f1(truth, found))
    assert overlapping_nmi(truth, found) == pytest.approx(slow_nmi(truth, found), abs=1e-9)
    assert omega_index(truth, found) == pytest.approx(slow_omega(truth, found))


@settings(max_examples=20, deadline=None)
@given(covers)
def test_order_does_not_matter_and_agreement_is_one(case):
    truth, found = random_covers(case)
    rng = np.random.default_rng(case[3])
    rows = rng.permutation(len(truth))
    again = found[rows][:, rng.permutation(found.shape[1])]
    for score in SCORES.values():
        assert score(truth[rows], again) == pytest.approx(score(truth, found), abs=1e-9)
        assert score(found, truth) == pytest.approx(score(truth, found), abs=1e-9)
        assert score(truth, found) <= 1 + 1e-9
        if truth.any():
            assert score(truth, truth[:, ::-1]) == pytest.approx(1.0)
    assert overlapping_nmi(truth, found) >= -1e-9


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=25))
def test_omega_of_clusters_is_the_adjusted_rand_index(pairs):
    first, second = np.array(pairs).T
    covers_ = [labels[:, None] == np.arange(4) for labels in (first, second)]
    assert omega_index(*covers_) == pytest.approx(adjusted_rand_score(first, second))


def test_chance_is_worth_nothing_but_in_f1():
    rng = np.random.default_rng(0)
    truth, found = (rng.random((1500, 6)) < 0.25 for _ in range(2))
    assert overlapping_nmi(truth, found) < 0.01
    assert abs(omega_index(truth, found)) < 0.01
    assert average_f1(truth, found) > 0.2


def test_a_complement_tells_nothing():
    assert overlapping_nmi(TRUTH[:, :1], TRUTH[:, 1:]) == 0


def test_blocks_change_nothing(monkeypatch):
    truth, found = random_covers((9, 3, 4, 5))
    whole = omega_index(truth, found)
    monkeypatch.setattr(communities, "_BLOCK", 20)
    assert omega_index(truth, found) == pytest.approx(whole)
