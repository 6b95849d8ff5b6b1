"""The clustering probe: its scores by hand, and its clusters on shapes with a known answer."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_circles

import graphlatent.probes.clustering as clustering
from graphlatent.errors import ConfigError, GraphLatentWarning, InputError
from graphlatent.probes.clustering import (
    SCORES,
    cluster_probe,
    cluster_rows,
    clustering_accuracy,
)

TRUTH, FOUND = np.array([0, 0, 0, 1, 1, 1]), np.array([7, 7, 3, 3, 3, 3])
many = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)


def blobs(num_rows=90, num_classes=3, *, noise=0.1, seed=0, num_columns=4):
    rng = np.random.default_rng(seed)
    labels = np.arange(num_rows) % num_classes
    return (
        3 * np.eye(num_classes, num_columns)[labels]
        + noise * rng.normal(size=(num_rows, num_columns)),
        labels,
    )


# --- the scores ---


def test_scores_by_hand():
    # classes by clusters: 2 and 1, 0 and 3
    of_class, of_cluster = math.log(2), math.log(3) - 2 / 3 * math.log(2)
    joint = math.log(3) / 3 + math.log(6) / 6 + math.log(2) / 2
    expected = {
        "nmi": 2 * (of_class + of_cluster - joint) / (of_class + of_cluster),
        # of 15 pairs 4 are together in both, 6 in the classes, 7 in the clusters; by chance 2.8
        "ari": (4 - 2.8) / (6.5 - 2.8),
        "acc": 5 / 6,
    }
    for name, score in SCORES.items():
        assert score(TRUTH, FOUND) == pytest.approx(expected[name])
        assert score(TRUTH, 5 - TRUTH) == pytest.approx(1.0)


def test_a_cluster_without_a_class_of_its_own_is_wrong():
    assert clustering_accuracy(np.zeros(5), np.array([0, 0, 0, 1, 2])) == pytest.approx(3 / 5)
    assert clustering_accuracy(np.array(["a", "b", "c", "c"]), np.zeros(4)) == pytest.approx(2 / 4)
    # Cluster 0 has most of both classes
    greedy = np.array([0] * 5 + [1] * 4), np.array([0] * 3 + [1] * 2 + [0] * 4)
    assert clustering_accuracy(*greedy) == pytest.approx((2 + 4) / 9)


@settings(max_examples=20, deadline=None)
@given(many)
def test_accuracy_is_the_best_of_all_matchings(pairs):
    from itertools import permutations

    truth, found = np.array(pairs).T
    best = max(np.mean(truth == np.array(names)[found]) for names in permutations(range(5)))
    assert clustering_accuracy(truth, found) == pytest.approx(best)


# --- the clusters ---


@pytest.mark.parametrize("method", ["kmeans", "spectral"])
@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy, sp.csr_matrix])
def test_what_is_apart_is_found(method, form):
    rows, labels = blobs()
    result = cluster_probe(form(rows), labels, method=method, seeds=[0, 7])
    assert result.nmi == result.ari == result.acc == (1.0, 1.0)
    assert (result.mean, result.std) == (
        {"nmi": 1.0, "ari": 1.0, "acc": 1.0},
        {"nmi": 0.0, "ari": 0.0, "acc": 0.0},
    )
    assert (result.method, result.num_clusters, result.seeds) == (method, 3, (0, 7))
    assert json.loads(json.dumps(result.to_dict()))["seeds"] == [0, 7]


def test_spectral_follows_shapes_that_kmeans_cuts():
    rows, labels = make_circles(200, noise=0.03, factor=0.4, random_state=0)
    assert cluster_probe(rows, labels, method="spectral", seeds=[0]).ari == (1.0,)
    assert cluster_probe(rows, labels, method="kmeans", seeds=[0]).ari[0] < 0.1


def test_rows_of_eigenvectors_have_norm_one():
    points = clustering._spectral_rows(blobs(noise=0.8)[0], 3, neighbours=8)
    assert points.shape == (90, 3)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)


def test_the_graph_of_neighbours_by_hand():
    rows = clustering.float64_rows([[0.0], [1.0], [3.0]])
    # Nearest: of 0 it is 1, of 1 it is 0, of 2 it is 1
    graph = clustering._neighbour_graph(rows, 1, 1).toarray()
    np.testing.assert_array_equal(graph, [[0, 1, 0], [1, 0, 0.5], [0, 0.5, 0]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_preparing_by_hand(form):
    rows = clustering.float64_rows(
        form(np.array([[3.0, 4.0, 2.0], [0.0, 0.0, 2.0], [0.0, 2.0, 2.0]]))
    )
    by_row, by_column = (clustering.scaled_rows(rows, each) for each in ("row", "standard"))
    dense = [x.toarray() if sp.issparse(x) else x for x in (by_row, by_column)]
    np.testing.assert_allclose(dense[0][:2], [[3 / 29**0.5, 4 / 29**0.5, 2 / 29**0.5], [0, 0, 1]])
    # deviations: sqrt(2) of 3, 0, 0 and sqrt(8 / 3) of 4, 0, 2; the last column is constant
    np.testing.assert_allclose(dense[1][0], [3 / 2**0.5, 4 / (8 / 3) ** 0.5, 2])


def test_preparing_matters():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    angle = labels + 0.1 * rng.normal(size=60)
    rows = np.stack([np.cos(angle), np.sin(angle)], axis=1) * rng.uniform(1, 100, size=(60, 1))
    assert cluster_probe(rows, labels, preprocessing="row", seeds=[0]).acc == (1.0,)
    assert cluster_probe(rows, labels, seeds=[0]).acc[0] < 0.95
    wide = np.stack([labels + 0.01 * rng.normal(size=60), 100 * rng.normal(size=60)], axis=1)
    assert cluster_probe(wide, labels, seeds=[0]).acc[0] < 0.8
    assert (
        cluster_probe(
            wide, labels, preprocessing="standard", method="spectral", neighbours=12, seeds=[0]
        ).acc[0]
        > 0.9
    )


def test_spectral_separates_components_of_the_graph():
    rows, labels = blobs(400, num_classes=4, noise=0.1)
    assert cluster_probe(rows, labels, method="spectral", seeds=[0], neighbours=8).ari == (1.0,)


# --- no cheating ---


@pytest.mark.parametrize("method", ["kmeans", "spectral"])
def test_labels_move_no_row_to_another_cluster(method, monkeypatch):
    rows, labels = blobs(noise=1.0)
    seen = []
    monkeypatch.setattr(
        clustering,
        "SCORES",
        {name: lambda truth, found: seen.append(found) or 0.0 for name in ("nmi", "ari", "acc")},
    )
    for names in (labels, np.roll(labels, 1) * 5, np.random.default_rng(0).permutation(labels)):
        cluster_probe(rows, names, method=method, seeds=[3])
    assert len(seen) == 9
    for found in seen:
        np.testing.assert_array_equal(
            found, cluster_rows(rows, num_clusters=3, method=method, seed=3)
        )


def test_the_number_of_clusters_is_said():
    rows, labels = blobs()
    of_labels, named = (
        cluster_probe(rows, labels, seeds=[0]),
        cluster_probe(rows, labels, num_clusters=5, seeds=[0]),
    )
    assert (of_labels.num_clusters, named.num_clusters) == (3, 5)
    assert (
        of_labels.selection == named.selection + " The number of clusters is the number of classes."
    )
    assert named.acc[0] < 1


def test_seeds_are_reproducible_and_the_input_is_not_changed():
    rows, labels = blobs(noise=3.0)
    before = rows.copy()
    first, again = (cluster_probe(rows, labels, seeds=[1, 2, 3], restarts=1) for _ in range(2))
    assert first == again
    assert len(set(first.nmi)) > 1
    assert first.std["nmi"] == pytest.approx(np.std(first.nmi)) and first.mean[
        "acc"
    ] == pytest.approx(np.mean(first.acc))
    np.testing.assert_array_equal(rows, before)


# --- tiny cases and failures ---


def test_tiny_cases():
    assert cluster_probe([[1.0]], ["a"], seeds=[0]).mean == {"nmi": 1.0, "ari": 1.0, "acc": 1.0}
    assert cluster_probe([[1.0]], ["a"], seeds=[0], method="spectral").mean == {
        "nmi": 1.0,
        "ari": 1.0,
        "acc": 1.0,
    }
    assert cluster_probe(np.eye(4), np.arange(4), seeds=[0]).acc == (1.0,)
    # Most rows are not among the first 6 that are as near as themselves
    copies = np.repeat([[0.0], [1.0]], 30, axis=0)
    assert cluster_probe(
        copies, np.repeat([0, 1], 30), seeds=[0], neighbours=5, method="spectral"
    ).acc == (1.0,)


def test_too_few_different_rows_are_said():
    with pytest.warns(GraphLatentWarning) as caught:
        assert cluster_probe(np.ones((6, 2)), [0, 0, 0, 1, 1, 1], seeds=[0]).acc == (0.5,)
    assert (
        str(caught[0].message)
        == "Only 1 of 2 clusters were found: many rows are the same. Look at the representation."
    )


def test_a_graph_in_too_many_parts_is_said():
    rows, labels = blobs(num_classes=4)
    with pytest.warns(GraphLatentWarning) as caught:
        cluster_probe(rows, labels // 2, method="spectral", seeds=[0], neighbours=5)
    assert (
        str(caught[0].message)
        == "The graph of 5 nearest neighbours has 4 connected components, more than the 2 clusters:"
        " which of them are merged is arbitrary. Raise 'neighbours'."
    )


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"method": "dbscan"},
            ConfigError,
            (
                "The 'method' parameter of cluster_probe must be one of ('kmeans', 'spectral'). Got"
                " 'dbscan' instead."
            ),
        ),
        (
            {"preprocessing": "pca"},
            ConfigError,
            (
                "The 'preprocessing' parameter of cluster_probe must be one of ('none', 'row',"
                " 'standard'). Got 'pca' instead."
            ),
        ),
        (
            {"num_clusters": 0},
            ConfigError,
            (
                "The 'num_clusters' parameter of cluster_probe must be an int of at least 1. Got 0"
                " instead."
            ),
        ),
        (
            {"restarts": 0},
            ConfigError,
            (
                "The 'restarts' parameter of cluster_probe must be an int of at least 1. Got 0"
                " instead."
            ),
        ),
        (
            {"neighbours": 0},
            ConfigError,
            (
                "The 'neighbours' parameter of cluster_probe must be an int of at least 1. Got 0"
                " instead."
            ),
        ),
        (
            {"seeds": []},
            ConfigError,
            "The 'seeds' parameter of cluster_probe must be one or more ints. Got [] instead.",
        ),
        (
            {"num_clusters": 9},
            InputError,
            "There are fewer rows than clusters, 4 and 9. Ask for fewer clusters.",
        ),
        (
            {"labels": [0, 1]},
            InputError,
            "Labels must be one class per row of the representation, shape (4,). Got shape (2,).",
        ),
    ],
)
def test_failures(arguments, kind, message):
    with pytest.raises(kind) as caught:
        cluster_probe(np.eye(4), arguments.pop("labels", [0, 0, 1, 1]), **arguments)
    assert str(caught.value) == message
