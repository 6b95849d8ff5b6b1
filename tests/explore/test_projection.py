"""Rows in the plane: principal components, t-SNE and UMAP of planted groups."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import graphlatent.explore.projection as projection
from graphlatent.errors import ConfigError, InputError, MissingDependencyError
from graphlatent.explore.projection import default_method, project


def planted(num_rows=120, width=20):
    """Eight groups that the first two principal components cannot tell apart, and their classes."""
    rng = np.random.default_rng(0)
    classes = np.arange(num_rows) % 8
    return np.eye(width)[classes] + 0.12 * rng.normal(size=(num_rows, width)), classes


def purity(points, classes):
    """Accuracy of the nearest other point."""
    found = KNeighborsClassifier(1).fit(points, classes).kneighbors(points, 2, False)[:, 1]
    return float(np.mean(classes[found] == classes))


def test_principal_components_by_hand():
    rows = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    found = project(rows + 7, method="pca")
    np.testing.assert_allclose(found.points, rows, atol=1e-6)
    assert found.axes == ("first component (90% of variance)", "second component (10%)")


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1)])
def test_tiny_components(shape):
    assert project(np.zeros(shape), method="pca").points.tolist() == [[0.0, 0.0]] * shape[0]


def test_tsne_shows_groups_that_components_hide():
    rows, classes = planted()
    found = project(rows, method="tsne")
    assert purity(found.points, classes) == 1 and found.num_placed == 0
    assert purity(project(rows, method="pca").points, classes) < 0.8
    np.testing.assert_array_equal(found.points, project(rows, method="tsne").points)


def test_only_directions_count_in_tsne():
    rows, classes = planted()
    longer = rows * np.random.default_rng(1).uniform(0.1, 9, size=(len(rows), 1))
    assert purity(project(longer, method="tsne").points, classes) == 1


def test_rows_outside_the_sample_stand_beside_their_nearest(monkeypatch):
    rows, classes = planted()
    found = project(rows, method="tsne", sample=60)
    assert found.num_placed == 60
    assert purity(found.points, classes) == 1
    monkeypatch.setitem(projection.SAMPLE, "tsne", 40)
    assert project(rows, method="tsne").num_placed == 80


@pytest.mark.slow
def test_umap_shows_groups():
    pytest.importorskip("umap")
    rows, classes = planted()
    found = project(rows, method="umap")
    assert purity(found.points, classes) == 1 and found.axes == ("UMAP 1", "UMAP 2")
    assert project(rows[:4], method="umap").points.shape == (4, 2)


def test_the_default_depends_on_the_number_of_rows(monkeypatch):
    assert [default_method(n) for n in (1, 7, 8, 5000)] == ["pca", "pca", "tsne", "tsne"]
    for there, expected in ((object(), "umap"), (None, "tsne")):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, there=there: there)
        assert default_method(5001) == expected


def test_what_cannot_be_projected(monkeypatch):
    message = "t-SNE needs at least 4 rows. Got 3. Use method='pca'."
    with pytest.raises(InputError) as caught:
        project(np.eye(3), method="tsne")
    assert str(caught.value) == message
    with pytest.raises(ConfigError, match="'method' parameter of map must be one of"):
        project(np.eye(3), method="mds")
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'graphlatent\[umap\]'"):
        project(np.eye(5), method="umap")


@pytest.mark.filterwarnings("error")
def test_rows_that_are_all_the_same():
    assert np.isfinite(project(np.ones((9, 3)), method="tsne").points).all()
    assert np.isfinite(project(np.zeros((9, 3)), method="tsne").points).all()
