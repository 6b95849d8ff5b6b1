"""The probe of overlapping communities: its search finds what was planted, without the truth."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphlatent.probes.communities as communities
from graphlatent.data.overlapping import overlapping_graph
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.clustering import cluster_rows
from graphlatent.probes.communities import (
    SCORES,
    community_probe,
    membership_table,
    overlapping_kmeans,
    overlapping_nmi,
)
from graphlatent.representations import propagated_features

TRUTH = membership_table([[0, 1], [2, 3]], num_rows=4)

# --- the search ---


def test_a_row_between_two_centres_is_in_both():
    rows = np.array(
        [[0.0, 0.0]] * 5
        + [[4.0, 0.0]] * 5
        + [[0.0, 4.0]] * 5
        + [[2.0, 0.0], [2.2, 0.1], [1.0, 0.0], [3.2, 0.0], [1.3, 1.4]]
    )
    members = overlapping_kmeans(rows, num_communities=3, preprocessing="none")
    corner = [int(members[i].argmax()) for i in (0, 5, 10)]
    assert sorted(corner) == [0, 1, 2]
    named = [
        {"abc"[corner.index(k)] for k in np.flatnonzero(row)}
        for row in members[[0, 5, 10, 15, 16, 18, 19]]
    ]
    assert named == [{"a"}, {"b"}, {"c"}, {"a", "b"}, {"a", "b"}, {"b"}, {"a", "b", "c"}]


def test_one_step_by_hand():
    # centres 0 and 4 on a line: the mean is 2, so the borders are at 1 and 3
    rows, centres = np.array([[-1.0], [0.9], [1.1], [2.9], [3.1], [9.0]]), np.array([[0.0], [4.0]])
    # The farther one: any change is better
    nobody = np.array([[True, False], [False, True]])[[1, 1, 1, 0, 0, 0]]
    members = communities._assigned(rows, centres, before=nobody)
    assert members.tolist() == [[True, False]] * 2 + [[True, True]] * 2 + [[False, True]] * 2
    # two rows at 0 and 6 of one community each, and one at 4 of both: least squares moves both
    # centres by 1/3
    moved = communities._centres(
        np.array([[0.0], [6.0], [4.0]]),
        np.array([[1, 0], [0, 1], [1, 1]], dtype=bool),
        before=centres,
    )
    np.testing.assert_allclose(moved, [[1 / 3], [19 / 3]])
    stays = communities._centres(
        np.array([[1.0], [3.0]]), np.array([[1, 0], [1, 0]], dtype=bool), before=centres
    )
    np.testing.assert_allclose(stays, [[2.0], [4.0]])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 7))
def test_communities_of_a_row_are_the_slow_rewrites(seed, num_communities):
    rng = np.random.default_rng(seed)
    rows, centres = rng.normal(size=(30, 2)), rng.normal(size=(num_communities, 2))
    before = rng.random((30, num_communities)) < 0.5
    before[:, 0] = True

    def distance(row, taken):
        return float(((row - centres[list(taken)].mean(0)) ** 2).sum())

    expected = []
    for row, old in zip(rows, before, strict=True):
        order = sorted(range(num_communities), key=lambda k: distance(row, [k]))
        taken = order[:1]
        while len(taken) < num_communities and distance(row, order[: len(taken) + 1]) < distance(
            row, taken
        ):
            taken = order[: len(taken) + 1]
        expected.append(
            sorted(taken)
            if distance(row, taken) < distance(row, np.flatnonzero(old))
            else np.flatnonzero(old).tolist()
        )
    found = communities._assigned(rows, centres, before=before)
    assert [np.flatnonzero(row).tolist() for row in found] == expected


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 5))
def test_the_sum_of_squares_never_grows(seed, num_communities):
    rows = np.random.default_rng(seed).normal(size=(40, 3))
    members = cluster_rows(rows, num_clusters=num_communities, seed=seed, restarts=1)[
        :, None
    ] == np.arange(num_communities)
    centres, sums = np.zeros((num_communities, 3)), []
    for _ in range(6):
        centres = communities._centres(rows, members, before=centres)
        sums.append(((rows - members @ centres / members.sum(1, keepdims=True)) ** 2).sum())
        members = communities._assigned(rows, centres, before=members)
        assert members.any(1).all()
        sums.append(((rows - members @ centres / members.sum(1, keepdims=True)) ** 2).sum())
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(sums))
    found = overlapping_kmeans(
        rows, num_communities=num_communities, seed=seed, restarts=1, preprocessing="none"
    )
    centres = communities._centres(rows, found, before=centres)
    # It went on to the end
    np.testing.assert_array_equal(communities._assigned(rows, centres, before=found), found)


def test_planted_communities_are_found():
    made = overlapping_graph(
        num_nodes=400, num_communities=4, overlap_ratio=0.25, avg_degree=20, seed=1
    )
    rows = propagated_features(made.graph, level="node")
    result = community_probe(rows, made.members, seeds=[0, 1])
    assert result.mean["nmi"] > 0.85 and result.mean["f1"] > 0.95 and result.mean["omega"] > 0.9
    assert result.per_row[0] == pytest.approx(1.25, abs=0.05)
    hard = cluster_rows(rows, num_clusters=4, preprocessing="row")[:, None] == np.arange(4)
    assert overlapping_nmi(made.members, hard) < result.mean["nmi"] - 0.1  # what overlap is worth
    noise = np.random.default_rng(0).normal(size=rows.shape)
    assert community_probe(noise, made.members, seeds=[0]).nmi[0] < 0.03


def test_every_form_of_rows_and_truth_gives_the_same():
    made = overlapping_graph(num_nodes=120, num_communities=3)
    rows = made.graph.x.double().numpy()
    lists = [np.flatnonzero(column).tolist() for column in made.members.T]
    whole = community_probe(rows, made.members, seeds=[2], preprocessing="standard")
    for form in (torch.from_numpy(rows), sp.csr_matrix(rows)):
        for truth in (lists, made.members.astype(float), torch.from_numpy(made.members)):
            again = community_probe(form, truth, seeds=[2], preprocessing="standard")
            assert again.to_dict() == whole.to_dict()
    assert json.loads(json.dumps(whole.to_dict()))["num_communities"] == 3
    assert (whole.mean["nmi"], whole.std["nmi"]) == (whole.nmi[0], 0.0)


# --- no cheating ---


def test_the_truth_moves_no_row(monkeypatch):
    made = overlapping_graph(num_nodes=120, num_communities=3)
    rows, seen = made.graph.x.numpy(), []
    monkeypatch.setattr(
        communities,
        "SCORES",
        {name: lambda truth, found: seen.append(found) or 0.0 for name in SCORES},
    )
    for truth in (made.members, np.roll(made.members, 17, axis=0), ~made.members):
        community_probe(rows, truth, seeds=[4])
    assert len(seen) == 9
    for found in seen:
        np.testing.assert_array_equal(found, overlapping_kmeans(rows, num_communities=3, seed=4))


def test_the_number_of_communities_is_said_and_the_input_is_not_changed():
    made = overlapping_graph(num_nodes=120, num_communities=3)
    rows, truth = made.graph.x.numpy().copy(), made.members.copy()
    of_truth, named = (
        community_probe(rows, truth, seeds=[0], num_communities=k) for k in (None, 5)
    )
    assert (of_truth.num_communities, named.num_communities) == (3, 5)
    assert of_truth.selection == named.selection + " Their number is the true one."
    np.testing.assert_array_equal(rows, made.graph.x.numpy())
    np.testing.assert_array_equal(truth, made.members)


# --- tiny cases and failures ---


def test_tiny_cases():
    assert community_probe([[1.0]], [[0]], seeds=[0]).mean == {"nmi": 1.0, "f1": 1.0, "omega": 1.0}
    with_empty = community_probe(np.eye(3), [[0], [], [1, 2]], seeds=[0])
    assert with_empty.num_communities == 2  # an empty community is none
    everyone, nobody = np.ones((4, 2), dtype=bool), np.zeros((4, 2), dtype=bool)
    assert [score(everyone, everyone) for score in SCORES.values()] == [1.0, 1.0, 1.0]
    assert [score(everyone, nobody) for score in SCORES.values()] == [0.0, 0.0, 0.0]
    assert overlapping_nmi(everyone, TRUTH) == 0


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"preprocessing": "pca"},
            ConfigError,
            (
                "The 'preprocessing' parameter of overlapping_kmeans must be one of ('none', 'row',"
                " 'standard'). Got 'pca' instead."
            ),
        ),
        (
            {"num_communities": 0},
            ConfigError,
            (
                "The 'num_communities' parameter of overlapping_kmeans must be an int of at least"
                " 1. Got 0 instead."
            ),
        ),
        (
            {"restarts": 0},
            ConfigError,
            (
                "The 'restarts' parameter of overlapping_kmeans must be an int of at least 1. Got 0"
                " instead."
            ),
        ),
        (
            {"seeds": []},
            ConfigError,
            "The 'seeds' parameter of community_probe must be one or more ints. Got [] instead.",
        ),
        (
            {"num_communities": 9},
            InputError,
            "There are fewer rows than clusters, 4 and 9. Ask for fewer clusters.",
        ),
        (
            {"truth": [[0, 4]]},
            InputError,
            (
                "Community 0 must be a list of row numbers from 0 to 3. A 0/1 table is given as an"
                " array."
            ),
        ),
        (
            {"truth": np.zeros((3, 2))},
            InputError,
            (
                "The true communities must be a 0/1 table with one row per row of the"
                " representation, 4, or lists."
            ),
        ),
        (
            {"truth": np.full((4, 2), 2)},
            InputError,
            (
                "The true communities must be a 0/1 table with one row per row of the"
                " representation, 4, or lists."
            ),
        ),
        (
            {"truth": [[], []]},
            InputError,
            "The true communities are all empty. Give at least one community with a member.",
        ),
    ],
)
def test_failures(arguments, kind, message):
    with pytest.raises(kind) as caught:
        community_probe(np.eye(4), arguments.pop("truth", [[0, 1], [1, 2, 3]]), **arguments)
    assert str(caught.value) == message
