"""Synthetic latent graphs: the claims of the docstrings, measured."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.data.edges import is_symmetric
from graphlatent.data.splits import random_splits
from graphlatent.data.synthetic import FAMILIES, latent_graph, latent_graph_set
from graphlatent.errors import ConfigError
from graphlatent.probes.linear import linear_probe
from graphlatent.representations import propagated_features, raw_features


def assert_clean(graph):
    source, target = graph.edge_index
    assert is_symmetric(graph.edge_index, None, num_nodes=graph.num_nodes)
    assert bool((source != target).all())
    assert torch.unique(graph.edge_index, dim=1).shape == graph.edge_index.shape


def test_defaults():
    made = latent_graph()
    assert made.graph.num_nodes == 1500
    assert made.graph.x.shape == made.latent.shape == (1500, 64)
    assert made.graph.x.dtype == made.latent.dtype == torch.float32
    assert np.bincount(made.labels).tolist() == [300] * 5
    np.testing.assert_array_equal(made.graph.y, made.labels)
    assert_clean(made.graph)


def test_noise_is_centred_independent_and_of_the_given_size():
    made = latent_graph(num_nodes=4000, sigma=1.5)
    noise = (made.graph.x - made.latent).double()
    assert abs(float(noise.mean())) < 5 * 1.5 / noise.numel() ** 0.5
    assert float(noise.std()) == pytest.approx(1.5, rel=0.01)
    correlation = torch.corrcoef(noise.T) - torch.eye(64)
    assert float(correlation.abs().max()) < 6 / 4000**0.5
    with_latent = torch.corrcoef(torch.stack([noise.flatten(), made.latent.double().flatten()]))[
        0, 1
    ]
    assert abs(float(with_latent)) < 5 / noise.numel() ** 0.5
    assert float(made.latent.square().mean()) == pytest.approx(1.0, rel=1e-5)


def test_sigma_zero_shows_the_latent_features():
    made = latent_graph(num_nodes=60, sigma=0.0)
    assert torch.equal(made.graph.x, made.latent)
    many = latent_graph_set(num_graphs=4, sigma=0.0)
    assert torch.equal(many.graph.x, many.latent)


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.7, 1.0])
def test_degree_and_homophily_are_as_asked(homophily):
    made = latent_graph(num_nodes=6000, avg_degree=8.0, homophily=homophily, feature_dim=2)
    source, target = made.graph.edge_index.numpy()
    assert made.graph.num_edges / 6000 == pytest.approx(8.0, rel=0.05)
    assert (made.labels[source] == made.labels[target]).mean() == pytest.approx(
        homophily, abs=0.02 * (0 < homophily < 1)
    )


def test_other_communities_are_met_equally_often():
    made = latent_graph(
        num_nodes=6000, num_classes=4, homophily=0.4, avg_degree=10.0, feature_dim=1
    )
    source, target = made.graph.edge_index.numpy()
    met = np.zeros((4, 4))
    np.add.at(met, (made.labels[source], made.labels[target]), 1 / made.graph.num_edges)
    expected = np.full((4, 4), 0.6 / 12) + np.eye(4) * (0.1 - 0.6 / 12)
    np.testing.assert_allclose(met, expected, atol=0.006)


def test_latent_features_are_smooth_along_edges():
    made = latent_graph()
    source, target = made.graph.edge_index
    shuffled = target[torch.randperm(target.numel(), generator=torch.Generator().manual_seed(0))]
    along = (made.latent[source] - made.latent[target]).square().mean()
    anywhere = (made.latent[source] - made.latent[shuffled]).square().mean()
    assert float(along) < 0.8 * float(anywhere)


def test_classes_are_half_hidden_in_the_features_and_the_neighbourhood_helps():
    made = latent_graph(seed=1)
    splits = random_splits(1500, num_splits=2)
    quick = {"l2": (1e-3, 1e-2), "preprocessing": ("none",)}
    raw = linear_probe(
        raw_features(made.graph, level="node"), made.labels, splits=splits, **quick
    ).mean
    propagated = linear_probe(
        propagated_features(made.graph, level="node"), made.labels, splits=splits, **quick
    ).mean
    assert 0.45 < raw < 0.7
    assert propagated > raw + 0.1


@pytest.mark.parametrize(
    "make", [partial(latent_graph, num_nodes=80), partial(latent_graph_set, num_graphs=6)]
)
def test_same_seed_same_graph(make):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = make(seed=4), make(seed=4), make(seed=5)
    assert torch.equal(before, torch.get_rng_state())
    assert first.graph.fingerprint() == again.graph.fingerprint() != other.graph.fingerprint()
    assert torch.equal(first.latent, again.latent)
    np.testing.assert_array_equal(first.labels, again.labels)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 4), st.floats(0, 12), st.floats(0, 1), st.integers(0, 5))
def test_any_size_gives_a_clean_graph(num_nodes, num_classes, avg_degree, homophily, seed):
    num_classes = min(num_classes, num_nodes)
    homophily = 1.0 if num_classes == 1 else homophily
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The input has no edges")
        made = latent_graph(
            num_nodes=num_nodes,
            num_classes=num_classes,
            avg_degree=avg_degree,
            homophily=homophily,
            feature_dim=3,
            seed=seed,
        )
    assert_clean(made.graph)
    assert set(made.labels) == set(range(num_classes))
    assert bool(torch.isfinite(made.graph.x).all())


def test_graph_set():
    made = latent_graph_set()
    assert made.graph.num_graphs == 300
    assert np.bincount(made.labels).tolist() == [100] * 3
    np.testing.assert_array_equal(made.graph.y, made.labels)
    sizes = torch.diff(made.graph.ptr)
    assert (int(sizes.min()), int(sizes.max())) == (10, 40)
    assert_clean(made.graph)
    inside = made.graph.graph_of_node[made.graph.edge_index]
    assert torch.equal(inside[0], inside[1])
    assert torch.equal(torch.bincount(inside[0], minlength=300), 2 * (2 * sizes - 3))
    assert float((made.graph.x - made.latent).std()) == pytest.approx(made.sigma, rel=0.02)


def test_families_differ_in_their_degrees_and_clusters():
    made = latent_graph_set(num_graphs=200, num_classes=4, rewire_ratio=0.0, feature_dim=1)
    largest, triangles = np.zeros((2, 4))
    for i, label in enumerate(made.labels):
        start, end = made.graph.ptr[i : i + 2].tolist()
        inside = (made.graph.edge_index[0] >= start) & (made.graph.edge_index[0] < end)
        adjacency = torch.zeros(end - start, end - start)
        adjacency[tuple(made.graph.edge_index[:, inside] - start)] = 1
        largest[label] += float(adjacency.sum(0).max()) / 50
        triangles[label] += float((adjacency @ adjacency * adjacency).sum()) / (end - start) / 50
    ring, hubs, blocks, random = (
        list(FAMILIES).index(name) for name in ("ring", "hubs", "blocks", "random")
    )
    assert largest[ring] == pytest.approx(4)
    assert largest[hubs] > largest[blocks] + 2
    assert triangles[ring] > 2 * triangles[blocks] > 2 * triangles[random]


def test_latent_sums_say_little_and_neighbourhoods_say_more():
    made = latent_graph_set()
    splits = random_splits(300, num_splits=4, train_ratio=0.6, val_ratio=0.2)
    quick = {"l2": (1e-5, 1e-3), "preprocessing": ("none",)}
    raw = linear_probe(
        raw_features(made.graph, level="graph"), made.labels, splits=splits, **quick
    ).mean
    hops = linear_probe(
        propagated_features(made.graph, level="graph", concat=True),
        made.labels,
        splits=splits,
        **quick,
    ).mean
    assert raw < 0.5
    assert hops > raw + 0.1


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (
            latent_graph,
            {"num_nodes": 3},
            (
                "The 'num_nodes' parameter of latent_graph must be an int of at least 5. Got 3"
                " instead."
            ),
        ),
        (
            latent_graph,
            {"homophily": 1.2},
            (
                "The 'homophily' parameter of latent_graph must be a float in the range [0.0, 1.0]."
                " Got 1.2 instead."
            ),
        ),
        (
            latent_graph,
            {"sigma": -1.0},
            (
                "The 'sigma' parameter of latent_graph must be a float in the range [0.0, inf). Got"
                " -1.0 instead."
            ),
        ),
        (
            latent_graph,
            {"num_classes": 1},
            (
                "latent_graph with num_classes=1 needs homophily=1.0: there is no other community"
                " to have neighbours in."
            ),
        ),
        (
            latent_graph_set,
            {"num_classes": 5},
            (
                "The 'num_classes' parameter of latent_graph_set must be an int from 1 to 4. Got 5"
                " instead."
            ),
        ),
        (
            latent_graph_set,
            {"min_nodes": 20, "max_nodes": 10},
            (
                "The 'max_nodes' parameter of latent_graph_set must be an int of at least 20. Got"
                " 10 instead."
            ),
        ),
    ],
)
def test_bad_arguments(make, arguments, message):
    with pytest.raises(ConfigError) as caught:
        make(**arguments)
    assert str(caught.value) == message
