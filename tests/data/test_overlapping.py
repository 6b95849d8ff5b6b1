"""Graphs with overlapping communities: the claims of the docstring, measured."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.edges import is_symmetric
from graphlatent.data.overlapping import overlapping_graph
from graphlatent.errors import ConfigError


def share_of_pairs(made):
    """For every edge, how many communities its ends share."""
    source, target = made.graph.edge_index.numpy()
    return (made.members[source] & made.members[target]).sum(1)


def test_defaults():
    made = overlapping_graph()
    assert made.graph.num_nodes == 600
    assert made.graph.x.shape == (600, 32) and made.graph.x.dtype == torch.float32
    assert made.members.shape == (600, 6) and made.members.dtype == bool
    np.testing.assert_array_equal(made.graph.y, made.members)
    assert made.graph.undirected and is_symmetric(made.graph.edge_index, None, num_nodes=600)
    assert bool((made.graph.edge_index[0] != made.graph.edge_index[1]).all())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.floats(0, 1), st.integers(1, 4), st.integers(0, 99))
def test_members_are_as_many_as_asked(num_communities, ratio, memberships, seed):
    memberships = min(memberships, num_communities)
    made = overlapping_graph(
        num_nodes=60,
        num_communities=num_communities,
        overlap_ratio=ratio,
        memberships=memberships,
        feature_dim=2,
        seed=seed,
    )
    count = made.members.sum(1)
    shared = round(ratio * 60) if memberships > 1 else 0
    assert np.bincount(count, minlength=memberships + 1)[memberships if shared else 1] == (
        shared or 60
    )
    assert sorted(set(count.tolist())) == sorted(
        {*([memberships] if shared else []), *([1] if shared < 60 else [])}
    )
    if ratio == 0:
        assert np.ptp(made.members.sum(0)) <= 1


def test_sizes_of_communities_are_alike_and_overlaps_random():
    made = overlapping_graph(
        num_nodes=6000,
        num_communities=4,
        overlap_ratio=0.5,
        memberships=2,
        avg_degree=1,
        feature_dim=2,
    )
    np.testing.assert_allclose(made.members.sum(0), 6000 * 1.5 / 4, rtol=0.05)
    together = made.members.T.astype(int) @ made.members
    # 3000 nodes over 6 pairs of communities
    np.testing.assert_allclose(together[np.triu_indices(4, 1)], 3000 / 6, rtol=0.15)


@pytest.mark.parametrize("mixing", [0.0, 0.3, 1.0])
def test_degree_and_mixing_are_as_asked(mixing):
    made = overlapping_graph(
        num_nodes=8000, num_communities=8, overlap_ratio=0.0, mixing=mixing, feature_dim=2
    )
    assert made.graph.num_edges / 8000 == pytest.approx(12, rel=0.03)
    by_chance = 1 / 8
    assert np.mean(share_of_pairs(made) > 0) == pytest.approx(
        1 - mixing + mixing * by_chance, abs=0.02
    )


def test_nodes_of_two_communities_have_twice_the_neighbours_and_are_linked_more_densely():
    made = overlapping_graph(
        num_nodes=6000, num_communities=5, overlap_ratio=0.4, mixing=0.0, feature_dim=2
    )
    degree, two = made.graph.degree.numpy(), made.members.sum(1) == 2
    assert degree[two].mean() / degree[~two].mean() == pytest.approx(2, rel=0.05)
    shares = share_of_pairs(made)
    assert shares.min() >= 1  # every edge is inside a community
    common = made.members.astype(int) @ made.members.T.astype(int)
    density = [
        (shares == k).sum() / ((common == k).sum() - (made.members.sum(1) == k).sum())
        for k in (1, 2)
    ]
    assert density[1] / density[0] == pytest.approx(2, rel=0.15)


def test_features_are_means_of_centres_and_noise():
    made = overlapping_graph(sigma=0.0, overlap_ratio=0.4, memberships=3)
    centres = np.stack(
        [made.graph.x.numpy()[(made.members.sum(1) == 1) & made.members[:, k]][0] for k in range(6)]
    )
    expected = made.members @ centres / made.members.sum(1, keepdims=True)
    np.testing.assert_allclose(made.graph.x.numpy(), expected, rtol=1e-4, atol=1e-5)
    noisy = overlapping_graph(sigma=2.0, overlap_ratio=0.4, memberships=3)
    noise = noisy.graph.x - made.graph.x
    assert abs(float(noise.mean())) < 0.06 and float(noise.std()) == pytest.approx(2, rel=0.02)


def test_seeds():
    first, again, other = (overlapping_graph(num_nodes=50, seed=seed) for seed in (0, 0, 1))
    assert first.graph.fingerprint() == again.graph.fingerprint() != other.graph.fingerprint()
    np.testing.assert_array_equal(first.members, again.members)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"num_nodes": 3},
            (
                "The 'num_nodes' parameter of overlapping_graph must be an int of at least 6. Got 3"
                " instead."
            ),
        ),
        (
            {"num_communities": 0},
            (
                "The 'num_communities' parameter of overlapping_graph must be an int of at least 1."
                " Got 0 instead."
            ),
        ),
        (
            {"feature_dim": 0},
            (
                "The 'feature_dim' parameter of overlapping_graph must be an int of at least 1. Got"
                " 0 instead."
            ),
        ),
        (
            {"memberships": 7},
            (
                "The 'memberships' parameter of overlapping_graph must be an int from 1 to"
                " num_communities=6. Got 7 instead."
            ),
        ),
        (
            {"overlap_ratio": 1.1},
            (
                "The 'overlap_ratio' parameter of overlapping_graph must be a float in the range"
                " [0.0, 1.0]. Got 1.1 instead."
            ),
        ),
        (
            {"mixing": -0.1},
            (
                "The 'mixing' parameter of overlapping_graph must be a float in the range [0.0,"
                " 1.0]. Got -0.1 instead."
            ),
        ),
        (
            {"avg_degree": -1.0},
            (
                "The 'avg_degree' parameter of overlapping_graph must be a float in the range [0.0,"
                " inf). Got -1.0 instead."
            ),
        ),
        (
            {"sigma": float("inf")},
            (
                "The 'sigma' parameter of overlapping_graph must be a float in the range [0.0,"
                " inf). Got inf instead."
            ),
        ),
    ],
)
def test_failures(arguments, message):
    with pytest.raises(ConfigError) as caught:
        overlapping_graph(**arguments)
    assert str(caught.value) == message
