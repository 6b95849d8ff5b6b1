"""Repeated edges merged by sum, mean and count, compared with a computation edge by edge."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.edges import clean_edges
from graphlatent.errors import InputError

RULES = {"max": max, "sum": sum, "mean": lambda w: sum(w) / len(w), "count": len}
WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 4.0, -3.0])


def cleaned(rows, rule, **options):
    """{(source, target): weight} of rows (source, target, weight) on four nodes."""
    ends = torch.tensor([row[:2] for row in rows], dtype=torch.int64).reshape(-1, 2).T
    weight = torch.tensor([float(row[2]) for row in rows])
    clean = clean_edges(ends, weight, num_nodes=4, merge=rule, **{"symmetrize": True, **options})
    pairs = [tuple(pair) for pair in clean.edge_index.T.tolist()]
    assert pairs == sorted(set(pairs))
    assert clean.num_self_loops == sum(u == v for u, v in pairs)
    return dict(zip(pairs, clean.edge_weight.tolist(), strict=True)), clean


def expected(rows, rule, *, symmetrize):
    def grouped(key):
        groups = defaultdict(list)
        for u, v, w in rows:
            groups[key(u, v)].append(w)
        return {pair: RULES[rule](weights) for pair, weights in groups.items()}

    once = grouped(lambda u, v: (u, v))
    if not symmetrize or all(once.get((v, u)) == w for (u, v), w in once.items()):
        return once
    both = grouped(lambda u, v: (min(u, v), max(u, v)))
    return {pair: w for (u, v), w in both.items() for pair in ((u, v), (v, u))}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), WEIGHTS), max_size=12),
    st.sampled_from(["max", "sum", "mean", "count"]),
    st.booleans(),
    st.randoms(),
)
@settings(deadline=None)
def test_every_rule_is_what_a_loop_over_the_rows_gives(rows, rule, symmetrize, random):
    found, clean = cleaned(rows, rule, symmetrize=symmetrize)
    assert found == pytest.approx(expected(rows, rule, symmetrize=symmetrize))
    assert clean.num_merged == len(rows) - len({row[:2] for row in rows})
    random.shuffle(rows)
    assert cleaned(rows, rule, symmetrize=symmetrize)[0] == found


def test_both_directions_are_one_edge_by_hand():
    rows = [(0, 1, 5), (0, 1, 2), (1, 0, 3), (2, 2, 4), (2, 2, 4)]
    for rule, weight, loop in (("sum", 10, 8), ("mean", 10 / 3, 4), ("count", 3, 2)):
        found, clean = cleaned(rows, rule)
        assert found == pytest.approx({(0, 1): weight, (1, 0): weight, (2, 2): loop})
        assert clean.symmetrized and (clean.num_merged, clean.num_added) == (2, 0)


def test_what_is_listed_in_both_directions_is_not_added_up():
    rows = [(0, 1, 5), (1, 0, 5), (2, 3, 1), (3, 2, 1)]
    found, clean = cleaned(rows, "sum")
    assert found == {(0, 1): 5, (1, 0): 5, (2, 3): 1, (3, 2): 1}
    assert clean.num_listed_twice == 2 and not clean.symmetrized
    # Another edge that is listed once shows that directions mean something.
    found, clean = cleaned([*rows, (0, 2, 1)], "sum")
    assert found[0, 1] == 10 and found[2, 3] == 2 and clean.num_listed_twice == 0
    # But not in another graph.
    found, clean = cleaned([*rows[:2], (2, 3, 1)], "sum", ptr=torch.tensor([0, 2, 4]))
    assert found == {(0, 1): 5, (1, 0): 5, (2, 3): 1, (3, 2): 1}
    assert (clean.num_listed_twice, clean.num_added, clean.symmetrized) == (1, 1, True)


def test_rows_of_an_undirected_source_are_added_up_in_whatever_direction():
    which = torch.tensor([True, True, False, False])
    rows = [(0, 1, 5), (1, 0, 5), (2, 3, 1)]
    found, clean = cleaned(rows, "sum", undirected=which, symmetrize=False)
    assert found == {(0, 1): 10, (1, 0): 10, (2, 3): 1}
    assert (clean.num_added, clean.symmetrized) == (0, False)


def test_without_weights_a_sum_counts():
    ends = torch.tensor([[0, 0, 1], [1, 1, 2]])
    clean = clean_edges(ends, None, num_nodes=3, symmetrize=False, merge="sum")
    assert clean.edge_weight.tolist() == [2, 1]


def test_a_sum_beyond_float32_is_refused():
    with pytest.raises(InputError, match=r"The sum of the weights .* too large for float32"):
        cleaned([(0, 1, 3e38), (0, 1, 3e38)], "sum")
