"""Clusters of planted groups, and principal components against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from graphlatent import Embeddings
from graphlatent.errors import ConfigError, InputError
from graphlatent.explore.clusters import typical_rows
from graphlatent.explore.reduction import components


def groups():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [20, 50, 30])
    values = np.eye(3)[truth] * 5 + 0.2 * rng.normal(size=(100, 3))
    return truth, Embeddings(values.astype(np.float32), np.arange(100) + 1000)


def test_planted_groups_are_found_and_numbered_by_size():
    truth, made = groups()
    found = made.cluster(3)
    assert adjusted_rand_score(truth, found) == 1
    assert np.bincount(found).tolist() == [50, 30, 20]
    assert found.name == "cluster" and found.index.tolist() == list(range(1000, 1100))
    assert found.equals(made.cluster(3)) and made.cluster(1).unique().tolist() == [0]


def test_typical_rows_are_nearest_to_the_mean():
    _, made = groups()
    found = made.cluster(3).to_numpy()
    for number, rows in enumerate(typical_rows(made.values, found, count=4)):
        members = np.flatnonzero(found == number)
        distance = np.linalg.norm(made.values[members] - made.values[members].mean(0), axis=1)
        assert rows.tolist() == members[np.argsort(distance)[:4]].tolist()


def test_clusters_that_cannot_be_made():
    _, made = groups()
    with pytest.raises(InputError, match="There are 100 embeddings, fewer than the 101 clusters"):
        made.cluster(101)
    with pytest.raises(ConfigError, match="'k' parameter of cluster must be an int of at least 1"):
        made.cluster(0)
    with pytest.warns(UserWarning, match="Only 1 of 2 clusters were found"):
        Embeddings(np.ones((4, 2), dtype=np.float32), np.arange(4)).cluster(2)


def test_components_are_those_of_scikit_learn():
    rows = np.random.default_rng(0).normal(size=(60, 5)) * [5, 4, 3, 2, 1] + 7
    scores, share = components(rows, 3)
    model = PCA(3)
    np.testing.assert_allclose(np.abs(scores), np.abs(model.fit_transform(rows)), atol=1e-4)
    np.testing.assert_allclose(share, model.explained_variance_ratio_)


def test_reduced_embeddings_keep_ids_and_the_largest_part():
    _, made = groups()
    small = made.reduced(2)
    assert small.values.shape == (100, 2) and small.values.dtype == np.float32
    assert small.ids.tolist() == made.ids.tolist()
    with pytest.raises(ConfigError, match=r"at most the width of the embeddings, 3\. Got 4"):
        made.reduced(4)
    one = Embeddings(np.ones((1, 3), dtype=np.float32), np.arange(1)).reduced(2)
    assert one.values.tolist() == [[0, 0]]
