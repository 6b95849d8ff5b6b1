from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.edges import clean_edges, is_symmetric


def edges(*pairs):
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T


def pairs_of(clean):
    return [tuple(pair) for pair in clean.edge_index.T.tolist()]


def test_duplicates_are_merged_and_weights_take_the_maximum():
    clean = clean_edges(
        edges((1, 0), (0, 1), (1, 0)), torch.tensor([2.0, 1.0, 5.0]), num_nodes=2, symmetrize=False
    )
    assert pairs_of(clean) == [(0, 1), (1, 0)]
    assert clean.edge_weight.tolist() == [1.0, 5.0]
    assert (clean.num_merged, clean.num_added, clean.num_self_loops) == (1, 0, 0)


def test_symmetrize_adds_what_is_missing_and_takes_the_larger_weight():
    clean = clean_edges(
        edges((0, 1), (1, 0), (1, 2)), torch.tensor([1.0, 4.0, 3.0]), num_nodes=3, symmetrize=True
    )
    assert pairs_of(clean) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert clean.edge_weight.tolist() == [4.0, 4.0, 3.0, 3.0]
    assert (clean.num_merged, clean.num_added) == (0, 1)


def test_negative_weights_survive_the_maximum():
    clean = clean_edges(edges((0, 1)), torch.tensor([-2.0]), num_nodes=2, symmetrize=True)
    assert clean.edge_weight.tolist() == [-2.0, -2.0]


def test_self_loops_are_kept_once():
    clean = clean_edges(edges((1, 1), (1, 1), (0, 1)), None, num_nodes=2, symmetrize=True)
    assert pairs_of(clean) == [(0, 1), (1, 0), (1, 1)]
    assert (clean.num_merged, clean.num_added, clean.num_self_loops) == (1, 1, 1)


def test_no_edges():
    clean = clean_edges(edges(), torch.zeros(0), num_nodes=3, symmetrize=True)
    assert clean.edge_index.shape == (2, 0)
    assert clean.edge_weight.shape == (0,)
    assert (clean.num_merged, clean.num_added, clean.num_self_loops) == (0, 0, 0)


def test_undirected_nodes_get_their_reverse_edges_without_counting_them():
    which = torch.tensor([True, True, False, False])
    clean = clean_edges(
        edges((0, 1), (2, 3)),
        torch.tensor([1.0, 2.0]),
        num_nodes=4,
        symmetrize=False,
        undirected=which,
    )
    assert pairs_of(clean) == [(0, 1), (1, 0), (2, 3)]
    assert clean.edge_weight.tolist() == [1.0, 1.0, 2.0]
    assert clean.num_added == 0
    assert (
        clean_edges(
            edges((0, 1), (2, 3)), None, num_nodes=4, symmetrize=True, undirected=which
        ).num_added
        == 1
    )


def test_is_symmetric_looks_at_edges_and_weights():
    assert is_symmetric(edges(), None, num_nodes=1)
    assert is_symmetric(edges((0, 1), (1, 0), (1, 1)), None, num_nodes=2)
    assert not is_symmetric(edges((0, 1)), None, num_nodes=2)
    assert is_symmetric(edges((0, 1), (1, 0)), torch.tensor([2.0, 2.0]), num_nodes=2)
    assert not is_symmetric(edges((0, 1), (1, 0)), torch.tensor([2.0, 1.0]), num_nodes=2)


@settings(max_examples=50, deadline=None)
@given(
    num_nodes=st.integers(1, 6),
    raw=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(1, 9)), max_size=20),
    symmetrize=st.booleans(),
)
def test_clean_edges_equal_a_dictionary(num_nodes, raw, symmetrize):
    expected: dict[tuple[int, int], float] = {}
    for u, v, w in raw:
        for pair in [(u % num_nodes, v % num_nodes)] + (
            [(v % num_nodes, u % num_nodes)] if symmetrize else []
        ):
            expected[pair] = max(expected.get(pair, 0.0), float(w))
    clean = clean_edges(
        edges(*[(u % num_nodes, v % num_nodes) for u, v, _ in raw]),
        torch.tensor([float(w) for _, _, w in raw]),
        num_nodes=num_nodes,
        symmetrize=symmetrize,
    )
    assert dict(zip(pairs_of(clean), clean.edge_weight.tolist(), strict=True)) == expected
    assert pairs_of(clean) == sorted(expected)
    assert not symmetrize or is_symmetric(clean.edge_index, clean.edge_weight, num_nodes=num_nodes)
    again = clean_edges(
        clean.edge_index, clean.edge_weight, num_nodes=num_nodes, symmetrize=symmetrize
    )
    assert (again.num_merged, again.num_added) == (0, 0)
